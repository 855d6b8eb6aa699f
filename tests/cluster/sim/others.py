"""Who else works on a cluster: another scheduler, and controllers that create pods again.

The scheduler binds the pods of its name one by one, the strongest first, to the first node by name that has room for
them and no taint that they do not tolerate. It respects the taint by which room is held, and nothing else that is
meant for a plan: no nomination, no mark. It may see nodes a little later than pods, as one with two watches does.

The controller keeps the number of pods of each owner of its kind: for one that terminates or is gone it creates
another.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from gangsched.cluster.sim.clock import Timing, VirtualClock
from gangsched.cluster.sim.history import BIND, CREATE, Cause
from gangsched.cluster.sim.store import Store
from gangsched.core.events import Changed, Event, Gone
from gangsched.core.plugins.node import tolerates
from gangsched.model.held import with_held
from gangsched.model.records import SINGLE, Condition, GangId, Node, Pod

#: Who they are in the history.
OTHER_SCHEDULER, REPLICA_CONTROLLER = "other-scheduler", "replica-controller"
#: Effects that keep pods off.
_KEEPS_OFF = ("NoSchedule", "NoExecute")


class OtherScheduler:
    """Binds the pods of the scheduler ``name`` in ``store``. It sees a change of a node ``lag_seconds`` after it."""

    def __init__(
        self,
        clock: VirtualClock,
        store: Store,
        timing: Timing,
        name: str = "default-scheduler",
        lag_seconds: float = 0.0,
    ) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        self._name = name
        self._lag_seconds = lag_seconds
        self._nodes: dict[str, Node] = dict(store.nodes)
        self._due = False
        store.subscribe(self._on_change)
        self._soon()

    def _on_change(self, event: Event, old: Any) -> None:
        match event:
            case Changed(Node() as node):
                self._clock.after(self._lag_seconds, lambda: self._node_is(node.name, node))
            case Gone("Node", name=name):
                self._clock.after(self._lag_seconds, lambda: self._node_is(name, None))
            case Changed(Pod()) | Gone("Pod"):
                self._soon()

    def _node_is(self, name: str, node: Node | None) -> None:
        if node is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = node
        self._soon()

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self._clock.after(self._timing.controller_seconds, self._look)

    def _look(self) -> None:
        self._due = False
        waiting = [p for p in self._store.pods.values() if p.scheduler == self._name and self._waits(p)]
        for pod in sorted(waiting, key=lambda p: (-p.priority, p.created, p.key)):
            node = next((n for _, n in sorted(self._nodes.items()) if self._takes(n, pod)), None)
            if node is not None:
                bound = Condition("True", since=self._clock.stamp)
                changed = msgspec.structs.replace(pod, node=node.name, nominated_node="", scheduled_condition=bound)
                self._store.put_pod(changed, Cause(OTHER_SCHEDULER, BIND, {"node": node.name}))

    @staticmethod
    def _waits(pod: Pod) -> bool:
        return pod.live and not pod.node and not pod.gates

    def _takes(self, node: Node, pod: Pod) -> bool:
        """Is there room for the pod on a node that it may use?"""
        if node.unschedulable or node.deleting or not node.ready or node.name not in self._store.nodes:
            return False
        taints = with_held(node.taints, node.held) if node.held is not None else node.taints
        if any(t.effect in _KEEPS_OFF and not tolerates(pod.shape.tolerations, t) for t in taints):
            return False
        free = dict(node.allocatable)
        there = [p for p in self._store.pods_on(node.name) if not p.finished]
        for each in (*there, pod):
            free["pods"] = free.get("pods", 0) - 1
            for name, units in each.shape.requests:
                free[name] = free.get(name, 0) - units
        return all(units >= 0 for units in free.values())


class ReplicaController:
    """Creates pods again that have an owner of this ``kind``, and others that are asked for."""

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing, kind: str = "ReplicaSet") -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        self._kind = kind
        self._numbers = itertools.count(1)
        store.subscribe(self._on_change)

    def _on_change(self, event: Event, old: Any) -> None:
        before = old if isinstance(old, Pod) and self._owns(old) and old.live else None
        if before is None:
            return
        match event:
            case Gone("Pod"):
                self._again(before)
            case Changed(Pod() as pod) if not pod.live:
                self._again(before)

    def _owns(self, pod: Pod) -> bool:
        return pod.owner is not None and pod.owner.kind == self._kind

    def _again(self, like: Pod) -> None:
        self._clock.after(self._timing.controller_seconds, lambda: self.create(like))

    def create(self, like: Pod) -> None:
        """One more pod like this."""
        stem = like.owner.name if like.owner is not None else like.name
        name = f"{stem}-again-{next(self._numbers)}"
        pod = Pod(
            namespace=like.namespace,
            name=name,
            uid=f"uid-{name}",
            shape=like.shape,
            gang=GangId(SINGLE, like.namespace, name, like.scheduler),
            scheduler=like.scheduler,
            labels=like.labels,
            priority=like.priority,
            owner=like.owner,
            grace_seconds=like.grace_seconds,
            created=self._clock.stamp,
        )
        self._store.put_pod(pod, Cause(REPLICA_CONTROLLER, CREATE))
