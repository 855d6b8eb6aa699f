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
from gangsched.model.convert import Converter

#: Makes the event of a decoded object; raises :class:`~gangsched.model.errors.FieldError`.
Changed: TypeAlias = Callable[[Converter, Any], Event]


def _selector(convert: Callable[[Any], Any]) -> Changed:
    return lambda _, raw: events.PodSelectorChanged(convert(raw))


def _storage(convert: Callable[[Any], Any]) -> Changed:
    return lambda _, raw: events.StorageChanged(convert(raw))


def _queue(convert: Callable[[Any], Any]) -> Changed:
    return lambda _, raw: events.QueueObjectChanged(convert(raw))


def coscheduling_gang(convert: Converter, raw: Any) -> Event:
    """PodGroups of scheduling.x-k8s.io, which have the same type as those of scheduling.sigs.k8s.io."""
    return events.GangChanged(convert.coscheduling_gang(raw))


CHANGED: Mapping[type[Any], Changed] = {
    wire.Namespace: lambda convert, raw: events.NamespaceChanged(convert.namespace(raw)),
    wire.PriorityClass: lambda convert, raw: events.PriorityClassChanged(convert.priority_class(raw)),
    wire.Node: lambda convert, raw: events.NodeChanged(convert.node(raw)),
    wire.PodDisruptionBudget: lambda convert, raw: events.BudgetChanged(convert.budget(raw)),
    wire.Job: lambda convert, raw: events.JobChanged(convert.job(raw)),
    wire_jobsets.JobSet: lambda convert, raw: events.JobSetChanged(convert_jobsets.job_set(convert, raw)),
    wire.Pod: lambda convert, raw: events.PodChanged(convert.pod(raw)),
    wire.UpstreamPodGroup: lambda convert, raw: events.GangChanged(convert.upstream_gang(raw)),
    wire.SigsPodGroup: lambda convert, raw: events.GangChanged(convert.sigs_gang(raw)),
    wire.Service: _selector(Converter.service),
    wire.ReplicationController: _selector(Converter.replication_controller),
    wire.ReplicaSet: _selector(Converter.replica_set),
    wire.StatefulSet: _selector(Converter.stateful_set),
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
