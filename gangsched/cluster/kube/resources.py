"""What is watched: one row for each resource, with how its objects become records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gangsched.cluster.changes import RECORD, ToRecord, coscheduling_gang
from gangsched.cluster.kube.decode import Undecodable
from gangsched.core.events import Gone, Record
from gangsched.model import convert_refused, jobsets, queues, wire, wire_jobsets, wire_queues, wire_volumes
from gangsched.model.convert import Converter
from gangsched.model.dialects import coscheduling, koordinator, operators, upstream
from gangsched.model.errors import FieldError
from gangsched.model.records import Budget, Job, Pod, PriorityClass


@dataclass(frozen=True)
class Resource:
    """One resource of the API: ``plural`` of the API group ``group`` in ``version``.

    ``convert`` makes the record of a decoded object (raises :class:`~gangsched.model.errors.FieldError`), that of its
    type unless given. ``optional`` resources may be absent or forbidden without holding up the first decision.
    ``metadata_only``: nothing else is asked for. ``refused`` makes the record of an object that could not be understood
    for a reason and must be counted all the same, beside the event that tells of it; without one what was known of it
    stays. With ``versions`` the resource is watched only where it is served, in the first of them that is. Each object
    of a ``family`` is a gang.
    """

    group: str
    plural: str
    kind: str
    wire_type: type[Any]
    version: str = "v1"
    convert: ToRecord = lambda convert, raw: RECORD[type(raw)](convert, raw)
    optional: bool = False
    metadata_only: bool = False
    refused: Callable[[Converter, Any, FieldError], Record | None] | None = None
    versions: tuple[str, ...] = ()
    family: str = ""

    @property
    def name(self) -> str:
        """As the resource is called; with its group, if that need not be there."""
        return f"{self.plural}.{self.group}" if self.versions else self.plural

    @property
    def api_version(self) -> str:
        """``batch/v1``, or ``v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The URL path of all objects."""
        return f"/{'apis' if self.group else 'api'}/{self.api_version}/{self.plural}"

    def at(self, version: str) -> Resource:
        """The same in a version."""
        return replace(self, version=version)

    def gone(self, namespace: str, name: str, uid: str) -> Gone:
        """The event of an object that no longer exists."""
        if self.family:
            return Gone("PodGroup", namespace, name, uid, self.family)
        return Gone(self.kind.partition(".")[0], namespace, name, uid, self.group)


def _refused_pod(convert: Converter, raw: Any, error: FieldError) -> Pod:
    """A pod takes room whether it is understood or not."""
    if isinstance(raw, Undecodable):
        return convert_refused.undecodable_pod(convert, raw.metadata, raw.body, error)
    return convert_refused.refused_pod(convert, raw, error)


def _refused_budget(_convert: Converter, raw: Any, _error: FieldError) -> Budget:
    """A budget that nobody can read grants nothing."""
    if isinstance(raw, Undecodable):
        raw = wire.PodDisruptionBudget(raw.metadata, wire.PodDisruptionBudgetSpec(selector=wire.LabelSelector()))
    return convert_refused.refused_budget(raw)


def _refused_class(_convert: Converter, raw: Any, _error: FieldError) -> PriorityClass | None:
    """Without its value nothing is known of a class."""
    return None if isinstance(raw, Undecodable) else convert_refused.refused_class(raw)


def _refused_job(convert: Converter, raw: Any, _error: FieldError) -> Job | None:
    """Without its counts nothing is known of a Job."""
    return None if isinstance(raw, Undecodable) else convert_refused.refused_job(convert, raw)


def _refused_jobset(convert: Converter, raw: Any, _error: FieldError) -> jobsets.JobSet | None:
    """The same for a JobSet."""
    return None if isinstance(raw, Undecodable) else convert_refused.refused_jobset(convert, raw)


def _optional(group: str, plural: str, wire_type: type[Any]) -> Resource:
    """Objects without which little is lost: of selectors the default spreading, of storage pods with volumes."""
    return Resource(group, plural, wire_type.__name__, wire_type, optional=True)


_STORAGE = "storage.k8s.io"

CORE_RESOURCES: tuple[Resource, ...] = (
    Resource("", "namespaces", "Namespace", wire.Namespace),
    Resource("scheduling.k8s.io", "priorityclasses", "PriorityClass", wire.PriorityClass, refused=_refused_class),
    Resource("", "nodes", "Node", wire.Node),
    Resource(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget.policy",
        wire.PodDisruptionBudget,
        refused=_refused_budget,
    ),
    Resource("batch", "jobs", "Job.batch", wire.Job, refused=_refused_job),
    _optional("", "services", wire.Service),
    _optional("", "replicationcontrollers", wire.ReplicationController),
    _optional("apps", "replicasets", wire.ReplicaSet),
    _optional("apps", "statefulsets", wire.StatefulSet),
    _optional("", "persistentvolumes", wire_volumes.PersistentVolume),
    _optional("", "persistentvolumeclaims", wire_volumes.PersistentVolumeClaim),
    _optional(_STORAGE, "storageclasses", wire_volumes.StorageClass),
    _optional(_STORAGE, "csinodes", wire_volumes.CSINode),
    _optional(_STORAGE, "csidrivers", wire_volumes.CSIDriver),
    _optional(_STORAGE, "csistoragecapacities", wire_volumes.CSIStorageCapacity),
    _optional(_STORAGE, "volumeattachments", wire_volumes.VolumeAttachment),
    # Finished pods too: a member that has succeeded counts towards its gang's minimum, and one that is created again
    # after a failure must not wait for it.
    Resource("", "pods", "Pod", wire.Pod, refused=_refused_pod),
)


def _served(
    group: str, plural: str, kind: str, wire_type: type[Any], versions: tuple[str, ...], **more: Any
) -> Resource:
    """What is watched where it is served."""
    full = f"{kind}.{group}"
    return Resource(group, plural, full, wire_type, version=versions[0], versions=versions, optional=True, **more)


def _group_api(family: str, versions: tuple[str, ...], wire_type: type[Any], **more: Any) -> Resource:
    """The PodGroups of a gang API."""
    return _served(family, "podgroups", "PodGroup", wire_type, versions, **more)


def _queue_api(plural: str, wire_type: type[Any]) -> Resource:
    """A kind of queue object."""
    return _served(queues.GROUP, plural, wire_type.__name__, wire_type, queues.VERSIONS)


def _operator(each: operators.Operator) -> Resource:
    """The objects of an operator that own pods."""
    return _served(
        each.group,
        each.plural,
        each.kind,
        operators.OperatorObject,
        each.versions,
        convert=lambda _convert, raw: operators.gang_from_object(each.kind, raw),
        family=each.family,
    )


#: Kueue's Workloads, of which only is asked who owns them. Nobody else serves a resource of that name.
KUEUE_WORKLOADS = _served(
    queues.GROUP, "workloads", "Workload", wire_queues.KueueWorkload, queues.VERSIONS, metadata_only=True
)

SERVED_RESOURCES: tuple[Resource, ...] = (
    _group_api(upstream.FAMILY, upstream.VERSIONS, wire.UpstreamPodGroup),
    _group_api(koordinator.FAMILY, ("v1alpha1",), wire.SigsPodGroup),
    _group_api(coscheduling.FAMILY, ("v1alpha1",), wire.SigsPodGroup, convert=coscheduling_gang),
    _queue_api("resourceflavors", wire_queues.ResourceFlavor),
    _queue_api("cohorts", wire_queues.Cohort),
    _queue_api("clusterqueues", wire_queues.ClusterQueue),
    _queue_api("localqueues", wire_queues.LocalQueue),
    _queue_api("workloadpriorityclasses", wire_queues.WorkloadPriorityClass),
    _served(jobsets.GROUP, "jobsets", jobsets.JOBSET, wire_jobsets.JobSet, (jobsets.VERSION,), refused=_refused_jobset),
    *map(_operator, operators.OPERATORS.values()),
    KUEUE_WORKLOADS,
)
