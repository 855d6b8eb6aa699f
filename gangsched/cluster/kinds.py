"""The kinds of objects that are read, wherever they come from, a watch or a manifest, and what record each becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from gangsched.core.events import Record
from gangsched.model import jobsets, queues, volumes, wire
from gangsched.model.convert import Converter, job_set, pod_selector
from gangsched.model.dialects import DIALECTS, koordinator, operators, upstream
from gangsched.model.dialects.dialect import Dialect

UPSTREAM = upstream.FAMILY
STORAGE = "storage.k8s.io"

#: Makes the record of a decoded object; raises :class:`~gangsched.model.errors.FieldError`.
ToRecord: TypeAlias = Callable[[Converter, Any], Record]


class Kind(msgspec.Struct, frozen=True):
    """One kind, as which objects of a ``type`` are decoded that become a ``record``. ``group`` is empty for the core
    API; of ``versions`` the first that is served is read. Each object of a ``family`` is a gang.
    """

    name: str
    group: str
    plural: str
    type: type[wire.Object]
    record: ToRecord
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True
    family: str = ""

    @property
    def api_versions(self) -> str:
        """What ``apiVersion`` may be, for messages."""
        return " or ".join(f"{self.group}/{v}" if self.group else v for v in self.versions)


def _plain(convert: Callable[[Any], Record]) -> ToRecord:
    """Of what needs nothing that is known of other objects."""
    return lambda _, raw: convert(raw)


def _selector(group: str, plural: str, kind: type[wire.Object]) -> Kind:
    return Kind(kind.__name__, group, plural, kind, _plain(pod_selector))


def _storage(
    group: str, plural: str, kind: type[wire.Object], convert: Callable[[Any], Record], *, namespaced: bool = False
) -> Kind:
    return Kind(kind.__name__.removeprefix("Raw"), group, plural, kind, _plain(convert), namespaced=namespaced)


def _queue(plural: str, kind: type[wire.Object], convert: Callable[[Any], Record], *, namespaced: bool = False) -> Kind:
    name = kind.__name__.removeprefix("Raw")
    return Kind(name, queues.GROUP, plural, kind, _plain(convert), queues.VERSIONS, namespaced)


def _groups(each: Dialect) -> Iterator[Kind]:
    if each.decoded_as is not None and each.gang_from_object is not None:
        convert = _plain(each.gang_from_object)
        yield Kind("PodGroup", each.family, "podgroups", each.decoded_as, convert, each.versions)


def _operator(each: operators.Operator) -> Kind:
    def convert(known: Converter, raw: Any) -> Record:
        return operators.gang_from_object(each.kind, raw, known.shape_of_template)

    decoded = operators.OperatorObject
    return Kind(each.kind, each.group, each.plural, decoded, convert, each.versions, family=each.family)


def _kinds() -> Iterator[Kind]:
    yield Kind("Namespace", "", "namespaces", wire.Namespace, Converter.namespace, namespaced=False)
    yield Kind(
        "PriorityClass", UPSTREAM, "priorityclasses", wire.PriorityClass, Converter.priority_class, namespaced=False
    )
    yield Kind("Node", "", "nodes", wire.Node, Converter.node, namespaced=False)
    yield Kind("PodDisruptionBudget", "policy", "poddisruptionbudgets", wire.PodDisruptionBudget, Converter.budget)
    yield Kind("Job", "batch", "jobs", wire.Job, Converter.job)
    yield Kind("Pod", "", "pods", wire.Pod, Converter.pod)
    yield _selector("", "services", wire.Service)
    yield _selector("", "replicationcontrollers", wire.ReplicationController)
    yield _selector("apps", "replicasets", wire.ReplicaSet)
    yield _selector("apps", "statefulsets", wire.StatefulSet)
    yield _storage("", "persistentvolumes", volumes.RawPersistentVolume, volumes.volume)
    yield _storage("", "persistentvolumeclaims", volumes.RawPersistentVolumeClaim, volumes.claim, namespaced=True)
    yield _storage(STORAGE, "storageclasses", volumes.RawStorageClass, volumes.storage_class)
    yield _storage(STORAGE, "csinodes", volumes.RawCSINode, volumes.csi_node)
    yield _storage(STORAGE, "csidrivers", volumes.RawCSIDriver, volumes.csi_driver)
    capacity = volumes.RawCSIStorageCapacity
    yield _storage(STORAGE, "csistoragecapacities", capacity, volumes.storage_capacity, namespaced=True)
    yield _storage(STORAGE, "volumeattachments", volumes.RawVolumeAttachment, volumes.attachment)
    for dialect in DIALECTS:
        yield from _groups(dialect)
    layers = _plain(koordinator.layers_from_object)
    group, plural = "scheduling.koordinator.sh", "clusternetworktopologies"
    decoded = koordinator.NetworkTopologyObject
    yield Kind("ClusterNetworkTopology", group, plural, decoded, layers, ("v1alpha1",), namespaced=False)
    yield _queue("resourceflavors", queues.RawResourceFlavor, queues.resource_flavor)
    yield _queue("cohorts", queues.RawCohort, queues.cohort)
    yield _queue("clusterqueues", queues.RawClusterQueue, queues.cluster_queue)
    yield _queue("localqueues", queues.RawLocalQueue, queues.local_queue, namespaced=True)
    priority = queues.workload_priority_class
    yield _queue("workloadpriorityclasses", queues.RawWorkloadPriorityClass, priority)
    yield Kind(jobsets.JOBSET, jobsets.GROUP, "jobsets", jobsets.RawJobSet, job_set, (jobsets.VERSION,))
    yield from map(_operator, operators.OPERATORS.values())


#: By name and group.
KINDS: Mapping[tuple[str, str], Kind] = {(kind.name, kind.group): kind for kind in _kinds()}
