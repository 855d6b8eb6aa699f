"""``gangsched init``: a manifest of a job becomes one of a gang."""

from __future__ import annotations

import json

import pytest
import yaml

from gangsched.cli.main import main

POD = "{spec: {containers: [{name: main, image: busybox, resources: {requests: {cpu: 1}}}]}}"
JOB = f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: train, namespace: research}}
spec: {{parallelism: 4, completions: 6, template: {POD}}}
"""
JOBSET = f"""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: mpi}}
spec:
  replicatedJobs:
    - {{name: launcher, template: {{spec: {{template: {POD}}}}}}}
    - {{name: workers, replicas: 2, template: {{spec: {{parallelism: 3, completions: 3, template: {POD}}}}}}}
"""
PYTORCH = f"""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: torch}}
spec:
  pytorchReplicaSpecs:
    Master: {{replicas: 1, template: {POD}}}
    Worker: {{replicas: 7, template: {POD}}}
"""
RAY = f"""\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {{name: ray}}
spec:
  headGroupSpec: {{template: {POD}}}
  workerGroupSpecs: [{{replicas: 2, template: {POD}}}, {{replicas: 3, template: {POD}}}]
"""
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n}
status: {capacity: {cpu: 64}}
"""


def made(text, tmp_path, capsys, *arguments):
    """The exit code, the objects and the lines on stderr."""
    file = tmp_path / "in.yaml"
    file.write_text(text)
    code = main(["init", "-f", str(file), *arguments])
    out, err = capsys.readouterr()
    return code, list(yaml.safe_load_all(out)), err


@pytest.mark.parametrize(
    ("text", "members", "templates"),
    [(JOB, 4, 1), (JOBSET, 7, 2), (PYTORCH, 8, 2), (RAY, 6, 3)],
    ids=lambda v: str(v)[12:24],
)
def test_all_pods_at_once_are_the_gang(text, members, templates, tmp_path, capsys):
    """The group counts what all templates make at once, and each template has its label and the scheduler's name."""
    code, (group, owner), err = made(text, tmp_path, capsys)
    name = owner["metadata"]["name"]
    assert (code, group["kind"], group["metadata"]["name"]) == (0, "PodGroup", name)
    assert group["spec"] == {"minMember": members}
    assert group["metadata"].get("namespace") == owner["metadata"].get("namespace")
    written = json.dumps(owner)
    assert written.count(f'"pod-group.scheduling.sigs.k8s.io": "{name}"') == templates
    assert written.count('"schedulerName": "py-gang-scheduler"') == templates
    assert f"minMember {members}" in err


def test_a_plan_has_the_gang(tmp_path, capsys):
    """What is printed is understood by ``plan``, and starts whole; to make it a gang again changes nothing."""
    _, first, _ = made(JOB + "---\n" + NODE, tmp_path, capsys)
    _, again, _ = made(yaml.safe_dump_all(first), tmp_path, capsys)
    assert again == first
    file = tmp_path / "gang.yaml"
    file.write_text(yaml.safe_dump_all(again))
    assert main(["plan", "-f", str(file), "-o", "json"]) == 0
    (decision,) = json.loads(capsys.readouterr().out)["decisions"]
    assert (decision["gang"], decision["required"], decision["outcome"]) == ("research/train", 4, "bind")


def test_other_objects_and_labels_stay(tmp_path, capsys):
    """What is no workload is printed as it was, and a template keeps its own labels."""
    job = JOB.replace("template: {spec", "template: {metadata: {labels: {app: x}}, spec")
    code, objects, _ = made(NODE + "---\n" + job, tmp_path, capsys, "--scheduler-name", "mine")
    assert (code, objects[0], [each["kind"] for each in objects]) == (
        0,
        yaml.safe_load(NODE),
        ["Node", "PodGroup", "Job"],
    )
    template = objects[2]["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "x", "pod-group.scheduling.sigs.k8s.io": "train"}
    assert template["spec"]["schedulerName"] == "mine"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (JOB.replace("kind: Job", "kind: CronJob"), "its runs would all be one gang"),
        (JOB.replace("kind: Job", "kind: LeaderWorkerSet"), "each of its replicas is a gang"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}", "a single pod starts by itself"),
        (JOB.replace("name: train, ", ""), "it has no name"),
        (JOB.replace("kind: Job", "kind: Deployment"), "replaced one by one"),
        (JOB.replace("kind: Job", "kind: StatefulSet"), "set spec.podManagementPolicy to Parallel"),
        (
            JOB.replace("template: {", "template: {metadata: {labels: {pod-group.scheduling.sigs.k8s.io: a}}, "),
            "its pods belong to the gang a already",
        ),
    ],
)
def test_what_cannot_be_a_gang(text, why, tmp_path, capsys):
    """It is printed as it was, with the reason on stderr and exit code 2."""
    code, objects, err = made(text, tmp_path, capsys)
    assert (code, objects) == (2, [yaml.safe_load(text)])
    assert "cannot be made a gang" in err
    assert why in err
