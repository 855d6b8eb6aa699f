"""Nodes, volumes, budgets and what else surrounds gangs: what is known of them, and whom their changes may help."""

from __future__ import annotations

from gangsched.core import events as ev
from gangsched.core.hints import Change, Hint
from gangsched.core.world.world import World
from gangsched.model.records import Budget, Labels, Namespace, Node, PodSelector, PriorityClass
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
        case ev.ServerClock(ahead):
            world.sightings.set_server_clock(ahead, world.pods.values(), world.now)
            return None
        case _:
            return _supplied(world, event)


def _supplied(world: World, event: ev.Event) -> Change | None:
    """Volumes, and what pods are selected by. Default constraints are preferences as a rule: nobody is woken for what
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
