"""Freed room is held against every scheduler by a taint on the nodes, for as long as a living plan needs it."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.actions import Bind, HoldNode, Mark, Nominate, ReleaseNode, Remove, Write
from gangsched.core.events import FormerNames, Gone, Outcome
from gangsched.core.lifecycle.holding import BEYOND_GRACE_SECONDS, IN_FLIGHT_SECONDS, LINGER_SECONDS, TAKEOVER_SECONDS
from gangsched.model.constraints import Taint
from gangsched.model.held import MOST_AGE_SECONDS, Held
from tests.builders import OTHERS, gang, node, pod
from tests.core.eviction.held_nodes import asked, dns, held, preempting
from tests.core.harness import Cluster, reports, texts, writes


def test_nodes_of_a_plan_are_held_from_before_its_first_removal_until_its_members_are_bound() -> None:
    """Each node on which a member is placed bears the taint before the first victim is removed, and a moment longer
    than until the members are seen bound.
    """
    cluster = preempting()
    cluster.run()
    order = [kind for kind, _ in writes(cluster.log)]
    assert order.index("Remove") > max(i for i, kind in enumerate(order) if kind == "HoldNode")
    assert {name: value.partition(".")[2] for name, value in held(cluster).items()} == {
        "n1": "py-gang-scheduler",
        "n2": "py-gang-scheduler",
    }
    cluster.leave()
    cluster.run()
    assert sorted(asked(cluster, Bind)) == ["m1", "m2"]
    assert len(held(cluster)) == 2
    cluster.pass_time(LINGER_SECONDS)
    assert not held(cluster)


@pytest.mark.parametrize(
    ("scheduler", "mode", "expected"),
    [
        (OTHERS, "auto", True),
        (OTHERS, "never", False),
        ("py-gang-scheduler", "auto", False),
        ("py-gang-scheduler", "always", True),
    ],
)
def test_auto_holds_where_another_scheduler_has_a_part(scheduler: str, mode: str, expected: bool) -> None:
    """With auto nodes are held where a pod that leaves is another scheduler's; always and never mean that."""
    cluster = preempting(scheduler, hold_room=mode)
    cluster.run()
    assert bool(held(cluster)) == expected
    assert sorted(asked(cluster, Remove)) == ["v1", "v2"]


def test_a_pod_that_waits_for_another_scheduler_is_reason_enough() -> None:
    """Victims of ours are held up too while any pod waits for another scheduler that binds pods, also one that comes
    later. A name that nobody serves is no reason, whatever pods it stands in.
    """
    cluster = preempting("py-gang-scheduler")
    theirs = pod("theirs").cpu(1).scheduler(OTHERS)
    cluster.show(theirs.obj(), theirs.on("n3"))
    cluster.run()
    cluster.show(pod("waits").cpu(3).scheduler("nobody"), pod("put").cpu(1).scheduler("nobody").on("n3"))
    cluster.run()
    assert not held(cluster)
    cluster.show(pod("other").cpu(3).scheduler(OTHERS))
    cluster.run()
    assert sorted(held(cluster)) == ["n1", "n2"]


def test_room_that_terminating_pods_give_up_is_held_too() -> None:
    """A plan without victims, which waits for pods that terminate anyway, holds its nodes."""
    cluster = preempting()
    for name in ("v1", "v2"):
        cluster.change(name, deleting_since=30.0)
    cluster.run()
    assert not asked(cluster, Remove)
    assert sorted(held(cluster)) == ["n1", "n2"]
    cluster.leave()
    cluster.run()
    assert sorted(asked(cluster, Bind)) == ["m1", "m2"]


def test_no_pod_is_removed_before_every_node_is_seen_to_bear_the_taint() -> None:
    """Removals wait for the last node, however long its write takes."""
    cluster = preempting()
    cluster.slow = lambda write: isinstance(write, HoldNode) and write.node.name == "n2"
    cluster.run()
    assert sorted(held(cluster)) == ["n1"]
    assert not asked(cluster, Remove)
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert sorted(asked(cluster, Remove)) == ["v1", "v2"]


def test_a_node_that_cannot_be_held_is_tried_again_until_the_time_of_the_gang_is_over() -> None:
    """While nodes cannot be held no pod is removed; after the time for which they may be the gang gives up, and says
    why.
    """
    cluster = preempting()
    cluster.judge = lambda write: (Outcome.TRANSIENT, "overloaded") if isinstance(write, HoldNode) else None
    cluster.pass_time(30.0 + BEYOND_GRACE_SECONDS - 1)
    assert asked(cluster, HoldNode).count("n1") > 3
    assert not asked(cluster, Remove)
    cluster.pass_time(2)
    assert not asked(cluster, Remove)
    said = [text for _, text in texts(cluster.log, "m1")]
    assert any("timed out while Marking: not held against other schedulers yet: n1, n2 (overloaded)" in t for t in said)


def test_without_the_right_to_patch_nodes_plans_go_on_and_say_so_once() -> None:
    """Victims are removed all the same, and one Event on the gang says that the room is not held."""
    cluster = preempting()
    forbidden = (Outcome.REFUSED, "nodes is forbidden")
    cluster.judge = lambda write: forbidden if isinstance(write, HoldNode | ReleaseNode) else None
    cluster.run()
    assert sorted(asked(cluster, Remove)) == ["v1", "v2"]
    (told,) = reports(cluster.log, "RoomNotHeld")
    assert "nodes is forbidden" in told.note
    assert told.regarding[3] == "m1"
    assert cluster.core.held_room().refused == "nodes is forbidden"
    cluster.pass_time(200)
    assert len(reports(cluster.log, "RoomNotHeld")) == 1
    assert not asked(cluster, ReleaseNode)


def test_a_taint_that_another_client_takes_off_is_put_back_while_a_plan_needs_it() -> None:
    """What stands on a node is compared with what is to stand there whenever the node changes."""
    cluster = preempting()
    cluster.run()
    first = held(cluster)
    cluster.show(msgspec.structs.replace(cluster.nodes["n1"], held=None, taints=(Taint("x", "", "PreferNoSchedule"),)))
    cluster.run()
    assert held(cluster) == first
    assert cluster.nodes["n1"].taints == (Taint("x", "", "PreferNoSchedule"),)


def test_a_taint_that_another_client_puts_back_is_taken_off_again() -> None:
    """A client that writes a list of taints that is out of date brings ours back: it goes once more."""
    cluster = preempting()
    cluster.run()
    value = held(cluster)["n1"]
    cluster.leave()
    cluster.run()
    cluster.pass_time(10)
    assert not held(cluster)
    cluster.show(msgspec.structs.replace(cluster.nodes["n1"], held=Held(value, 0)))
    cluster.pass_time(10)
    assert not held(cluster)


def test_a_plan_that_is_given_up_takes_its_taints_back() -> None:
    """When the gang is gone nothing is held for it any more."""
    cluster = preempting()
    cluster.run()
    for name in ("m1", "m2"):
        cluster.delete(name)
    cluster.run()
    cluster.pass_time(LINGER_SECONDS)
    assert not held(cluster)


def test_nothing_is_held_for_longer_than_the_longest_grace_period_and_a_minute() -> None:
    """Victims that do not leave in time hold their room themselves; the nodes are given back to other schedulers."""
    cluster = preempting(grace=30.0, overdue_after_seconds=1000.0, timeout_seconds=1000.0)
    cluster.run()
    cluster.pass_time(30.0 + BEYOND_GRACE_SECONDS - 1)
    assert len(held(cluster)) == 2
    cluster.pass_time(2)
    assert not held(cluster)


def test_who_takes_over_takes_back_what_no_plan_needs() -> None:
    """A process that takes over after the gang is gone removes the taints that the earlier one has left."""
    cluster = preempting()
    cluster.run()
    for name in ("m1", "m2"):
        cluster.delete(name)
    cluster.restart()
    cluster.pass_time(TAKEOVER_SECONDS + LINGER_SECONDS)
    assert not held(cluster)


def test_who_takes_over_keeps_what_a_plan_needs_without_a_gap() -> None:
    """A plan that goes on after a restart finds its nodes held, and no moment passes in which they are not."""
    cluster = preempting()
    cluster.run()
    cluster.restart()
    cluster.log.clear()
    cluster.pass_time(TAKEOVER_SECONDS + 5)
    assert len(held(cluster)) == 2
    assert not asked(cluster, ReleaseNode)
    cluster.leave()
    cluster.run()
    assert sorted(asked(cluster, Bind)) == ["m1", "m2"]
    cluster.pass_time(LINGER_SECONDS)
    assert not held(cluster)


def test_two_plans_on_one_node_share_the_taint() -> None:
    """The taint stays until the last of the plans needs it no more, and names one that lives."""
    cluster = Cluster(
        node("n1").cpu(8),
        *(pod(f"v{i}").cpu(4).priority(1).on("n1").scheduler(OTHERS).field(grace_seconds=9.0 * i) for i in (1, 2)),
        pod("a").cpu(4).priority(9),
        pod("b").cpu(4).priority(8),
        dns("n1"),
    )
    cluster.run()
    assert sorted(asked(cluster, Remove)) == ["v1", "v2"]
    cluster.leave("v1")
    cluster.run()
    cluster.pass_time(5)
    assert len(asked(cluster, Bind)) == 1
    assert list(held(cluster)) == ["n1"]
    cluster.leave("v2")
    cluster.run()
    cluster.pass_time(5)
    assert len(asked(cluster, Bind)) == 2
    assert not held(cluster)


def test_a_plan_that_counts_on_what_another_removes_is_held_from_then() -> None:
    """Who may not evict, and waits for victims of another plan, has its nodes held before these are removed."""
    cluster = Cluster(
        node("n1"),
        node("n2"),
        gang("old").min(2),
        *(pod(f"v{i}").cpu(3).priority(4).on(f"n{i}").gang("old").scheduler(OTHERS) for i in (1, 2)),
        pod("strong").cpu(3).priority(9),
        pod("weak").cpu(3).priority(3),
        dns("n1"),
        held_share=1.0,
    )
    cluster.run()
    order = writes(cluster.log)
    first = order.index(next(each for each in order if each[0] == "Remove"))
    assert {name for kind, name in order[:first] if kind == "HoldNode"} == {"n1", "n2"}


def test_a_node_that_is_made_anew_is_held_anew() -> None:
    """The taint goes with its node; one of the same name gets it again if a plan needs it."""
    cluster = preempting(grace=100.0)
    cluster.run()
    again = node("n1").obj()
    cluster.show(msgspec.structs.replace(again, uid="another"))
    cluster.run()
    assert sorted(held(cluster)) == ["n1", "n2"] or not held(cluster).get("n1")
    cluster.show(Gone("Node", "", "n2"))
    cluster.run()
    for name in ("m1", "m2"):
        cluster.delete(name)
    cluster.pass_time(60)
    assert not held(cluster)


def test_the_taint_is_not_seen_by_decisions() -> None:
    """A node that bears it is as it was: nothing is woken by it, and gangs of ours are placed on it."""
    cluster = Cluster(node("n1"), pod("wide").cpu(9))
    cluster.run()
    seen, decided = cluster.core.world.snapshot.generation, len(cluster.decisions)
    cluster.show(msgspec.structs.replace(cluster.nodes["n1"], held=Held("1-1.py-gang-scheduler", 0), version="9"))
    cluster.pass_time(1)
    assert cluster.core.world.snapshot.generation == seen
    assert len(cluster.decisions) == decided
    cluster.show(pod("a").cpu(1))
    cluster.run()
    assert asked(cluster, Bind) == ["a"]


def test_the_taint_of_another_installation_is_respected_and_left_alone() -> None:
    """What names a scheduler that is none of ours is a taint like any other."""
    cluster = Cluster(node("n1"), pod("a").cpu(1))
    cluster.show(msgspec.structs.replace(cluster.nodes["n1"], held=Held("1-1.their-scheduler", 0)))
    cluster.pass_time(30)
    assert not asked(cluster, Bind)
    assert not asked(cluster, ReleaseNode)
    assert len(held(cluster)) == 1
    assert any("untolerated taint" in text for _, text in texts(cluster.log, "a"))


def test_a_plan_whose_node_another_pod_has_taken_before_the_first_removal_evicts_nobody() -> None:
    """Who comes to a node of the plan while it is not held yet is seen before the first victim is removed."""
    cluster = preempting()
    cluster.slow = lambda write: isinstance(write, HoldNode)
    cluster.run()
    assert sorted(asked(cluster, Mark)) == ["v1", "v2"]
    cluster.show(pod("thief").cpu(2).priority(2000).on("n1").scheduler(OTHERS))
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert "v1" not in asked(cluster, Remove) or "thief" in asked(cluster, Remove)


def test_the_rest_of_a_gang_that_is_bound_in_part_keeps_its_node_held() -> None:
    """Where a binding is refused for good after others have succeeded, no other scheduler gets the room first, and the
    gang's Event says how many run and what is tried.
    """
    cluster = preempting()
    cluster.judge = lambda w: (Outcome.REFUSED, "no") if isinstance(w, Bind) and w.pod.name == "m2" else None
    cluster.run()
    cluster.leave()
    cluster.pass_time(5)
    assert [p.name for p in cluster.pods.values() if p.node and p.name.startswith("m")] == ["m1"]
    assert list(held(cluster)) == [action.node for action in cluster.log if isinstance(action, Bind)][-1:]
    said = [event.note for event in reports(cluster.log, "FailedScheduling")]
    assert any("bound in part: 1 bound, 1 more needed, which are tried on other nodes" in note for note in said)
    cluster.judge = lambda _: None
    cluster.pass_time(200)
    assert all(cluster.pod(name).node for name in ("m1", "m2"))
    assert not held(cluster)


def test_a_member_whose_room_another_pod_takes_in_spite_of_the_taint_comes_before_weaker_work() -> None:
    """A pod that tolerates everything comes between two bindings: the other member gets the next room that there is."""
    cluster = preempting()
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Bind) and write.pod.name == "m2"
    cluster.leave()
    cluster.run()
    (late,) = [write for write in cluster.waiting if isinstance(write, Bind)]
    cluster.judge = lambda w: (Outcome.OUTDATED, "overtaken") if isinstance(w, Bind) and w.pod.name == "m2" else None
    cluster.show(pod("daemon").cpu(2).priority(2000).scheduler(OTHERS).on(late.node))
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    cluster.judge = lambda _: None
    cluster.show(pod("weaker").cpu(3).priority(4), node("n4"))
    cluster.pass_time(60)
    assert cluster.pod("m2").node == "n4"
    assert not cluster.pod("weaker").node
    assert not held(cluster)


def partly_free() -> Cluster:
    """Gang g needs n1, which is free, and n2, of which a pod is in the way; n3 is full of work that is stronger."""
    cluster = preempting()
    cluster.delete("v1")
    cluster.show(pod("strong").cpu(1).priority(2000).on("n3").scheduler(OTHERS))
    return cluster


def test_free_room_of_a_plan_is_looked_at_once_more_before_the_first_removal() -> None:
    """When all nodes are seen to be held, bindings of others that were decided before may still come."""
    cluster = partly_free()
    cluster.run()
    assert len(held(cluster)) == 2
    assert sorted(asked(cluster, Mark)) == ["v2"]
    assert not asked(cluster, Remove)
    cluster.pass_time(IN_FLIGHT_SECONDS)
    assert asked(cluster, Remove) == ["v2"]


@pytest.mark.parametrize("kind", [Nominate, HoldNode, Mark])
def test_a_plan_whose_free_room_another_pod_takes_first_evicts_no_pod(kind: type[Write]) -> None:
    """However far it is: while it nominates its members, holds its nodes, or marks its victims."""
    cluster = partly_free()
    cluster.slow = lambda write: isinstance(write, kind)
    cluster.run()
    cluster.show(pod("thief").cpu(3).priority(2000).on("n1").scheduler(OTHERS))
    cluster.run()
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.pass_time(30)
    assert not asked(cluster, Remove)
    assert not held(cluster)


def test_a_pod_that_takes_free_room_after_the_nodes_are_held_saves_the_victims() -> None:
    """Its binding was on its way when the taint came."""
    cluster = partly_free()
    cluster.run()
    cluster.pass_time(IN_FLIGHT_SECONDS / 2)
    cluster.show(pod("thief").cpu(3).priority(2000).on("n1").scheduler(OTHERS))
    cluster.pass_time(30)
    assert not asked(cluster, Remove)


def test_a_plan_without_free_room_waits_no_longer() -> None:
    """All of its room comes from victims."""
    cluster = preempting()
    cluster.run()
    assert sorted(asked(cluster, Remove)) == ["v1", "v2"]


def test_the_taint_of_another_installation_is_taken_off_when_its_plan_is_too_old() -> None:
    """Up to an hour after the plan was made it is respected."""
    cluster = Cluster(node("n1"), pod("a").cpu(1))
    cluster.show(msgspec.structs.replace(cluster.nodes["n1"], held=Held("3e8-1.their-scheduler", 0)))  # made at 1.0
    cluster.pass_time(MOST_AGE_SECONDS)
    assert not asked(cluster, Bind)
    assert len(held(cluster)) == 1
    cluster.pass_time(2)
    assert not held(cluster)
    cluster.pass_time(300)
    assert asked(cluster, Bind) == ["a"]


def test_the_taint_of_an_earlier_process_with_other_names_is_taken_off() -> None:
    """The Lease says that this installation had that name; that of a third one stays."""
    cluster = Cluster(node("n1"), node("n2"))
    for name, scheduler in (("n1", "former"), ("n2", "third")):
        cluster.show(msgspec.structs.replace(cluster.nodes[name], held=Held(f"1-1.{scheduler}", 0)))
    cluster.pass_time(10)
    assert sorted(held(cluster)) == ["n1", "n2"]
    cluster.show(FormerNames(("former",)))
    cluster.pass_time(10)
    assert sorted(held(cluster)) == ["n2"]
