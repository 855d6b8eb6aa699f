"""A search for victims keeps its budget of steps, also where members keep each other apart or spread over zones."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from gangsched.core.decision import PREEMPT, UNSCHEDULABLE
from gangsched.core.identity import group_key
from gangsched.core.planning.arrangement import MAX_MEMBERS, MAX_TRIES
from gangsched.core.planning.attempt import Attempt
from gangsched.core.planning.watchdog import Watchdog
from gangsched.core.preemption.apart import ApartFit
from gangsched.core.preemption.arranged import ArrangedFit
from gangsched.core.preemption.domains import DomainFit
from gangsched.core.preemption.fit import Fit, PlacedFit, fit_for
from gangsched.core.preemption.planner import Choice, Search
from gangsched.core.preemption.units import Units
from gangsched.core.state.simulation import Simulation
from tests.bench.worlds import GI, World, cluster, member_shape, pending
from tests.builders import gang, node, pod
from tests.core.harness import plan
from tests.oracle.case import NOW, Case, Maker

NODES = 60


def crowded(rule: str, shapes: int, members: int, gang_size: int, steps: int) -> Case:
    """Sixty full nodes with 840 victims, a third of them in gangs of their own size, a quarter under budgets."""
    case = cluster(
        nodes=NODES, pods=14 * NODES, gang_size=gang_size, members=members, shapes=shapes, rule=rule, budgets=5,
        member=(46, 32),
    )  # fmt: skip
    return msgspec.structs.replace(case, options=msgspec.structs.replace(case.options, search_steps=steps))


def attempt_of(world: World) -> Attempt:
    """The decision about the gang ``want``, not yet made."""
    gangs = world.gangs[0]
    return world.decider.attempt(gangs, group_key(gangs), NOW)


def searched(case: Case) -> tuple[Fit, Search, Choice | None]:
    """One search in the case, its budget being that of the options."""
    attempt = attempt_of(World(case))
    sim = attempt.simulation()
    fit = fit_for(sim, attempt.placer, attempt.wants)
    budgets = attempt.budgets()
    units = Units(
        sim.snapshot, attempt.world.membership, case.options, attempt.gangs, attempt.priority,
        np.ones(sim.snapshot.size, dtype=np.bool_),
    )  # fmt: skip
    search = Search(units, fit, budgets, attempt.cluster(), NOW, case.options.search_steps, Watchdog())
    return fit, search, search.run()


@pytest.mark.parametrize("gang_size", [1, 7])
@pytest.mark.parametrize(
    ("rule", "shapes", "members", "kind"),
    [
        ("apart", 1, 40, DomainFit),
        ("apart", 4, 12, ArrangedFit),
        ("apart", 4, 40, ApartFit),
        ("spread", 1, 40, DomainFit),
        ("spread", 4, 12, PlacedFit),
        ("spread", 4, 40, PlacedFit),
    ],
)
def test_steps_stay_within_the_budget(rule: str, shapes: int, members: int, kind: type, gang_size: int) -> None:
    """However a gang is counted or placed, no loop goes on for much longer than one question beyond the budget; what
    it ends with is a plan that works, and says that it was cut short.
    """
    steps = 300
    fit, search, choice = searched(crowded(rule, shapes, members, gang_size, steps))
    assert type(fit) is kind
    assert choice is not None
    assert choice.taken
    assert choice.steps == search.steps + fit.steps
    # A placement of all members is one question: in up to five orders, loosely and tightly; of few, in all ways.
    question = 10 * members + (MAX_TRIES if members <= MAX_MEMBERS else 0) if kind is PlacedFit else 40
    assert choice.steps <= steps + 2 * question
    assert choice.stopped == (choice.steps >= steps)


@pytest.mark.parametrize("rule", ["apart", "spread"])
def test_a_search_that_was_cut_short_gives_most_back(rule: str) -> None:
    """A large gang of several shapes does not evict everybody because there was no time to look at every unit."""
    case = crowded(rule, 4, 20, 7, 3000)
    verdict = World(case).decide()
    assert verdict.outcome == PREEMPT
    assert len(verdict.victims) <= 14 * NODES // 2


def test_no_steps_no_loop() -> None:
    """With no budget at all there is a complete answer still, and it says that the search was stopped."""
    _, search, choice = searched(crowded("apart", 4, 20, 1, 0))
    assert choice is not None
    assert choice.stopped
    assert search.steps < 20


@pytest.mark.parametrize(("steps", "stopped"), [(1, True), (5000, False)])
def test_no_plan_for_want_of_steps_is_no_proof(steps: int, stopped: bool) -> None:
    """A gang can spare one member, and the one that helps is not the largest: whoever had no time to look says so."""
    found = plan(
        node("n1").cpu(4).memory(16), node("n2").cpu(4).memory(16), node("n3").cpu(4).memory(16), gang("v").min(2),
        pod("v1").cpu(2).gang("v").on("n1"), pod("v2").cpu(3).gang("v").on("n2"),
        pod("v3").cpu(4).gang("v").on("n3").priority(99), pod("keeper").memory(15).cpu(0).on("n2").priority(99),
        pod("g").cpu(3).memory(4).priority(10),
        search_steps=steps,
    )["d/g"]  # fmt: skip
    assert (found.outcome == UNSCHEDULABLE) == stopped
    assert ("cut short" in found.message) == stopped
    assert ("the search for victims was cut short" in {s.reason for s in found.spared}) == stopped
    assert found.stopped == stopped


# -- large gangs of several shapes whose members keep apart ------------------------------------------------


def small(seed: int) -> tuple[ApartFit, Simulation, list[tuple[int, int]], random.Random]:
    """A gang of 18 members in three shapes, on 24 nodes with a random number of pods; ``(cpu, memory)`` of members."""
    chance, make = random.Random(seed), Maker()
    sizes = [(2, 9), (6, 3), (8, 8)]
    kinds = [member_shape(make, cpu, memory, "apart") for cpu, memory in sizes]
    records = [
        make.node(f"n{i:02d}", {"cpu": chance.choice((4, 8, 10)) * 1000, "memory": chance.choice((6, 10, 12)) * GI})
        for i in range(24)
    ]
    runs = make.shape({"cpu": 2000, "memory": 2 * GI})
    pods = [
        make.pod(f"v{i}-{k}", runs, node=node.name, priority=0, started=NOW - 5)
        for i, node in enumerate(records)
        for k in range(chance.randint(0, 3))
    ]
    members = pending(make, "want", [chance.choice(kinds) for _ in range(18)])
    members[0] = msgspec.structs.replace(members[0], shape=kinds[0])
    members[1] = msgspec.structs.replace(members[1], shape=kinds[1])
    base = cluster(nodes=1, pods=0, gang_size=1, members=18, rule="apart")
    world = World(msgspec.structs.replace(base, nodes=records, pods=[*pods, *members]))
    attempt = attempt_of(world)
    sim = attempt.simulation()
    fit = fit_for(sim, attempt.placer, attempt.wants)
    assert isinstance(fit, ApartFit)
    asked = [(dict(p.shape.requests)["cpu"], dict(p.shape.requests)["memory"]) for p in members]
    return fit, sim, asked, chance


def matched(sim: Simulation, asked: list[tuple[int, int]], gone: list[int]) -> int:
    """How many members find a node of their own when these pods are gone: augmenting paths, one member at a time."""
    snapshot = sim.snapshot
    cpu, memory = snapshot.resources.index("cpu"), snapshot.resources.index("memory")
    free = sim.free[[cpu, memory]].copy()
    for slot in gone:
        free[:, snapshot.table.row[slot]] += snapshot.shape_matrix()[snapshot.table.shape[slot]][[cpu, memory]]
    holder: dict[int, int] = {}

    def finds(member: int, seen: set[int]) -> bool:
        for row in np.flatnonzero((free[0] >= asked[member][0]) & (free[1] >= asked[member][1])).tolist():
            if row not in seen:
                seen.add(row)
                if row not in holder or finds(holder[row], seen):
                    holder[row] = member
                    return True
        return False

    return sum(finds(member, set()) for member in range(len(asked)))


def test_members_that_keep_apart_are_matched_exactly() -> None:
    """Shortfall, gains and places against augmenting paths, with random pods gone."""
    answers = {True: 0, False: 0}
    for seed in range(25):
        fit, sim, asked, chance = small(seed)
        slots = sim.snapshot.table.occupied().tolist()
        for share in (0.2, 0.6, 1.0):
            gone = [s for s in slots if chance.random() < share]
            start = fit.save()
            fit.take(np.array(gone, dtype=np.int64))
            expected = matched(sim, asked, gone)
            assert fit.shortfall() == len(asked) - expected
            left = [s for s in slots if s not in gone]
            options = [left[i : i + 3] for i in range(0, len(left), 3)]
            gains = fit.gains([np.array(o, dtype=np.int64) for o in options], 1000)
            assert np.floor(gains + 1e-9).tolist() == [matched(sim, asked, gone + o) - expected for o in options]
            rows = fit.rows(frozenset(gone))
            assert bool(rows) == (expected == len(asked))
            assert len(set(rows.values())) == len(rows) in (0, len(asked))
            answers[bool(rows)] += 1
            fit.restore(start)
    assert min(answers.values()) >= 5
