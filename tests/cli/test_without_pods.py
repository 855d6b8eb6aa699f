"""``gangsched explain`` about what has no pods, and about names that are nearly right."""

from __future__ import annotations

import pytest

from tests.cli.worlds import NODES, node

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {%s}}
spec: {schedulerName: py-gang-scheduler, containers: [{resources: {requests: {cpu: 4}}}]}
"""


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, uid: u-1, annotations: {gangsched.dev/gang: "true"}, labels: {%(labels)s}}
spec:
  parallelism: 2
  completions: 2
  suspend: %(suspend)s
  template:
    spec: {schedulerName: py-gang-scheduler, containers: [{resources: {requests: {cpu: 1}}}]}
status: {%(status)s}
"""


@pytest.mark.parametrize(
    ("labels", "suspend", "status", "wanted"),
    [
        (
            "",
            "true",
            "",
            "SUSPENDED it is suspended, and has no pods until it is resumed do kubectl patch job train -n",
        ),
        (
            "",
            "false",
            'succeeded: 2, conditions: [{type: Complete, status: "True"}]',
            "FINISHED it has finished: 2 of 2 pods have succeeded",
        ),
        (
            "kueue.x-k8s.io/queue-name: q",
            "true",
            "",
            "SUSPENDED it waits in LocalQueue q, suspended until it is admitted do",
        ),
    ],
    ids=["suspended", "finished", "in a queue"],
)
def test_a_job_without_pods(explain, labels, suspend, status, wanted):
    """It is said how it stands, and what would give it pods."""
    code, out, errors = explain("job/train", NODES, JOB % {"labels": labels, "suspend": suspend, "status": status})
    assert code == 0, errors
    assert "default/train Job · no pods" in out
    assert wanted in out


GROUP = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: train, namespace: %s}
spec: {minMember: 2}
"""


def test_a_group_without_pods(explain):
    """Which label its pods have to have is said."""
    code, out, _ = explain("train", NODES, GROUP % "default")
    assert code == 0
    assert "WAITS no pod names it; it waits for 2 pods" in out
    assert "give 2 pods of namespace default the label pod-group.scheduling.sigs.k8s.io=train" in out


@pytest.mark.parametrize(
    ("named", "namespace", "wanted"),
    [
        ("trian", "default", "change the label pod-group.scheduling.sigs.k8s.io of the pods to train"),
        (
            "train",
            "other",
            "create the PodGroup default/train: that of namespace other counts for pods of that namespace",
        ),
        ("else", "default", "create the PodGroup default/else; its spec.minMember says"),
    ],
    ids=["misspelt", "elsewhere", "missing"],
)
def test_which_group_was_meant(explain, named, namespace, wanted):
    """A group of nearly the name, or of the name in another namespace, is pointed at."""
    member = POD % ("w-0", f"pod-group.scheduling.sigs.k8s.io: {named}")
    code, out, _ = explain("w-0", NODES, GROUP % namespace, member)
    assert code == 0
    assert f"WAITS PodGroup default/{named} does not exist do {wanted}" in out


def test_a_device_that_is_called_otherwise(explain):
    """Where no node has a resource, and nodes have one of nearly its name, that is tried."""
    gpus = node("g1").replace("cpu:", "nvidia.com/gpu: 8, cpu:")
    asks = (POD % ("w-0", "")).replace("cpu: 4", "nvidia.com/gpus: 1")
    _, out, _ = explain("w-0", gpus, asks)
    assert "do ask for nvidia.com/gpu instead of nvidia.com/gpus: it can start now" in out
