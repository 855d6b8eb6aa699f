"""From gathering to being tried again: who waits for what, who is told what, and when a gang has its next turn."""

from __future__ import annotations

import itertools

import pytest

from gangsched.core.actions import GangStatus
from gangsched.core.events import Changed, Gone, Outcome
from gangsched.core.queue.scheduling_queue import FLUSH_SECONDS
from gangsched.model.constraints import PodTerm
from gangsched.model.records import Namespace
from tests.builders import OTHERS, gang, node, pod, selects
from tests.core.harness import Built, Cluster, nodes_of, reports, texts, writes

G = "d/g"


def state(cluster: Cluster, name: str = G) -> str | None:
    """The gang's state; None when nothing is left to do for it."""
    return cluster.core.states().get(name)


# -- gathering ---------------------------------------------------------------------------------------------


def test_a_gathering_gang_says_so_and_is_not_unschedulable() -> None:
    """Autoscalers buy nodes for Unschedulable; a gang that waits for its members must not look like that."""
    cluster = Cluster(node("n1"), gang("g").min(3), pod("m1").gang("g"), pod("m2").gang("g"))
    actions = cluster.run()
    assert texts(actions, "m1") == [("GangNotReady", "2 of 3 members exist; 1 missing")]
    assert state(cluster) == "Gathering"
    cluster.show(pod("m3").gang("g"))
    assert set(nodes_of(cluster.run())) == {"m1", "m2", "m3"}


def test_a_gated_member_does_not_count() -> None:
    """A pod with scheduling gates is not there yet."""
    cluster = Cluster(node("n1"), gang("g").min(2), pod("m1").gang("g"), pod("m2").gang("g").gated())
    cluster.run()
    assert state(cluster) == "Gathering"
    cluster.change("m2", gates=())
    assert set(nodes_of(cluster.run())) == {"m1", "m2"}


@pytest.mark.parametrize("object_first", [True, False])
def test_object_and_members_come_in_any_order(object_first: bool) -> None:
    """Pods before their PodGroup wait for it."""
    cluster = Cluster(node("n1"))
    steps: list[list[Built]] = [[gang("g").min(2)], [pod("m1").gang("g"), pod("m2").gang("g")]]
    for objects in steps if object_first else reversed(steps):
        cluster.show(*objects)
        cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    said = [reason for reason, _ in texts(cluster.log, "m1")]
    assert said == ([] if object_first else ["GangNotReady"])


def test_a_gang_group_binds_together_or_not_at_all() -> None:
    """Gang b does not fit, so a waits although it would."""
    pair = ("d/a", "d/b")
    cluster = Cluster(node("n1"), gang("a").group(*pair), gang("b").group(*pair),
                      pod("a1").cpu(2).gang("a"), pod("b1").cpu(3).gang("b"))  # fmt: skip
    cluster.run()
    assert state(cluster, "d/a,d/b") == "Backoff"
    cluster.show(node("n2"))
    cluster.pass_time(10)
    assert set(nodes_of(cluster.log)) == {"a1", "b1"}


def test_a_gang_group_that_falls_apart_leaves_each_gang_with_its_own_story() -> None:
    """When one gang is gone the other is told, and goes on by itself as soon as it no longer lists it."""
    pair = ("d/a", "d/b")
    cluster = Cluster(node("n1"), gang("a").group(*pair).min(2), gang("b").group(*pair),
                      pod("a1").gang("a"), pod("b1").gang("b"))  # fmt: skip
    cluster.run()
    cluster.show(Gone("PodGroup", "d", "b", group="scheduling.sigs.k8s.io"))
    cluster.run()
    assert cluster.core.states() == {"d/a": "Gathering", "d/b": "Gathering"}
    assert texts(cluster.log, "a1")[-1][1].startswith("gang d/b of the GangGroup does not exist yet")
    cluster.show(gang("a"))
    assert set(nodes_of(cluster.run())) == {"a1"}


def test_an_annotated_gang_group_whose_other_gang_is_deleted_is_told() -> None:
    """The last member of b takes the gang's description with it; a must not be forgotten."""
    listed = '["d/a", "d/b"]'
    cluster = Cluster(
        node("n1").cpu(1), pod("a1").cpu(2).light_gang("a", 1, listed), pod("b1").light_gang("b", 1, listed)
    )
    cluster.run()
    assert state(cluster, "d/a,d/b") == "Backoff"
    cluster.delete("b1")
    cluster.run()
    assert state(cluster, "d/a") == "Gathering"


def test_what_a_gang_group_lacks_is_told_as_its_gangs_come_and_go() -> None:
    """A gang whose GangGroup is not whole says for which it waits now, whatever has happened to the others."""
    listed = ("d/a", "d/b", "d/c")
    cluster = Cluster(node("n1").cpu(2), gang("a").group(*listed), pod("a1").cpu(2).gang("a"))
    told = []
    for happened in (
        pod("b1").light_gang("b", 1, '["d/a", "d/b", "d/c"]'),
        gang("c").group("d/a", "d/c"),
        Gone("PodGroup", "d", "c", group="scheduling.sigs.k8s.io"),
    ):
        cluster.run()
        told.append(texts(cluster.log, "a1")[-1][1].partition(";")[0])
        cluster.show(happened)
    cluster.run()
    told.append(texts(cluster.log, "a1")[-1][1].partition(";")[0])
    assert told == [
        "gang d/b of the GangGroup does not exist yet",
        "gang d/c of the GangGroup does not exist yet",
        "gang d/c does not list the same GangGroup",
        "gang d/c of the GangGroup does not exist yet",
    ]


# -- what people are told ----------------------------------------------------------------------------------


def test_the_reason_is_told_on_every_member_and_once() -> None:
    """Condition and Event on each pending member when the text is new; not again while it stays the same."""
    cluster = Cluster(node("n1").cpu(1), gang("g").min(2), *(pod(f"m{i}").cpu(2 - i / 10).gang("g") for i in (1, 2)))
    cluster.run()
    text = (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        "no lower-priority pods that may be evicted where the gang could run."
    )
    why = "never fits: each pod asks for 1900m cpu; the largest of the 1 node that it may use has 1. "
    for name in ("m1", "m2"):
        assert texts(cluster.log, name) == [("Unschedulable", why + text)]
    assert len(reports(cluster.log, "FailedScheduling")) == 2
    assert texts(cluster.pass_time(2 * FLUSH_SECONDS), "m1") == []
    cluster.show(node("n2").cpu(2))  # room for one of the two
    ((reason, told),) = texts(cluster.pass_time(20), "m1")
    assert (reason, told.partition(". ")[2]) == ("Unschedulable", text.replace("/1", "/2").replace("1 I", "2 I"))


def test_after_a_restart_the_same_is_not_told_again() -> None:
    """What the pods' conditions say already is not repeated."""
    cluster = Cluster(node("n1").cpu(1), pod("p").cpu(2))
    cluster.run()
    cluster.restart()
    assert texts(cluster.run(), "p") == []


def test_status_of_the_group_object_follows_its_members() -> None:
    """Members are missing, all wait for their first decision, have no room, and then run: each change once."""
    owned = [pod(f"m{n}").cpu(1).gang("g").owner("Job", "train") for n in (1, 2)]
    cluster = Cluster(node("n1").cpu(1), gang("g").min(2), owned[0])
    cluster.run()
    cluster.show(owned[1])
    cluster.run()
    cluster.show(node("n2").cpu(1))
    cluster.pass_time(20)
    told = [a.status for a in cluster.log if isinstance(a, GangStatus)]
    assert [phase for phase, _ in itertools.groupby(each["phase"] for each in told)][:3] == [
        "Pending",
        "PreScheduling",
        "Scheduling",
    ]
    assert told[-1]["phase"] == "Running"
    assert {each["occupiedBy"] for each in told} == {"d/train"}
    assert all(a != b for a, b in itertools.pairwise(told))


def test_groups_of_other_schedulers_are_left_alone() -> None:
    """No status is written to a group none of whose members is ours."""
    cluster = Cluster(node("n1"), gang("g").min(2), pod("m1").gang("g").scheduler(OTHERS), gang("empty"))
    assert cluster.run() == []


# -- queue, backoff, waking --------------------------------------------------------------------------------


def test_order_of_decisions() -> None:
    """Higher priority first, then older groups, whatever the order of arrival."""
    cluster = Cluster(
        pod("x").priority(1).created(1), pod("y").priority(5).created(9), gang("g").created(3), gang("h").created(2),
        pod("g1").gang("g").priority(5), pod("h1").gang("h").priority(5),
    )  # fmt: skip
    cluster.run()
    assert [d.gang.name for d in cluster.decisions] == ["h", "g", "y", "x"]


def test_backoff_doubles_up_to_its_limit() -> None:
    """A gang whose bindings fail again and again is tried after 1, 2, 4, 8, 10, 10 seconds, whatever happens."""
    cluster = Cluster(node("n1"), pod("p").cpu(2))
    cluster.judge = lambda _: (Outcome.REFUSED, "no")
    cluster.run()
    times = []
    for n in range(6):
        before = cluster.now
        cluster.show(node(f"m{n}"))
        cluster.run()
        wake = cluster.core.wake_at()
        assert wake is not None
        times.append(wake - before)
        cluster.pass_time(wake - before)
    assert times == [1, 2, 4, 8, 10, 10]


def test_nothing_happens_without_a_helpful_event_until_the_flush() -> None:
    """A parked gang is not tried again in vain."""
    cluster = Cluster(node("n1").cpu(1), pod("p").cpu(2))
    cluster.run()
    cluster.pass_time(FLUSH_SECONDS - 1)
    assert len(cluster.decisions) == 1
    cluster.pass_time(2)
    assert len(cluster.decisions) == 2


@pytest.mark.parametrize("help_", ["node", "bigger", "untainted", "deleted", "finished"])
def test_events_that_help(help_: str) -> None:
    """New or changed nodes and pods that leave wake the gang after its backoff."""
    cluster = Cluster(node("n1"), node("t").taint("x"), pod("a").cpu(4).priority(9).on("n1"), pod("p").cpu(4))
    cluster.run()
    assert state(cluster, "d/p") == "Backoff"
    if help_ == "deleted":
        cluster.delete("a")
    elif help_ == "finished":
        cluster.change("a", phase="Succeeded")
    else:
        cluster.show({"node": node("n2"), "bigger": node("n1").cpu(8), "untainted": node("t")}[help_])
    cluster.pass_time(2)
    assert "p" in nodes_of(cluster.log)


def test_a_gang_that_asks_for_less_is_tried_again() -> None:
    """Lowering the minimum helps at once, not only at the flush."""
    cluster = Cluster(node("n1"), gang("g").min(3), *(pod(f"m{i}").cpu(2).gang("g") for i in (1, 2, 3)))
    cluster.run()
    assert state(cluster) == "Backoff"
    cluster.show(gang("g").min(2))
    cluster.pass_time(11)
    assert len(nodes_of(cluster.log)) == 2


def test_a_new_member_may_make_up_the_minimum() -> None:
    """A gang that does not fit is tried again when a member comes that may be easier to place."""
    cluster = Cluster(node("n1"), gang("g").min(2), pod("m1").cpu(3).gang("g"), pod("m2").cpu(3).gang("g"))
    cluster.run()
    cluster.show(pod("m3").cpu(1).gang("g"))
    cluster.pass_time(11)
    assert len(nodes_of(cluster.log)) == 2
    assert "m3" in nodes_of(cluster.log)


def test_members_that_come_later_join() -> None:
    """Beyond the minimum each further member is placed when it comes and fits, and told when it does not."""
    cluster = Cluster(node("n1"), gang("g").min(1), pod("m1").cpu(2).gang("g"))
    cluster.run()
    cluster.show(pod("m2").cpu(2).gang("g"))
    assert nodes_of(cluster.run()) == {"m2": "n1"}
    cluster.show(pod("m3").cpu(2).gang("g"), pod("v").on("n1").priority(-5))
    actions = cluster.run()
    assert writes(actions) == []
    assert [reason for reason, _ in texts(actions, "m3")] == ["Unschedulable"]


def test_surplus_members_do_not_wait_for_terminating_pods() -> None:
    """A gang at its minimum holds no room for more."""
    cluster = Cluster(node("n1"), gang("g").min(1), pod("m1").cpu(2).gang("g").on("n1"),
                      pod("t").cpu(2).on("n1").terminating(), pod("m2").cpu(2).gang("g"))  # fmt: skip
    assert writes(cluster.run()) == []
    assert state(cluster) == "Backoff"
    cluster.leave()
    cluster.pass_time(2)
    assert nodes_of(cluster.log) == {"m2": "n1"}


def test_required_members_do_not_wait_for_what_only_surplus_needs() -> None:
    """A pod that terminates slowly does not delay the gang's start for a member beyond its minimum."""
    cluster = Cluster(
        node("n1").cpu(2), node("n2").cpu(2), gang("g").min(1),
        pod("fast").cpu(2).on("n1").terminating(), pod("slow").cpu(2).on("n2").terminating(),
        pod("m1").cpu(2).gang("g"), pod("m2").cpu(2).gang("g"),
    )  # fmt: skip
    cluster.run()
    (decision,) = cluster.decisions
    assert len(decision.awaiting) == 1
    cluster.leave(decision.awaiting[0].pod.partition("/")[2])
    assert len(nodes_of(cluster.run())) == 1


def test_nothing_is_decided_before_everything_is_known() -> None:
    """Before the first Synced nothing is written, however much there is to do."""
    from gangsched.core.options import Options
    from gangsched.core.scheduler import Scheduler
    from tests.core.harness import event

    core = Scheduler(Options())
    assert core.handle([event(node("n1")), event(pod("p"))], 0.0) == []
    assert not core.has_work(0.0)
    assert core.decide(0.0) == []
    assert core.wake_at() is None


def test_counts() -> None:
    """What people ask: how many wait where."""
    cluster = Cluster(node("n1").cpu(1), pod("p").cpu(2), gang("g").min(2), pod("m").gang("g"))
    cluster.run()
    assert cluster.core.queue_counts() == {"active": 0, "backoff": 0, "unschedulable": 1, "gathering": 1}


@pytest.mark.parametrize("change", ["labels", "namespace", "namespace gone"])
def test_a_conflict_with_other_pods_that_ends_is_noticed(change: str) -> None:
    """A gang that keeps away from pods is tried again when they, or their namespace, are no longer meant."""
    away = PodTerm("kubernetes.io/hostname", selects(app="x"), (), selects(team="a"))
    cluster = Cluster(
        Changed(Namespace("d", {"team": "a"})),
        node("n1").label(**{"kubernetes.io/hostname": "n1"}),
        pod("x").label(app="x").on("n1"),
        pod("p").shape(anti_affinity=(away,)).never(),
    )
    cluster.run()
    assert state(cluster, "d/p") == "Backoff"
    cluster.pass_time(5)
    if change == "labels":
        cluster.change("x", labels={"app": "y"})
    else:
        news = Changed(Namespace("d", {"team": "b"})) if change == "namespace" else Gone("Namespace", "", "d")
        cluster.show(news)
    assert nodes_of(cluster.run()) == {"p": "n1"}
