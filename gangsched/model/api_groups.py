"""The API group of each kind that is read."""

from __future__ import annotations

from gangsched.model import devices
from gangsched.model.dialects import kai, volcano
from gangsched.model.dialects.objects import OWNER_GROUPS
from gangsched.model.queues import GROUP as KUEUE

_STORAGE = ("StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment")
_QUEUES = ("ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue", "WorkloadPriorityClass", "Workload")
#: By kind. PodGroups and Queues are of several groups. The core API has the empty one.
API_GROUPS = {
    **OWNER_GROUPS,
    "PodDisruptionBudget": "policy",
    "PriorityClass": "scheduling.k8s.io",
    "ClusterNetworkTopology": "scheduling.koordinator.sh",
    "Topology": kai.TOPOLOGY_GROUP,
    "HyperNode": volcano.TOPOLOGY_GROUP,
    **dict.fromkeys(devices.DEVICE_KINDS, devices.GROUP),
    **dict.fromkeys(_STORAGE, "storage.k8s.io"),
    **dict.fromkeys(_QUEUES, KUEUE),
}
