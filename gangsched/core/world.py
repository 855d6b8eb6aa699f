"""What the core knows of the cluster, kept up to date by events."""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.core.membership import Membership
from gangsched.core.podtable import ASSUMED, PROTECTED, STARTING, TERMINATING
from gangsched.core.simulation import Phantom
from gangsched.core.snapshot import Snapshot
from gangsched.core.turns import Turns
from gangsched.model.marks import protected
from gangsched.model.records import Budget, GangId, Job, Pod, PriorityClass


class World:
    """Nodes, pods, gangs, budgets, and the room that is held.

    Bound pods are charged to their node until they are gone or finished; pods that we are binding (*assumed*)
    are charged to the node they are going to. ``binding`` are the gangs whose bindings are on their way. ``held``
    has, by group key, the nominated members of a gang. ``turns`` knows the gangs that do not fit; with ``strict_order``
    they keep their nodes from those behind them.
    """

    def __init__(self, ours: Iterable[str], evict_daemonset_pods: bool = False, strict_order: bool = False) -> None:
        self.snapshot = Snapshot()
        self.membership = Membership(ours)
        self.budgets: dict[tuple[str, str], Budget] = {}
        self.jobs: dict[tuple[str, str], Job] = {}
        self.classes: dict[str, PriorityClass] = {}
        self.held: dict[str, list[Phantom]] = {}
        self.binding: set[GangId] = set()
        self.turns = Turns(strict_order)
        self.pods: dict[str, Pod] = {}
        self._uid_of: dict[tuple[str, str], str] = {}
        self._charged: dict[str, str] = {}
        self._assumed: dict[str, str] = {}
        self.membership.assumed = self._assumed
        self._evict_daemonset_pods = evict_daemonset_pods

    # -- pods ----------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod) -> Pod | None:
        """Insert or replace a pod; returns the previous record of the same incarnation."""
        old = self.pods.get(pod.uid)
        earlier = self._uid_of.get((pod.namespace, pod.name))
        if earlier is not None and earlier != pod.uid:
            self.drop_pod(earlier)  # re-created under the same name before its deletion was seen
        if old is not None and old.gang != pod.gang:
            self.membership.drop_pod(old)
        self._uid_of[(pod.namespace, pod.name)] = pod.uid
        self.pods[pod.uid] = pod
        if old is None and pod.volumes is not None:
            self.snapshot.volumes.mention(pod, +1)
        self.membership.set_pod(pod)
        self.snapshot.shape_number(pod.shape)
        if pod.node:
            self._assumed.pop(pod.uid, None)
        self._recharge(pod)
        return old

    def drop_pod(self, uid: str) -> Pod | None:
        """Remove a pod; returns its last record."""
        pod = self.pods.pop(uid, None)
        self._assumed.pop(uid, None)
        if pod is None:
            return None
        if pod.volumes is not None:
            self.snapshot.volumes.mention(pod, -1)
        if self._uid_of.get((pod.namespace, pod.name)) == uid:
            del self._uid_of[(pod.namespace, pod.name)]
        self._discharge(uid)
        self.membership.drop_pod(pod)
        return pod

    def find(self, namespace: str, name: str) -> Pod | None:
        """The current pod of that name."""
        return self.pods.get(self._uid_of.get((namespace, name), ""))

    def assume(self, uid: str, node: str) -> None:
        """Our binding of this pod is on its way: it takes room on ``node`` from now on."""
        self._assumed[uid] = node
        self._recharge(self.pods[uid])

    def still_takes(self, uid: str, node: str) -> bool:
        """Is there still room on ``node`` for a pod that is assumed there? What others did meanwhile may have taken it,
        or the node itself away.
        """
        self.snapshot.settle()
        row = self.snapshot.row_of.get(node)
        if row is None or not self.assumed(uid):
            return False
        record = self.snapshot.nodes[row]
        if record.unschedulable or record.deleting:
            return False
        index, _ = self.snapshot.vector(self.pods[uid].shape)
        return bool((self.snapshot.used[index, row] <= self.snapshot.allocatable[index, row]).all())

    def forget(self, uid: str) -> None:
        """The binding failed or was not needed: the room is free again unless the pod is bound after all."""
        if self._assumed.pop(uid, None) is not None and uid in self.pods:
            self._recharge(self.pods[uid])

    def forget_all(self) -> None:
        """None of our bindings, of pods or claims, is on its way any more."""
        for uid in list(self._assumed):
            self.forget(uid)
        self.snapshot.volumes.forget_all()

    def assumed(self, uid: str) -> bool:
        """Is our binding of this pod still unconfirmed by the cluster?"""
        return uid in self._assumed

    def assumed_on(self, uid: str) -> str:
        """The node to which our unconfirmed binding takes the pod; empty without one."""
        return self._assumed.get(uid, "")

    def _recharge(self, pod: Pod) -> None:
        node = "" if pod.finished else pod.node or self._assumed.get(pod.uid, "")
        before = self._charged.get(pod.uid, "")
        flags = self._flags(pod)
        if before == node:
            if node:
                self.snapshot.replace(pod, node, flags)
            return
        self._discharge(pod.uid)
        if node:
            self.snapshot.charge(pod, node, flags)
            self._charged[pod.uid] = node

    def _discharge(self, uid: str) -> None:
        node = self._charged.pop(uid, "")
        if node:
            self.snapshot.discharge(uid, node)

    def _flags(self, pod: Pod) -> int:
        flags = 0
        if pod.deleting_since is not None:
            flags |= TERMINATING
        if protected(pod, self._evict_daemonset_pods):
            flags |= PROTECTED
        if not pod.node:
            flags |= ASSUMED
        elif pod.phase == "Pending":
            flags |= STARTING
        return flags
