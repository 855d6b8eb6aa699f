"""What real controllers have made of gangs, as `make producers` recorded it, decided by plans."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import yaml

from gangsched.api import Decision, load, plan
from tests.controlplane.client import Object

RECORDED = Path(__file__).resolve().parent / "recorded.json"
RECORDED_RAY = RECORDED.with_name("recorded-kuberay.json")
RECORDED_KAI = RECORDED.with_name("recorded-kai.json")
RECORDED_SCHEDULER_PLUGINS = RECORDED.with_name("recorded-scheduler-plugins.json")
RECORDED_KUEUE, RECORDED_LWS = RECORDED.with_name("recorded-kueue.json"), RECORDED.with_name("recorded-lws.json")
RECORDED_MPI, RECORDED_TORCH = RECORDED.with_name("recorded-mpi.json"), RECORDED.with_name("recorded-pytorch.json")
RACK = "example.com/rack"
WITHOUT_GROUPS = {
    "apiVersion": "gangsched.dev/v1alpha1",
    "kind": "GangSchedulerConfiguration",
    "gangs": {"owners": ["JobSet"]},
}


def pods(recorded: Object, jobset: str) -> list[str]:
    """The pods of a JobSet, by name."""
    label = "jobset.sigs.k8s.io/jobset-name"
    found = (i["metadata"] for i in recorded["items"] if i["kind"] == "Pod")
    return sorted(f"default/{meta['name']}" for meta in found if meta["labels"].get(label) == jobset)


def decided(recorded: Object, folder: Path, config: Path | None = None) -> dict[str, Decision]:
    """What is decided about these objects, by gang."""
    (folder / "recorded.json").write_text(json.dumps(recorded))
    return {d.gang: d for d in plan(load(folder / "recorded.json", config=config)).decisions}


def test_jobsets_with_groups(tmp_path: Path) -> None:
    """The JobSet of the high priority starts whole, and the other one leaves whole."""
    recorded = json.loads(RECORDED.read_text())
    found = decided(recorded, tmp_path)["default/hp-abc-workers-def"]
    assert (found.outcome, found.required, found.priority) == ("preempt", 4, 100000)
    assert sorted(found.placements) == pods(recorded, "hp-js")
    assert sorted(victim.pod for victim in found.victims) == pods(recorded, "lp-js")
    assert len(found.placements) == 4


def test_jobsets_by_owner(tmp_path: Path) -> None:
    """The same without any group, by the setting: the owner references and labels of the real controller are enough."""
    recorded = json.loads(RECORDED.read_text())
    plain = copy.deepcopy(recorded)
    plain["items"] = [i for i in plain["items"] if i["kind"] not in ("Workload", "PodGroup")]
    for item in plain["items"]:
        jobs = [job["template"] for job in item["spec"]["replicatedJobs"]] if item["kind"] == "JobSet" else [item]
        for job in jobs:
            template = job["spec"]["template"]["spec"] if item["kind"] in ("Job", "JobSet") else job.get("spec", {})
            template.pop("schedulingGroup", None)
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(WITHOUT_GROUPS))
    found = decided(plain, tmp_path, config)["default/hp-js"]
    assert (found.outcome, found.kind, found.required) == ("preempt", "JobSet", 4)
    assert sorted(found.placements) == pods(recorded, "hp-js")
    assert sorted(victim.pod for victim in found.victims) == pods(recorded, "lp-js")


def answering(folder: Path, name: str) -> Path:
    """A configuration that answers to this scheduler name only."""
    path = folder / "config.yaml"
    profiles = [{"schedulerName": name}]
    path.write_text(yaml.safe_dump({**WITHOUT_GROUPS, "gangs": {"owners": []}, "profiles": profiles}))
    return path


def volcano(folder: Path) -> Path:
    """A configuration that answers to Volcano's name."""
    return answering(folder, "volcano")


def test_a_ray_cluster_whose_group_is_volcanos(tmp_path: Path) -> None:
    """Its head and both workers start together, and only where there is room for all of them."""
    recorded = json.loads(RECORDED_RAY.read_text())
    found = decided(recorded, tmp_path, volcano(tmp_path))["default/ray-demo-pg"]
    assert (found.outcome, found.required, len(found.placements)) == ("bind", 3, 3)
    for each in (i for i in recorded["items"] if i["kind"] == "Node"):
        each["status"]["allocatable"]["cpu"] = "1"
    found = decided(recorded, tmp_path, volcano(tmp_path))["default/ray-demo-pg"]
    assert (found.outcome, found.placements) == ("unschedulable", {})


def evicts_the_other(recorded: Object, found: Decision) -> None:
    """The job of the higher priority starts whole, and the other leaves whole, by deletion."""
    assert (found.outcome, found.required, len(found.placements), found.priority) == ("preempt", 3, 3, 1000)
    assert {victim.method for victim in found.victims} == {"delete"}
    running = {f"default/{i['metadata']['name']}" for i in recorded["items"] if i.get("spec", {}).get("nodeName")}
    assert {victim.pod for victim in found.victims} == running
    assert len(running) == 3


def test_vcjobs(tmp_path: Path) -> None:
    """The more urgent one starts whole, in the group that Volcano's controllers make of it, and the other leaves."""
    recorded = json.loads(RECORDED.with_name("recorded-volcano.json").read_text())
    found = decided(recorded, tmp_path, volcano(tmp_path))
    assert [name.partition("-")[0] for name in found] == ["default/urgent"]
    evicts_the_other(recorded, *found.values())


def test_partitions_of_a_vcjob(tmp_path: Path) -> None:
    """Volcano's controllers write them as sub-groups with a topology; they start in a rack each, all in one spine."""
    recorded = json.loads(RECORDED.with_name("recorded-volcano-partitions.json").read_text())
    pending = [i for i in recorded["items"] if i["kind"] == "Pod"]
    for each in pending:
        del each["spec"]["nodeName"]
        each["status"] = {"phase": "Pending"}
    (found,) = decided(recorded, tmp_path, volcano(tmp_path)).values()
    parts: dict[str, set[str]] = {}
    for each in pending:
        meta = each["metadata"]
        parts.setdefault(meta["labels"]["volcano.sh/partition-id"], set()).add(
            found.placements[f"default/{meta['name']}"]
        )
    assert (found.outcome, found.required) == ("bind", 6)
    assert sorted(map(sorted, parts.values())) == [["c"], ["d"], ["e"]]


@pytest.mark.parametrize("policy", ["coscheduling", "volcano", "owner"])
def test_train_jobs(policy: str, tmp_path: Path) -> None:
    """The TrainJob of higher priority starts whole and the other leaves whole, in groups of either API or by owner."""
    recorded = json.loads(RECORDED.with_name(f"recorded-trainjob-{policy}.json").read_text())
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({**WITHOUT_GROUPS, "gangs": {"owners": ["JobSet"] if policy == "owner" else []}}))
    found = decided(recorded, tmp_path, volcano(tmp_path) if policy == "volcano" else config)["default/high"]
    kind = "JobSet" if policy == "owner" else "PodGroup"
    assert (found.outcome, found.kind, found.required, found.priority) == ("preempt", kind, 2, 1000)
    assert sorted(found.placements) == pods(recorded, "high")
    assert sorted(victim.pod for victim in found.victims) == pods(recorded, "low")
    assert len(found.victims) == 2


@pytest.mark.parametrize("path", [RECORDED_MPI, RECORDED_TORCH], ids=["MPIJob", "PyTorchJob"])
def test_jobs_of_kubeflow_whose_groups_are_volcanos(path: Path, tmp_path: Path) -> None:
    """A launcher or master and its workers start together, and leave together."""
    recorded = json.loads(path.read_text())
    evicts_the_other(recorded, decided(recorded, tmp_path, volcano(tmp_path))["default/high"])


@pytest.mark.parametrize(("path", "kind"), [(RECORDED_MPI, "MPIJob"), (RECORDED_TORCH, "PyTorchJob")])
def test_jobs_of_kubeflow_by_owner(path: Path, kind: str, tmp_path: Path) -> None:
    """The same without any group, by the setting for the kind of their owner."""
    recorded = json.loads(path.read_text())
    recorded["items"] = [i for i in recorded["items"] if i["kind"] != "PodGroup"]
    for each in (i for i in recorded["items"] if i["kind"] == "Pod"):
        each["metadata"].pop("annotations")
        each["spec"]["schedulerName"] = "py-gang-scheduler"
    config = answering(tmp_path, "py-gang-scheduler")
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"gangs": {"owners": [kind]}}))
    evicts_the_other(recorded, decided(recorded, tmp_path, config)["default/high"])


def test_the_launcher_of_an_mpi_job_is_never_suspended(tmp_path: Path) -> None:
    """Its operator would let it go on, so it is deleted where that ends it too; the plan says so."""
    recorded = json.loads(RECORDED_MPI.read_text())
    for each in (i for i in recorded["items"] if i["kind"] == "Job"):
        each["spec"]["backoffLimit"] = 0
    found = decided(recorded, tmp_path, volcano(tmp_path))["default/high"]
    evicts_the_other(recorded, found)
    assert found.warnings == ["Job default/low-launcher would fail: 1 more failed pod exceeds its backoffLimit of 0"]


def test_spark_applications_whose_groups_are_volcanos(tmp_path: Path) -> None:
    """Where that is allowed a driver evicts all of another application for executors that do not exist yet; for less
    than that it takes two executors, and never the driver that made them.
    """
    recorded = json.loads(RECORDED.with_name("recorded-spark.json").read_text())
    assert decided(recorded, tmp_path, volcano(tmp_path))["default/spark-high-pg"].outcome == "unschedulable"
    config = volcano(tmp_path)
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"announced": {"evict": True}}))
    found = decided(recorded, tmp_path, config)["default/spark-high-pg"]
    assert (found.outcome, found.required, list(found.placements)) == ("preempt", 1, ["default/high-driver"])
    running = {f"default/{i['metadata']['name']}" for i in recorded["items"] if i.get("spec", {}).get("nodeName")}
    assert {victim.pod for victim in found.victims} == running
    assert len(running) == 4
    for each in (i for i in recorded["items"] if i["kind"] == "PodGroup"):
        each["spec"]["minResources"] = {"cpu": "4"}
    found = decided(recorded, tmp_path, config)["default/spark-high-pg"]
    assert len(found.victims) == 2
    assert "default/low-driver" not in {victim.pod for victim in found.victims}


def test_beside_kueue(tmp_path: Path) -> None:
    """The Job that Kueue has admitted starts whole; the one that it holds is not touched, nor a group that it gates."""
    recorded = json.loads(RECORDED_KUEUE.read_text())
    found = decided(recorded, tmp_path)
    assert (found["default/first"].outcome, found["default/first"].required) == ("bind", 2)
    assert len(found["default/first"].placements) == 2
    assert found["default/plain"].outcome == "gathering"
    assert "kueue.x-k8s.io/admission" in found["default/plain"].message
    assert "default/second" not in found


def test_groups_of_a_leader_worker_set(tmp_path: Path) -> None:
    """Each is a gang of a leader and a worker: there is room for one of them, which starts whole."""
    recorded = json.loads(RECORDED_LWS.read_text())
    found = decided(recorded, tmp_path)
    assert {name: (d.outcome, d.required, len(d.placements)) for name, d in found.items()} == {
        "default/serve-0": ("bind", 2, 2),
        "default/serve-1": ("unschedulable", 2, 0),
    }
    assert sorted(found["default/serve-0"].placements) == ["default/serve-0", "default/serve-0-1"]


def test_ray_clusters_whose_groups_are_those_of_scheduler_plugins(tmp_path: Path) -> None:
    """The one whose pods have the higher priority starts whole in the room of the other, which leaves whole."""
    recorded = json.loads(RECORDED_SCHEDULER_PLUGINS.read_text())
    found = decided(recorded, tmp_path, answering(tmp_path, "scheduler-plugins-scheduler"))["default/high"]
    assert (found.outcome, found.required, found.priority, len(found.placements)) == ("preempt", 3, 1000, 3)
    names = [i["metadata"]["name"] for i in recorded["items"] if i["kind"] == "Pod"]
    assert sorted(v.pod for v in found.victims) == sorted(f"default/{n}" for n in names if n.startswith("low"))


def kai(recorded: Object, folder: Path) -> dict[str, Decision]:
    """What is decided about the gangs that wait, by the name of KAI's PodGroup, or of the pod, without the UID."""
    found = decided(recorded, folder, answering(folder, "kai-scheduler"))
    return {name.partition("/")[2].removeprefix("pg-").partition("-")[0]: each for name, each in found.items()}


def test_ray_clusters_that_kai_groups(tmp_path: Path) -> None:
    """The one of the class that KAI prefers starts whole. The other one leaves whole; both pods of a Job, which are
    groups of one, stay.
    """
    recorded = json.loads(RECORDED_KAI.read_text())
    found = kai(recorded, tmp_path)["high"]
    assert (found.outcome, found.required, found.priority, len(found.placements)) == ("preempt", 3, 125, 3)
    names = [i["metadata"]["name"] for i in recorded["items"] if i["kind"] == "Pod"]
    assert sorted(v.pod for v in found.victims) == sorted(f"default/{n}" for n in names if n.startswith("low"))


def test_a_class_that_kai_does_not_evict(tmp_path: Path) -> None:
    """From 100 on, by the class that the podgrouper wrote: nothing leaves for the other Ray cluster."""
    recorded = json.loads(RECORDED_KAI.read_text())
    for each in (i for i in recorded["items"] if i["metadata"]["name"] == "train"):
        each["value"] = 100
    found = kai(recorded, tmp_path)["high"]
    assert (found.outcome, found.victims) == ("unschedulable", [])


def test_before_the_podgrouper(tmp_path: Path) -> None:
    """Pods that it has not put into a group yet are not started, alone or together."""
    recorded = json.loads(RECORDED_KAI.read_text())
    waiting = [i for i in recorded["items"] if i["kind"] == "Pod" and i["metadata"]["name"].startswith("high")]
    for each in waiting:
        del each["metadata"]["annotations"]["pod-group-name"]
    found = decided(recorded, tmp_path, answering(tmp_path, "kai-scheduler"))
    told = {name: (d.outcome, d.placements) for name, d in found.items()}
    assert told == {f"default/{p['metadata']['name']}": ("gathering", {}) for p in waiting}


def in_racks(recorded: Object, racks: str) -> Object:
    """The same with so many nodes of each of these racks, and no others."""
    node = next(i for i in recorded["items"] if i["kind"] == "Node" and i["metadata"]["labels"].get(RACK))
    items = [i for i in recorded["items"] if i["kind"] != "Node"]
    for number, name in enumerate(racks):
        made = copy.deepcopy(node)
        made["metadata"] |= {"name": f"{name}-{number}", "uid": f"u-{number}"}
        made["metadata"]["labels"] = {RACK: name, "kubernetes.io/hostname": f"{name}-{number}"}
        items.append(made)
    return {**recorded, "items": items}


@pytest.mark.parametrize(
    ("racks", "starts"), [("aa", False), ("aabb", True), ("aab", False), ("abc", False), ("aabbc", True)]
)
def test_leaders_of_a_jobset_with_exclusive_placement(racks: str, starts: bool, tmp_path: Path) -> None:
    """There is one pod of each of two Jobs: both start where each Job has a rack of two nodes to itself."""
    recorded = json.loads(RECORDED.with_name("recorded-jobset-exclusive.json").read_text())
    found = decided(in_racks(recorded, racks), tmp_path)["default/train"]
    assert (found.outcome == "bind", len(found.placements)) == (starts, 2 if starts else 0)
    assert len({node.partition("-")[0] for node in found.placements.values()}) == len(found.placements)


@pytest.mark.parametrize(("racks", "starts"), [("aabb", True), ("a", False), ("ab", False)])
def test_the_leader_of_a_group_with_a_rack_to_itself(racks: str, starts: bool, tmp_path: Path) -> None:
    """The controller has made the leader alone: it starts in a rack where there is room for its worker, too."""
    recorded = in_racks(json.loads(RECORDED.with_name("recorded-lws-exclusive.json").read_text()), racks)
    recorded["items"] = [i for i in recorded["items"] if not i["metadata"]["name"].startswith("late")]
    found = decided(recorded, tmp_path)["default/serve-0"]
    assert (found.outcome == "bind", found.required, len(found.placements)) == (starts, 1, int(starts))
