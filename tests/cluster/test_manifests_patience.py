"""PriorityClasses in manifests: their annotations, and pods that get the default class."""

from __future__ import annotations

from gangsched.core.events import Changed
from gangsched.model.records import Pod
from tests.cluster.manifest_texts import POD, pod, read, refusal

DEFAULT = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 5
globalDefault: true
"""
BAD = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: bad, annotations: {gangsched.dev/minimum-run-time: soon}}
value: 5
"""


def test_a_pod_is_told_that_it_has_the_default_class() -> None:
    """As the API server writes the name of the global default into the pod."""
    made = pod(f"{DEFAULT}---{POD % ('p', '{containers: []}')}")
    assert (made.priority, made.priority_class) == (5, "usual")


def test_a_bad_annotation_is_an_input_error() -> None:
    """With the place and the field."""
    found = refusal(BAD)
    assert "metadata.annotations[gangsched.dev/minimum-run-time]" in str(found)
    assert "'soon' is not a duration" in str(found)


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  parallelism: 3
  template:
    metadata: {annotations: {kai.scheduler/preemption-delay: soon}}
    spec: {containers: []}
"""
GROUP = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 1, scheduleTimeoutSeconds: -1}
"""


def test_a_wait_that_counts_as_not_said_is_a_warning() -> None:
    """One for all pods of a template; the input is read all the same."""
    loaded = read(f"{JOB}---{GROUP}")
    assert sum((isinstance(each, Changed) and isinstance(each.record, Pod)) for each in loaded.events) == 3
    assert [(each["object"], each["field"]) for each in loaded.warnings] == [
        ("Job default/j", "metadata.annotations[kai.scheduler/preemption-delay]"),
        ("PodGroup default/g", "spec.scheduleTimeoutSeconds"),
    ]
    assert all(each["message"].endswith("; it is ignored") for each in loaded.warnings)
