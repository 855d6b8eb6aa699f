"""``gangsched queues``, and queues in ``plan`` and ``simulate``: the example of two teams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli.main import main

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "quota-gpu"

RUNNING = """
apiVersion: v1
kind: Pod
metadata:
  name: team-b-job-x
  namespace: team-b
  labels: {kueue.x-k8s.io/queue-name: local-queue, kueue.x-k8s.io/priority-class: dev-priority}
spec:
  nodeName: cpu-node
  containers: [{name: app, resources: {requests: {cpu: "5"}}}]
"""


def answer(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    """The JSON that a command prints."""
    assert main([*map(str, arguments), "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_team_a_takes_its_cores_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """With team B's job running, the plan evicts it for team A's, and says what both use."""
    (tmp_path / "running.yaml").write_text(RUNNING)
    (tmp_path / "team-a.yaml").write_text((EXAMPLE / "30-team-a-job.yaml").read_text())
    files = [EXAMPLE / "00-nodes.yaml", EXAMPLE / "10-queues.yaml", tmp_path]
    [decision] = answer(capsys, "plan", "-f", *files)["decisions"]
    assert (decision["outcome"], decision["kind"]) == ("preempt", "Job")
    assert decision["placements"] == {"team-a/team-a-job-0": "gpu-node"}
    [victim] = decision["victims"]
    assert (victim["pod"], victim["reason"]) == ("team-b/team-b-job-x", "InCohortReclaimWhileBorrowing")
    assert decision["quota"] == {
        "clusterQueue": "team-a-cq",
        "flavors": {"cpu": "default-flavor", "nvidia.com/gpu": "gpu-flavor"},
        "borrowed": {"cpu": "7"},
    }


def test_the_whole_story(capsys: pytest.CaptureFixture[str]):
    """Team B runs, team A preempts it, and in the end team B's Job is suspended and not lost."""
    found = answer(capsys, "simulate", "-f", EXAMPLE, "--arrival", "file-order", "--until", "2m")
    said = [(e["verb"], e["object"]) for e in found["events"] if e["actor"] == "scheduler"]
    assert [s for s in said if s[0] in ("bind", "suspend", "delete")] == [
        ("bind", "team-b/team-b-job-0"),
        ("suspend", "team-b/team-b-job"),
        ("bind", "team-a/team-a-job-0"),
    ]


def test_queues_of_manifests(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The tree, what bound pods use of it, and how many workloads wait."""
    (tmp_path / "running.yaml").write_text(RUNNING)
    found = answer(capsys, "queues", "-f", EXAMPLE, tmp_path)["queues"]
    assert [(q["name"], q["kind"], q["pending"], q["reserving"], q["admitted"]) for q in found] == [
        ("team-ab", "Cohort", 0, 0, 0),
        ("shared-cq", "ClusterQueue", 0, 0, 0),
        ("team-a-cq", "ClusterQueue", 1, 0, 0),
        ("team-b-cq", "ClusterQueue", 1, 1, 1),
    ]
    assert found[3]["usage"][0] == {
        "flavor": "default-flavor",
        "resource": "cpu",
        "used": "5",
        "reserved": "5",
        "quota": "0",
        "borrowed": "5",
    }
    assert main(["queues", "-f", str(EXAMPLE)]) == 0
    assert "░░░░" in capsys.readouterr().out


def test_queues_of_a_namespace(capsys: pytest.CaptureFixture[str]):
    """With -n only the ClusterQueues that its LocalQueues name are shown, below their cohorts."""
    files: list[str | Path] = ["-f", EXAMPLE / "00-nodes.yaml", EXAMPLE / "10-queues.yaml"]
    every = [row["name"] for row in answer(capsys, "queues", *files)["queues"]]
    [*cohorts, own] = answer(capsys, "queues", *files, "-n", "team-a")["queues"]
    assert own["name"] == "team-a-cq"
    assert all(row["kind"] == "Cohort" for row in cohorts)
    assert len(cohorts) + 1 < len(every)
    assert answer(capsys, "queues", *files, "-n", "nobody")["queues"] == []


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_the_namespace_of_objects_that_name_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """With -n objects without a namespace are in that one, and others stay where they are."""
    spec = "spec: {schedulerName: py-gang-scheduler, containers: [{name: c}]}"
    pod = f"{{apiVersion: v1, kind: Pod, metadata: {{name: %s}}, {spec}}}"
    (tmp_path / "pods.yaml").write_text("---\n".join(pod % name + "\n" for name in ("a", "b, namespace: other")))
    found = answer(capsys, command, "-f", tmp_path / "pods.yaml", "-n", "ml")
    names = {each["gang"] for each in found["decisions"]} if command == "plan" else set(found["pods"])
    assert names == {"ml/a", "other/b"}


def test_no_queues(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Manifests without queues are no mistake."""
    (tmp_path / "node.yaml").write_text("{apiVersion: v1, kind: Node, metadata: {name: n}}")
    assert main(["queues", "-f", str(tmp_path)]) == 0
    assert "There are no ClusterQueues." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("nominalQuota: 10", "nominalQuota: -1", "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"),
        ("clusterQueue: team-a-cq", "clusterQueue: ''", "spec.clusterQueue"),
        ("reclaimWithinCohort: Any", "reclaimWithinCohort: Some", "spec.preemption.reclaimWithinCohort"),
    ],
)
def test_a_wrong_queue_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, field: str):
    """An object that cannot be understood is an error that says which and where."""
    (tmp_path / "queues.yaml").write_text((EXAMPLE / "10-queues.yaml").read_text().replace(old, new))
    assert main(["queues", "-f", str(tmp_path)]) == 2
    assert field in capsys.readouterr().err


def test_a_misspelt_key_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A key of a spec that nobody knows is worth a warning."""
    text = (EXAMPLE / "10-queues.yaml").read_text().replace("  preemption:", "  premption:")
    (tmp_path / "queues.yaml").write_text(text)
    warnings = answer(capsys, "plan", "-f", tmp_path)["warnings"]
    assert any("premption" in w["message"] + w["field"] for w in warnings)
