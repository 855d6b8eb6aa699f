"""Gangs as workloads: whose quota a gang asks for, and what the pods that run already hold.

A gang is managed when a label ``kueue.x-k8s.io/queue-name`` names its LocalQueue: on its group object, on the Job that
owns its pods, or on the pods themselves. The gangs of a GangGroup are one workload. Without any ClusterQueue no gang is
managed, and nothing here is kept.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from gangsched.core.actions import QueueStatus
from gangsched.core.decision import Flavors, group_key, names_of
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.ledger.reservation import announced_by
from gangsched.core.quota.flavors import PodFlavors, boost_of, gave_back, used_by
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.status import QueueStatuses, Tally
from gangsched.core.quota.tree import Amounts
from gangsched.core.quota.workloads import Admission, Holder, Place, Workload, pod_sets, workload_priority
from gangsched.core.state.incomplete import problem
from gangsched.core.state.jobs import Jobs
from gangsched.core.state.membership import Membership
from gangsched.core.state.simulation import Phantom
from gangsched.core.state.snapshot import Snapshot
from gangsched.messages import causes
from gangsched.model.constraints import NAMESPACE_NAME, NO_LABELS, PodShape
from gangsched.model.queues import (
    QUEUE_KINDS,
    QUEUE_LABEL,
    STRICT_FIFO,
    ClusterQueue,
    QueueObject,
    foreign_queue,
    queue_labels,
)
from gangsched.model.records import NO_QUEUE, SINGLE, GangId, Pod, QueueLabels


class Claim(msgspec.Struct, frozen=True):
    """A gang's request to quota. ``problem`` says, in Kueue's words, why it cannot even be considered.

    ``members`` are the pending pods that the request is for, and those that the gang announces.
    """

    workload: Workload
    members: tuple[Pod, ...]
    problem: str = ""


class Managed:
    """Keeps the admissions of :attr:`quota` in line with the pods of the cluster.

    :attr:`.Membership.changed` has the gangs to process again. They are processed at the next question.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        membership: Membership,
        jobs: Jobs,
        assumed: Container[str],
        fair_sharing: bool = False,
    ) -> None:
        self.quota = Quota(fair_sharing)
        #: Is there any ClusterQueue?
        self.active = False
        self.tally = Tally()
        self._statuses = QueueStatuses(self.quota, self.tally)
        self._snapshot = snapshot
        self._membership = membership
        self._jobs = jobs
        self._ledger = Ledger()
        self._assumed = assumed
        self._key_of: dict[GangId, str] = {}
        self._gangs_of: dict[str, tuple[GangId, ...]] = {}
        self._flavors = PodFlavors(self.quota.flavors, snapshot.node, self._ledger.flavors)
        #: By key of a group the members to which quota is promised: UID, node, and the flavors that they were given.
        self._promised: dict[str, tuple[tuple[str, str, Flavors | None], ...]] = {}
        self._pending: dict[str, list[tuple[Place, str]]] = {}
        self._place: dict[str, tuple[str, Place]] = {}
        self._changed: set[str] = set()
        #: What workloads held, of those of which that has changed since it was settled last.
        self._held: dict[str, Admission | None] = {}
        #: Shapes of pods as they are in some flavors, for :mod:`.assignment`: the same object every time.
        self.shapes: dict[tuple[PodShape, Flavors], PodShape] = {}

    # -- what happens --------------------------------------------------------------------------------------

    def intend(self, ledger: Ledger) -> None:
        """From now on this ledger says who is to leave, for whom room is kept, and what flavors pods were given: what
        every workload holds is worked out anew.
        """
        self._ledger = ledger
        self._flavors = PodFlavors(self.quota.flavors, self._snapshot.node, ledger.flavors)
        self._membership.changed.update(self._membership.gangs())

    def put(self, item: QueueObject) -> None:
        """A queue object was created or changed."""
        self.quota.put(item)
        if isinstance(item, ClusterQueue):
            self._membership.minimum_run_times.pop(item.name, None)
            if item.preempt_after or item.reclaim_after:
                self._membership.minimum_run_times[item.name] = item.preempt_after, item.reclaim_after
        self._objects_changed()

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove a queue object of this API kind."""
        self._membership.minimum_run_times.pop(name, None)
        self.quota.remove(QUEUE_KINDS[kind], f"{namespace}/{name}" if namespace else name)
        self._objects_changed()

    def _objects_changed(self) -> None:
        was_active, self.active = self.active, bool(self.quota.queues)
        self._statuses.objects_changed()
        self.shapes.clear()
        if self.active:
            self._membership.changed.update(self._membership.gangs())
            self._flavors.forget_found()
        elif was_active:
            for key in list(self._gangs_of):
                self._forget(key)
            self._flavors.clear()

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that no longer exists."""
        self._flavors.pod_gone(uid)

    def choose(self, flavors: Mapping[str, Flavors], now: float) -> None:
        """These pods (by UID) are going to run in these flavors."""
        for uid, chosen in flavors.items():
            self._flavors.give(uid, chosen, now)

    def take_changes(self) -> set[str]:
        """The cohort trees (names of their roots) in which a workload holds less than before, or those behind
        a workload may have its turn.
        """
        self.update_holdings()
        found, self._changed = self._changed, set()
        return found

    # -- gangs as workloads --------------------------------------------------------------------------------

    def labels_of(self, gangs: Sequence[GangId]) -> QueueLabels:
        """What :meth:`written_labels` says while there is a ClusterQueue; nothing of what Kueue admits as well: its
        quota is counted there.
        """
        return self.written_labels(gangs) if self.active and not self._jobs.admitted_by_kueue(gangs) else NO_QUEUE

    def written_labels(self, gangs: Sequence[GangId]) -> QueueLabels:
        """The first labels that say anything: of a group object, of the Job (or its JobSet) that owns a member, of
        a member. Without any of them a group is in the LocalQueue that is called as the queue of its own API, or else
        in that queue, if that has any limits.
        """
        membership, by_name = self._membership, NO_QUEUE
        for gang in gangs:
            if gang.family == SINGLE:
                continue  # nothing but its pod stands for it
            found = self._jobs.queue_of_gang(gang)
            if found.local_queue:
                return found
            spec = membership.objects.get((gang.family, gang.namespace, gang.name))
            if spec is None:
                continue
            if spec.queue.local_queue:
                return spec.queue
            of_its_api = foreign_queue(gang.family, spec.queue_name)
            if spec.queue_name and f"{gang.namespace}/{spec.queue_name}" in self.quota.local_queues:
                by_name = QueueLabels(spec.queue_name, spec.queue.priority_class)
            elif of_its_api in self.quota.queues and self.quota.queues[of_its_api].groups:
                by_name = QueueLabels(of_its_api, spec.queue.priority_class)
        for gang in gangs:
            for pod in membership.kinds(gang):
                found = self._jobs.queue_of_pod(pod)
                if found.local_queue:
                    return found
                found = queue_labels(pod.labels)
                if found.local_queue:
                    return found
        return by_name

    def rooms_of(self, pods: Iterable[Pod]) -> set[str]:
        """Keys of the groups that keep room for these pods, because their Job or JobSet goes on."""
        ledger = self._ledger
        owners = {o.uid for p in pods if (o := self._jobs.owner_of(p)) is not None} if ledger.resuming else ()
        return {made.holder for uid in owners if (made := ledger.kept_for(uid)) is not None}

    def two_admitters(self, gangs: Sequence[GangId]) -> str:
        """What is wrong with gangs that have a queue here and are admitted by Kueue as well; empty for all others."""
        mark = self._jobs.admitted_by_kueue(gangs) if self.active else ""
        if not mark or not self.written_labels(gangs).local_queue:
            return ""
        return causes.two_admitters(queue_label=QUEUE_LABEL, mark=mark, scheduler=gangs[0].scheduler)

    def is_managed(self, gangs: Sequence[GangId]) -> bool:
        """Return True if quota counts for this gang."""
        return bool(self.labels_of(gangs).local_queue)

    def priority(self, gangs: Sequence[GangId]) -> int | None:
        """The priority of a managed gang among workloads; None for others."""
        labels = self.labels_of(gangs)
        return self._priority(gangs, labels)[0] if labels.local_queue else None

    def _priority(self, gangs: Sequence[GangId], labels: QueueLabels) -> tuple[int, str]:
        """That of managed gangs with these labels, and what is wrong with it."""
        own = self._membership.preemptor_priority(gangs)
        return workload_priority(labels.priority_class, self.quota.priority_classes, own)

    def queue_of(self, gangs: Sequence[GangId]) -> ClusterQueue | None:
        """The ClusterQueue whose quota a group needs; None when it is not managed, or the queue is not there."""
        labels = self.labels_of(gangs)
        if not labels.local_queue:
            return None
        return self.quota.queues.get(self.quota.queue_of(gangs[0].namespace, labels.local_queue)[0])

    def signature(self, gangs: Sequence[GangId]) -> tuple[str, int, str, str] | None:
        """Return the key of managed gangs that the same changes of quota help: their LocalQueue, their priority, the
        root of their cohort tree (empty while there is none), and a missing WorkloadPriorityClass.
        """
        labels = self.labels_of(gangs)
        if not labels.local_queue:
            return None
        namespace, (priority, _) = gangs[0].namespace, self._priority(gangs, labels)
        queue, _ = self.quota.queue_of(namespace, labels.local_queue)
        missing = labels.priority_class if labels.priority_class not in self.quota.priority_classes else ""
        return f"{namespace}/{labels.local_queue}", priority, self._root(queue), missing

    def _root(self, queue: str) -> str:
        node = self.quota.tree.queues.get(queue)
        return node.root.name if node is not None else ""

    def _workload(self, gangs: Sequence[GangId], labels: QueueLabels, pods: Sequence[Pod]) -> tuple[Workload, str]:
        """The workload that these pods of a managed gang are, and what is wrong with it."""
        membership = self._membership
        namespace = gangs[0].namespace
        queue, problem = self.quota.queue_of(namespace, labels.local_queue)
        priority, missing = self._priority(gangs, labels)
        workload = Workload(
            namespace=namespace,
            name=gangs[0].name,
            uid=group_key(gangs),
            queue=queue,
            pod_sets=pod_sets(p.shape for p in pods),
            priority=priority,
            queued=membership.created(gangs),
            local_queue=f"{namespace}/{labels.local_queue}",
        )
        return workload, problem or missing

    def claim(self, gangs: Sequence[GangId]) -> Claim | None:
        """Return the request of the gangs of a group: the members that are still required, and all announced ones
        before the first one runs. None when they are not managed.

        What is promised to the group itself does not count against it until :meth:`settle` is called again, and what is
        promised to others is no candidate.
        """
        labels = self.labels_of(gangs)
        if not labels.local_queue:
            return None
        self.update_holdings()
        pods = (p for gang in gangs for p in self._membership.kinds(gang))
        self.quota.set_aside({group_key(gangs), *self.rooms_of(pods)})
        self.quota.holders.promised = frozenset(uid for uid in self._promised if not self.pods_of(uid))
        membership = self._membership
        members: list[Pod] = []
        for gang in gangs:
            census = membership.census(gang)
            needed = membership.required(gang, census)
            members += membership.chosen(gang, census.pending, needed)[:needed]
            members += membership.absent_at_start(gang)
        workload, problem = self._workload(gangs, labels, members)
        if not problem:
            labels_there = self._snapshot.namespaces.get(workload.namespace, NO_LABELS)
            problem = self.quota.problem(workload, {NAMESPACE_NAME: workload.namespace, **labels_there})
        return Claim(workload, tuple(members), problem or self._turn(workload))

    def still_holds(self, gangs: Sequence[GangId], leaving: Iterable[Pod]) -> bool:
        """Return True if the group needs no quota, or some flavor has enough once these pods are gone."""
        claim = self.claim(gangs)
        if claim is None or claim.problem:
            return claim is None
        pods: dict[str, dict[str, Pod]] = {}
        for pod in leaving:
            key = self._key_of.get(pod.gang)
            if key is not None:
                pods.setdefault(key, {})[pod.uid] = pod
        gone = {key for key, left in pods.items() if all(p.uid in left for p in self.pods_of(key))}
        freed = {key: self.held_by(key, left.values()) for key, left in pods.items() if key not in gone}
        return self.quota.has_room(claim.workload, gone, freed)

    def held_by(self, uid: str, pods: Iterable[Pod]) -> Amounts:
        """Return the part of a workload's quota that these pods hold; empty if it has none."""
        admission = self.quota.admissions.get(uid)
        queue = self.quota.queues.get(admission.workload.queue) if admission is not None else None
        return used_by((p.shape, self._flavors.of_pod(p, queue)) for p in pods) if queue is not None else ()

    def _turn(self, workload: Workload) -> str:
        """Under StrictFIFO, who is before this workload in its queue, in words."""
        if self.quota.queues[workload.queue].strategy != STRICT_FIFO:
            return ""
        first = next((e for e in self._pending.get(workload.queue, ()) if e[1] != workload.uid), None)
        if first is None or first[0] > workload.place:
            return ""
        return causes.ahead_in_queue(names=names_of(self._gangs_of.get(first[1], ())), queue=workload.queue)

    def pods_of(self, uid: str) -> list[Pod]:
        """The pods that hold a workload's quota on nodes, terminating ones included, in name order."""
        pods = (p for gang in self._gangs_of.get(uid, ()) for p in self._membership.known_pods(gang))
        return [p for p in pods if p.bound or p.uid in self._assumed]

    def gangs_of(self, uid: str) -> tuple[GangId, ...]:
        """The gangs of a workload that is known."""
        return self._gangs_of.get(uid, ())

    def promised_flavors(self, uid: str) -> dict[str, Flavors]:
        """By UID of the pod the flavors in which the members of this workload are promised quota, as far as known."""
        found = ((place.uid, self._flavors.given(place.uid)) for place in self._kept_for(uid))
        return {pod: flavors for pod, flavors in found if flavors is not None}

    def flavors_at(self, queue: ClusterQueue, pod: Pod, node: str) -> Flavors:
        """The flavors in which a member that is nominated to this node has its quota in a queue."""
        return self._flavors.of_promised(pod.uid, pod.shape, node, queue)

    def holding(self) -> list[GangId]:
        """The gangs that hold quota."""
        return [gang for uid in self.quota.admissions for gang in self._gangs_of.get(uid, ())]

    def holder_of(self, gang: GangId) -> Holder | None:
        """The workload of this gang, if it holds quota."""
        return self.quota.holders.by_uid.get(self._key_of.get(gang, ""))

    def may_find_victims(self, local_queue: str, priority: float, holder: Holder) -> bool:
        """The same as :meth:`.quota.Quota.may_find_victims` for a LocalQueue (``namespace/name``)."""
        queue, problem = self.quota.queue_of(*local_queue.split("/"))
        held = holder.admission.workload
        if held.queue == queue and held.uid in self._promised and not self.pods_of(held.uid):
            return False  # a promise is never displaced: it only makes its queue borrow
        return not problem and self.quota.may_find_victims(queue, priority, holder)

    # -- admissions ----------------------------------------------------------------------------------------

    def update_holdings(self) -> None:
        """Work out what every gang that was touched holds."""
        changed = self._membership.changed
        if not self.active:
            changed.clear()
            return
        self.quota.put_back()
        for key in sorted({*self._promised, *(plan.group for plan in self._ledger.plans())}):
            now = tuple((p.uid, p.node, self._flavors.given(p.uid)) for p in self._kept_for(key))
            if now != self._promised.get(key, ()):
                changed.update(self._gangs_of.get(key, ()))
                if now:
                    self._promised[key] = now
                else:
                    self._promised.pop(key, None)
        if changed:
            # One that has come and gone since it was looked at need not be.
            there = [g for g in sorted(changed) if g in self._key_of or self._membership.has_members(g)]
            changed.clear()
            for key in sorted({self._group_of(gang) for gang in there}):
                self._update_holding(key)
        if self._held:
            held, self._held = self._held, {}
            self._changed.update(map(self._root, gave_back(held, self.quota.admissions)))
        self._flavors.keep(pod for plan in self._ledger.plans() for pod in plan.pods)

    def _kept_for(self, key: str) -> tuple[Phantom, ...]:
        """The members of a group for which room is kept, those that it announces included."""
        return (*self._ledger.pods_of(key), *self._ledger.pods_of(announced_by(key)))

    def _group_of(self, gang: GangId) -> str:
        """The key of the group that a gang is in now; where it was in another before, that one is taken apart."""
        gangs, _ = self._membership.group(gang)
        key = group_key(gangs)
        for each in gangs:
            before = self._key_of.get(each)
            if before is not None and before != key:
                left = [g for g in self._gangs_of.get(before, ()) if g not in gangs]
                self._forget(before)
                for other in left:
                    self._update_holding(self._group_of(other))
            self._key_of[each] = key
        self._gangs_of[key] = gangs
        return key

    def _forget(self, key: str) -> None:
        for gang in self._gangs_of.pop(key, ()):
            self._key_of.pop(gang, None)
        self._release(key)
        self._wait(key, None)
        self.tally.waits(key, None)

    def _forget_empty(self, key: str, gangs: Sequence[GangId]) -> None:
        """A group without pods to which nothing is promised is not remembered: it may never come back."""
        if not any(map(self._membership.has_members, gangs)) and not self._kept_for(key):
            self._forget(key)

    def _update_holding(self, key: str) -> None:
        gangs = self._gangs_of.get(key, ())
        labels = self.labels_of(gangs) if gangs else NO_QUEUE
        if not labels.local_queue:
            self._release(key)
            self._wait(key, None)
            self.tally.waits(key, None)
            self._forget_empty(key, gangs)
            return
        pods = self.pods_of(key)
        there = {p.uid for p in pods}
        promised = [p for p in self._kept_for(key) if p.uid not in there]
        asking = [p for gang in gangs for p in self._membership.kinds(gang) if p.uid not in there]
        before = self.quota.admissions.get(key)
        if promised and not asking and not pods and before is not None:
            workload, problem = before.workload, ""  # a Job that goes on has no pods for a moment
        else:
            workload, problem = self._workload(gangs, labels, pods)
        if pods and before is not None and not workload.queue:  # its LocalQueue is gone, and what runs goes on
            workload = msgspec.structs.replace(workload, queue=before.workload.queue)
        waiting = None if problem else self._waiting(gangs, workload)
        self._wait(key, waiting)
        # Pods of a Job that goes on are no second workload beside it: their quota is promised to the Job.
        self.tally.waits(key, None if self.rooms_of(asking) else waiting)
        if not (pods or promised) or workload.queue not in self.quota.queues:
            self._release(key)
            self._forget_empty(key, gangs)
            return
        if before is None or workload is not before.workload:
            boost = boost_of(gangs, pods, self._membership, self._jobs)
            workload = msgspec.structs.replace(workload, priority=workload.priority + boost) if boost else workload
        self._admit(workload, pods, promised)

    def _waiting(self, gangs: Sequence[GangId], workload: Workload) -> Workload | None:
        """The workload, if it waits for its turn."""
        membership = self._membership
        if not any(map(membership.is_ours, gangs)) or self.two_admitters(gangs) or problem(membership, gangs):
            return None
        if self._promised.get(workload.uid):
            return None
        needs = any(membership.required(g, membership.census(g)) for g in gangs)
        return workload if needs else None

    def _wait(self, key: str, workload: Workload | None) -> None:
        before = self._place.pop(key, None)
        now = (workload.queue, workload.place) if workload is not None else None
        if now is not None:
            self._place[key] = now
        if before == now:
            return
        if before is not None:
            self._pending[before[0]].remove((before[1], key))
            queue = self.quota.queues.get(before[0])
            if queue is None or queue.strategy == STRICT_FIFO:
                self._changed.add(self._root(before[0]))  # those behind it may have their turn
        if now is not None:
            insort(self._pending.setdefault(now[0], []), (now[1], key))

    def statuses(self, again: bool = False) -> list[QueueStatus]:
        """Return the statuses of queue objects that have changed since the last call, or all."""
        self.update_holdings()
        return self._statuses.changed(again)

    def _admit(self, workload: Workload, pods: Sequence[Pod], promised: Sequence[Phantom]) -> None:
        queue = self.quota.queues[workload.queue]
        since = [*map(self._flavors.since, pods), *self._flavors.promised_since(promised)]
        there = [(p.shape, self._flavors.of_pod(p, queue)) for p in pods]
        kept = [(p.pod.shape, self._flavors.of_promised(p.uid, p.pod.shape, p.node, queue)) for p in promised]
        # Room for members that come later is kept only as long as others stay.
        stays = {p.uid for p in self._ledger.pods_of(workload.uid)}
        leaving = [p.deleting_since is not None or p.uid in self._ledger.condemned for p in pods]
        evicted = bool(pods) and all(leaving) and not any(p.uid in stays for p in promised)
        some = () if evicted else used_by(held for held, leaves in zip(there, leaving, strict=True) if leaves)
        admission = Admission(workload, used_by(there + kept), min(since, default=0.0), evicted, used_by(kept), some)
        before = self.quota.admissions.get(workload.uid)
        if before != admission:
            self._held.setdefault(workload.uid, before)
            self.quota.admit(admission)
        self.tally.holds(workload.uid, admission, admitted=bool(pods))

    def _release(self, key: str) -> None:
        before = self.quota.admissions.get(key)
        if before is not None:
            self._held.setdefault(key, before)
            self.quota.release(key)
            self.tally.holds(key, None)
