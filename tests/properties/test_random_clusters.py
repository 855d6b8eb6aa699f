"""Whole lives of random small clusters: what is promised holds in all of them.

Everyday lives (:mod:`tests.everyday.lives`) do not replace them. Of two faults that were put into the scheduler, plans
that do not know of each other's victims show here, by a needless victim, and not there. Victims of the same priority
show there, by endless writes, and not here. The judges here need a cluster that users leave alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import msgspec
import pytest

from gangsched.cli.simulation import Simulation, fields_of, simulate
from gangsched.cluster.sim.history import moment
from gangsched.core.decision import PREEMPT, Decision, UnitRef, Victim
from gangsched.core.options import Options
from tests.amounts import amount
from tests.cluster.sim.objects import event, node, pod
from tests.generators import cluster
from tests.judge.invariants import violations
from tests.properties.feasibility import condemned_by_others, held_by_others, room_for, some_members_fit

CLUSTERS = amount(200, 50)


@cache
def played(seed: int) -> Simulation:
    """The run of one seed, for all who look at it."""
    return play(seed)


def play(seed: int) -> Simulation:
    """The run of one seed, long enough for every gang to end up somewhere."""
    made = cluster(seed)
    return simulate(made.events, made.options, until_seconds=300.0)


def text_of(run: Simulation) -> str:
    """The whole answer as ``gangsched simulate -o json`` prints it."""
    return json.dumps(fields_of(run), indent=2)


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_random_cluster(seed: int) -> None:
    """Nothing happens that may not: over-allocation, a partial gang, a phase out of order, a needless victim.

    Strict budgets are not planned to be broken, and two runs give the same bytes.
    """
    run = played(seed)
    assert violations(run.history, run.options) == []
    assert needless_victims(run) == []
    assert beyond_strict_budgets(run) == []
    assert text_of(run) == text_of(play(seed))


def test_random_clusters_are_worth_running() -> None:
    """Among the clusters are many that bind gangs, preempt, take whole gangs, take surplus members and wait."""
    runs = [played(seed) for seed in range(CLUSTERS)]
    decisions = [d for run in runs for _, d in run.decisions]
    preempting = [d for d in decisions if d.outcome == PREEMPT]
    assert {d.outcome for d in decisions} >= {"bind", "wait", "preempt", "unschedulable"}
    assert len(preempting) > CLUSTERS / 10
    assert sum(len(d.placements) > 1 for d in decisions) > CLUSTERS / 4
    assert any(v.partial for d in preempting for v in d.victims)
    assert any(v.unit.kind != "Pod" and not v.partial for d in preempting for v in d.victims)
    assert any(d.awaiting for d in decisions)


def test_output_does_not_depend_on_the_hash_seed() -> None:
    """Two processes with different hash seeds print the same bytes."""
    program = (
        "from tests.properties.test_random_clusters import play, text_of\n"
        "for seed in range(12): print(text_of(play(seed)))"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert texts[0]


def test_the_check_for_needless_victims_finds_one() -> None:
    """A plan that takes two pods where one is enough is found, and so is one that takes too few."""
    pods = [pod("x", 4, node="n1", priority=0), pod("y", 4, node="n2", priority=0), pod("new", 3, priority=5)]
    events = [event(node("n1")), event(node("n2")), *(event(p) for p in pods)]
    run = simulate(events, Options(), until_seconds=60.0)
    (number, decision), *_ = run.decisions
    assert [v.name for v in decision.victims] == ["x"]
    assert needless_victims(run) == []
    second = msgspec.structs.replace(decision.victims[0], name="y", uid="uid-y", unit=UnitRef("Pod", "ns/y"), node="n2")
    run.decisions[0] = (number, msgspec.structs.replace(decision, victims=(*decision.victims, second)))
    assert needless_victims(run) == ["ns/new: fits although ns/x stays", "ns/new: fits although ns/y stays"]
    run.decisions[0] = (number, msgspec.structs.replace(decision, victims=()))
    assert needless_victims(run) == ["ns/new: does not fit although all victims leave"]


def needless_victims(run: Simulation) -> list[str]:
    """Victims of any decision that could have stayed: the gang would fit with their whole unit put back."""
    out = []
    for position, (number, decision) in enumerate(run.decisions):
        if decision.outcome != PREEMPT:
            continue
        now = moment(run.history, number)
        held = held_by_others(run, position)
        members = [
            p for p in now.pods.values() if p.gang == decision.gang and p.live and not p.node and p.phase == "Pending"
        ]
        condemned = condemned_by_others(run, position)
        nothing_back = room_for(now, decision, held, set(), condemned)
        if not some_members_fit(members, decision.required, nothing_back):
            out.append(f"{decision.gang.key}: does not fit although all victims leave")
        for unit in units_of(decision):
            free = room_for(now, decision, held, {v.uid for v in unit}, condemned)
            if some_members_fit(members, decision.required, free):
                out.append(f"{decision.gang.key}: fits although {', '.join(v.key for v in unit)} stays")
    return out


def beyond_strict_budgets(run: Simulation) -> list[str]:
    """Victims that were planned although budgets are strict and theirs has nothing left."""
    if not run.options.strict_budgets:
        return []
    return [f"{d.gang.key}: {v.key}" for _, d in run.decisions for v in d.victims if v.over_budget]


def units_of(decision: Decision) -> list[list[Victim]]:
    """What went together: a whole unit, or one pod of a unit of which others stay."""
    units: dict[tuple[str, ...], list[Victim]] = {}
    for victim in decision.victims:
        key = (victim.unit.kind, victim.unit.name, victim.key if victim.partial else "")
        units.setdefault(key, []).append(victim)
    return list(units.values())
