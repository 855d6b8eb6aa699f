"""No more victims than the configuration allows: a condition of the search, not a verdict on what it found."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from gangsched.core.actions import Remove
from gangsched.core.decision import PREEMPT, UNSCHEDULABLE
from gangsched.core.preemption import branch_and_bound
from gangsched.core.preemption import search as search_module
from tests.amounts import amount
from tests.builders import gang, node, pdb, pod
from tests.core.harness import Built, Cluster, plan, victims
from tests.core.queues import objects, queued
from tests.core.quota.world import queue
from tests.oracle import generate
from tests.oracle.judge import EQUAL, judge


def filled(name: str, pods: int, priority: int = 1, label: str = "") -> list[Built]:
    """A node of four CPUs that so many pods fill."""
    made = [pod(f"{name}-{n}").cpu(4 / pods).priority(priority).on(name) for n in range(pods)]
    return [node(name).cpu(4), *(p.label(app=label) if label else p for p in made)]


def members(count: int, group: str = "g", cpu: float = 4) -> list[Built]:
    """A gang of priority 9 that needs all of its members, each a whole node."""
    return [*(pod(f"{group}{n}").cpu(cpu).priority(9).gang(group) for n in range(count)), gang(group).min(count)]


@pytest.mark.parametrize(("most", "outcome", "gone"), [(0, PREEMPT, 4), (4, PREEMPT, 4), (3, UNSCHEDULABLE, 0)])
def test_the_number_of_victims_is_bounded(most: int, outcome: str, gone: int) -> None:
    """As many as the setting says may leave, and one more may not; 0 means any number. The message names the setting
    and what it would take.
    """
    found = plan(*filled("n1", 2), *filled("n2", 2), *members(2), max_victims=most)["d/g"]
    assert (found.outcome, len(victims(found))) == (outcome, gone)
    if outcome == UNSCHEDULABLE:
        assert (
            "preemption: no choice of at most 3 victims was found, which is what preemption.maxVictims allows;"
            " the smallest has 4." in found.message
        )


@pytest.mark.parametrize(
    ("per_member", "most", "outcome"),
    [(2.0, 0, PREEMPT), (1.9, 0, UNSCHEDULABLE), (2.0, 3, UNSCHEDULABLE), (1.0, 9, UNSCHEDULABLE), (9.0, 4, PREEMPT)],
)
def test_the_cap_may_grow_with_the_gang(per_member: float, most: int, outcome: str) -> None:
    """So many for each member that the gang needs, rounded down for all of them; of two caps the lower one counts."""
    settings = {"max_victims": most, "max_victims_per_member": per_member}
    found = plan(*filled("n1", 2), *filled("n2", 2), *members(2), **settings)["d/g"]
    assert found.outcome == outcome
    if most != 3 and outcome == UNSCHEDULABLE:
        assert "preemption.maxVictimsPerMember" in found.message


@pytest.mark.parametrize(("most", "expected"), [(4, ["n1-0", "n1-1", "n1-2", "n1-3"]), (3, ["n2-0"])])
def test_more_harm_is_done_only_where_the_cap_demands_it(most: int, expected: list[str]) -> None:
    """Four pods of priority 1 go before one of priority 5, unless that is more than there may be."""
    found = plan(*filled("n1", 4), *filled("n2", 1, priority=5), *members(1), max_victims=most)["d/g"]
    assert victims(found) == expected


def test_of_choices_within_the_cap_the_least_harmful() -> None:
    """Not the one of fewest pods: as many of low priority go as the cap leaves room for."""
    low = [o for n in range(3) for o in filled(f"low{n}", 3)]
    high = [o for n in range(3) for o in filled(f"high{n}", 1, priority=5)]
    found = plan(*low, *high, *members(3), max_victims=7)["d/g"]
    assert Counter(v.priority for v in found.victims) == {1: 6, 5: 1}
    assert found.optimal


@pytest.mark.parametrize(("most", "expected"), [(9, {1: 9}), (8, {3: 3}), (3, {3: 3}), (2, {})])
def test_in_large_clusters_the_highest_priorities_stay(
    most: int, expected: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are too many ways to try them all, nobody of a high priority goes if those below are enough."""
    monkeypatch.setattr(branch_and_bound, "MAX_DECISIONS", -1)
    monkeypatch.setattr(search_module, "fillings_of", lambda _: None)
    low = [o for n in range(3) for o in filled(f"low{n}", 3)]
    middle = [o for n in range(3) for o in filled(f"middle{n}", 1, priority=3)]
    high = [o for n in range(3) for o in filled(f"high{n}", 1, priority=5)]
    found = plan(*low, *middle, *high, *members(3), max_victims=most)["d/g"]
    assert Counter(v.priority for v in found.victims) == expected


@pytest.mark.parametrize(("strict", "outcome"), [(False, PREEMPT), (True, UNSCHEDULABLE)])
def test_a_budget_is_broken_before_the_cap(strict: bool, outcome: str) -> None:
    """Where budgets may be broken, the cap may demand it; where they may not, both bind."""
    cluster = [*filled("n1", 4), *filled("n2", 1, label="kept"), pdb("kept").selects(app="kept").allows(0)]
    assert len(victims(plan(*cluster, *members(1), max_victims=4, strict_budgets=strict)["d/g"])) == 4
    found = plan(*cluster, *members(1), max_victims=3, strict_budgets=strict)["d/g"]
    assert found.outcome == outcome
    if outcome == PREEMPT:
        assert [(v.name, v.over_budget) for v in found.victims] == [("n2-0", True)]
    else:
        assert "preemption.maxVictims" in found.message


@pytest.mark.parametrize(("most", "expected"), [(6, ["a"] * 6), (5, ["b"] * 2), (1, [])])
def test_gangs_count_all_of_their_pods(most: int, expected: list[str]) -> None:
    """A gang leaves whole, so that all its pods count, those on other nodes too: a smaller one of higher priority goes
    when it is too large.
    """
    large = [pod(f"a{n}").cpu(4).priority(1).gang("a").on(f"a{n}") for n in range(6)]
    small = [pod(f"b{n}").cpu(4).priority(2).gang("b").on(f"b{n}") for n in range(2)]
    hosts = [node(f"{p.obj().node}").cpu(4) for p in (*large, *small)]
    found = plan(*hosts, *large, *small, gang("a").min(6), gang("b").min(2), *members(2), max_victims=most)["d/g"]
    assert [v.unit.name[-1] for v in found.victims] == expected
    assert (found.outcome == UNSCHEDULABLE) == (not expected)


@pytest.mark.parametrize(("most", "outcome"), [(4, PREEMPT), (3, UNSCHEDULABLE)])
def test_a_gang_group_is_one_decision(most: int, outcome: str) -> None:
    """What its gangs evict together counts, not what each would."""
    both = [*members(1, "x"), *members(1, "y")]
    groups = [gang(n).min(1).group("d/x", "d/y") for n in ("x", "y")]
    found = plan(*filled("n1", 2), *filled("n2", 2), *both[:1], *both[2:3], *groups, max_victims=most)
    assert {d.outcome for d in found.values()} == {outcome}


@pytest.mark.parametrize(("most", "expected"), [(2, ["one", "two"]), (1, ["whole"])])
def test_where_quota_decides_the_order_the_cap_holds_too(most: int, expected: list[str]) -> None:
    """The first in the queue's order go, unless they are too many: then others do that give back more."""
    low = [queued("one", "a", 2, priority=1).on("n1"), queued("two", "a", 2, priority=1).on("n1")]
    whole = queued("whole", "a", 4, priority=2).on("n1")
    rules = objects(queue("a", cpu=8, within="LowerPriority"))
    found = plan(node("n1").cpu(8), *rules, *low, whole, queued("new", "a", 4, priority=9), max_victims=most)["d/new"]
    assert victims(found) == expected


def test_a_refusal_for_the_cap_is_told_where_quota_decides_too() -> None:
    """The message names the setting."""
    low = [queued(f"low{n}", "a", 2, priority=1).on("n1") for n in range(4)]
    rules = objects(queue("a", cpu=8, within="LowerPriority"))
    found = plan(node("n1").cpu(8), *rules, *low, queued("new", "a", 6, priority=9), max_victims=2)["d/new"]
    assert found.outcome == UNSCHEDULABLE
    assert "preemption.maxVictims allows; the smallest has 3" in found.message


def test_what_runs_keeps_to_the_plan() -> None:
    """Exactly the planned victims are removed, and a gang beyond the cap leaves everybody alone until there is room."""
    cluster = [*filled("n1", 4), *filled("n2", 1, priority=5)]
    planned = victims(plan(*cluster, *members(1), max_victims=3)["d/g"])
    running = Cluster(*cluster, *members(1), max_victims=3)
    assert sorted(a.pod.name for a in running.run() if isinstance(a, Remove)) == planned == ["n2-0"]

    waiting = Cluster(*filled("n1", 4), *members(1), max_victims=3)
    assert not [a for a in waiting.run() if isinstance(a, Remove)]
    told = waiting.pod("g0").scheduled_condition
    assert told is not None
    assert "preemption.maxVictims" in told.message
    waiting.delete("n1-0")  # three are left, and the gang is decided again by itself
    waiting.pass_time(60)
    assert len([a for a in waiting.log if isinstance(a, Remove)]) == 3


def test_random_clusters_against_the_exact_optimum() -> None:
    """One victim fewer than the least harmful choice has: the least harm within that, wherever there is any."""
    looked = 0
    for seed in range(amount(60, 24)):
        case = generate.case(seed, mixed=seed % 2 == 1)
        free = judge(case)
        if free.outcome == PREEMPT and len(free.victims) > 1:
            looked += 1
            options = msgspec.structs.replace(case.options, max_victims=len(free.victims) - 1)
            found = judge(msgspec.structs.replace(case, options=options))
            assert found.verdict == EQUAL, (seed, found)
            assert len(found.victims) < len(free.victims)
    assert looked > amount(20, 3)
