"""What annotations in manifests say about the work that is lost with a pod, from the file to what people read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gangsched.cli.main import main
from tests.cli.worlds import HIGH, node

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, labels: {%(labels)s}, annotations: {%(notes)s}, ownerReferences: [%(owner)s]}
spec:
  nodeName: %(node)s
  containers: [{resources: {requests: {cpu: 4}}}]
status: {phase: Running, startTime: "2026-01-01T%(hour)s:00:00Z"}
"""
WANTS = """
apiVersion: v1
kind: Pod
metadata: {name: new, creationTimestamp: "2026-01-01T12:00:00Z"}
spec:
  schedulerName: py-gang-scheduler
  priorityClassName: high
  containers: [{resources: {requests: {cpu: 4}}}]
"""
GROUP = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s, annotations: {%s}}
spec: {minMember: 1}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j, uid: uid-j, annotations: {%s}}
spec: {template: {spec: {containers: [{}]}}}
"""
SAVED = 'gangsched.dev/last-checkpoint: "2026-01-01T11:30:00Z"'
IN_GROUP, IN_JOB = (
    "pod-group.scheduling.sigs.k8s.io: %s",
    "{apiVersion: batch/v1, kind: Job, name: j, uid: uid-j, controller: true}",
)


def running(name: str, hour: str, notes: str = "", labels: str = "", owner: str = "") -> str:
    """A pod that fills the node of its name since this hour."""
    return POD % {"name": name, "node": name, "hour": hour, "notes": notes, "labels": labels, "owner": owner}


@pytest.mark.parametrize(
    "objects",
    [
        [running("old", "01", SAVED)],
        [running("old", "01", SAVED.replace("gangsched.dev/last-checkpoint", "volcano.sh/last-checkpoint-time"))],
        [running("old", "01", labels=IN_GROUP % "g"), GROUP % ("g", SAVED), GROUP % ("h", "")],
        [running("old", "01", owner=IN_JOB), JOB % SAVED],
    ],
    ids=["pod", "volcano", "group", "job"],
)
def test_the_one_just_saved_leaves(objects: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a pod, its group or its Job: it has run for longest, and lost least; plan and explain say how much."""
    path = tmp_path / "objects.yaml"
    young = running("young", "11", labels=IN_GROUP % "h" if len(objects) > 2 else "")
    path.write_text("\n---\n".join([HIGH, node("old"), node("young"), young, *objects, WANTS]))
    assert main(["plan", "-f", str(path), "-o", "json"]) == 0
    decision = json.loads(capsys.readouterr().out)["decisions"][0]
    lost = "2.0 CPU-hours lost, last checkpoint 30m ago"
    assert [v["pod"] for v in decision["victims"]] == ["default/old"]
    assert decision["message"].endswith(f"; {lost}")
    assert main(["explain", "pod/old", "-f", str(path)]) == 0
    assert lost in " ".join(capsys.readouterr().out.split())


def test_without_the_annotation_the_young_one_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And an annotation that cannot be read is a warning, and counts as not said."""
    path = tmp_path / "objects.yaml"
    old = running("old", "01", "gangsched.dev/last-checkpoint: noon")
    path.write_text("\n---\n".join([HIGH, node("old"), node("young"), running("young", "11"), old, WANTS]))
    assert main(["plan", "-f", str(path), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [v["pod"] for v in answer["decisions"][0]["victims"]] == ["default/young"]
    assert [w["field"] for w in answer["warnings"]] == ["metadata.annotations[gangsched.dev/last-checkpoint]"]


def test_a_checkpoint_in_the_input_is_not_in_the_future(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without ``--now`` the decision is not made before it; with one it may be, and then the checkpoint is none."""
    path = tmp_path / "objects.yaml"
    old = running("old", "01", SAVED.replace("11:30", "18:30"))
    path.write_text("\n---\n".join([HIGH, node("old"), node("young"), running("young", "11"), old, WANTS]))
    for arguments, leaves in (([], "old"), (["--now", "2026-01-01T12:00:00Z"], "young")):
        assert main(["plan", "-f", str(path), "-o", "json", *arguments]) == 0
        decision = json.loads(capsys.readouterr().out)["decisions"][0]
        assert [v["pod"] for v in decision["victims"]] == [f"default/{leaves}"]


def test_what_a_job_says_wrongly_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the Job and the annotation."""
    path = tmp_path / "objects.yaml"
    path.write_text(JOB % "gangsched.dev/restart-cost: soon")
    assert main(["plan", "-f", str(path), "-o", "json"]) == 0
    warning, *_ = json.loads(capsys.readouterr().out)["warnings"]
    assert (warning["object"], warning["field"]) == (
        "Job default/j",
        "metadata.annotations[gangsched.dev/restart-cost]",
    )
