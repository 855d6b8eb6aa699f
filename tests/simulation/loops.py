"""Clusters in which evictions could go on for ever, for controllers bring pods back and another scheduler takes room.

*Thief*: two nodes, a gang that needs both, and a pod of another scheduler on each, of lower priority. Its controller
replaces it in the moment in which it is told to go, and the other scheduler binds the new one in the moment in which
there is room for it.

*Rock, paper, scissors*: room for one of three workloads. The owner of a quota takes it back from whoever borrows it,
whose pods have a higher priority than those without a queue, whose pods have a higher priority than the owner's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gangsched.cluster.manifests import load
from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.arrival import Arrival
from gangsched.cluster.sim.history import SCHEDULER, Cause
from gangsched.core.actions import Action, Report
from gangsched.core.events import Event, Gone
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.queues import ANY, QUEUE_LABEL
from gangsched.model.records import SINGLE, GangId, Pod
from gangsched.runtime.loop import run_loop
from tests.builders import OTHERS, gang, node, pod
from tests.core.harness import Built, event
from tests.core.queues import objects
from tests.core.quota.world import queue

HOUR = 3600.0


class ReplicaSets:
    """Replaces every pod of a ReplicaSet as soon as it is told to go, or has gone."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made = 0
        self._replaced: set[str] = set()
        world.store.subscribe(self._on_change)

    def _on_change(self, what: Event, old: Pod | None) -> None:
        before = old if isinstance(what, Gone) else getattr(what, "record", None)
        if not isinstance(before, Pod) or before.owner is None or before.owner.kind != "ReplicaSet":
            return
        leaves = isinstance(what, Gone) or before.deleting_since is not None or before.finished
        if leaves and before.uid not in self._replaced:
            self._replaced.add(before.uid)
            self._world.after(0.0, lambda: self._replace(before))

    def _replace(self, gone: Pod) -> None:
        self._made += 1
        assert gone.owner is not None
        name, now = f"{gone.owner.name}-{self._made}", self._world.clock.stamp
        gang_id = GangId(SINGLE, gone.namespace, name, gone.scheduler) if gone.gang.family == SINGLE else gone.gang
        fresh = msgspec.structs.replace(
            gone,
            name=name,
            uid=f"uid-{name}",
            gang=gang_id,
            node="",
            phase="Pending",
            created=now,
            started=now,
            deleting_since=None,
            disruption=None,
            evicted_for=None,
            scheduled_condition=None,
            intent=None,
            nominated_node="",
        )
        self._world.store.put_pod(fresh, Cause("replicaset-controller", log.CREATE))


class OtherScheduler:
    """Binds its pending pods wherever there is room, ``seconds`` after there is."""

    def __init__(self, world: World, seconds: float) -> None:
        self._world, self._seconds = world, seconds
        world.store.subscribe(lambda *_: world.after(self._seconds, self._bind))

    def _bind(self) -> None:
        store = self._world.store
        for waiting in [p for p in store.pods.values() if p.scheduler == OTHERS and not p.node and p.live]:
            for there in store.nodes.values():
                room = dict(there.allocatable)
                for other in store.pods_on(there.name):
                    for name, units in other.shape.requests if not other.finished else ():
                        room[name] = room.get(name, 0) - units
                if all(units <= room.get(name, 0) for name, units in waiting.shape.requests):
                    bound = msgspec.structs.replace(waiting, node=there.name)
                    store.put_pod(bound, Cause(OTHERS, log.BIND, {"node": there.name}))
                    break


class Told(Scheduler):
    """A scheduler whose Events are kept."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.events: list[tuple[float, Report]] = []

    def handle(self, events: Sequence[Event], now: float) -> list[Action]:
        out = super().handle(events, now)
        self.events += [(now, a) for a in out if isinstance(a, Report)]
        return out

    def decide(self, now: float) -> list[Action]:
        out = super().decide(now)
        self.events += [(now, a) for a in out if isinstance(a, Report)]
        return out


class Loop:
    """A cluster with these objects, and ``later`` ones after so many seconds, run for some time. ``evicted`` are the
    evictions, ``(seconds, pod)``.
    """

    def __init__(
        self,
        *objects: Built,
        later: Sequence[tuple[float, Built]] = (),
        steals_after: float = 0.0,
        **options: Any,
    ) -> None:
        arrivals = [(0.0, each) for each in objects] + sorted(later, key=lambda one: one[0])
        self.world = World([Arrival(at, event(each)) for at, each in arrivals])
        ReplicaSets(self.world)
        OtherScheduler(self.world, steals_after)
        self.core = Told(Options(**options))

    def run(self, seconds: float = HOUR) -> Loop:
        """Let so much time pass."""
        run_loop(self.core, SimCluster(self.world, until_seconds=seconds))
        return self

    @property
    def evicted(self) -> list[tuple[float, str]]:
        """When which pod was told to go by the scheduler, or by the controller of a Job that it has suspended."""
        by = {SCHEDULER: (log.DELETE, log.EVICT), log.JOB_CONTROLLER: (log.DELETE, log.GONE)}
        found = (
            e for actor, verbs in by.items() for e in self.world.history.with_verbs(*verbs, actor=actor) if e.changed
        )
        return sorted({e.uid: (e.at_seconds, e.object) for e in found}.values())

    def running(self) -> list[str]:
        """The pods that are bound and stay."""
        return sorted(p.name for p in self.world.store.pods.values() if p.node and p.live)


def thief(*, grace: tuple[float, float] = (3.0, 10.0), steals_after: float = 0.0, **options: Any) -> Loop:
    """See above; the first pod's grace period and the second's."""
    objects: list[Built] = [gang("g").min(2)]
    for number in (0, 1):
        objects.append(node(f"n{number}").cpu(4))
        objects.append(pod(f"g{number}").gang("g").cpu(4).priority(1000))
        theirs = pod(f"theirs{number}").scheduler(OTHERS).cpu(4).owner("ReplicaSet", f"rs{number}").on(f"n{number}")
        objects.append(theirs.field(grace_seconds=grace[number]))
    return Loop(*objects, steals_after=steals_after, **options)


#: In rock, paper, scissors: the priority of the pods of each, and the LocalQueue.
PLAYERS = {"owner": (10, "q-a"), "borrower": (5000, "q-b"), "unmanaged": (500, "")}


def rock_paper_scissors(*, jobs: bool, grace_seconds: int = 3, **options: Any) -> Loop:
    """See above; each of the three is a pod of a ReplicaSet, or a Job of one pod."""
    if not jobs:
        found: list[Built] = [node("n").cpu(4)]
        found += objects(queue("a", "co", cpu=4, reclaim=ANY), queue("b", "co", cpu=0, reclaim=ANY))
        for name, (priority, local) in PLAYERS.items():
            made = pod(f"{name}-0").cpu(4).priority(priority).field(grace_seconds=float(grace_seconds))
            found.append(made.labels({QUEUE_LABEL: local} if local else {}).owner("ReplicaSet", name))
        return Loop(*found, **options)
    kueue = "apiVersion: kueue.x-k8s.io/v1beta2"
    out = [
        "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: '4', pods: '50'}}}",
        "{apiVersion: v1, kind: Namespace, metadata: {name: default}}",
        f"{{{kueue}, kind: ResourceFlavor, metadata: {{name: f}}}}",
    ]
    for name, cores in (("a", 4), ("b", 0)):
        quota = f"[{{name: f, resources: [{{name: cpu, nominalQuota: {cores}}}]}}]"
        out.append(
            f"{{{kueue}, kind: ClusterQueue, metadata: {{name: {name}}}, spec: {{cohortName: co, preemption:"
            f" {{reclaimWithinCohort: Any}}, namespaceSelector: {{}}, resourceGroups: [{{coveredResources: [cpu],"
            f" flavors: {quota}}}]}}}}"
        )
        out.append(f"{{{kueue}, kind: LocalQueue, metadata: {{name: q-{name}}}, spec: {{clusterQueue: {name}}}}}")
    for name, (priority, local) in PLAYERS.items():
        labels = f"labels: {{{QUEUE_LABEL}: {local}}}" if local else "labels: {}"
        spec = (
            f"priorityClassName: {name}, terminationGracePeriodSeconds: {grace_seconds}, restartPolicy: Never,"
            " schedulerName: py-gang-scheduler, containers: [{name: c, resources: {requests: {cpu: '4'}}}]"
        )
        out.append(
            f"{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: {name}}}, value: {priority}}}"
        )
        out.append(
            f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}, {labels}}}, spec: {{parallelism: 1,"
            f" completions: 1, template: {{spec: {{{spec}}}}}}}}}"
        )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "all.yaml").write_text("\n---\n".join(out))
        return Loop(*load([folder]).events, **options)
