"""The key of an object: what tells it from all others, made in one place for watches, caches, pages and records."""

from __future__ import annotations

from typing import NamedTuple

from gangsched.core.events import Changed, Event, Gone, ObjectRefused, Record
from gangsched.model.api_groups import API_GROUPS
from gangsched.model.dialects import GROUP_APIS
from gangsched.model.dialects.operators import OPERATORS, STATEFUL_SET
from gangsched.model.queues import ClusterQueue, KueueWorkload
from gangsched.model.records import Budget, Gang, Pod, PodSelector


class ObjectKey(NamedTuple):
    """The identity of an object.

    The ``uid`` is part of the key of a pod alone: another pod of its name may be there before it is gone. Of all other
    kinds a new object replaces the one of its name. Owners that are gangs as a whole have the kind PodGroup, and the
    family of these gangs as their ``group``.
    """

    kind: str
    group: str
    namespace: str
    name: str
    uid: str = ""

    @property
    def by_name(self) -> ObjectKey:
        """The key of whatever object has this name."""
        return self._replace(uid="")


def object_key(kind: str, group: str, namespace: str, name: str, uid: str = "") -> ObjectKey:
    """Return the key of an object of this API kind. Without a ``group``, it is the one that has such a kind."""
    if kind in OPERATORS and kind != STATEFUL_SET and group in ("", OPERATORS[kind].group):
        kind, group = "PodGroup", OPERATORS[kind].family
    family = GROUP_APIS.get(f"{kind}.{group}")
    if family is not None:
        kind, group = "PodGroup", family
    return ObjectKey(kind, group or API_GROUPS.get(kind, ""), namespace, name, uid if kind == "Pod" else "")


def key_of_record(record: Record) -> ObjectKey:
    """Return the key of the object that a record is of."""
    if type(record) is Pod:  # most are, and this is asked for each event
        return ObjectKey("Pod", "", record.namespace, record.name, record.uid)
    kind, group, name = type(record).__name__, "", record.name
    match record:
        case Gang():
            kind, group = "PodGroup", record.family
        case Budget():
            kind = "PodDisruptionBudget"
        case PodSelector():
            kind = record.kind
        case KueueWorkload():
            kind = "Workload"
        case ClusterQueue() if record.foreign:
            kind, (group, _, name) = "Queue", record.name.partition(":")
    return object_key(kind, group, getattr(record, "namespace", ""), name, getattr(record, "uid", ""))


def key_of(event: Event) -> ObjectKey | None:
    """Return the key of the object that an event is about; None if it is about no object."""
    match event:
        case Changed(record):
            return key_of_record(record)
        case Gone(kind, namespace, name, uid, group):
            return object_key(kind, group, namespace, name, uid)
        case ObjectRefused(kind, namespace, name, uid):
            kind, _, group = kind.partition(".")
            return object_key(kind, group, namespace, name, uid)
    return None


def deletion_of(record: Record) -> Gone:
    """Return the event that the object of this record no longer exists."""
    key = key_of_record(record)
    return Gone(key.kind, key.namespace, key.name, getattr(record, "uid", ""), key.group)
