"""The same events give the same actions, byte for byte; the order in which a cluster is listed does not matter."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.decision import PREEMPT, UNSCHEDULABLE
from gangsched.core.events import LeadershipChanged, Synced
from gangsched.core.forecast import forecast
from gangsched.core.options import Options
from gangsched.core.preemption.explain import MAX_SPARED
from gangsched.core.scheduler import Scheduler
from tests.amounts import amount
from tests.builders import gang, node, pdb, pod
from tests.core.harness import Built, Cluster, encoded, event
from tests.oracle import generate_large
from tests.oracle.case import decide

ROOT = Path(__file__).parents[3]


def some_cluster(seed: int) -> list[Built]:
    """A crowded cluster with gangs, single pods, budgets and three pending gangs."""
    chance = random.Random(seed)
    objects: list[Built] = [node(f"n{i}").cpu(8).label(zone="ab"[i % 2]) for i in range(6)]
    objects += [pdb("p").selects(app="x").allows(1), pdb("q").selects(app="y")]
    for g in range(4):
        objects.append(gang(f"run{g}").min(chance.randint(1, 3)))
        for i in range(3):
            made = pod(f"run{g}-{i}").cpu(chance.choice((1, 2))).priority(chance.randint(0, 4)).gang(f"run{g}")
            objects.append(made.on(f"n{chance.randrange(6)}", float(chance.randint(0, 900))))
    for i in range(14):
        made = pod(f"s{i}").cpu(chance.choice((1, 1.5))).priority(chance.randint(0, 4)).label(app=chance.choice("xyz"))
        made.on(f"n{chance.randrange(6)}", float(chance.randint(0, 900)))
        objects.append(made.terminating() if chance.random() < 0.15 else made)
    for g, size in enumerate((4, 3, 2)):
        objects.append(gang(f"new{g}").min(size).created(float(g)))
        mixed = chance.random() < 0.5
        objects += [
            pod(f"new{g}-{i}").cpu(1 + i if mixed else 3).priority(5).gang(f"new{g}") for i in range(size)
        ]  # fmt: skip
    return objects


def life(seed: int) -> bytes:
    """All actions of a cluster's life, with terminating pods leaving from time to time."""
    cluster = Cluster(*some_cluster(seed))
    for _ in range(4):
        cluster.pass_time(3)
        cluster.leave()
    cluster.pass_time(30)
    return encoded(cluster.log)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_events_give_the_same_actions(seed: int) -> None:
    """Two schedulers that are told the same say the same."""
    assert life(seed) == life(seed)


def test_the_seeds_of_hashes_do_not_matter() -> None:
    """Sets and dictionaries of strings are never walked in an order that depends on the process."""
    code = (
        "from tests.core.planning.test_determinism import life; import sys; sys.stdout.buffer.write(life(1) + life(2))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert life(1) + life(2) in said


@settings(max_examples=amount(12, 5), deadline=None)
@given(st.integers(0, 5), st.randoms(use_true_random=False))
def test_the_order_of_the_first_list_does_not_matter(seed: int, chance: random.Random) -> None:
    """Watches list nodes, pods and groups in any order; the decisions are the same."""
    objects = some_cluster(seed)
    shuffled = list(objects)
    chance.shuffle(shuffled)
    plans = [
        msgspec.json.encode(list(forecast([event(o) for o in order], Options(), 1000.0)))
        for order in (objects, shuffled)
    ]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(("cores", "outcome"), [(8, PREEMPT), (80, UNSCHEDULABLE)])
@pytest.mark.parametrize("pods", [400, 1500])
def test_the_order_does_not_show_in_what_is_spared(pods: int, cores: int, outcome: str) -> None:
    """Of more units than are listed the same ones are, whatever was listed first."""
    chance = random.Random(1)
    objects: list[Built] = [node(f"n{i}").cpu(8) for i in range(60)]
    for i in range(pods):
        made = pod(f"s{i}").cpu(0.25).priority(chance.randint(0, 3))
        objects.append(made.on(f"n{chance.randrange(60)}", float(chance.randint(0, 900))))
    objects += [gang("g").min(4), *(pod(f"m{i}").cpu(cores).priority(9).gang("g") for i in range(4))]
    plans = set()
    for _ in range(3):
        (found,) = forecast([event(o) for o in objects], Options(), 1000.0)
        assert (found.outcome, len(found.spared)) == (outcome, MAX_SPARED)
        plans.add(msgspec.json.encode(found))
        chance.shuffle(objects)
    assert len(plans) == 1


def test_the_order_does_not_show_in_a_large_cluster() -> None:
    """Not in the victims, either."""
    case = generate_large.case(2, mixed=False)
    shuffled = case.events()
    random.Random(0).shuffle(shuffled)
    assert decide(case, shuffled) == decide(case)


@settings(max_examples=amount(8, 4), deadline=None)
@given(st.integers(0, 5), st.randoms(use_true_random=False))
def test_the_order_of_the_first_list_does_not_matter_for_actions(seed: int, chance: random.Random) -> None:
    """Nor does it for what is done: same writes, same ids, same texts."""

    def actions(order: list[Built]) -> bytes:
        core = Scheduler(Options())
        out = core.handle([*map(event, order), Synced(), LeadershipChanged(True)], 1000.0)
        while core.has_work(1000.0):
            out += core.decide(1000.0)
        return encoded(out)

    objects = some_cluster(seed)
    shuffled = list(objects)
    chance.shuffle(shuffled)
    assert actions(objects) == actions(shuffled)


@pytest.mark.parametrize("seed", range(3))
def test_plan_and_scheduler_decide_alike(seed: int) -> None:
    """The first decision of a plan is the first decision of the scheduler: they are the same code."""
    objects = some_cluster(seed)
    first = next(iter(forecast([event(o) for o in objects], Options(), 0.0)))
    cluster = Cluster(*objects)
    cluster.step()
    assert msgspec.json.encode(cluster.decisions[0]) == msgspec.json.encode(first)
