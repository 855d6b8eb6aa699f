"""Kinds that objects of an input name, and of which it has no object: a dump was made without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gangsched.cluster.manifests.objects import Found
from gangsched.messages import invalid
from gangsched.model import jobsets, queues, wire
from gangsched.model.dialects import DIALECTS
from gangsched.model.dialects.objects import owner_of
from gangsched.model.errors import Problem
from gangsched.model.jobsets import RawJobSet
from gangsched.model.volumes import RawPersistentVolumeClaim


class _Named(NamedTuple):
    """What an object names: the kind with its group, by which field, and what kubectl calls all that belongs to it."""

    kind: str
    group: str
    field: str
    resources: str


_CLAIM = _Named("PersistentVolumeClaim", "", "spec.volumes", "pvc,pv,storageclasses,csinodes,csidrivers")
_VOLUME = _Named("PersistentVolume", "", "spec.volumeName", "pv,csinodes,csidrivers")
_JOB = _Named("Job", "batch", "metadata.ownerReferences", "jobs")
_JOBSET = _Named(jobsets.JOBSET, jobsets.GROUP, "metadata.ownerReferences", "jobsets")
_QUEUE = _Named(
    "LocalQueue",
    queues.GROUP,
    "metadata.labels",
    "localqueues,clusterqueues,cohorts,resourceflavors,workloadpriorityclasses",
)


def missing(found: Sequence[Found]) -> Iterator[Problem]:
    """A warning for each kind, at the first object that names one."""
    known = {(each.kind.name, each.kind.group) for each in found}
    for each in found:
        for named in _named_by(each):
            if (named.kind, named.group) not in known:
                known.add((named.kind, named.group))
                text = invalid.kind_missing(kind=named.kind, resources=named.resources)
                yield each.place.warning(named.field, text)


def _named_by(each: Found) -> Iterator[_Named]:
    match each.object:
        case wire.Pod() as pod:
            yield from _named_by_pod(pod)
        case wire.Job() | RawJobSet() as owner:
            yield from _in_queues(owner.metadata.labels or {})
            if _owner(owner.metadata) == jobsets.JOBSET:
                yield _JOBSET
        case RawPersistentVolumeClaim() as claim if claim.spec.volume_name:
            yield _VOLUME


def _named_by_pod(pod: wire.Pod) -> Iterator[_Named]:
    labels = pod.metadata.labels or {}
    if any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes or ()):
        yield _CLAIM
    if _owner(pod.metadata) == "Job":
        yield _JOB
    for each in DIALECTS:
        name, field = each.group_of(pod.metadata, pod.spec)
        if name and each.needs_object(labels):
            yield _Named(each.kind, each.family, field, f"{each.plural}.{each.family}")
    yield from _in_queues(labels)


def _owner(meta: wire.ObjectMeta) -> str:
    found = owner_of(meta)
    return "" if found is None else found.kind


def _in_queues(labels: dict[str, str]) -> Iterator[_Named]:
    if queues.QUEUE_LABEL in labels:
        yield _QUEUE
