"""Manifests on top of a cluster: what there would be if they were applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gangsched.core.events import Event, JobChanged, JobSetChanged, PodChanged, PriorityClassChanged, StorageChanged
from gangsched.model import wire
from gangsched.model.children import JOBSET_NAME
from gangsched.model.records import Pod
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
        for event in events:
            if isinstance(event, PriorityClassChanged):
                found = event.priority_class
                meta = wire.ObjectMeta(name=found.name)
                classes.append(wire.PriorityClass(meta, found.value, found.global_default, found.preemption_policy))
            elif isinstance(event, StorageChanged) and isinstance(event.record, StorageClass) and event.record.default:
                default = event.record.name
        return cls(namespace, tuple(classes), default)


def overlaid(below: Iterable[Event], above: Sequence[Event]) -> list[Event]:
    """Both, without what is below of an object that is above too, and without the pods of its Jobs and JobSets."""
    names = {key for event in above if (key := _key(event)) is not None}
    owners = {
        (event.job.namespace, "Job", event.job.name)
        if isinstance(event, JobChanged)
        else (event.jobset.namespace, "JobSet", event.jobset.name)
        for event in above
        if isinstance(event, JobChanged | JobSetChanged)
    }
    kept = [
        event
        for event in below
        if _key(event) not in names and not (isinstance(event, PodChanged) and owners & _owners(event.pod))
    ]
    return [*kept, *above]


def _key(event: Event) -> tuple[Any, ...] | None:
    """What tells the object of a change from all others; None for other events."""
    if not type(event).__name__.endswith("Changed"):
        return None
    record = getattr(event, event.__struct_fields__[0])
    if not hasattr(record, "name"):
        return None
    return type(record), *(getattr(record, part, "") for part in ("family", "kind", "namespace", "name"))


def _owners(pod: Pod) -> set[tuple[str, str, str]]:
    found = {(pod.namespace, "JobSet", pod.labels[JOBSET_NAME])} if JOBSET_NAME in pod.labels else set()
    return found if pod.owner is None else found | {(pod.namespace, pod.owner.kind, pod.owner.name)}
