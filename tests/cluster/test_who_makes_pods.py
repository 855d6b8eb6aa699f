"""Fields of owners by which their pods are others than they look: who makes them, and from which number on."""

from __future__ import annotations

import copy
import io
import json
from typing import Any

import pytest

from gangsched.cluster.manifests import load
from gangsched.core.events import Changed
from gangsched.model.records import Pod
from tests.cluster.stages import OWNERS, seen, stateful

ELSEWHERE = "kueue.x-k8s.io/multikueue"
#: The field that names the controller of a kind, and the value that means the usual one.
FIELDS = {
    "Job": ("managedBy", "kubernetes.io/job-controller"),
    "JobSet": ("managedBy", "jobset.sigs.k8s.io/jobset-controller"),
    "TrainJob": ("managedBy", "trainer.kubeflow.org/trainjob-controller"),
    "PyTorchJob": ("runPolicy.managedBy", "kubeflow.org/training-operator"),
    "MPIJob": ("runPolicy.managedBy", "kubeflow.org/mpi-operator"),
    "RayCluster": ("managedBy", "ray.io/kuberay-operator"),
    "RayJob": ("managedBy", "ray.io/kuberay-operator"),
}


def managed(kind: str, by: str) -> list[dict[str, Any]]:
    """The owner of a kind as it is left to a controller."""
    objects = copy.deepcopy(OWNERS[kind].objects)
    at = objects[-1]["spec"]
    *path, field = FIELDS[kind][0].split(".")
    for name in path:
        at = at.setdefault(name, {})
    at[field] = by
    return objects


@pytest.mark.parametrize("kind", FIELDS)
def test_no_pods_of_an_owner_that_runs_elsewhere(kind: str) -> None:
    """Its pods are not planned here, and a warning names the controller that makes them."""
    text = "\n---\n".join(json.dumps(each) for each in managed(kind, ELSEWHERE))
    loaded = load(["-"], stdin=io.StringIO(text))
    assert not [e for e in loaded.events if isinstance(e, Changed) and isinstance(e.record, Pod)]
    (warning,) = loaded.warnings
    assert warning["field"] == f"spec.{FIELDS[kind][0]}"
    assert ELSEWHERE in warning["message"]


@pytest.mark.parametrize("kind", FIELDS)
def test_the_usual_controller_makes_pods(kind: str) -> None:
    """Its name in the field changes nothing."""
    assert len(seen(managed(kind, FIELDS[kind][1]))[1]) == len(seen(OWNERS[kind].objects)[1]) > 0


def test_pods_of_a_stateful_set_are_numbered_from_its_start() -> None:
    """They have the names that the controller gives them, by which their claims are found."""
    objects = stateful("Parallel")
    objects[0]["spec"]["ordinals"] = {"start": 5}
    assert sorted(pod.name for pod in seen(objects)[1]) == ["own-5", "own-6", "own-7"]
