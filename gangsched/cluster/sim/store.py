"""The objects of the simulated cluster. One function changes them, so nothing changes unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from gangsched.cluster.sim.history import Cause, History
from gangsched.core.events import Changed, Event, Gone, ObjectRefused
from gangsched.core.keys import ObjectKey, key_of, object_key
from gangsched.model.devices import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from gangsched.model.jobsets import JOBSET, JobSet
from gangsched.model.records import JOB, Budget, Gang, Job, Node, Pod
from gangsched.model.volumes import PersistentVolume, PersistentVolumeClaim, StorageObject

#: Called with each change: the event, and the record that was there before (None: there was none).
Listener = Callable[[Event, Any], None]


R = TypeVar("R")


class Store:
    """Objects by their keys, with one version counter for all, as in etcd.

    Everything that watches (the scheduler's connection, kubelet, controllers) subscribes; listeners are called
    in the order of subscription, in the moment of the change.
    """

    def __init__(self, history: History) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.gangs: dict[tuple[str, str, str], Gang] = {}
        self.budgets: dict[tuple[str, str], Budget] = {}
        #: All others, and what was refused.
        self._others: dict[ObjectKey, Any] = {}
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
        kinds = (self._others, self.nodes, self.gangs, self.budgets, self.pods)
        found = (record for kind in kinds for record in kind.values())
        return [each if isinstance(each, ObjectRefused) else Changed(each) for each in found]

    def storage(self, kind: str, namespace: str, name: str) -> StorageObject | None:
        """The storage object of this API kind, or None."""
        found = self._others.get(object_key(kind, "", namespace, name))
        return found if isinstance(found, StorageObject) else None

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """The ResourceClaim, or None."""
        return self._others.get(object_key("ResourceClaim", "", namespace, name))

    def claim_template(self, namespace: str, name: str) -> ResourceClaimTemplate | None:
        """The ResourceClaimTemplate, or None."""
        return self._others.get(object_key("ResourceClaimTemplate", "", namespace, name))

    def slices(self) -> list[ResourceSlice]:
        """All ResourceSlices, in the order in which they were created."""
        return self._all(ResourceSlice)

    def device_claims(self) -> list[ResourceClaim]:
        """All ResourceClaims, in the order in which they were created."""
        return self._all(ResourceClaim)

    def job(self, namespace: str, name: str) -> Job | None:
        """The Job, or None."""
        return self._others.get(object_key(JOB, "", namespace, name))

    def jobset(self, namespace: str, name: str) -> JobSet | None:
        """The JobSet, or None."""
        return self._others.get(object_key(JOBSET, "", namespace, name))

    def jobs_of(self, jobset: JobSet) -> list[Job]:
        """The Jobs that a JobSet owns, by name."""
        owned = (j for j in self.jobs() if j.owner is not None and (j.owner.kind, j.owner.uid) == (JOBSET, jobset.uid))
        return sorted(owned, key=lambda j: j.name)

    def jobs(self) -> list[Job]:
        """All Jobs, in the order in which they were created."""
        return self._all(Job)

    def claims(self) -> list[PersistentVolumeClaim]:
        """All claims, in the order in which they were created."""
        return self._all(PersistentVolumeClaim)

    def volumes(self) -> list[PersistentVolume]:
        """All volumes, in the order in which they were created."""
        return self._all(PersistentVolume)

    def _all(self, kind: type[R]) -> list[R]:
        return [each for each in self._others.values() if isinstance(each, kind)]

    def put_pod(self, pod: Pod, cause: Cause) -> bool:
        """Create or change a pod; see :meth:`apply`."""
        return self.apply(Changed(pod), cause)

    def apply(self, event: Event, cause: Cause) -> bool:
        """Make the change that the event describes. False (and no watcher is called) when it changes nothing.

        As in the API server, an update that leaves an object as it was is no update. TypeError for events that
        are not changes of objects.
        """
        kept, key = self._place(event)
        old = kept.get(key)
        if isinstance(event, Gone) and event.kind == "Pod" and old is not None and old.uid != event.uid:
            old = None  # another of the same name
        if not _differs(event, old):
            kind, name, uid = describe(event)
            self._history.add(cause, kind, name, uid=uid, changed=False, record=old)
            return False
        self._version += 1
        if isinstance(event, Gone):
            del kept[key]
        elif isinstance(event, Changed) and hasattr(event.record, "version"):
            event = Changed(msgspec.structs.replace(event.record, version=str(self._version)))
        record = _record(event)
        if record is not None:
            kept[key] = record
        kind, name, uid = describe(event)
        self._history.add(cause, kind, name, uid=uid, record=record)
        for listener in tuple(self._listeners):
            listener(event, old)
        return True

    def _place(self, event: Event) -> tuple[dict[Any, Any], Any]:
        """Where the object of a change is kept, and by what."""
        kind, group, namespace, name, _ = key = _key_of(event)
        match kind:
            case "Pod":
                return self.pods, (namespace, name)
            case "Node":
                return self.nodes, name
            case "PodGroup":
                return self.gangs, (group, namespace, name)
            case "PodDisruptionBudget":
                return self.budgets, (namespace, name)
        return self._others, key


def _differs(event: Event, old: Any) -> bool:
    new = _record(event)
    if new is None or old is None:
        return new is not old
    if hasattr(new, "version"):
        return bool(msgspec.structs.replace(new, version=old.version) != old)
    return bool(new != old)


def describe(event: Event) -> tuple[str, str, str]:
    """``(API kind, namespace/name or name, UID)`` of the object of a change. TypeError for other events."""
    kind, _, namespace, name, _ = _key_of(event)
    record = _record(event)
    if isinstance(record, Gang | ObjectRefused):
        kind = record.kind
    uid = event.uid if isinstance(event, Gone) else getattr(record, "uid", "")
    return kind, "/".join(filter(None, (namespace, name))), uid


def _key_of(event: Event) -> ObjectKey:
    """Return the key of an object by its name. A refused object does not replace the known one of its name."""
    key = key_of(event)
    if key is None:
        raise TypeError(f"{type(event).__name__} is no change of an object")
    return key._replace(kind=f"refused {key.kind}", uid="") if isinstance(event, ObjectRefused) else key.by_name


def _record(event: Event) -> Any:
    """The record that an event carries; None for the end of an object."""
    return event if isinstance(event, ObjectRefused) else event.record if isinstance(event, Changed) else None
