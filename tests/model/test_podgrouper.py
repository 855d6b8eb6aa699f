"""Gangs of owners, by the cases of the unit tests of KAI's podgrouper.

The facts are theirs, as of kai-scheduler/KAI-Scheduler d5bc503, ``pkg/podgrouper/podgrouper/plugins``; each case has
the name of its test. What KAI refuses is None. Where the rule here is another one on purpose, it stands beside with a
reason.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.model.convert import Converter
from gangsched.model.dialects import kai
from gangsched.model.dialects.operator_specs import OperatorObject
from gangsched.model.dialects.operators import gang_from_object


def replicas(**counts: int) -> dict[str, Any]:
    """Replica specs as Kubeflow has them."""
    return {role: {"replicas": number} for role, number in counts.items()}


def least(number: int) -> dict[str, Any]:
    """A ``runPolicy`` that asks for so many."""
    return {"runPolicy": {"schedulingPolicy": {"minAvailable": number}}}


def torch(elastic: int = 0, **counts: int) -> dict[str, Any]:
    """The spec of a PyTorchJob."""
    spec = {"pytorchReplicaSpecs": replicas(**counts)}
    return {**spec, "elasticPolicy": {"minReplicas": elastic}} if elastic else spec


def mpi(launcher: int = 1, **more: Any) -> dict[str, Any]:
    """The spec of an MPIJob with two workers."""
    return {"mpiReplicaSpecs": replicas(Launcher=launcher, Worker=2), **more}


def workers(*groups: tuple[int, int], **more: Any) -> dict[str, Any]:
    """The spec of a RayCluster with groups of so many replicas, of which so many must run."""
    return {"workerGroupSpecs": [{"replicas": number, "minReplicas": few} for number, few in groups], **more}


HOSTS = [{"numOfHosts": 2, "replicas": 3, "minReplicas": 2}, {"numOfHosts": 3, "replicas": 3, "minReplicas": 1}]
WAITS: dict[str, Any] = {"launcherCreationPolicy": "WaitForWorkersReady"}
SUSPENDED = [{"replicas": 3, "minReplicas": 2}, {"replicas": 3, "minReplicas": 1, "suspend": True}]

#: No pods are expected, so one that is there all the same starts by itself.
NONE = 1
#: Elastic is what its operator can make fewer of: the workers. More members than it makes would never come, and are not
#: waited for.
ELASTIC = 6
#: Without its autoscaler KubeRay makes all replicas, and asks Volcano and scheduler-plugins for all of them.
ALL = 7

#: Plug-in, test, kind, spec, how many start together in KAI, and here where that differs.
CASES: list[tuple[str, str, str, dict[str, Any], int | None, int | None]] = [
    ("kubeflow/pytorch", "OnlyReplicas", "PyTorchJob", torch(Master=2, Worker=4), 6, None),
    ("kubeflow/pytorch", "OnlyMinReplicas", "PyTorchJob", torch(66, Master=2, Worker=4), 66, ELASTIC),
    ("kubeflow/pytorch", "OnlyMinAvailable", "PyTorchJob", torch(Master=2, Worker=4) | least(33), 33, ELASTIC),
    ("kubeflow/pytorch", "MinAvailableAndMinReplicas", "PyTorchJob",
     torch(66, Master=2, Worker=4) | least(33), 33, ELASTIC),
    ("kubeflow/pytorch", "OnlyMasterReplicas", "PyTorchJob", torch(Master=2), 2, None),
    ("kubeflow/pytorch", "OnlyWorkerReplicas", "PyTorchJob", torch(Worker=4), 4, None),
    ("kubeflow/pytorch", "OnlyMasterWithMinReplicas", "PyTorchJob", torch(66, Master=2), 66, 2),
    ("kubeflow/pytorch", "OnlyWorkerWithMinReplicas", "PyTorchJob", torch(66, Worker=4), 66, 4),
    ("kubeflow/pytorch", "OnlyMasterWithMinAvailable", "PyTorchJob", torch(Master=2) | least(33), 33, 2),
    ("kubeflow/pytorch", "OnlyWorkerWithMinAvailable", "PyTorchJob", torch(Worker=4) | least(33), 33, 4),
    ("kubeflow/tensorflow", "WorkerOnly", "TFJob", {"tfReplicaSpecs": replicas(Worker=3)}, 3, None),
    ("kubeflow/tensorflow", "PSOnly", "TFJob", {"tfReplicaSpecs": replicas(PS=2)}, 2, None),
    ("kubeflow/tensorflow", "WorkerPSChief", "TFJob", {"tfReplicaSpecs": replicas(Worker=4, PS=2, Chief=1)}, 7, None),
    ("kubeflow/tensorflow", "AllReplicaTypes", "TFJob",
     {"tfReplicaSpecs": replicas(Worker=4, PS=2, Chief=1, Evaluator=1)}, 8, None),
    ("kubeflow/tensorflow", "RunPolicyMinAvailableOverridesReplicas", "TFJob",
     {"tfReplicaSpecs": replicas(Worker=4, PS=2)} | least(3), 3, None),
    ("kubeflow/tensorflow", "RunPolicyMinAvailableOverridesZeroReplicas", "TFJob",
     {"tfReplicaSpecs": replicas(Worker=0)} | least(5), 5, NONE),
    ("kubeflow/tensorflow", "MissingTfReplicaSpecs", "TFJob", {}, None, NONE),
    ("kubeflow/tensorflow", "ZeroWorkerReplicas", "TFJob", {"tfReplicaSpecs": replicas(Worker=0)}, None, NONE),
    # The operator's default is one.
    ("kubeflow/tensorflow", "MissingReplicasField", "TFJob", {"tfReplicaSpecs": {"Worker": {}}}, None, 1),
    ("kubeflow/xgboost", "MasterAndWorker", "XGBoostJob", {"xgbReplicaSpecs": replicas(Master=1, Worker=3)}, 4, None),
    ("kubeflow/xgboost", "RunPolicyOverridesReplicaSum", "XGBoostJob",
     {"xgbReplicaSpecs": replicas(Master=1, Worker=3)} | least(2), 2, None),
    ("kubeflow/xgboost", "RunPolicySkipsMandatorySpecValidation", "XGBoostJob", least(5), 5, NONE),
    # Which roles there must be is for the operator to say.
    ("kubeflow/xgboost", "MissingMasterSpec", "XGBoostJob", {"xgbReplicaSpecs": replicas(Worker=3)}, None, 3),
    ("kubeflow/xgboost", "ZeroWorkerReplicas", "XGBoostJob",
     {"xgbReplicaSpecs": replicas(Master=1, Worker=0)}, None, 1),
    ("kubeflow/jax", "BasicWorkerReplicas", "JAXJob", {"jaxReplicaSpecs": replicas(Worker=4)}, 4, None),
    ("kubeflow/jax", "RunPolicyOverridesReplicas", "JAXJob",
     {"jaxReplicaSpecs": replicas(Worker=2)} | least(10), 10, 2),
    ("kubeflow/mpi", "Basic pod group metadata", "MPIJob", mpi(), 3, None),
    ("kubeflow/mpi", "Delayed launcher policy with no launcher", "MPIJob", mpi(**WAITS), 2, None),
    # It is a member that joins: the workers that it has waited for run by then.
    ("kubeflow/mpi", "Delayed launcher policy with existing launcher", "MPIJob", mpi(**WAITS), 3, 2),
    ("kubeflow/mpi", "Invalid replicas configuration", "MPIJob", {"mpiReplicaSpecs": replicas(Launcher=0)}, None, NONE),
    ("ray", "RayCluster", "RayCluster", workers((3, 2), (3, 1), enableInTreeAutoscaling=True), 4, None),
    ("ray", "RayCluster_NonAutoScaling", "RayCluster", workers((3, 2), (3, 1)), 4, ALL),
    # KAI asks for "suspended", which KubeRay calls "suspend".
    ("ray", "RayCluster_SuspendedWorkers", "RayCluster",
     {"workerGroupSpecs": SUSPENDED, "enableInTreeAutoscaling": True}, 3, None),
    ("ray", "RayCluster_NumOfHosts", "RayCluster",
     {"workerGroupSpecs": HOSTS, "enableInTreeAutoscaling": True}, 8, None),
    ("leaderworkerset", "LeaderCreated", "LeaderWorkerSet",
     {"startupPolicy": "LeaderCreated", "leaderWorkerTemplate": {"size": 3}}, 3, None),
    ("leaderworkerset", "LeaderReady_LeaderPod", "LeaderWorkerSet",
     {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 5}}, 1, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "spec", "theirs", "ours"), [c[2:] for c in CASES], ids=[f"{c[0]}-{c[1]}" for c in CASES]
)
def test_how_many_of_an_owner_start_together(
    kind: str, spec: dict[str, Any], theirs: int | None, ours: int | None
) -> None:
    """As many as in KAI, unless there is a reason for another number, which then is another."""
    template = {"spec": {"containers": [{"name": "main"}]}}
    if kind == "LeaderWorkerSet":
        spec = {**spec, "leaderWorkerTemplate": {**spec["leaderWorkerTemplate"], "workerTemplate": template}}
    raw = {"metadata": {"name": "train", "namespace": "ns", "uid": "u"}, "spec": spec}
    found = gang_from_object(kind, msgspec.convert(raw, OperatorObject), Converter().shape_of_template)
    assert ours != theirs
    assert found.min_member == (theirs if ours is None else ours)


def leaf(name: str, members: int, parent: str = "") -> dict[str, Any]:
    """A sub-group without others in it."""
    return {"name": name, "minMember": members, **({"parent": parent} if parent else {})}


def above(name: str, few: int) -> dict[str, Any]:
    """A sub-group of others."""
    return {"name": name, "minSubGroup": few}


TWO = [above("leader", 1), leaf("leader-replica-0", 1, "leader"), above("worker", 2),
       leaf("worker-replica-0", 4, "worker"), leaf("worker-replica-1", 4, "worker")]  # fmt: skip
SEGMENTS = [leaf("master", 1), above("worker", 3), leaf("worker-segment-0", 2, "worker"),
            leaf("worker-segment-1", 2, "worker"), leaf("worker-segment-2", 1, "worker")]  # fmt: skip

#: Plug-in, test, the PodGroup that it makes, how many start at least; if some sub-groups may be missing.
MADE: list[tuple[str, str, dict[str, Any], int, bool]] = [
    ("jobset", "TestSingleReplicatedJobSingleReplica",
     {"minSubGroup": 1, "subGroups": [above("worker", 1), leaf("worker-replica-0", 4, "worker")]}, 4, False),
    ("jobset", "TestSingleReplicatedJobMultipleReplicas",
     {"minSubGroup": 1, "subGroups": [
         above("worker", 3), *(leaf(f"worker-replica-{n}", 4, "worker") for n in range(3))]}, 12, False),
    ("jobset", "TestMultipleReplicatedJobsAnyOrder", {"minSubGroup": 2, "subGroups": TWO}, 9, False),
    ("jobset", "TestStartupPolicyInOrderRootMinSubGroup", {"minSubGroup": 1, "subGroups": TWO}, 1, True),
    ("jobset", "TestJobSetAnnotationOverridesRoot",
     {"minSubGroup": 2, "subGroups": [s for n in "abc" for s in (above(n, 1), leaf(f"{n}-replica-0", 1, n))]}, 2, True),
    ("leaderworkerset", "TestGetPodGroupMetadata_LeaderCreated",
     {"minMember": 3, "subGroups": [leaf("leader", 1), leaf("workers", 2)]}, 3, False),
    ("ray", "TestGetPodGroupMetadata_RayCluster_SubGroups_Default",
     {"minMember": 4, "subGroups": [leaf("headgroup", 1), leaf("worker-group-0", 2), leaf("worker-group-1", 1)]},
     4, False),
    ("kubeflow/pytorch", "TestGetPodGroupMetadata_Segments_5Workers_2PerSegment",
     {"minMember": 6, "subGroups": SEGMENTS}, 6, False),
    ("job", "TestGetPodGroupMetadata_MinMemberOverride", {"minMember": 3}, 3, False),
    ("job", "TestGetPodGroupMetadata_RegularPodGroup", {"minMember": 1}, 1, False),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "members", "some"), [m[2:] for m in MADE], ids=[f"{m[0]}-{m[1]}" for m in MADE])
def test_a_group_that_the_podgrouper_makes(spec: dict[str, Any], members: int, some: bool) -> None:
    """With so many members of its sub-groups at least it starts."""
    found = kai.gang_from_object(msgspec.convert({"metadata": {"name": "g"}, "spec": spec}, kai.PodGroup))
    assert (found.min_member, found.parts is not None) == (members, some)
