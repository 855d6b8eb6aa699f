"""What the core knows of the cluster, kept up to date by events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gangsched.core.agenda import Agenda
from gangsched.core.identity import Order, group_key
from gangsched.core.ledger.backfill import Turns
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.quota.gang_workloads import Managed
from gangsched.core.state.evictions import Evictions
from gangsched.core.state.foreign_nominations import ForeignNominations
from gangsched.core.state.jobs import WITHOUT_PODS, Jobs, OwnerKey
from gangsched.core.state.kueue import AdmittedByKueue
from gangsched.core.state.membership import Membership
from gangsched.core.state.observed_times import Sightings
from gangsched.core.state.podtable import ASSUMED, PROTECTED, STARTING, TERMINATING
from gangsched.core.state.scheduler_names import SchedulerNames
from gangsched.core.state.simulation import Phantom
from gangsched.core.state.snapshot import Snapshot
from gangsched.core.world.owner_gangs import OwnerGangs
from gangsched.messages import causes
from gangsched.model.preemptible import protected
from gangsched.model.queues import QueueObject
from gangsched.model.records import (
    JOB,
    Budget,
    ClusterNetworkTopology,
    GangId,
    Owner,
    Pod,
    PriorityClass,
)

#: Shapes that may be known beside two for each pod, before those that no pod has any more are forgotten. Every image
#: tag is a new shape, and some questions of each decision go through all of them.
_SPARE_SHAPES = 1024


class World:
    """Nodes, pods, gangs, Jobs and budgets, as observed.

    Bound pods are charged to their node until they are gone or finished; pods that we are binding (*assumed*)
    are charged to the node they are going to. ``managed`` knows the gangs that need quota; ``fair_sharing`` weighs
    their queues by their share.

    What is intended is not here: ``ledger`` and ``turns`` (the gangs that do not fit; with ``strict_order`` they keep
    their nodes from those behind them) are those of :meth:`intend`.
    """

    def __init__(
        self,
        ours: Iterable[str],
        evict_daemonset_pods: bool = False,
        strict_order: bool = False,
        fair_sharing: bool = False,
        overdue_after_seconds: float = 30.0,
        gang_owners: Iterable[str] = (),
        names: SchedulerNames | None = None,
    ) -> None:
        self.snapshot = Snapshot()
        self.classes: dict[str, PriorityClass] = {}
        self.topologies: dict[str, ClusterNetworkTopology] = {}
        self.names = names or SchedulerNames()
        self.membership = Membership(ours, self.assumed, self.classes, self.names)
        self.budgets: dict[tuple[str, str], Budget] = {}
        self.jobs = Jobs()
        self.kueue = AdmittedByKueue()
        #: The time of the call that is being served (seconds, by the scheduler's clock).
        self.now = 0.0
        #: What is observed and has to be looked at again; of what is intended the ledger knows that.
        self.agenda = Agenda()
        self.agenda.page(self.names.alive)
        self.sightings = Sightings(overdue_after_seconds, self.agenda.page())
        self.evictions = Evictions()
        self.foreign_nominations = ForeignNominations(
            lambda pod: self.membership.is_ours(pod.gang),
            lambda node: any(pod.deleting_since is not None for pod in self.snapshot.pods_on(node)),
            self.agenda.page(),
        )
        self.ledger = Ledger()
        self.turns = Turns(strict_order, self.ledger)
        self.pods: dict[str, Pod] = {}
        self._uid_of: dict[tuple[str, str], str] = {}
        self._told_apart = 0
        self.managed = Managed(self.snapshot, self.membership, self.jobs, self.kueue, self.ledger, fair_sharing)
        self.owner_gangs = OwnerGangs(
            self.jobs, self.membership, self.managed, self.pods, self.snapshot.namespaces, gang_owners
        )
        self._evict_daemonset_pods = evict_daemonset_pods

    def intend(self, ledger: Ledger) -> None:
        """From now on this is what is intended, and nothing that was before."""
        before, self.ledger = self.ledger, ledger
        self.turns = Turns(self.turns.strict, ledger)
        self.managed.intend(ledger)
        for uid in before.assumed:
            if uid in self.pods:
                self._assumed_changed(self.pods[uid])
        self.snapshot.volumes.forget_all()

    # -- what Kueue admits ---------------------------------------------------------------------------------

    def set_workload(self, namespace: str, name: str, owners: tuple[Owner, ...]) -> list[OwnerKey]:
        """Kueue has a Workload for its owners (without any it is gone); returns the Jobs and JobSets that this touches.
        Of pods it is known by their own marks.
        """
        out: list[OwnerKey] = []
        for owner in self.kueue.workload_set(f"{namespace}/{name}", owners):
            found = self.jobs.find(owner.kind, namespace, owner.name)
            if found is not None:
                out.append((owner.kind, namespace, owner.name))
                out += [(JOB, namespace, job.name) for job in self.jobs.jobs_of(found)]
        return out

    def problem(self, gangs: Sequence[GangId]) -> str:
        """Why these gangs cannot be decided together yet, or never, in words; empty when they can."""
        return self.managed.two_admitters(gangs) or self.membership.problem(gangs) or self.leaving(gangs)

    def leaving(self, gangs: Sequence[GangId]) -> str:
        """Why no further members of these gangs may start: those who are bound are being evicted, or their Job is. They
        would be less than the gang needs, or leave at once with the others.
        """
        condemned = self.ledger.condemned
        if not condemned:
            return ""
        for gang in gangs:
            text = self.membership.without(gang, condemned)
            if text:
                return text
            owners = map(self.jobs.owner_of, self.membership.census(gang).pending if condemned.suspends else ())
            suspended = next((o for o in owners if o is not None and o.uid in condemned.suspends), None)
            if suspended is not None:
                return causes.owner_leaves(suspended.key)
        return ""

    # -- Jobs and queues -----------------------------------------------------------------------------------

    def put_queue_object(self, record: QueueObject) -> list[Pod]:
        """Insert or replace a queue object; returns the pods of Jobs that are in another gang because of it."""
        was = self.managed.active
        self.managed.put(record)
        return self.owner_gangs.renew_all() if self.managed.active != was else []

    def drop_queue_object(self, kind: str, namespace: str, name: str) -> list[Pod]:
        """Remove a queue object of this API kind; returns the same."""
        was = self.managed.active
        self.managed.drop(kind, namespace, name)
        return self.owner_gangs.renew_all() if self.managed.active != was else []

    # -- pods ----------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod) -> Pod | None:
        """Insert or replace a pod; returns the previous record of the same incarnation."""
        old = self.pods.get(pod.uid)
        if pod.gang.family not in WITHOUT_PODS:  # a stand-in bears the name of no pod
            earlier = self._uid_of.get((pod.namespace, pod.name))
            if earlier is not None and earlier != pod.uid:
                self.drop_pod(earlier)  # re-created under the same name before its deletion was seen
            self._uid_of[(pod.namespace, pod.name)] = pod.uid
            self.kueue.pod_set(old, pod)
        if old is not None and old.gang != pod.gang:
            self.membership.drop_pod(old)
        self.pods[pod.uid] = pod
        self.sightings.seen(old, pod, self.now)
        self.evictions.seen(old, pod)
        self.foreign_nominations.seen(old, pod, self.now)
        self.jobs.pod_set(old, pod)
        if old is None and pod.volumes is not None:
            self.snapshot.volumes.mention(pod, +1)
        self.membership.set_pod(pod)
        self.managed.touch(pod.gang)
        if old is not None and old.gang != pod.gang:
            self.managed.touch(old.gang)
        self.snapshot.shape_number(pod.shape)
        if len(self.snapshot.shapes) > 2 * len(self.pods) + _SPARE_SHAPES:
            self.snapshot.keep_shapes(p.shape for p in self.pods.values())
        if pod.node:
            self.ledger.assumed.pop(pod.uid, None)
        self._recharge(pod)
        return old

    def drop_pod(self, uid: str) -> Pod | None:
        """Remove a pod; returns its last record."""
        pod = self.pods.pop(uid, None)
        self.ledger.assumed.pop(uid, None)
        self.sightings.gone(uid)
        self.foreign_nominations.gone(uid)
        self.names.gone(uid)
        if pod is None:
            return None
        self.evictions.seen(pod, None)
        if pod.deleting_since is not None and self.foreign_nominations:
            self.foreign_nominations.freed(pod.node, self.now)
        if pod.volumes is not None:
            self.snapshot.volumes.mention(pod, -1)
        if self._uid_of.get((pod.namespace, pod.name)) == uid:
            del self._uid_of[(pod.namespace, pod.name)]
        if self.snapshot.node_of(uid):
            self.snapshot.discharge(uid)
        self.membership.drop_pod(pod)
        self.jobs.pod_dropped(pod)
        self.kueue.pod_dropped(pod)
        self.managed.touch(pod.gang)
        self.managed.gone(uid)
        return pod

    def leaves_by(self, pod: Pod) -> float:
        """When a pod that terminates, or is about to, should be gone (seconds)."""
        return self.sightings.leaves_by.get(pod.uid, self.now + pod.grace_seconds)

    def find(self, namespace: str, name: str) -> Pod | None:
        """The current pod of that name."""
        return self.pods.get(self._uid_of.get((namespace, name), ""))

    def renew_classes(self) -> None:
        """Held and reserved room is for pods of the classes that its members are of now: by the labels that terms have
        asked for since, members that were alike may differ now.
        """
        while self._told_apart != self.snapshot.told_apart:
            self._told_apart = self.snapshot.told_apart
            self.ledger.reclass(self._of_its_class)

    def _of_its_class(self, held: Phantom) -> Phantom:
        pod = self.pods.get(held.uid)
        return held if pod is None else msgspec.structs.replace(held, pod=self.snapshot.class_of(pod))

    def assume(self, uid: str, node: str) -> None:
        """Our binding of this pod is on its way: it takes room on ``node`` from now on."""
        self.ledger.assumed[uid] = node
        self.names.assumed(self.pods[uid])
        self._assumed_changed(self.pods[uid])

    def _assumed_changed(self, pod: Pod) -> None:
        self.membership.moved(pod.gang)
        self._recharge(pod)
        self.managed.touch(pod.gang)

    def still_takes(self, uid: str, node: str, ignores: Callable[[str], bool]) -> bool:
        """Is there still room on ``node`` for a pod that is assumed there? What others did meanwhile may have taken it,
        or the node itself away. Of resources that ``ignores`` names there is always enough.
        """
        self.snapshot.settle()
        row = self.snapshot.row_of.get(node)
        if row is None or not self.assumed(uid):
            return False
        record = self.snapshot.nodes[row]
        if record.unschedulable or record.deleting or record.outdated:
            return False
        index, _ = self.snapshot.vector(self.pods[uid].shape)
        short = index[self.snapshot.used[index, row] > self.snapshot.allocatable[index, row]]
        return all(ignores(self.snapshot.resources[i]) for i in short.tolist())

    def forget(self, uid: str) -> None:
        """The binding failed or was not needed: the room is free again unless the pod is bound after all."""
        if self.ledger.assumed.pop(uid, None) is not None and uid in self.pods:
            self._assumed_changed(self.pods[uid])

    def assumed(self, uid: str) -> bool:
        """Is our binding of this pod still unconfirmed by the cluster?"""
        return uid in self.ledger.assumed

    def assumed_on(self, uid: str) -> str:
        """The node to which our unconfirmed binding takes the pod; empty without one."""
        return self.ledger.assumed.get(uid, "")

    def _recharge(self, pod: Pod) -> None:
        self.jobs.pod_moved(pod)
        node = "" if pod.finished else pod.node or self.ledger.assumed.get(pod.uid, "")
        before = self.snapshot.node_of(pod.uid)
        flags = self._flags(pod)
        if before == node:
            if node:
                self.snapshot.replace(pod, node, flags)
            return
        if before:
            self.snapshot.discharge(pod.uid)
        if node:
            self.snapshot.charge(pod, node, flags)

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


def queue_order(world: World, gangs: Sequence[GangId]) -> Order:
    """The place of a group in the queue. A gang that needs quota has the priority of its workload there. What an
    earlier process has bound in part comes before others of its priority, younger or older: it takes room already.
    """
    membership = world.membership
    priority = world.managed.priority(gangs)
    if priority is None:
        priority = membership.preemptor_priority(gangs)
    key = group_key(gangs)
    first = key in world.ledger.begun and membership.half_bound(gangs)
    return -priority, -math.inf if first else membership.created(gangs), key
