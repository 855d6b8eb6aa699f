"""What is watched: one row for each resource, with how its objects become records and events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gangsched.cluster.changes import CHANGED, Changed, coscheduling_gang
from gangsched.cluster.kube.decode import Undecodable
from gangsched.core import events
from gangsched.core.events import Event
from gangsched.model import convert_refused, jobsets, queues, wire, wire_jobsets, wire_queues, wire_volumes
from gangsched.model.convert import Converter
from gangsched.model.dialects import coscheduling, koordinator, operators, upstream
from gangsched.model.errors import FieldError
from gangsched.model.records import Owner


@dataclass(frozen=True)
class Resource:
    """One resource of the API: ``plural`` of the API group ``group`` in ``version``.

    ``changed`` makes the event of a decoded object (raises :class:`~gangsched.model.errors.FieldError`), that of its
    type unless given; ``gone`` makes the event of an object that no longer exists from its namespace, name and UID.
    ``optional`` resources may be absent or forbidden without holding up the first decision. ``metadata_only``: nothing
    else is asked for. ``refused`` makes the event of an object that could not be understood for a reason and must be
    counted all the same, beside the one that tells of it; without one what was known of it stays.
    With ``versions`` the resource is watched only where it is served, in the first of them that is.
    """

    group: str
    plural: str
    kind: str
    wire_type: type[Any]
    gone: Callable[[str, str, str], Event]
    version: str = "v1"
    changed: Changed = lambda convert, raw: CHANGED[type(raw)](convert, raw)
    optional: bool = False
    metadata_only: bool = False
    refused: Callable[[Converter, Any, FieldError], Event | None] | None = None
    versions: tuple[str, ...] = ()

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


def _refused_pod(convert: Converter, raw: Any, error: FieldError) -> Event:
    """A pod takes room whether it is understood or not."""
    if isinstance(raw, Undecodable):
        return events.PodChanged(convert_refused.undecodable_pod(convert, raw.metadata, raw.body, error))
    return events.PodChanged(convert_refused.refused_pod(convert, raw, error))


def _refused_budget(_convert: Converter, raw: Any, _error: FieldError) -> Event:
    """A budget that nobody can read grants nothing."""
    if isinstance(raw, Undecodable):
        raw = wire.PodDisruptionBudget(raw.metadata, wire.PodDisruptionBudgetSpec(selector=wire.LabelSelector()))
    return events.BudgetChanged(convert_refused.refused_budget(raw))


def _refused_class(_convert: Converter, raw: Any, _error: FieldError) -> Event | None:
    """Without its value nothing is known of a class."""
    if isinstance(raw, Undecodable):
        return None
    return events.PriorityClassChanged(convert_refused.refused_class(raw))


def _refused_job(convert: Converter, raw: Any, _error: FieldError) -> Event | None:
    """Without its counts nothing is known of a Job."""
    return None if isinstance(raw, Undecodable) else events.JobChanged(convert_refused.refused_job(convert, raw))


def _refused_jobset(convert: Converter, raw: Any, _error: FieldError) -> Event | None:
    """The same for a JobSet."""
    found = None if isinstance(raw, Undecodable) else convert_refused.refused_jobset(convert, raw)
    return None if found is None else events.JobSetChanged(found)


def _selector_resource(group: str, plural: str, wire_type: type[Any]) -> Resource:
    """Objects of which only the selector is read. Without them nothing but the default spreading is lost."""
    kind = wire_type.__name__
    return Resource(
        group,
        plural,
        kind,
        wire_type,
        gone=lambda namespace, name, _uid: events.PodSelectorGone(kind, namespace, name),
        optional=True,
    )


def _storage_resource(group: str, plural: str, wire_type: type[Any]) -> Resource:
    """Objects that only pods with volumes need: those do not run without them, all others do."""
    kind = wire_type.__name__
    return Resource(
        group,
        plural,
        kind,
        wire_type,
        gone=lambda namespace, name, _uid: events.StorageGone(kind, namespace, name),
        optional=True,
    )


_STORAGE = "storage.k8s.io"

CORE_RESOURCES: tuple[Resource, ...] = (
    Resource(
        "",
        "namespaces",
        "Namespace",
        wire.Namespace,
        gone=lambda _namespace, name, _uid: events.NamespaceGone(name),
    ),
    Resource(
        "scheduling.k8s.io",
        "priorityclasses",
        "PriorityClass",
        wire.PriorityClass,
        gone=lambda _namespace, name, _uid: events.PriorityClassGone(name),
        refused=_refused_class,
    ),
    Resource("", "nodes", "Node", wire.Node, gone=lambda _namespace, name, _uid: events.NodeGone(name)),
    Resource(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget.policy",
        wire.PodDisruptionBudget,
        gone=lambda namespace, name, _uid: events.BudgetGone(namespace, name),
        refused=_refused_budget,
    ),
    Resource(
        "batch",
        "jobs",
        "Job.batch",
        wire.Job,
        gone=lambda namespace, name, _uid: events.JobGone(namespace, name),
        refused=_refused_job,
    ),
    _selector_resource("", "services", wire.Service),
    _selector_resource("", "replicationcontrollers", wire.ReplicationController),
    _selector_resource("apps", "replicasets", wire.ReplicaSet),
    _selector_resource("apps", "statefulsets", wire.StatefulSet),
    _storage_resource("", "persistentvolumes", wire_volumes.PersistentVolume),
    _storage_resource("", "persistentvolumeclaims", wire_volumes.PersistentVolumeClaim),
    _storage_resource(_STORAGE, "storageclasses", wire_volumes.StorageClass),
    _storage_resource(_STORAGE, "csinodes", wire_volumes.CSINode),
    _storage_resource(_STORAGE, "csidrivers", wire_volumes.CSIDriver),
    _storage_resource(_STORAGE, "csistoragecapacities", wire_volumes.CSIStorageCapacity),
    _storage_resource(_STORAGE, "volumeattachments", wire_volumes.VolumeAttachment),
    # Finished pods too: a member that has succeeded counts towards its gang's minimum, and one that is created again
    # after a failure must not wait for it.
    Resource("", "pods", "Pod", wire.Pod, gone=events.PodGone, refused=_refused_pod),
)


def _served(
    group: str, plural: str, kind: str, wire_type: type[Any], versions: tuple[str, ...], **more: Any
) -> Resource:
    """What is watched where it is served."""
    full = f"{kind}.{group}"
    return Resource(group, plural, full, wire_type, version=versions[0], versions=versions, optional=True, **more)


def _group_api(family: str, versions: tuple[str, ...], wire_type: type[Any]) -> Resource:
    """The PodGroups of a gang API."""
    return _served(
        family,
        "podgroups",
        "PodGroup",
        wire_type,
        versions,
        gone=lambda namespace, name, _uid: events.GangGone(family, namespace, name),
    )


def _queue_api(plural: str, wire_type: type[Any]) -> Resource:
    """A kind of queue object."""
    kind = wire_type.__name__
    return _served(
        queues.GROUP,
        plural,
        kind,
        wire_type,
        queues.VERSIONS,
        gone=lambda namespace, name, _uid: events.QueueObjectGone(kind, namespace, name),
    )


def _owners(raw: wire_queues.KueueWorkload) -> tuple[Owner, ...]:
    return tuple(Owner(o.kind, o.name, o.uid) for o in raw.metadata.owner_references or ())


def _operator(each: operators.Operator) -> Resource:
    """The objects of an operator that own pods."""
    return _served(
        each.group,
        each.plural,
        each.kind,
        operators.OperatorObject,
        each.versions,
        changed=lambda _convert, raw: events.GangChanged(operators.gang_from_object(each.kind, raw)),
        gone=lambda namespace, name, _uid: events.GangGone(each.family, namespace, name),
    )


#: Kueue's Workloads, of which only is asked who owns them. Nobody else serves a resource of that name.
KUEUE_WORKLOADS = _served(
    queues.GROUP,
    "workloads",
    "Workload",
    wire_queues.KueueWorkload,
    queues.VERSIONS,
    changed=lambda _convert, raw: events.KueueAdmits(raw.metadata.namespace, raw.metadata.name, _owners(raw)),
    gone=lambda namespace, name, _uid: events.KueueAdmits(namespace, name),
    metadata_only=True,
)

SERVED_RESOURCES: tuple[Resource, ...] = (
    _group_api(upstream.FAMILY, upstream.VERSIONS, wire.UpstreamPodGroup),
    _group_api(koordinator.FAMILY, ("v1alpha1",), wire.SigsPodGroup),
    replace(_group_api(coscheduling.FAMILY, ("v1alpha1",), wire.SigsPodGroup), changed=coscheduling_gang),
    _queue_api("resourceflavors", wire_queues.ResourceFlavor),
    _queue_api("cohorts", wire_queues.Cohort),
    _queue_api("clusterqueues", wire_queues.ClusterQueue),
    _queue_api("localqueues", wire_queues.LocalQueue),
    _queue_api("workloadpriorityclasses", wire_queues.WorkloadPriorityClass),
    _served(
        jobsets.GROUP,
        "jobsets",
        jobsets.JOBSET,
        wire_jobsets.JobSet,
        (jobsets.VERSION,),
        gone=lambda namespace, name, _uid: events.JobSetGone(namespace, name),
        refused=_refused_jobset,
    ),
    *map(_operator, operators.OPERATORS.values()),
    KUEUE_WORKLOADS,
)
