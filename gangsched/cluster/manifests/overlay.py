"""Manifests on top of a cluster: what they rely on in it, and what of it they replace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gangsched.core.events import Event, Record, record_of
from gangsched.core.keys import ObjectKey, key_of_record, object_key
from gangsched.model import jobsets, wire
from gangsched.model.children import JOBSET_NAME
from gangsched.model.dialects import owners
from gangsched.model.dialects.operators import OPERATORS
from gangsched.model.jobsets import JOBSET
from gangsched.model.records import JOB, Gang, Job, Pod, PriorityClass
from gangsched.model.volumes import StorageClass


class Around(msgspec.Struct, frozen=True):
    """The objects of a cluster on which applied manifests depend.

    ``namespace`` is that of objects that name none, ``storage_class`` the default one, empty if there is none.
    """

    namespace: str
    priority_classes: tuple[wire.PriorityClass, ...] = ()
    storage_class: str = ""

    @classmethod
    def of(cls, events: Iterable[Event], namespace: str) -> Around:
        """That of a cluster with these objects."""
        classes, default = [], ""
        for found in map(record_of, events):
            if isinstance(found, PriorityClass):
                meta = wire.ObjectMeta(name=found.name)
                classes.append(wire.PriorityClass(meta, found.value, found.global_default, found.preemption_policy))
            elif isinstance(found, StorageClass) and found.default:
                default = found.name
        return cls(namespace, tuple(classes), default)


def overlaid(below: Iterable[Event], above: Sequence[Event]) -> list[Event]:
    """Both, without what is below of an object that is above too, and without what its controller has made of it."""
    found = list(below)
    names = {key_of_record(record).by_name for record in map(record_of, above) if record is not None}
    for record in map(record_of, found):  # the cluster of a RayJob, the launcher of an MPIJob
        if isinstance(record, Gang | Job | jobsets.JobSet) and not names.isdisjoint(_names_of_owner(record)):
            names.add(key_of_record(record).by_name)
    return [*(event for event in found if names.isdisjoint(_names(record_of(event)))), *above]


def _names(record: Record | None) -> Iterator[ObjectKey]:
    """The identity of an object, its owner and its JobSet."""
    if record is not None:
        yield key_of_record(record).by_name
    if isinstance(record, Pod) and JOBSET_NAME in record.labels:
        yield object_key(JOBSET, "", record.namespace, record.labels[JOBSET_NAME])
    if isinstance(record, Pod | Gang | Job | jobsets.JobSet):
        yield from _names_of_owner(record)


def _names_of_owner(record: Pod | Gang | Job | jobsets.JobSet) -> Iterator[ObjectKey]:
    owner, group = record.owner, owners.group_of(record) if isinstance(record, Pod) else ""
    if isinstance(record, Pod) and group:
        family = OPERATORS[owners.LEADER_WORKER_SET].family
        yield object_key("PodGroup", family, record.namespace, record.labels[owners.NAME])
    if owner is not None and owner.kind in (JOB, JOBSET):
        yield object_key(owner.kind, "", record.namespace, owner.name)
    if owner is not None and owner.kind in OPERATORS:
        yield object_key("PodGroup", OPERATORS[owner.kind].family, record.namespace, owner.name)
        yield object_key(owner.kind, "", record.namespace, owner.name)
