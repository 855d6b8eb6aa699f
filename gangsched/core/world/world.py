"""The observed state of the cluster, updated by events: pods, the surroundings of gangs, and the gangs that a change
may help.

If the newest state of a group object, a flavor or a queue is invalid, its gang, or each gang that needs its quota,
waits. Running gangs continue with the last valid state, so that no pod is evicted because of it, and whole gangs stay
whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

from gangsched.core.agenda import Agenda
from gangsched.core.decision import Order, group_key, names_of
from gangsched.core.events import Change, Hint, ObjectRefused
from gangsched.core.quota.gang_workloads import Managed
from gangsched.core.quota.quota import Quota
from gangsched.core.state.columns import HyperNodes
from gangsched.core.state.eviction_history import EvictionHistory
from gangsched.core.state.expected_members import Members, Resumes
from gangsched.core.state.foreign_nominations import ForeignNominations
from gangsched.core.state.group_trees import GroupTrees
from gangsched.core.state.jobs import Jobs, OwnerKey
from gangsched.core.state.membership import Membership
from gangsched.core.state.ownership import Ownership
from gangsched.core.state.podtable import ASSUMED, PROTECTED, STARTING, TERMINATING, UNREADY
from gangsched.core.state.refused_removals import RefusedRemovals
from gangsched.core.state.rivals import Rivals
from gangsched.core.state.scheduler_names import SchedulerNames
from gangsched.core.state.sightings import Sightings
from gangsched.core.state.snapshot import Snapshot
from gangsched.core.world.cut_decisions import CutDecisions
from gangsched.core.world.held_taints import HeldTaints
from gangsched.core.world.owner_gangs import OwnerGangs, key_in_labels
from gangsched.model.devices import DEVICE_KINDS, DeviceObject
from gangsched.model.dialects import GROUP_APIS
from gangsched.model.dialects.objects import MAX_MEMBERS
from gangsched.model.errors import Mistake
from gangsched.model.held import with_held
from gangsched.model.pod_quotas import ResourceQuota
from gangsched.model.preemptible import protected
from gangsched.model.queues import STOP_HOLD, ClusterQueue, QueueObject, queue_labels
from gangsched.model.records import (
    JOB,
    Budget,
    ClusterNetworkTopology,
    Gang,
    GangId,
    Namespace,
    Node,
    Owner,
    Pod,
    PriorityClass,
    Topology,
)
from gangsched.model.volumes import STORAGE_KINDS, StorageObject

#: Shapes that may be known beside two for each pod, before those that no pod has any more are forgotten. Every image
#: tag is a new shape, and some questions of each decision go through all of them.
_SPARE_SHAPES = 1024


class World:
    """Nodes, pods, gangs, Jobs and budgets, as observed.

    Bound pods are charged to their node until they are gone or finished; pods that we are binding (*assumed*)
    are charged to the node they are going to. ``managed`` knows the gangs that need quota; ``fair_sharing`` weighs
    their queues by their share, by what the ledger promises to others too. What is intended is not here.
    """

    def __init__(
        self,
        ours: Iterable[str],
        evict_daemonset_pods: bool = False,
        fair_sharing: bool = False,
        overdue_after_seconds: float = 30.0,
        gang_owners: Iterable[str] = (),
        names: SchedulerNames | None = None,
        *,
        surplus_after: bool = True,
    ) -> None:
        self.snapshot = Snapshot()
        self.classes: dict[str, PriorityClass] = {}
        #: ResourceQuotas that are about priority classes, by namespace and name.
        self.pod_quotas: dict[str, dict[str, ResourceQuota]] = {}
        self.topologies: dict[tuple[str, str], ClusterNetworkTopology | Topology] = {}
        #: Namespaces that are being deleted: the API server creates no binding there.
        self.deleted_namespaces: set[str] = set()
        self.hyper_nodes = HyperNodes()
        self.names = names or SchedulerNames()
        self.membership = Membership(ours, self.classes, self.names)
        self.ownership = Ownership(self.membership.ours)
        self.budgets: dict[tuple[str, str], Budget] = {}
        self.jobs = Jobs()
        #: The time of the call that is being served (seconds, by the scheduler's clock).
        self.now = 0.0
        #: Timers of observed facts, and beside them those of intentions.
        self.agenda = Agenda()
        self.agenda.page(self.names.alive)
        self.evictions = EvictionHistory()
        self.cut = CutDecisions()
        self.resumes = Resumes()
        self.foreign_nominations = ForeignNominations(
            self.membership.is_ours,
            lambda node: any(pod.deleting_since is not None for pod in self.snapshot.pods_on(node)),
            self.agenda.page(),
        )
        self.refused_removals = RefusedRemovals()
        self.sightings = Sightings(
            overdue_after_seconds,
            self.agenda.page(),
            self.evictions,
            self.foreign_nominations,
            self.names,
            self.refused_removals,
        )
        #: By UID, those that the cluster has reported.
        self.pods: dict[str, Pod] = {}
        #: By UID the node to which our binding of a pod is on its way. The room is charged, and no priority takes it.
        self.assumed: dict[str, str] = {}
        self.membership.assumed = self.assumed
        #: Keys of groups of which an earlier process has left some members bound, and fewer than they need.
        self.begun: set[str] = set()
        self.rivals = Rivals(self.membership.is_ours)
        self.held_taints = HeldTaints(self.membership.ours, self.agenda.page())
        self.held, self.held_changed = self.held_taints.nodes, self.held_taints.changed
        #: By namespace and name.
        self.uid_of: dict[tuple[str, str], str] = {}
        self.managed = Managed(self.snapshot, self.membership, self.jobs, self.assumed, fair_sharing)
        self.members = Members(self.pods, self.membership.expected.made)
        self.group_trees = GroupTrees()
        self.owner_gangs = OwnerGangs(
            self.jobs,
            self.membership,
            self.managed,
            self.pods,
            self.snapshot.namespaces,
            gang_owners,
            self.ownership,
            self.group_trees,
        )
        self._evict_daemonset_pods = evict_daemonset_pods
        #: Members beyond the minimum are placed after the minimum of all gangs of their priority.
        self.surplus_after = surplus_after

    def forget_ours(self) -> None:
        """Of what we have begun nothing counts any more: what came of it is seen, or it is not there."""
        for uid in list(self.assumed):
            self.forget(uid)
        self.begun.clear()
        self.snapshot.volumes.forget_all()
        self.snapshot.devices.forget_all()

    # -- Kueue ---------------------------------------------------------------------------------------------

    def set_workload(self, namespace: str, name: str, owners: tuple[Owner, ...]) -> list[OwnerKey]:
        """Kueue has a Workload for its owners (without any it is gone); returns the Jobs and JobSets that this touches.
        Of pods it is known by their own marks.
        """
        out: list[OwnerKey] = []
        for owner in self.jobs.kueue.workload_set(f"{namespace}/{name}", owners):
            found = self.jobs.find(owner.kind, namespace, owner.name)
            if found is not None:
                out.append((owner.kind, namespace, owner.name))
                out += [(JOB, namespace, job.name) for job in self.jobs.jobs_of(found)]
        return out

    # -- Jobs and queues -----------------------------------------------------------------------------------

    def put_queue_object(self, record: QueueObject) -> list[Pod]:
        """Insert or replace a queue object; returns the pods of Jobs that are in another gang because of it."""
        was = self.managed.active
        self.managed.put(record)
        return self.owner_gangs.renew_all() if self.managed.active != was else []

    def drop_queue_object(self, kind: str, namespace: str, name: str) -> list[Pod]:
        """Remove a queue object of this API kind; returns the same."""
        was = self.managed.active
        self.managed.remove(kind, namespace, name)
        return self.owner_gangs.renew_all() if self.managed.active != was else []

    # -- pods ----------------------------------------------------------------------------------------------

    def set_pod(self, pod: Pod) -> Pod | None:
        """Insert or replace a pod; returns the previous record of the same incarnation."""
        old = self.pods.get(pod.uid)
        earlier = self.uid_of.get((pod.namespace, pod.name))
        if earlier is not None and earlier != pod.uid:
            self.drop_pod(earlier)  # re-created under the same name before its deletion was seen
        self.uid_of[(pod.namespace, pod.name)] = pod.uid
        if pod.owner is not None:
            self.ownership.pod_set(pod, key_in_labels(pod))
        if old is not None and old.gang != pod.gang:
            self.membership.drop_pod(old)
        self.pods[pod.uid] = pod
        self.sightings.seen(old, pod, self.now)
        self.jobs.pod_set(old, pod)
        if old is None and pod.volumes is not None:
            self.snapshot.volumes.count_pod(pod, +1)
        self.membership.set_pod(pod)
        if len(self.snapshot.shapes) > 2 * len(self.pods) + _SPARE_SHAPES:
            self.snapshot.keep_shapes(chain((p.shape for p in self.pods.values()), self.membership.expected.shapes()))
        if pod.node:
            self.assumed.pop(pod.uid, None)
        self.rivals.seen(old, pod)
        self._recharge(pod)
        if pod.finished:
            self.snapshot.devices.pod_gone(pod.uid)
        return old

    def drop_pod(self, uid: str) -> Pod | None:
        """Remove a pod; returns its last record."""
        pod = self.pods.pop(uid, None)
        self.assumed.pop(uid, None)
        self.sightings.forget_pod(uid, pod, self.now)
        if pod is None:
            return None
        self.rivals.forget_pod(pod)
        if pod.volumes is not None:
            self.snapshot.volumes.count_pod(pod, -1)
        if self.uid_of.get((pod.namespace, pod.name)) == uid:
            del self.uid_of[(pod.namespace, pod.name)]
        self.snapshot.discharge(uid)
        self.snapshot.devices.pod_gone(uid)
        self.membership.drop_pod(pod)
        self.jobs.pod_dropped(pod)
        if pod.owner is not None:
            self.ownership.pod_dropped(pod, key_in_labels(pod))
        self.managed.forget_pod(uid)
        return pod

    def leaves_by(self, pod: Pod) -> float:
        """When a pod that terminates, or is about to, should be gone (seconds)."""
        return self.sightings.leaves_by.get(pod.uid, self.now + pod.grace_seconds)

    def find(self, namespace: str, name: str) -> Pod | None:
        """The current pod of that name."""
        return self.pods.get(self.uid_of.get((namespace, name), ""))

    def assume(self, uid: str, node: str) -> None:
        """Our binding of this pod is on its way: it takes room on ``node`` from now on."""
        self.assumed[uid] = node
        self.names.assumed(self.members[uid])
        self._assumed_changed(self.members[uid])

    def _assumed_changed(self, pod: Pod) -> None:
        self.membership.forget_facts(pod.gang)
        self._recharge(pod)

    def still_takes(self, uid: str, node: str, ignores: Callable[[str], bool]) -> bool:
        """Return True if ``node`` still has room for a pod that is assumed there. Other actions may have taken it
        meanwhile, or removed the node. Of resources that ``ignores`` names there is always enough.
        """
        self.snapshot.align_rows()
        row = self.snapshot.row_of.get(node)
        if row is None or uid not in self.assumed:
            return False
        record = self.snapshot.nodes[row]
        if record.unschedulable or record.deleting or record.outdated:
            return False
        index, _ = self.snapshot.vector(self.members[uid].shape)
        short = index[self.snapshot.used[index, row] > self.snapshot.allocatable[index, row]]
        return all(ignores(self.snapshot.resources[i]) for i in short.tolist())

    def forget(self, uid: str) -> None:
        """The binding failed or was not needed: the room is free again unless the pod is bound after all."""
        if self.assumed.pop(uid, None) is not None and uid in self.members:
            self._assumed_changed(self.members[uid])

    def _recharge(self, pod: Pod) -> None:
        if self.jobs.known:
            self.jobs.pod_moved(pod)
        node = "" if pod.finished else pod.node or self.assumed.get(pod.uid, "")
        self.snapshot.put(pod, node, self._flags(pod))

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
        if not pod.ready:
            flags |= UNREADY
        return flags


#: So much later than by their age (seconds) gangs are decided that have their minimum.
_AFTER_OTHERS = 2.0**40
#: Added to the place of those that come after all others: more than priorities differ.
_LAST = 1 << 33


def queue_order(world: World, gangs: Sequence[GangId]) -> Order:
    """The place of a group in the queue. A gang that needs quota has the priority of its workload there. A gang that an
    earlier process has bound in part comes before others of its priority, because it uses room already. One that has
    its minimum and waits for more comes after them, if that is wished. One over which a process has ended comes after
    all: see :mod:`.cut_decisions`.
    """
    membership = world.membership
    priority = world.managed.priority(gangs)
    if priority is None:
        priority = membership.preemptor_priority(gangs)
    key = group_key(gangs)
    first = key in world.begun and membership.half_bound(gangs)
    late = _AFTER_OTHERS if world.surplus_after and not first and membership.has_minimum(gangs) else 0.0
    since = -math.inf if first else membership.created(gangs)
    if world.cut:
        name = names_of(gangs)
        return _LAST - priority if name in world.cut else -priority, world.cut.age_in_queue(name, since) + late, key
    return -priority, since + late, key


def share_of(world: World, gangs: Sequence[GangId], *, again: bool = False) -> str:
    """With whom a group shares its turns in the queue: its namespace, and there those that have come to nothing before
    (``again``) apart from those that have not; those that need quota share the order of their tree of cohorts.
    """
    queue = world.managed.signature(gangs)
    if queue is not None:
        return f"/{queue[2]}"
    return f"{gangs[0].namespace}/again" if again else gangs[0].namespace


def for_its_minimum(order: Order) -> bool:
    """Return whether a group with this place in the queue waits for members that it cannot start without."""
    return order[1] < _AFTER_OTHERS


def surplus_waits(world: World, gangs: Sequence[GangId]) -> bool:
    """Return whether more members of these gangs wait than they need to start."""
    membership = world.membership
    census = {gang: membership.census(gang) for gang in gangs}
    return any(len(found.pending) > membership.required(gang, found) > 0 for gang, found in census.items())


def take_in(world: World, kind: str, namespace: str, name: str, now: Any) -> Change | None:
    """The object of this API kind and name is another from now on; None: it is gone. Returns what that may mean to
    gangs that do not fit, if anything. Default spread constraints are preferences as a rule: no gang is woken for what
    they select.
    """
    match kind:
        case "Node":
            return _node(world, name, now)
        case "PodDisruptionBudget":
            return _budget(world, namespace, name, now)
        case "Namespace":
            return _namespace(world, name, now)
        case "PriorityClass":
            return _priority_class(world, name, now)
        case "ClusterNetworkTopology" | "Topology":
            return _layers(world, (kind, name), now)
        case "HyperNode":
            world.hyper_nodes.put(name, now)
        case _ if kind in DEVICE_KINDS:
            return _devices(world, kind, namespace, name, now)
        case _ if kind in STORAGE_KINDS:
            return _storage(world, kind, namespace, name, now)
        case "ResourceQuota":
            _pod_quota(world, namespace, name, now)
        case "DaemonSet":
            pass  # its pods are looked at again, and nothing else is asked of it
        case _ if now is not None:
            world.snapshot.selectors.set(now)
        case _:
            world.snapshot.selectors.remove(kind, namespace, name)
    return None


def _pod_quota(world: World, namespace: str, name: str, now: ResourceQuota | None) -> None:
    world.pod_quotas.get(namespace, {}).pop(name, None)
    if now is not None and now.scopes:
        world.pod_quotas.setdefault(namespace, {})[name] = now
    elif not world.pod_quotas.get(namespace, True):
        del world.pod_quotas[namespace]


def _storage(world: World, kind: str, namespace: str, name: str, now: StorageObject | None) -> Change | None:
    volumes = world.snapshot.volumes
    if now is not None:
        return Change(Hint.VOLUMES) if volumes.put(now) else None
    volumes.remove(kind, namespace, name)
    return Change(Hint.VOLUMES)


def _node(world: World, name: str, node: Node | None) -> Change | None:
    snapshot = world.snapshot
    world.held_taints.seen(name, node, world.now)
    if node is None:
        snapshot.drop_node(name)
        snapshot.devices.node_changed(name)
        return Change(Hint.NODE_GONE, name)
    if node.held is not None and name not in world.held:  # another installation holds it
        node = msgspec.structs.replace(node, taints=with_held(node.taints, node.held), held=None)
    node = world.hyper_nodes.labelled(node) if world.hyper_nodes else node
    row = snapshot.row_of.get(node.name)
    old = snapshot.nodes[row] if row is not None else None
    if old is not None and old.labels != node.labels:
        snapshot.devices.node_changed(name)
    snapshot.set_node(node)
    kind = Hint.NODE_ADDED if old is None else _differences(old, node)
    return Change(kind, node.name) if kind else None


def _differences(old: Node, node: Node) -> Hint:
    """Return the changes of a node that may matter to pods that do not fit."""
    kind = Hint(0)
    if old.allocatable != node.allocatable:
        kind |= Hint.NODE_ROOM
    if (old.labels, old.features) != (node.labels, node.features):
        kind |= Hint.NODE_LABELS
    before = old.taints, old.unschedulable, old.ready, old.deleting, old.outdated
    if before != (node.taints, node.unschedulable, node.ready, node.deleting, node.outdated):
        kind |= Hint.NODE_TAINTS
    return kind


def _budget(world: World, namespace: str, name: str, budget: Budget | None) -> Change:
    if budget is None:
        world.budgets.pop((namespace, name), None)
    else:
        world.budgets[(namespace, name)] = budget
    return Change(Hint.BUDGET)


def _namespace(world: World, name: str, now: Namespace | None) -> Change | None:
    """Terms of pods may select others now, those of bound pods that keep pending ones off included."""
    snapshot, labels = world.snapshot, now.labels if now is not None else None
    (world.deleted_namespaces.add if now is not None and now.deleting else world.deleted_namespaces.discard)(name)
    if snapshot.namespaces.get(name) == labels:
        return None
    if labels is None:
        del snapshot.namespaces[name]
    else:
        snapshot.namespaces[name] = labels
    snapshot.terms.namespaces_changed()
    snapshot.generation += 1
    return Change(Hint.NAMESPACES)


def _priority_class(world: World, name: str, now: PriorityClass | None) -> Change | None:
    """Victims or preemptors may have to wait less now."""
    if now is None:
        world.classes.pop(name, None)
    elif world.classes.get(name) == now:
        return None
    else:
        world.classes[name] = now
    return Change(Hint.CLASSES)


def _devices(world: World, kind: str, namespace: str, name: str, now: DeviceObject | None) -> Change | None:
    devices = world.snapshot.devices
    world.snapshot.generation += 1
    if now is not None:
        return Change(Hint.DEVICES) if devices.put(now) else None
    devices.remove(kind, namespace, name)
    return Change(Hint.DEVICES)


def renew_domains(world: World) -> Change:
    """After the last of some changes of the tree of domains: nodes may be in others."""
    world.hyper_nodes.changed = False
    world.snapshot.align_rows()
    for node in list(world.snapshot.nodes):
        world.snapshot.set_node(world.hyper_nodes.labelled(node))
    return Change(Hint.NODE_LABELS)


def _layers(world: World, key: tuple[str, str], now: ClusterNetworkTopology | Topology | None) -> Change:
    """Of objects that name one layer the first by name counts. Gangs that are kept together may fit now."""
    known, layers = world.topologies, dict[str, tuple[str, ...]]()
    known.pop(key, None)
    if now is not None:
        known[key] = now
    for each in sorted(known, reverse=True):
        found = known[each]
        layers.update(
            found.paths if isinstance(found, Topology) else ((layer, (label,)) for layer, label in found.labels)
        )
    world.membership.layers = layers
    return Change(Hint.NODE_LABELS)


def group_refused(event: ObjectRefused, known: Gang | None) -> Gang:
    """The gang of a group_refused object. Of one that has not been read yet no member can be spared."""
    mistake = Mistake(event.field, event.message)
    if known is not None:
        return msgspec.structs.replace(known, mistake=mistake)
    return Gang(
        family=api_of(event),
        namespace=event.namespace,
        name=event.name,
        uid=event.uid,
        min_member=MAX_MEMBERS,
        queue=queue_labels(event.labels),
        mistake=mistake,
    )


def api_of(event: ObjectRefused) -> str:
    """The gang API of a group_refused object."""
    return GROUP_APIS.get(event.kind) or event.kind.partition(".")[2]


def queue_object_refused(event: ObjectRefused, quota: Quota) -> QueueObject | None:
    """The record of a queue object from now on; None where it stays as it was.

    A queue is held, and those with a flavor that cannot be read are inactive. Of a ClusterQueue that has not been read
    yet no quota is known. Cohorts have no policy by which they could be held, and a priority never changes.
    """
    kind = event.kind.partition(".")[0]
    if kind == "ClusterQueue":
        return msgspec.structs.replace(
            quota.queues.get(event.name) or ClusterQueue(event.name, uid=event.uid), stop=STOP_HOLD
        )
    if kind == "LocalQueue":
        local = quota.local_queues.get(f"{event.namespace}/{event.name}")
        return msgspec.structs.replace(local, stop=STOP_HOLD) if local is not None else None
    flavor = quota.flavors.get(event.name) if kind == "ResourceFlavor" else None
    return msgspec.structs.replace(flavor, outdated=True) if flavor is not None else None
