"""PriorityClasses in manifests: their annotations, and pods that get the default class."""

from __future__ import annotations

from tests.cluster.manifest_texts import POD, pod, refusal

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
