"""A plan owns the pods that it counts on and could take by its own right: they leave for it, whatever others do."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Mark, Remove, Unmark
from gangsched.core.actuation.records import owners_of
from gangsched.core.decision import PREEMPT, WAIT
from gangsched.core.events import Outcome
from tests.builders import gang, node, pod
from tests.core.eviction.recalls import two_gangs, whole_gang
from tests.core.harness import Built, Cluster, nodes_of, writes
from tests.core.stories import evicted, go_on, names


def owners(cluster: Cluster) -> dict[str, list[str]]:
    """For whom each victim leaves, as it says itself."""
    found = {name: owners_of(each) for (_, name), each in cluster.pods.items()}
    return {name: [owner.name.removeprefix("d/") for owner in each] for name, each in found.items() if each}


def until_removal(*objects: Built, **options: Any) -> Cluster:
    """All has been decided and marked; no removal has been sent."""
    cluster = Cluster(*objects, **options)
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.answer()
    cluster.run()
    return cluster


def sharing(priority: int = 5, victim: int = 0) -> Cluster:
    """``first``, of priority 5, evicts v and needs most of its room, ``second`` the rest of it."""
    return until_removal(
        node("n1"), pod("v").cpu(4).priority(victim).on("n1"),
        pod("first").cpu(3).priority(5), pod("second").cpu(1).priority(priority).created(9),
    )  # fmt: skip


WS = {"w1", "w2", "w3"}


def whole(*preemptors: Built, mode: str = "elastic") -> Cluster:
    """Gang low runs on three nodes, with so much priority, and needs two members."""
    members = [pod(f"w{i}").cpu(4).gang("low").on(f"n{i}", 10.0 * i) for i in (1, 2, 3)]
    nodes = [node(f"n{i}") for i in (1, 2, 3)]
    return until_removal(*nodes, gang("low").min(2), *members, *preemptors, gang_mode=mode)


# -- who owns ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("priority", [5, 4, 1], ids=["as strong", "weaker", "just stronger than the victim"])
def test_who_counts_on_a_pod_and_could_take_it_owns_it_too(priority: int) -> None:
    """It is decided to wait, and the victim bears both names; it is removed once."""
    cluster = sharing(priority)
    assert [(d.gang.name, d.outcome) for d in cluster.decisions] == [("first", PREEMPT), ("second", WAIT)]
    assert owners(cluster) == {"v": ["first", "second"]}
    go_on(cluster)
    cluster.leave()
    cluster.run()
    assert [name for kind, name in writes(cluster.log) if kind == "Remove"] == ["v"]
    assert nodes_of(cluster.log) == {"first": "n1", "second": "n1"}


@pytest.mark.parametrize("right", ["priority", "policy"])
def test_who_could_not_take_it_depends_on_it(right: str) -> None:
    """A pod of the same priority, or one that never evicts: the victim bears one name."""
    cluster = sharing(priority=4, victim=4) if right == "priority" else until_removal(
        node("n1"), pod("v").cpu(4).on("n1"), pod("first").cpu(3).priority(5), pod("n").cpu(1).priority(4).never()
    )  # fmt: skip
    assert cluster.decisions[-1].outcome == WAIT
    assert owners(cluster) == {"v": ["first"]}


@pytest.mark.parametrize("mode", ["atomic", "elastic"])
def test_what_leaves_as_a_whole_is_owned_as_a_whole(mode: str) -> None:
    """The second counts on one member of a gang that leaves; of one that gives up its surplus it owns what it needs."""
    cluster = whole(
        gang("first").min(1), pod("first").cpu(4).priority(5),
        pod("second").cpu(4).priority(4).selector(**{"kubernetes.io/hostname": "n2"}), mode=mode,
    )  # fmt: skip
    found = owners(cluster)
    if mode == "atomic":
        assert found == {f"w{i}": ["first", "second"] for i in (1, 2, 3)}
    else:
        assert [name for each in found.values() for name in each].count("first") == 1


def test_who_takes_the_rest_of_a_gang_owns_its_condemned_members() -> None:
    """The first takes a surplus member, the second the others, which do not live without a third: it owns all three."""
    cluster = whole(
        pod("first").cpu(4).priority(5),
        gang("second").min(2), *(pod(f"s{i}").gang("second").cpu(4).priority(4) for i in range(2)),
    )  # fmt: skip
    found = owners(cluster)
    assert {name for name, each in found.items() if "second" in each} == {"w1", "w2", "w3"}
    assert sorted(found.values()) == [["first", "second"], ["second"], ["second"]]
    cluster.delete("first")
    go_on(cluster)
    assert evicted(cluster) in ({"w1", "w2"}, {"w1", "w3"}, {"w2", "w3"}, {"w1", "w2", "w3"})


def test_a_member_that_is_counted_on_leaves_with_the_rest_of_its_gang() -> None:
    """The second needs the others and room that the first leaves where it takes a surplus member. When both are gone
    before that one is removed, and the others have left, half a gang is left: it is finished.
    """
    cluster = whole(
        pod("first").cpu(3).priority(5),
        gang("second").min(3), *(pod(f"s{i}").gang("second").cpu(4 if i else 1).priority(4) for i in range(3)),
    )  # fmt: skip
    [surplus] = [name for name, each in owners(cluster).items() if "first" in each]
    assert owners(cluster) == {name: ["first", "second"] if name == surplus else ["second"] for name in WS}
    cluster.answer(*WS - {surplus})
    cluster.delete("first")
    cluster.delete("s1")
    go_on(cluster)
    assert evicted(cluster) == WS


@pytest.mark.parametrize("second", [True, False])
def test_a_surplus_member_stays_after_a_restart_when_the_rest_of_its_gang_is_let_off(second: bool) -> None:
    """One of them is gone, which the others can do without. If the second gang is gone too they need not leave, and
    the first one's victim is no surplus any more: it leaves with the others, as is decided anew.
    """
    cluster = whole(
        pod("first").cpu(4).priority(5),
        gang("second").min(2), *(pod(f"s{i}").gang("second").cpu(4).priority(4) for i in range(2)),
    )  # fmt: skip
    [surplus] = [name for name, each in owners(cluster).items() if "first" in each]
    lost = min(WS - {surplus})
    cluster.delete(lost)
    if not second:
        for name in ("s0", "s1"):
            cluster.delete(name)
        cluster.show(node(lost.replace("w", "n")).cordoned())
    cluster.restart(gang_mode="elastic")
    cluster.slow = lambda _: False
    cluster.log.clear()
    go_on(cluster)
    assert {a.pod.name for a in cluster.log if isinstance(a, Remove)} == WS - {lost}


def test_who_waits_for_all_of_a_gang_owns_its_surplus_as_a_part_of_it() -> None:
    """The first takes a surplus member, the second the others, the third waits for all of them, and is first to remove
    them: none of them is left when the others give up.
    """
    cluster = whole(
        pod("first").cpu(3).priority(5),
        gang("second").min(2), *(pod(f"s{i}").gang("second").cpu(3).priority(4) for i in range(2)),
        gang("third").min(3), *(pod(f"t{i}").gang("third").cpu(1).priority(3) for i in range(3)),
    )  # fmt: skip
    assert {name for name, each in owners(cluster).items() if "third" in each} == WS
    said = [o for name in WS for o in owners_of(cluster.pod(name)) if o.name == "d/third"]
    assert [(o.unit, o.partial, o.pods) for o in said] == [("d/low", False, 3)] * 3


# -- what becomes of it --------------------------------------------------------------------------------------


def test_it_leaves_for_the_second_when_the_first_is_gone() -> None:
    """Its mark is not taken back, and in words it is the second's then."""
    cluster = sharing()
    cluster.delete("first")
    go_on(cluster)
    assert owners(cluster) == {"v": ["second"]}
    assert evicted(cluster) == {"v"}
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"second": "n1"}


def test_a_begun_list_is_not_given_up_because_an_earlier_plan_removes_the_rest_of_it() -> None:
    """The second has removed gang low, and would fit without removing v, as the first does that. It may be let off by
    that one yet: there is room for the first beside it now.
    """
    cluster = until_removal(
        node("n1"), node("n2").cpu(6), gang("low").min(2).priority(1), pod("v").cpu(4).on("n2"),
        pod("w1").cpu(4).priority(1).gang("low").on("n1"), pod("w2").cpu(2).priority(1).gang("low").on("n2"),
        pod("first").cpu(2).priority(6).selector(**{"kubernetes.io/hostname": "n2"}),
        gang("second").min(2), *(pod(f"s{i}").cpu(3).priority(5).gang("second") for i in range(2)),
        gang_mode="atomic",
    )  # fmt: skip
    assert owners(cluster) == {"v": ["first", "second"], "w1": ["second"], "w2": ["second"]}
    cluster.judge = lambda write: (Outcome.TRANSIENT, "no answer") if write.pod.name == "w1" else None
    cluster.answer("w1", "w2")
    cluster.judge = lambda _: None
    cluster.leave("w2")
    cluster.run()
    go_on(cluster)
    assert evicted(cluster) == {"v", "w1"}
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"first", "s0", "s1"}


def test_a_plan_that_depends_on_nothing_waits_for_no_other() -> None:
    """What it owns it need not wait for: the marks of the first are unanswered, and the second evicts all the same."""
    cluster = Cluster(
        node("n1"), node("n2"), pod("v").cpu(4).on("n1"), pod("w").cpu(4).priority(1).on("n2"),
        gang("first").min(2).priority(5), pod("f0").cpu(2).gang("first").priority(5),
        pod("f1").cpu(4).gang("first").priority(5).selector(**{"kubernetes.io/hostname": "n2"}),
        pod("second").cpu(2).priority(4),
    )  # fmt: skip
    cluster.slow = lambda write: isinstance(write, Mark) and write.pod.name == "w"
    cluster.run()
    assert evicted(cluster) == {"v"}
    assert owners(cluster) == {"v": ["first", "second"]}


def test_a_refused_removal_of_one_owner_does_not_forbid_that_of_another() -> None:
    """The first gives up when its removal is refused; the second's is carried out."""
    cluster = sharing()
    refused: list[Remove] = []

    def once(write: Any) -> tuple[Outcome, str] | None:
        if isinstance(write, Remove) and not refused:
            refused.append(write)
            return Outcome.REFUSED, "because"
        return None

    cluster.judge = once
    go_on(cluster)
    assert len(refused) == 1
    assert evicted(cluster) == {"v"}


# -- plans after one that is withdrawn -----------------------------------------------------------------------


def two(**fields: Any) -> tuple[Built, ...]:
    """Two nodes, on which a cheap and a dear pod run; ``first`` takes the cheap one, ``second`` the other."""
    return (
        node("n1"), node("n2"), pod("cheap").cpu(4).on("n1"), pod("dear").cpu(4).priority(1).on("n2"),
        pod("first").cpu(4).priority(5), pod("second").cpu(4).priority(4),
    )  # fmt: skip


def test_later_plans_are_decided_anew() -> None:
    """No removal of the second has been asked for when the first is withdrawn: now the cheap pod does for it."""
    cluster = Cluster(*two())
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    assert names(cluster, Mark) == {"cheap", "dear"}
    cluster.delete("first")
    go_on(cluster)
    assert evicted(cluster) == {"cheap"}


def test_later_plans_that_have_removed_a_pod_go_on() -> None:
    """Who has left has left."""
    cluster = until_removal(*two())
    cluster.answer("dear")
    cluster.run()
    cluster.delete("first")
    go_on(cluster)
    assert evicted(cluster) == {"dear"}
    assert len([d for d in cluster.decisions if d.gang.name == "second"]) == 1


def test_stronger_plans_are_not_decided_anew() -> None:
    """They have not seen the room of the weaker one as taken: nothing has changed for them."""
    cluster = until_removal(*two())
    large = pod("other").cpu(8).priority(2).on("n3"), pod("strong").cpu(8).priority(9)
    cluster.show(node("n3").cpu(8), *large)
    cluster.run()
    before = len(cluster.decisions)
    assert [d.gang.name for d in cluster.decisions if d.victims] == ["first", "second", "strong"]
    cluster.delete("second")
    cluster.run()
    assert [d.gang.name for d in cluster.decisions[before:]] == []


@pytest.mark.parametrize("left", [False, True], ids=["nobody has left", "one has left"])
def test_a_unit_of_which_one_pod_is_removed_leaves_whole(left: bool) -> None:
    """Even if its preemptor is gone: half a gang is of no use. As long as nobody has left all stay."""
    cluster = whole_gang() if left else two_gangs()
    for name in ("m1", "m2"):
        cluster.delete(name)
    go_on(cluster)
    assert evicted(cluster) == ({"w1", "w2"} if left else set())
    assert names(cluster, Unmark) == (set() if left else {"w1", "w2"})
