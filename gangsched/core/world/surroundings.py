"""Nodes, volumes, budgets and what else surrounds gangs: what is known of them, and whom their changes may help.

Of a group object, a flavor or a queue whose newest state could not be understood: its gang, or whoever needs its quota,
waits. What runs goes on by what was known before, so that no pod is evicted because of it, and whole gangs stay whole.
"""

from __future__ import annotations

import msgspec

from gangsched.core import events as ev
from gangsched.core.events import ObjectRefused
from gangsched.core.hints import Change, Hint
from gangsched.core.quota.quota import Quota
from gangsched.core.world.world import World
from gangsched.model.dialects.objects import MAX_MEMBERS
from gangsched.model.errors import Mistake
from gangsched.model.queues import STOP_HOLD, ClusterQueue, QueueObject, queue_labels
from gangsched.model.records import (
    Budget,
    ClusterNetworkTopology,
    Gang,
    Labels,
    Namespace,
    Node,
    PodSelector,
    PriorityClass,
)
from gangsched.model.volumes import STORAGE_KINDS, StorageObject


def take_in(world: World, event: ev.Event) -> Change | None:
    """What has happened is known from now on. Returns what it may mean to gangs that do not fit, if anything."""
    match event:
        case ev.Changed(Node() as node):
            return _node(world, node)
        case ev.Gone("Node", _, name):
            world.snapshot.drop_node(name)
            return Change(Hint.NODE_GONE, name)
        case ev.Changed(Budget() as budget):
            return _budget(world, budget.namespace, budget.name, budget)
        case ev.Gone("PodDisruptionBudget", namespace, name):
            return _budget(world, namespace, name, None)
        case ev.Changed(Namespace() as namespace_now):
            return _namespace(world, namespace_now.name, namespace_now.labels)
        case ev.Gone("Namespace", _, name):
            return _namespace(world, name, None)
        case ev.Changed(PriorityClass() as priority_class):
            return _priority_class(world, priority_class.name, priority_class)
        case ev.Gone("PriorityClass", _, name):
            return _priority_class(world, name, None)
        case ev.Changed(ClusterNetworkTopology() as topology):
            return _layers(world, {**world.topologies, topology.name: topology})
        case ev.Gone("ClusterNetworkTopology", _, name):
            return _layers(world, {key: each for key, each in world.topologies.items() if key != name})
        case ev.ServerClock(ahead):
            world.sightings.set_server_clock(ahead, world.pods.values(), world.now)
            return None
        case _:
            return _supplied(world, event)


def _supplied(world: World, event: ev.Event) -> Change | None:
    """Volumes, and what pods are selected by. Default constraints are preferences as a rule: no gang is woken for what
    they select.
    """
    snapshot = world.snapshot
    match event:
        case ev.Changed(record) if isinstance(record, StorageObject):
            return Change(Hint.VOLUMES) if snapshot.volumes.put(record) else None
        case ev.Gone(kind, namespace, name) if kind in STORAGE_KINDS:
            snapshot.volumes.drop(kind, namespace, name)
            return Change(Hint.VOLUMES)
        case ev.Changed(PodSelector() as pod_selector):
            snapshot.selectors.set(pod_selector)
        case ev.Gone(kind, namespace, name):
            snapshot.selectors.drop(kind, namespace, name)
    return None


def _node(world: World, node: Node) -> Change | None:
    snapshot = world.snapshot
    row = snapshot.row_of.get(node.name)
    old = snapshot.nodes[row] if row is not None else None
    snapshot.set_node(node)
    kind = Hint.NODE_ADDED if old is None else _differences(old, node)
    return Change(kind, node.name) if kind else None


def _differences(old: Node, node: Node) -> Hint:
    """What has changed about a node, as far as it may matter to pods that do not fit."""
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
        world.ledger.condemned.counted(budget)
    return Change(Hint.BUDGET)


def _namespace(world: World, name: str, labels: Labels | None) -> Change | None:
    """Terms of pods may select others now, those of bound pods that keep pending ones off included."""
    snapshot = world.snapshot
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


def _layers(world: World, now: dict[str, ClusterNetworkTopology]) -> Change:
    """Of objects that name one layer the first by name counts. Gangs that are kept together may fit now."""
    world.topologies = now
    world.membership.layers = {key: label for name in sorted(now, reverse=True) for key, label in now[name].labels}
    return Change(Hint.NODE_LABELS)


def group(event: ObjectRefused, known: Gang | None) -> Gang:
    """The gang of a group object. Of one that has not been read yet no member can be spared."""
    mistake = Mistake(event.field, event.message)
    if known is not None:
        return msgspec.structs.replace(known, mistake=mistake)
    return Gang(
        family=family_of(event),
        namespace=event.namespace,
        name=event.name,
        uid=event.uid,
        min_member=MAX_MEMBERS,
        queue=queue_labels(event.labels),
        mistake=mistake,
    )


def family_of(event: ObjectRefused) -> str:
    """The gang API of a group object."""
    return event.kind.partition(".")[2]


def queue_object(event: ObjectRefused, quota: Quota) -> QueueObject | None:
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
