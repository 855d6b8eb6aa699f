"""The objects of the simulated cluster. One function changes them, so nothing changes unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from gangsched.cluster.sim.history import Cause, History
from gangsched.core.events import (
    BudgetChanged,
    BudgetGone,
    Event,
    GangChanged,
    GangGone,
    JobChanged,
    JobGone,
    JobSetChanged,
    JobSetGone,
    NamespaceChanged,
    NamespaceGone,
    NodeChanged,
    NodeGone,
    ObjectRefused,
    PodChanged,
    PodGone,
    PodSelectorChanged,
    PodSelectorGone,
    PriorityClassChanged,
    PriorityClassGone,
    QueueObjectChanged,
    QueueObjectGone,
    StorageChanged,
    StorageGone,
)
from gangsched.model.jobsets import JOBSET, JobSet
from gangsched.model.records import JOB, Budget, Gang, Job, Node, Pod
from gangsched.model.volumes import PersistentVolume, PersistentVolumeClaim, StorageObject

#: Told of a change: the event, and the record that was there before (None: there was none).
Listener = Callable[[Event, Any], None]


class Store:
    """Objects by identity, with one version counter for all, as in etcd.

    Everything that watches (the scheduler's connection, kubelet, controllers) subscribes; listeners are called
    in the order of subscription, in the moment of the change.
    """

    def __init__(self, history: History) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.gangs: dict[tuple[str, str, str], Gang] = {}
        self.budgets: dict[tuple[str, str], Budget] = {}
        self._others: dict[tuple[str, ...], Event] = {}
        self._history = history
        self._listeners: list[Listener] = []
        self._version = 0

    def subscribe(self, listener: Listener) -> None:
        """Call ``listener`` for every change from now on."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Stop calling ``listener``."""
        self._listeners.remove(listener)

    def pod(self, namespace: str, name: str, uid: str) -> Pod | None:
        """That incarnation of the pod, or None when it is gone or replaced by another of the same name."""
        found = self.pods.get((namespace, name))
        return found if found is not None and found.uid == uid else None

    def pods_on(self, node: str) -> Iterator[Pod]:
        """Pods bound to the node, finished ones included."""
        return (p for p in self.pods.values() if p.node == node)

    def listing(self) -> list[Event]:
        """The present state as events, in the order in which the objects were created."""
        return [
            *self._others.values(),
            *(NodeChanged(n) for n in self.nodes.values()),
            *(GangChanged(g) for g in self.gangs.values()),
            *(BudgetChanged(b) for b in self.budgets.values()),
            *(PodChanged(p) for p in self.pods.values()),
        ]

    def storage(self, kind: str, namespace: str, name: str) -> StorageObject | None:
        """The storage object of this API kind, or None."""
        found = self._others.get((kind, namespace, name))
        return found.record if isinstance(found, StorageChanged) else None

    def job(self, namespace: str, name: str) -> Job | None:
        """The Job, or None."""
        found = self._others.get(("Job", namespace, name))
        return found.job if isinstance(found, JobChanged) else None

    def jobset(self, namespace: str, name: str) -> JobSet | None:
        """The JobSet, or None."""
        found = self._others.get((JOBSET, namespace, name))
        return found.jobset if isinstance(found, JobSetChanged) else None

    def jobs_of(self, jobset: JobSet) -> list[Job]:
        """The Jobs that a JobSet owns, by name."""
        jobs = (e.job for e in self._others.values() if isinstance(e, JobChanged))
        owned = (j for j in jobs if j.owner is not None and (j.owner.kind, j.owner.uid) == (JOBSET, jobset.uid))
        return sorted(owned, key=lambda j: j.name)

    def jobs(self) -> list[Job]:
        """All Jobs, in the order in which they were created."""
        return [e.job for e in self._others.values() if isinstance(e, JobChanged)]

    def claims(self) -> list[PersistentVolumeClaim]:
        """All claims, in the order in which they were created."""
        records = (_record(e) for key, e in self._others.items() if key[0] == "PersistentVolumeClaim")
        return [r for r in records if isinstance(r, PersistentVolumeClaim)]

    def volumes(self) -> list[PersistentVolume]:
        """All volumes, in the order in which they were created."""
        records = (_record(e) for key, e in self._others.items() if key[0] == "PersistentVolume")
        return [r for r in records if isinstance(r, PersistentVolume)]

    def put_pod(self, pod: Pod, cause: Cause) -> bool:
        """Create or change a pod; see :meth:`apply`."""
        return self.apply(PodChanged(pod), cause)

    def apply(self, event: Event, cause: Cause) -> bool:
        """Make the change that the event describes. False (and nobody is told) when it changes nothing.

        As in the API server, an update that leaves an object as it was is no update. TypeError for events that
        are not changes of objects.
        """
        old = self._look(event)
        if not self._differs(event, old):
            kind, name, uid = describe(event)
            self._history.add(cause, kind, name, uid=uid, changed=False, record=old)
            return False
        self._version += 1
        event = self._write(event)
        kind, name, uid = describe(event)
        self._history.add(cause, kind, name, uid=uid, record=_record(event))
        for listener in tuple(self._listeners):
            listener(event, old)
        return True

    def _look(self, event: Event) -> Any:
        match event:
            case PodChanged(pod):
                return self.pods.get((pod.namespace, pod.name))
            case PodGone(namespace, name, uid):
                return self.pod(namespace, name, uid)
            case NodeChanged(node):
                return self.nodes.get(node.name)
            case NodeGone(name):
                return self.nodes.get(name)
            case GangChanged(gang):
                return self.gangs.get((gang.family, gang.namespace, gang.name))
            case GangGone(family, namespace, name):
                return self.gangs.get((family, namespace, name))
            case BudgetChanged(budget):
                return self.budgets.get((budget.namespace, budget.name))
            case BudgetGone(namespace, name):
                return self.budgets.get((namespace, name))
        other = self._others.get(_other_key(event))
        return None if other is None else _record(other)

    @staticmethod
    def _differs(event: Event, old: Any) -> bool:
        new = _record(event)
        if new is None or old is None:
            return new is not old
        if hasattr(new, "version"):
            return bool(msgspec.structs.replace(new, version=old.version) != old)
        return bool(new != old)

    def _write(self, event: Event) -> Event:
        version = str(self._version)
        match event:
            case PodChanged(pod):
                pod = self.pods[pod.namespace, pod.name] = msgspec.structs.replace(pod, version=version)
                return PodChanged(pod)
            case PodGone(namespace, name):
                del self.pods[namespace, name]
            case NodeChanged(node):
                node = self.nodes[node.name] = msgspec.structs.replace(node, version=version)
                return NodeChanged(node)
            case NodeGone(name):
                del self.nodes[name]
            case GangChanged(gang):
                self.gangs[gang.family, gang.namespace, gang.name] = gang
            case GangGone(family, namespace, name):
                del self.gangs[family, namespace, name]
            case BudgetChanged(budget):
                self.budgets[budget.namespace, budget.name] = budget
            case BudgetGone(namespace, name):
                del self.budgets[namespace, name]
            case NamespaceGone() | PriorityClassGone() | JobGone() | JobSetGone() | PodSelectorGone():
                del self._others[_other_key(event)]
            case StorageGone() | QueueObjectGone():
                del self._others[_other_key(event)]
            case JobChanged(record) | JobSetChanged(record) | StorageChanged(record) if hasattr(record, "version"):
                event = type(event)(msgspec.structs.replace(record, version=version))  # type: ignore[arg-type]
                self._others[_other_key(event)] = event
            case _:
                self._others[_other_key(event)] = event
        return event


def describe(event: Event) -> tuple[str, str, str]:
    """``(API kind, namespace/name or name, UID)`` of the object of a change. TypeError for other events."""
    match event:
        case PodChanged(pod):
            return "Pod", pod.key, pod.uid
        case PodGone(namespace, name, uid):
            return "Pod", f"{namespace}/{name}", uid
        case NodeChanged(node):
            return "Node", node.name, node.uid
        case NodeGone(name):
            return "Node", name, ""
        case GangChanged(gang):
            return gang.kind, gang.key, gang.uid
        case GangGone(_, namespace, name):
            return "PodGroup", f"{namespace}/{name}", ""
        case BudgetChanged(budget):
            return "PodDisruptionBudget", budget.key, ""
        case BudgetGone(namespace, name):
            return "PodDisruptionBudget", f"{namespace}/{name}", ""
        case JobChanged(job):
            return JOB, job.key, job.uid
        case JobSetChanged(jobset):
            return JOBSET, jobset.key, jobset.uid
        case ObjectRefused():
            return event.kind, f"{event.namespace}/{event.name}", event.uid
        case _:
            key = _other_key(event)
            return key[0], "/".join(filter(None, key[1:])), ""


def _other_key(event: Event) -> tuple[str, ...]:
    """Kind, namespace ("": it has none) and name of objects that the simulation only passes on."""
    match event:
        case ObjectRefused():
            return "refused", event.kind, event.namespace, event.name
        case PodSelectorGone() | StorageGone() | QueueObjectGone():
            return event.kind, event.namespace, event.name
        case JobGone(namespace, name) | JobSetGone(namespace, name):
            return JOBSET if isinstance(event, JobSetGone) else JOB, namespace, name
        case NamespaceGone(name) | PriorityClassGone(name):
            return type(event).__name__.removesuffix("Gone"), "", name
    record = _record(event)
    if record is None:
        raise TypeError(f"{type(event).__name__} is no change of an object")
    return getattr(record, "kind", type(record).__name__), getattr(record, "namespace", ""), record.name


def _record(event: Event) -> Any:
    """The record that an event carries; None for the end of an object."""
    match event:
        case PodChanged(record) | NodeChanged(record) | GangChanged(record) | BudgetChanged(record):
            return record
        case NamespaceChanged(record) | PriorityClassChanged(record) | JobChanged(record) | PodSelectorChanged(record):
            return record
        case StorageChanged(record) | QueueObjectChanged(record) | JobSetChanged(record):
            return record
        case ObjectRefused():
            return event
    return None
