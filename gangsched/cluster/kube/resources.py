"""What is watched: one row for each resource, with how its objects become records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gangsched.cluster.kinds import KINDS, STORAGE, UPSTREAM, Kind, ToRecord
from gangsched.cluster.kube.decode import Undecodable
from gangsched.core.events import Gone, Record
from gangsched.model import convert_refused, jobsets, queues, wire
from gangsched.model.convert import Converter
from gangsched.model.errors import FieldError
from gangsched.model.records import Budget, Job, Pod, PriorityClass


@dataclass(frozen=True)
class Resource:
    """One resource of the API: ``plural`` of the API group ``group`` in ``version``.

    ``convert`` makes the record of a decoded object (raises :class:`~gangsched.model.errors.FieldError`).
    ``optional`` resources may be absent or forbidden without holding up the first decision.
    ``metadata_only``: nothing else is asked for. ``refused`` makes the record of an object that could not be understood
    for a reason and must be counted all the same, beside the event that tells of it; without one what was known of it
    stays. With ``versions`` the resource is watched only where it is served, in the first of them that is. Each object
    of a ``family`` is a gang.
    """

    group: str
    plural: str
    kind: str
    wire_type: type[Any]
    convert: ToRecord
    version: str = "v1"
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
    """An unreadable budget grants nothing."""
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


def _read(name: str, group: str = "", told: str = "", **more: Any) -> Resource:
    """All objects of a kind; ``told`` is what it is called where one of them is refused."""
    kind = KINDS[name, group]
    return Resource(group, kind.plural, told or name, kind.type, kind.record, **more)


def _served(kind: Kind, **more: Any) -> Resource:
    """What is watched where it is served."""
    told, versions = f"{kind.name}.{kind.group}", kind.versions
    more |= {"version": versions[0], "versions": versions, "optional": True, "family": kind.family}
    return Resource(kind.group, kind.plural, told, kind.type, kind.record, **more)


CORE_RESOURCES: tuple[Resource, ...] = (
    _read("Namespace"),
    _read("PriorityClass", UPSTREAM, refused=_refused_class),
    _read("Node"),
    _read("PodDisruptionBudget", "policy", "PodDisruptionBudget.policy", refused=_refused_budget),
    _read("Job", "batch", "Job.batch", refused=_refused_job),
    # Without these little is lost: of selectors the default spreading, of storage pods with volumes.
    _read("Service", optional=True),
    _read("ReplicationController", optional=True),
    _read("ReplicaSet", "apps", optional=True),
    _read("StatefulSet", "apps", optional=True),
    _read("PersistentVolume", optional=True),
    _read("PersistentVolumeClaim", optional=True),
    _read("StorageClass", STORAGE, optional=True),
    _read("CSINode", STORAGE, optional=True),
    _read("CSIDriver", STORAGE, optional=True),
    _read("CSIStorageCapacity", STORAGE, optional=True),
    _read("VolumeAttachment", STORAGE, optional=True),
    # Finished pods too: a member that has succeeded counts towards its gang's minimum, and one that is created again
    # after a failure must not wait for it.
    _read("Pod", refused=_refused_pod),
)

#: Kueue's Workloads, of which only is asked who owns them. No other API has a resource of that name.
KUEUE_WORKLOADS = _served(
    Kind(
        "Workload",
        queues.GROUP,
        "workloads",
        queues.RawKueueWorkload,
        lambda _, raw: queues.kueue_workload(raw),
        queues.VERSIONS,
    ),
    metadata_only=True,
)

_KNOWN = {(each.group, each.plural) for each in CORE_RESOURCES}
SERVED_RESOURCES: tuple[Resource, ...] = (
    *(
        _served(kind, refused=_refused_jobset if kind.name == jobsets.JOBSET else None)
        for kind in KINDS.values()
        if (kind.group, kind.plural) not in _KNOWN
    ),
    KUEUE_WORKLOADS,
)
