"""Owners of every kind before they are submitted: made as their controllers make them, or refused with a reason."""

from __future__ import annotations

import copy
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli.main import main
from gangsched.model.records import TIER
from tests.cluster.stages import EXCLUSIVE, OWNERS, groups, jobset, seen

#: How many manifests of each kind are tried.
SAMPLES = int(os.environ.get("GANGSCHED_SAMPLES", "8"))
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"pool": "a"}},
    "status": {"capacity": {"cpu": "64", "memory": "256Gi"}},
}
#: What stands in manifests by mistake, or because a template engine has left it so.
ODD: list[Any] = [None, {}, [], 0, 1, 5, -1, "x", "true", 2**31, [None], {"x": None}]
#: Fields that the operators document, and users set.
DOCUMENTED: list[tuple[str, str, list[Any]]] = [
    ("containers", "nodeSelector", [{"pool": "a"}, {"pool": "b"}]),
    ("containers", "tolerations", [[{"operator": "Exists"}]]),
    ("containers", "initContainers", [[{"name": "i", "image": "i", "resources": {"requests": {"cpu": "2"}}}]]),
    ("containers", "priorityClassName", ["none-such"]),
    ("replicas", "replicas", [0, 1, 4]),
    ("parallelism", "parallelism", [0, 1, 9]),
    ("minReplicas", "maxReplicas", [0, 1, 9]),
    ("minReplicas", "numOfHosts", [1, 4]),
    ("workerGroupSpecs", "enableInTreeAutoscaling", [True]),
    ("rayClusterSpec", "submissionMode", ["HTTPMode", "SidecarMode", "InteractiveMode"]),
    ("rayClusterSpec", "suspend", [True]),
    ("pytorchReplicaSpecs", "runPolicy", [{"suspend": True}, {"schedulingPolicy": {"minAvailable": 2}}]),
    ("mpiReplicaSpecs", "slotsPerWorker", [2]),
    ("size", "leaderTemplate", [{"spec": {"containers": [{"name": "l", "image": "i"}]}}]),
    ("driver", "dynamicAllocation", [{"enabled": True, "minExecutors": 3}]),
    ("driver", "batchScheduler", ["volcano"]),
    ("tasks", "minAvailable", [1, 9]),
    (
        "trainer",
        "podTemplateOverrides",
        [[{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"pool": "a"}}}]],
    ),
    ("mlPolicy", "podGroupPolicy", [{"coscheduling": {"scheduleTimeoutSeconds": 60}}, {"volcano": {}}]),
    ("replicatedJobs", "failurePolicy", [{"maxRestarts": 3, "rules": [{"name": "r", "action": "FailJobSet"}]}]),
    ("pytorchReplicaSpecs", "runPolicy", [{"backoffLimit": 0}, {"backoffLimit": 3}]),
    ("replicatedJobs", "startupPolicy", [{"startupPolicyOrder": "InOrder"}]),
    ("replicatedJobs", "suspend", [True]),
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container in an object with a key or index in it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in [*pairs]:
        yield value, key
        yield from places(each)


def changed(objects: list[dict[str, Any]], chance: random.Random) -> list[dict[str, Any]]:
    """The same with fields that users set, and now and then with something odd in it."""
    out = copy.deepcopy(objects)
    specs = [each["spec"] for each in out]
    for beside, field, values in chance.sample(DOCUMENTED, 4):
        for found, key in [(f, k) for f, k in places(specs) if k == beside]:
            found[field if isinstance(key, str) else key] = chance.choice(values)
    if chance.random() < 0.5:
        found, key = chance.choice([*places(specs)])
        found[key] = copy.deepcopy(chance.choice(ODD))
    return out


@pytest.mark.parametrize("name", OWNERS)
def test_each_is_planned_or_refused_with_a_reason(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it is, and after ``init``. Nothing that stands in a manifest ends a command with a traceback."""
    chance = random.Random(name)
    for number in range(SAMPLES):
        objects = changed(OWNERS[name].objects, chance) if number else OWNERS[name].objects
        path = tmp_path / f"{number}.yaml"
        path.write_text("\n---\n".join(json.dumps(each) for each in (NODE, *objects)))
        planned(path, capsys)
        code = main(["init", "-f", str(path)])
        text, said = capsys.readouterr()
        assert code in (0, 2), said
        assert said, objects
        path.write_text(text)
        planned(path, capsys)


def planned(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is a decision, or a word why there is none; the exit code of ``--exit-code`` says so."""
    code = main(["plan", "-f", str(path), "-o", "json", "--exit-code"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["decisions"] or answer["warnings"] or answer["error"] or nothing(path), path.read_text()
    if code == 2:
        assert answer["error"]["field"] or answer["error"]["message"]
    else:
        starts = bool(answer["decisions"]) and all(each["outcome"] == "bind" for each in answer["decisions"])
        assert code == (0 if starts else 1)


def nothing(path: Path) -> bool:
    """Return whether the objects ask for no pods, as with 0 replicas, or have come to no pods while suspended."""
    text = path.read_text()
    return any(word in text for word in ("suspend", ": 0", ":0", "[]", "{}", "null", "minExecutors"))


def test_the_pods_of_a_job_are_those_of_the_indexes_that_come_next() -> None:
    """Its controller makes none for an index that has succeeded, or has failed for good."""
    (one,) = OWNERS["Job"].objects
    spec = {**one["spec"], "parallelism": 3, "completions": 8, "backoffLimitPerIndex": 0}
    status = {"succeeded": 3, "completedIndexes": "0-1,4", "failedIndexes": "3", "failed": 1}
    _, pods = seen([{**one, "spec": spec, "status": status}])
    assert [pod.name for pod in pods] == ["own-2", "own-5", "own-6"]


def test_indexes_that_a_job_does_not_have_any_more() -> None:
    """Its completions may have been made fewer: what failed beyond them is not counted."""
    (one,) = OWNERS["Job"].objects
    spec = {**one["spec"], "parallelism": 2, "completions": 2, "backoffLimitPerIndex": 0}
    _, pods = seen([{**one, "spec": spec, "status": {"failedIndexes": "1-3", "failed": 3}}])
    assert [pod.name for pod in pods] == ["own-0"]


def test_leaders_have_a_domain_of_their_own() -> None:
    """As the webhook of JobSet writes it: with the pods of their Job, and with those of no other."""
    _, pods = seen(jobset(**{EXCLUSIVE: "pool"}))
    assert [pod.name for pod in pods] == ["own-w-0-0", "own-w-1-0"]
    assert len({pod.labels["jobset.sigs.k8s.io/job-key"] for pod in pods}) == 2
    for pod in pods:
        assert [term.topology_key for term in (*pod.shape.affinity, *pod.shape.anti_affinity)] == ["pool", "pool"]


SUBGROUPS = {"leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": "pool"}


def divided(size: int, each: int, policy: str = "LeaderWorker", **notes: str) -> list[dict[str, Any]]:
    """A LeaderWorkerSet of one group of this size, in subgroups."""
    (found,) = copy.deepcopy(groups(**notes))
    sub_groups = {"subGroupSize": each, "subGroupPolicyType": policy}
    found["spec"]["leaderWorkerTemplate"] |= {"size": size, "subGroupPolicy": sub_groups}
    return [found]


@pytest.mark.parametrize(
    ("size", "each", "policy", "indexes"),
    [
        (4, 2, "LeaderWorker", "0011"),
        (5, 2, "LeaderWorker", "00011"),
        (5, 2, "LeaderExcluded", "-0011"),
        (3, 1, "LeaderWorker", "012"),
        (3, 1, "LeaderExcluded", "-01"),
    ],
)
def test_subgroups_of_a_leader_worker_set(size: int, each: int, policy: str, indexes: str) -> None:
    """As its webhook divides the pods; each subgroup has a domain of its own, and an excluded leader is anywhere."""
    _, pods = seen(divided(size, each, policy, **SUBGROUPS))
    found = [pod.labels.get("leaderworkerset.sigs.k8s.io/subgroup-index", "-") for pod in pods]
    assert "".join(found) == indexes
    assert [pod.mistake for pod in pods] == [None] * size
    terms = {pod.labels.get("leaderworkerset.sigs.k8s.io/subgroup-key"): pod.shape.affinity for pod in pods}
    assert len(terms) == len(set(indexes))
    for key, affinity in terms.items():
        assert [term.topology_key for term in affinity] == (["pool"] if key else [])


@pytest.mark.parametrize(("size", "each", "policy"), [(4, 0, ""), (6, 4, ""), (4, 2, "LeaderExcluded")])
def test_subgroups_that_do_not_divide_a_group(size: int, each: int, policy: str) -> None:
    """Its webhook refuses them."""
    with pytest.raises(ValueError, match=r"subGroupSize: .* is no size of subgroups"):
        seen(divided(size, each, policy))


def test_subgroups_start_together_in_domains_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two and two, although one of three domains has room for three."""
    room = {"a": 3, "b": 2, "c": 2}
    nodes = [
        {
            **NODE,
            "metadata": {"name": name, "labels": {"pool": name}},
            "status": {"allocatable": {"cpu": str(cpus), "memory": "64Gi", "pods": "9"}},
        }
        for name, cpus in room.items()
    ]
    path = tmp_path / "all.yaml"
    (lws,) = divided(4, 2, **SUBGROUPS)
    path.write_text("\n---\n".join(json.dumps(each) for each in (*nodes, lws)))
    assert main(["plan", "-f", str(path), "-o", "json"]) == 0
    (decision,) = json.loads(capsys.readouterr().out)["decisions"]
    assert (decision["outcome"], decision["required"]) == ("bind", 4)
    assert sorted(Counter(decision["placements"].values()).values()) == [2, 2]


def test_a_runtime_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what to pass; what is of a cluster is only warned of, so that the others are planned."""
    job = OWNERS["TrainJob"].objects[-1]
    with pytest.raises(ValueError, match="ClusterTrainingRuntime run is not in the input: pass it too"):
        seen([job])
    job = job | {"metadata": {**job["metadata"], "resourceVersion": "7"}}
    (warned,) = answer([job], tmp_path, capsys)["warnings"]
    assert "pass it too" in warned["message"]


@pytest.mark.parametrize(
    ("policy", "family"),
    [({"coscheduling": {}}, "scheduling.x-k8s.io"), ({"volcano": {}}, "scheduling.volcano.sh"), ({}, "")],
)
def test_a_runtime_with_a_pod_group_policy(
    policy: dict[str, Any], family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trainer makes a PodGroup of all pods of its JobSet, which name it; one in the input is not made again."""
    runtime, job = copy.deepcopy(OWNERS["TrainJob"].objects)
    runtime["spec"]["podGroupPolicy"] = policy
    (decision,) = answer([runtime, job], tmp_path, capsys)["decisions"]
    assert (decision["kind"], decision["required"]) == ("PodGroup" if family else "JobSet", 3)
    group = {
        "apiVersion": f"{family}/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "own", "namespace": "default"},
    }
    if family == "scheduling.x-k8s.io":
        (decision,) = answer([runtime, job, group | {"spec": {"minMember": 2}}], tmp_path, capsys)["decisions"]
        assert decision["required"] == 2


def answer(objects: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What ``plan`` says."""
    path = tmp_path / "objects.yaml"
    path.write_text("\n---\n".join(json.dumps(each) for each in (NODE, *objects)))
    main(["plan", "-f", str(path), "-o", "json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("Job", {"active": 3}, "it runs 3 pods, and none is in the input"),
        ("PyTorchJob", {"replicaStatuses": {"Worker": {"active": 2}}}, "it runs 2 pods"),
        ("RayCluster", {"state": "ready"}, "it runs, and its pods are not in the input"),
        ("LeaderWorkerSet", {"replicas": 1}, "it runs 1 pods"),
        ("SparkApplication", {"applicationState": {"state": "RUNNING"}}, "it runs, and"),
        ("VCJob", {"running": 2, "state": {"phase": "Running"}}, "it runs 2 pods"),
        ("StatefulSet", {"replicas": 3}, "it runs 3 pods"),
        ("TrainJob", {"jobsStatus": [{"name": "node", "active": 1}]}, "it runs 1 pods"),
        ("PyTorchJob", {"conditions": [{"type": "Succeeded", "status": "True"}]}, ""),
    ],
)
def test_an_owner_that_runs_elsewhere(
    name: str, status: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its pods hold nodes that the input does not say, so none are made up; one that is over has none."""
    objects = copy.deepcopy(OWNERS[name].objects)
    objects[-1]["status"] = status
    found = answer(objects, tmp_path, capsys)
    assert found["decisions"] == []
    said = [each["message"] for each in found["warnings"] if each["field"] == "status"]
    assert len(said) == (1 if words else 0)
    assert all(words in each for each in said)


def test_a_stateful_set_that_is_no_gang_is_asked_for_its_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Most StatefulSets are services, which run already."""
    objects = copy.deepcopy(OWNERS["StatefulSet"].objects)
    del objects[0]["metadata"]["annotations"]
    found = answer(objects, tmp_path, capsys)
    assert [each["message"] for each in found["warnings"]] == ["no pod of it in the input: pass its pods too"]


def test_a_vcjob_has_the_minimum_of_its_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each task as many as it says, in the PodGroup that Volcano's controllers make."""
    objects = copy.deepcopy(OWNERS["VCJob"].objects)
    objects[0]["spec"]["tasks"][1]["minAvailable"] = 1
    gang, pods = seen(objects)
    assert (gang.min_member, dict(gang.roles), len(pods)) == (2, {"main": 1, "work": 1}, 3)
    found = answer(objects, tmp_path, capsys)
    (warned,) = found["warnings"]
    assert "as Volcano's controllers do" in warned["message"]
    assert [each["outcome"] for each in found["decisions"]] == ["bind"]


PARTITIONS = {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 1}


def test_partitions_of_a_vcjob_are_sub_groups() -> None:
    """Each pod has the label of its partition, and each partition its topology, as Volcano's controllers write it."""
    objects = copy.deepcopy(OWNERS["VCJob"].objects)
    near = {"mode": "hard", "highestTierAllowed": 0}
    objects[0]["spec"]["tasks"][1]["partitionPolicy"] = {**PARTITIONS, "networkTopology": near}
    gang, pods = seen(objects)
    assert gang.parts is not None
    part, other = gang.parts.parts
    assert (part.name, part.count, part.least) == ("work", 1, 1)
    assert (other.name, other.count, gang.remark) == ("main", 1, None)
    assert part.topology == ((f"{TIER}0", True),)
    assert sorted(pod.labels.get("volcano.sh/partition-id", "none") for pod in pods) == ["0", "1", "none"]


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({"networkTopology": {"highestTierAllowed": 9}}, ".networkTopology.highestTierAllowed", "9 is not between"),
        ({"totalPartitions": 3}, "", "3 partitions of 1 are not the 2 replicas"),
    ],
)
def test_partitions_that_are_refused(
    changed: dict[str, Any], field: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The field that the user wrote is named."""
    objects = copy.deepcopy(OWNERS["VCJob"].objects)
    objects[0]["spec"]["tasks"][1]["partitionPolicy"] = {**PARTITIONS, **changed}
    path = tmp_path / "all.yaml"
    path.write_text("\n---\n".join(json.dumps(each) for each in (NODE, *objects)))
    assert main(["plan", "-f", str(path), "-o", "json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["field"] == f"spec.tasks[1].partitionPolicy{field}"
    assert message in error["message"]


@pytest.mark.parametrize("policy", [{}, {"networkTopology": {"mode": "hard"}}, {"networkTopology": {"mode": "soft"}}])
def test_partitions_without_a_required_level_start(
    policy: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a tier, Volcano looks for no domain."""
    objects = copy.deepcopy(OWNERS["VCJob"].objects)
    objects[0]["spec"]["tasks"][1]["partitionPolicy"] = {**PARTITIONS, **policy}
    assert [each["outcome"] for each in answer(objects, tmp_path, capsys)["decisions"]] == ["bind"]
