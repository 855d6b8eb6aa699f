"""All kubelets of the cluster: bound pods start, run and finish; deleted ones take their time to stop."""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.cluster.sim.arrival import GRACE_USED, RUN_FOR, hint_seconds
from gangsched.cluster.sim.clock import Timing, VirtualClock
from gangsched.cluster.sim.history import ADMIT, GONE, KUBELET, REJECT, RUN, SUCCEED, Cause, Detail
from gangsched.cluster.sim.store import Store
from gangsched.core.events import Changed, Event, Gone
from gangsched.model.records import Node, Pod


class Kubelet:
    """Reacts to pods that are bound to a node that exists and is Ready; others have to wait."""

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        self._admitted: set[str] = set()
        self._timers: set[tuple[str, str]] = set()
        self._asked_at: dict[str, float] = {}  # by UID, when the stop of a pod was requested
        store.subscribe(self._on_change)

    def _on_change(self, event: Event, old: Any) -> None:
        match event:
            case Changed(Pod() as pod):
                if pod.deleting_since is not None and pod.uid not in self._asked_at:
                    for_seconds = self._clock.stamp - (pod.deleting_since - pod.grace_seconds)
                    self._asked_at[pod.uid] = self._clock.now - for_seconds
                self._look_at(pod)
            case Gone("Pod", uid=uid):
                self._admitted.discard(uid)
                self._asked_at.pop(uid, None)
            case Changed(Node() as node):
                for pod in list(self._store.pods_on(node.name)):
                    self._look_at(pod)

    def _look_at(self, pod: Pod) -> None:
        """Set the timer for what comes next for the pod. Cheap and harmless to repeat."""
        if not self._works(pod):
            return
        if pod.deleting_since is not None:
            self._once(pod, "stop", self._stops_at(pod))
        elif pod.phase == "Pending" and pod.uid in self._admitted:
            self._once(pod, "run", self._clock.now + self._timing.start_seconds)
        elif pod.phase == "Pending":
            self._once(pod, "admit", self._clock.now + self._timing.watch_seconds)
        elif pod.phase == "Running":
            self._admitted.add(pod.uid)
            run_for = hint_seconds(pod.hints, RUN_FOR)
            if run_for is not None:
                self._once(pod, "finish", self._clock.now + run_for)

    def _works(self, pod: Pod) -> bool:
        node = self._store.nodes.get(pod.node)
        return node is not None and node.ready

    def _once(self, pod: Pod, what: str, moment: float) -> None:
        key = (pod.uid, what)
        if key not in self._timers:
            self._timers.add(key)
            self._clock.at(moment, lambda: self._due(pod, what))

    def _due(self, known: Pod, what: str) -> None:
        self._timers.discard((known.uid, what))
        pod = self._store.pod(known.namespace, known.name, known.uid)
        if pod is None or not self._works(pod):
            return  # when the node is back, its pods are looked at again
        if what == "stop":
            self._store.apply(Gone("Pod", pod.namespace, pod.name, pod.uid), Cause(KUBELET, GONE, {"node": pod.node}))
        elif pod.deleting_since is None and not pod.finished:
            {"admit": self._admit, "run": self._run, "finish": self._finish}[what](pod)

    def _admit(self, pod: Pod) -> None:
        """Take the pod if the node has room beside all pods that it has taken before; otherwise the pod fails."""
        lacking = self._lacking(pod)
        if lacking:
            self._change(pod, REJECT, {"node": pod.node, "reason": f"OutOf{lacking}"}, phase="Failed")
            return
        self._admitted.add(pod.uid)
        self._change(pod, ADMIT, {"node": pod.node}, started=self._clock.stamp)
        self._once(pod, "run", self._clock.now + self._timing.start_seconds)

    def _lacking(self, pod: Pod) -> str:
        """The first resource of which the node has too little left, or an empty string."""
        room = dict(self._store.nodes[pod.node].allocatable)
        for other in self._store.pods_on(pod.node):
            if other.uid in self._admitted and not other.finished:
                for resource, units in (*other.shape.requests, ("pods", 1)):
                    room[resource] = room.get(resource, 0) - units
        wanted = (*pod.shape.requests, ("pods", 1))
        return next((resource for resource, units in wanted if units > room.get(resource, 0)), "")

    def _run(self, pod: Pod) -> None:
        self._change(pod, RUN, {"node": pod.node}, phase="Running")

    def _finish(self, pod: Pod) -> None:
        self._change(pod, SUCCEED, {"node": pod.node}, phase="Succeeded", ended=self._clock.stamp)

    def _change(self, pod: Pod, verb: str, detail: Detail, **fields: Any) -> None:
        self._store.put_pod(msgspec.structs.replace(pod, **fields), Cause(KUBELET, verb, detail))

    def _stops_at(self, pod: Pod) -> float:
        """A pod whose containers never ran stops at once; others use their grace period, or what they need of it."""
        if pod.phase == "Pending":
            return self._clock.now + self._timing.watch_seconds
        used = hint_seconds(pod.hints, GRACE_USED)
        return self._asked_at[pod.uid] + (pod.grace_seconds if used is None else min(pod.grace_seconds, used))
