"""What a process that does not lead keeps is what the cluster shows, and no more, however long it stands by."""

from __future__ import annotations

import gc
import types
from random import Random
from typing import Any

import pytest

from gangsched.core.actions import Bind, Mark, Nominate, Remove
from gangsched.core.events import Gone, LeadershipChanged, Synced
from gangsched.core.options import Options
from gangsched.core.quota.workloads import Admission
from gangsched.core.scheduler import Scheduler
from gangsched.core.state import eviction_history
from gangsched.model.queues import ResourceFlavor
from tests.amounts import amount
from tests.builders import SIGS, claim, gang, node, pdb, pod
from tests.core.harness import Built, Cluster, event, nodes_of, writes
from tests.core.queues import objects as objects_of
from tests.core.queues import queued
from tests.core.quota.world import flavor, group, queue

_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType)
#: Heaps keep up to a hundred entries that no longer count, of five objects each.
_SLACK = 500


def objects(core: Scheduler) -> int:
    """How many objects hang together with a scheduler, code aside. What it keeps in tuples and numbers counts with
    what keeps it.
    """
    seen: dict[int, object] = {}
    todo: list[object] = [core]
    while todo:
        one = todo.pop()
        if id(one) not in seen and not isinstance(one, _CODE):
            seen[id(one)] = one
            todo += gc.get_referents(one)
    return len(seen)


class Watched(Cluster):
    """A cluster of which another process is told too: one that stands by."""

    def __init__(self, *objects: Built) -> None:
        self.standby = Scheduler(Options(wait_for_leadership=True))
        super().__init__(*objects)
        self.standby.handle([Synced()], self.now)

    def show(self, *objects: Built) -> None:
        """As the cluster does, and to both."""
        super().show(*objects)
        self.standby.handle([event(each) for each in objects], self.now)


def arrives(cluster: Watched, number: int) -> None:
    """One of several kinds of work. Labels and claims are used again: of those a few thousand are remembered."""
    name, kind = f"g{number:06}", number % 5
    if kind == 0:
        cluster.show(gang(name).min(2), *(pod(f"{name}-{i}").light_gang(name, 2).cpu(2).priority(5) for i in range(2)))
    elif kind == 1:
        cluster.show(queued(name, "a", 3, priority=3))
    elif kind == 2:
        cluster.show(pod(name).cpu(1).scheduler("other").nominated("n1", intent=False).priority(9))
    elif kind == 3:
        used = f"claim-{number % 50}"  # the next of a StatefulSet has the claim of the last
        cluster.show(node(f"n-{name}").cpu(1), claim(used), pod(name).cpu(3).claims(used).priority(1))
    else:
        app = f"app-{number % 50}"
        cluster.show(pod(name).cpu(2).label(app=app), pdb(name).selects(app=app).allows(0))


def is_over(cluster: Watched, number: int) -> None:
    """All of that goes, whatever has become of it."""
    name, kind = f"g{number:06}", number % 5
    for pod_name in [each for _, each in cluster.pods if each.startswith(name)]:
        cluster.change(pod_name, deleting_since=cluster.now + 30.0)
    cluster.run()
    cluster.leave()
    if kind == 0:
        cluster.show(Gone("PodGroup", "d", name, "", SIGS))
    elif kind == 3:
        cluster.show(Gone("PersistentVolumeClaim", "d", f"claim-{number % 50}"), Gone("Node", "", f"n-{name}"))
    elif kind == 4:
        cluster.show(Gone("PodDisruptionBudget", "d", name))


def churn(cluster: Watched, first: int, until: float) -> int:
    """Something comes every four seconds until then, gangs for 8 s and the rest for 40 s; all of it is gone in the end.
    Returns the number of the next.
    """
    number, there = first, set[int]()
    while cluster.now < until:
        arrives(cluster, number)
        there.add(number)
        cluster.pass_time(2)
        if number % 5 == 2:
            cluster.change(f"g{number:06}", node="n1", nominated_node="")
        cluster.pass_time(2)
        for each in {number - 1, number - 9} & there:
            if each % 5 == 0 or each == number - 9:
                is_over(cluster, each)
                there.remove(each)
        number += 1
    for each in sorted(there):
        is_over(cluster, each)
    cluster.pass_time(60)
    assert not cluster.pods
    return number


def test_an_hour_of_churn_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither with the process that leads nor with one that stands by: both keep as much as after five minutes."""
    hour = amount(3600, 1500)
    monkeypatch.setattr(eviction_history, "WINDOW_SECONDS", 60.0)  # evictions count for an hour
    cluster = Watched(node("n1").cpu(7), *objects_of(queue("a", cpu=4)))
    number = churn(cluster, 0, 300.0)
    early = objects(cluster.core), objects(cluster.standby)
    evicted = sum(isinstance(action, Remove) for action in cluster.log)
    assert churn(cluster, number, hour) > hour * 2 // 9
    assert sum(isinstance(action, Remove) for action in cluster.log) > 2 * evicted > 20
    assert objects(cluster.core) <= early[0] + _SLACK
    assert objects(cluster.standby) <= early[1] + _SLACK


def test_leadership_that_is_lost_and_won_a_hundred_times_leaves_nothing_behind() -> None:
    """Plans are under way each time, in whatever phase they are: one waits for victims, one depends on it."""
    cluster = Cluster(
        node("n1"), node("n2"), pod("v").cpu(4).on("n1").field(grace_seconds=1e6), pod("w").cpu(4).on("n2").priority(7),
        gang("g").min(2), *(pod(f"m{i}").gang("g").cpu(2).priority(5) for i in range(2)),
        pod("never").cpu(4).priority(6).never(),
    )  # fmt: skip
    cluster.slow = lambda write: isinstance(write, Remove)

    def again(times: int) -> int:
        for _ in range(times):
            cluster.run()
            cluster.handle(LeadershipChanged(False))
            cluster.waiting.clear()
            cluster.handle(LeadershipChanged(True))
        cluster.handle(LeadershipChanged(False))
        cluster.waiting.clear()
        found = objects(cluster.core)
        cluster.handle(LeadershipChanged(True))
        return found

    first = again(10)
    assert again(90) <= first * 1.02
    ledger = cluster.core.ledger
    assert len(ledger.holders()) <= 2


FLAVORS = [ResourceFlavor(name, {"kind": name}, (), ()) for name in ("a", "b")]


def quota_of_two_flavors() -> list[Built]:
    """A queue with four cores on a node of each flavor; who is stronger takes what others of it have."""
    both = group(flavor("a", cpu=4), flavor("b", cpu=4))
    nodes = [node(f"n-{each.name}").cpu(8).label(kind=each.name) for each in FLAVORS]
    return [*nodes, *objects_of(queue("q", "", both, within="LowerPriority"), *FLAVORS)]


def begun(cluster: Cluster, around: list[Built], **options: Any) -> Cluster:
    """The same with a process that has just started. No write is answered."""
    other = Cluster(*around, *cluster.pods.values(), **options)
    other.now, other.slow = cluster.now, lambda _: True
    other.run()
    return other


def held(cluster: Cluster) -> dict[str, Admission]:
    """What each workload holds."""
    managed = cluster.core.world.managed
    managed.update_holdings()
    return managed.quota.admissions


def one_leads(cluster: Cluster, chance: Random, name: str) -> None:
    """A pod comes, and of what is asked for some is not answered."""
    late = chance.choice((Bind, Mark, Nominate, Remove))
    cluster.slow = lambda write: isinstance(write, late)
    cluster.show(queued(name, "q", chance.choice((1, 2, 4)), priority=chance.randint(0, 5)))
    cluster.pass_time(5)


def another_leads(cluster: Cluster, chance: Random) -> None:
    """What has terminated is gone, some marks and nominations are taken back, and some pods are bound."""
    cluster.leave()
    for name in [name for _, name in sorted(cluster.pods)]:
        if cluster.pod(name).node:
            if chance.random() < 0.5:
                cluster.change(name, disruption=None, evicted_for=None)
        elif chance.random() < 0.5:
            cluster.change(name, nominated_node="", intent=None)
            if chance.random() < 0.5:
                cluster.change(name, node=chance.choice(("n-a", "n-b")), phase="Running", started=cluster.now)


@pytest.mark.parametrize("seed", range(3))
def test_leadership_that_is_lost_and_won_leaves_nothing_of_quota_behind(seed: int) -> None:
    """Whatever was under way and whatever another has made of it: what workloads hold without leadership, and what is
    asked for with it again, is what a process says that has just started.
    """
    chance, around = Random(seed), quota_of_two_flavors()
    cluster = Cluster(*around)
    for number in range(25):
        one_leads(cluster, chance, f"p{number}")
        cluster.handle(LeadershipChanged(False))
        cluster.waiting.clear()
        assert held(cluster) == held(begun(cluster, around, wait_for_leadership=True))
        another_leads(cluster, chance)
        cluster.handle()
        assert held(cluster) == held(begun(cluster, around, wait_for_leadership=True))
        cluster.slow = lambda _: True
        cluster.show(LeadershipChanged(True))
        asked, other = cluster.run(), begun(cluster, around)
        assert writes(asked) == writes(other.log)
        assert nodes_of(asked) == nodes_of(other.log)
        assert held(cluster) == held(other)
        cluster.answer()
        for name in [name for _, name in sorted(cluster.pods) if chance.random() < 0.2]:
            cluster.delete(name)
