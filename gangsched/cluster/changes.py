"""What the core is told of each kind of object, wherever it was read: a watch or a manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from gangsched.core import events
from gangsched.core.events import Event
from gangsched.model import (
    convert_jobsets,
    convert_queues,
    convert_volumes,
    wire,
    wire_jobsets,
    wire_queues,
    wire_volumes,
)
from gangsched.model.convert import Converter, pod_selector
from gangsched.model.dialects import coscheduling, koordinator, upstream

#: Makes the event of a decoded object; raises :class:`~gangsched.model.errors.FieldError`.
Changed: TypeAlias = Callable[[Converter, Any], Event]


def _selector(_: Converter, raw: Any) -> Event:
    return events.PodSelectorChanged(pod_selector(raw))


def _gang(convert: Callable[[Any], Any]) -> Changed:
    return lambda _, raw: events.GangChanged(convert(raw))


def _storage(convert: Callable[[Any], Any]) -> Changed:
    return lambda _, raw: events.StorageChanged(convert(raw))


def _queue(convert: Callable[[Any], Any]) -> Changed:
    return lambda _, raw: events.QueueObjectChanged(convert(raw))


#: PodGroups of scheduling.x-k8s.io have the same type as those of scheduling.sigs.k8s.io.
coscheduling_gang = _gang(coscheduling.gang_from_object)

CHANGED: Mapping[type[Any], Changed] = {
    wire.Namespace: lambda convert, raw: events.NamespaceChanged(convert.namespace(raw)),
    wire.PriorityClass: lambda convert, raw: events.PriorityClassChanged(convert.priority_class(raw)),
    wire.Node: lambda convert, raw: events.NodeChanged(convert.node(raw)),
    wire.PodDisruptionBudget: lambda convert, raw: events.BudgetChanged(convert.budget(raw)),
    wire.Job: lambda convert, raw: events.JobChanged(convert.job(raw)),
    wire_jobsets.JobSet: lambda convert, raw: events.JobSetChanged(convert_jobsets.job_set(convert, raw)),
    wire.Pod: lambda convert, raw: events.PodChanged(convert.pod(raw)),
    wire.UpstreamPodGroup: _gang(upstream.gang_from_object),
    wire.SigsPodGroup: _gang(koordinator.gang_from_object),
    wire.Service: _selector,
    wire.ReplicationController: _selector,
    wire.ReplicaSet: _selector,
    wire.StatefulSet: _selector,
    wire_volumes.PersistentVolume: _storage(convert_volumes.volume),
    wire_volumes.PersistentVolumeClaim: _storage(convert_volumes.claim),
    wire_volumes.StorageClass: _storage(convert_volumes.storage_class),
    wire_volumes.CSINode: _storage(convert_volumes.csi_node),
    wire_volumes.CSIDriver: _storage(convert_volumes.csi_driver),
    wire_volumes.CSIStorageCapacity: _storage(convert_volumes.storage_capacity),
    wire_volumes.VolumeAttachment: _storage(convert_volumes.attachment),
    wire_queues.ResourceFlavor: _queue(convert_queues.resource_flavor),
    wire_queues.Cohort: _queue(convert_queues.cohort),
    wire_queues.ClusterQueue: _queue(convert_queues.cluster_queue),
    wire_queues.LocalQueue: _queue(convert_queues.local_queue),
    wire_queues.WorkloadPriorityClass: _queue(convert_queues.workload_priority_class),
}
