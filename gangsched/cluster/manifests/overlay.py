"""Manifests on top of a cluster: what there would be if they were applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gangsched.core.events import Event, Record, identity, record_of
from gangsched.model import wire
from gangsched.model.children import JOBSET_NAME
from gangsched.model.jobsets import JOBSET
from gangsched.model.records import JOB, Pod, PriorityClass
from gangsched.model.volumes import StorageClass


class Around(msgspec.Struct, frozen=True):
    """What manifests rely on in the cluster that they are applied to.

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
    """Both, without what is below of an object that is above too, and without the pods of its Jobs and JobSets."""
    names = {identity(record) for record in map(record_of, above) if record is not None}
    return [*(event for event in below if names.isdisjoint(_names(record_of(event)))), *above]


def _names(record: Record | None) -> Iterator[tuple[str, str, str, str]]:
    """What tells an object from all others, and for a pod the Job and the JobSet that it is of."""
    if record is not None:
        yield identity(record)
    if isinstance(record, Pod) and JOBSET_NAME in record.labels:
        yield JOBSET, "", record.namespace, record.labels[JOBSET_NAME]
    if isinstance(record, Pod) and record.owner is not None and record.owner.kind in (JOB, JOBSET):
        yield record.owner.kind, "", record.namespace, record.owner.name
