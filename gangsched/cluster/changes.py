"""What record each kind of object becomes, wherever it was read: from a watch or a manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from gangsched.core.events import Record
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

#: Makes the record of a decoded object; raises :class:`~gangsched.model.errors.FieldError`.
ToRecord: TypeAlias = Callable[[Converter, Any], Record]


def _plain(convert: Callable[[Any], Record]) -> ToRecord:
    """Of what needs nothing that is known of other objects."""
    return lambda _, raw: convert(raw)


#: PodGroups of scheduling.x-k8s.io have the same type as those of scheduling.sigs.k8s.io.
coscheduling_gang = _plain(coscheduling.gang_from_object)

RECORD: Mapping[type[Any], ToRecord] = {
    wire.Namespace: Converter.namespace,
    wire.PriorityClass: Converter.priority_class,
    wire.Node: Converter.node,
    wire.PodDisruptionBudget: Converter.budget,
    wire.Job: Converter.job,
    wire_jobsets.JobSet: convert_jobsets.job_set,
    wire.Pod: Converter.pod,
    wire.UpstreamPodGroup: _plain(upstream.gang_from_object),
    wire.SigsPodGroup: _plain(koordinator.gang_from_object),
    wire.Service: _plain(pod_selector),
    wire.ReplicationController: _plain(pod_selector),
    wire.ReplicaSet: _plain(pod_selector),
    wire.StatefulSet: _plain(pod_selector),
    wire_volumes.PersistentVolume: _plain(convert_volumes.volume),
    wire_volumes.PersistentVolumeClaim: _plain(convert_volumes.claim),
    wire_volumes.StorageClass: _plain(convert_volumes.storage_class),
    wire_volumes.CSINode: _plain(convert_volumes.csi_node),
    wire_volumes.CSIDriver: _plain(convert_volumes.csi_driver),
    wire_volumes.CSIStorageCapacity: _plain(convert_volumes.storage_capacity),
    wire_volumes.VolumeAttachment: _plain(convert_volumes.attachment),
    wire_queues.ResourceFlavor: _plain(convert_queues.resource_flavor),
    wire_queues.Cohort: _plain(convert_queues.cohort),
    wire_queues.ClusterQueue: _plain(convert_queues.cluster_queue),
    wire_queues.LocalQueue: _plain(convert_queues.local_queue),
    wire_queues.WorkloadPriorityClass: _plain(convert_queues.workload_priority_class),
    wire_queues.KueueWorkload: _plain(convert_queues.kueue_workload),
}
