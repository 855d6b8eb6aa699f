"""What real controllers have made of gangs, as `make producers` recorded it, decided by plans."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import yaml

from gangsched.api import Decision, load, plan
from tests.controlplane.client import Object

RECORDED = Path(__file__).resolve().parent / "recorded.json"
RECORDED_RAY = RECORDED.with_name("recorded-kuberay.json")
RECORDED_KUEUE, RECORDED_LWS = RECORDED.with_name("recorded-kueue.json"), RECORDED.with_name("recorded-lws.json")
RECORDED_MPI = RECORDED.with_name("recorded-mpi.json")
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


def volcano(folder: Path) -> Path:
    """A configuration that answers to Volcano's name."""
    path = folder / "config.yaml"
    profiles = [{"schedulerName": "volcano"}]
    path.write_text(yaml.safe_dump({**WITHOUT_GROUPS, "gangs": {"owners": []}, "profiles": profiles}))
    return path


def test_a_ray_cluster_whose_group_is_volcanos(tmp_path: Path) -> None:
    """Its head and both workers start together, and only where there is room for all of them."""
    recorded = json.loads(RECORDED_RAY.read_text())
    found = decided(recorded, tmp_path, volcano(tmp_path))["default/ray-demo-pg"]
    assert (found.outcome, found.required, len(found.placements)) == ("bind", 3, 3)
    for each in (i for i in recorded["items"] if i["kind"] == "Node"):
        each["status"]["allocatable"]["cpu"] = "1"
    found = decided(recorded, tmp_path, volcano(tmp_path))["default/ray-demo-pg"]
    assert (found.outcome, found.placements) == ("unschedulable", {})


def test_mpi_jobs_whose_groups_are_volcanos(tmp_path: Path) -> None:
    """The launcher and workers of the MPIJob of higher priority start together, and those of the other leave together,
    by deletion: its operator lets a launcher go on that another client has suspended.
    """
    recorded = json.loads(RECORDED_MPI.read_text())
    found = decided(recorded, tmp_path, volcano(tmp_path))["default/high"]
    assert (found.outcome, found.required, len(found.placements), found.priority) == ("preempt", 3, 3, 1000)
    assert {victim.method for victim in found.victims} == {"delete"}
    running = {f"default/{i['metadata']['name']}" for i in recorded["items"] if i.get("spec", {}).get("nodeName")}
    assert {victim.pod for victim in found.victims} == running
    assert len(running) == 3


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
