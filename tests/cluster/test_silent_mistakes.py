"""What looks as if it made a gang, or gave quota, and does not: a warning says so before anything starts."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gangsched.cluster.manifests import load
from tests.cluster.stages import CONTAINER, DECLARED, NAME, OWNERS, job, owner

SPEC = {"schedulerName": NAME, "containers": [CONTAINER]}


def pod(kind: str = "", api: str = "", spec: Mapping[str, Any] = SPEC, **notes: str) -> dict[str, Any]:
    """A pod, owned by an object of this kind."""
    meta: dict[str, Any] = {"name": "p", "annotations": notes}
    if kind:
        meta["ownerReferences"] = [{"apiVersion": api, "kind": kind, "name": "o", "uid": "u", "controller": True}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def warnings(*objects: dict[str, Any]) -> Sequence[Any]:
    """What is said about these objects."""
    return load(["-"], stdin=io.StringIO("\n---\n".join(map(json.dumps, objects)))).warnings


@pytest.mark.parametrize(
    ("kind", "api", "means"),
    [
        ("Workflow", "argoproj.io/v1alpha1", False),
        ("ReplicaSet", "apps/v1", False),
        ("", "", False),
        ("Job", "batch/v1", True),
        ("RayCluster", "ray.io/v1", True),
        ("Job", "batch.volcano.sh/v1alpha1", False),
    ],
)
def test_an_annotation_on_pods_of_an_owner_that_makes_no_gang(kind: str, api: str, means: bool) -> None:
    """The annotation means something on pods of a known kind alone."""
    found = [w for w in warnings(pod(kind, api, SPEC, **DECLARED)) if "gangsched.dev/gang" in w["field"]]
    assert len(found) == (0 if means else 1)
    assert means or (kind or "no owner") in found[0]["message"]


def test_a_reference_to_a_workload() -> None:
    """Pods of Kubernetes 1.35 name the gang in a field that later versions do not have."""
    (found,) = warnings(pod(spec={**SPEC, "workloadRef": {"name": "w", "podGroup": "g"}}))
    assert found["field"] == "spec.workloadRef"
    assert "1.35" in found["message"]


@pytest.mark.parametrize(("name", "label", "told"), [("default", {}, 1), ("other", {}, 0), ("default", {"q": "x"}, 0)])
def test_a_local_queue_named_default(name: str, label: dict[str, str], told: int) -> None:
    """Kueue's webhook puts Jobs without a label into it; here they need no quota."""
    made = owner("Job", "batch/v1", job(2))
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "x"} if label else {}
    meta = {"name": name, "namespace": "default"}
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": meta}
    found = warnings({**queue, "spec": {"clusterQueue": "a"}}, made)
    assert len([w for w in found if "LocalQueue" in w["message"]]) == told


@pytest.mark.parametrize(
    ("kind", "api", "spec", "said"),
    [
        ("RayClusterFleet", "orchestration.aibrix.ai/v1alpha1", {"template": {"spec": SPEC}}, "pass its pods instead"),
        ("FlinkDeployment", "flink.apache.org/v1beta1", {"image": "flink", "taskManager": {}}, "pass its pods instead"),
        ("RayClustre", "ray.io/v1", {"headGroupSpec": {"template": {"spec": SPEC}}}, "did you mean RayCluster?"),
        ("Certificate", "cert-manager.io/v1", {"dnsNames": ["a"]}, "unknown kind 'Certificate'"),
    ],
)
def test_a_kind_that_is_not_known(kind: str, api: str, spec: dict[str, Any], said: str) -> None:
    """A near name is suggested only of the same API group if the object seems to make pods."""
    (found,) = warnings({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": spec})
    assert found["message"].endswith(said)


@pytest.mark.parametrize(
    ("field", "key", "meant"),
    [
        ("annotations", "gangsched.dev/gangs", "gangsched.dev/gang"),
        ("labels", "kueue.x-k8s.io/queue-nam", "kueue.x-k8s.io/queue-name"),
        ("labels", "pod-group.scheduling.sigs.k8s.oi", "pod-group.scheduling.sigs.k8s.io"),
        ("annotations", "example.com/gang", ""),
    ],
)
@pytest.mark.parametrize("kind", ["Job", "JobSet", "PyTorchJob", "Pod"])
def test_a_misspelt_key(kind: str, field: str, key: str, meant: str) -> None:
    """On the object and on its template, before anything is submitted."""
    for template in (False, True):
        (made,) = json.loads(json.dumps([pod()] if kind == "Pod" else OWNERS[kind].objects))
        if template and kind == "Pod":
            continue
        at = made
        for name in _TEMPLATES[kind] if template else ():
            at = at[name]
        at["metadata"] = {**at.get("metadata", {}), field: {key: "true"}}
        found = [w for w in warnings(made) if key in w["field"]]
        assert [w["message"] for w in found] == ([f"this key means nothing; did you mean {meant}?"] if meant else [])
        assert not meant or found[0]["field"].startswith("spec." if template else "metadata.")


_TEMPLATES: dict[str, list[Any]] = {
    "Job": ["spec", "template"],
    "JobSet": ["spec", "replicatedJobs", 0, "template", "spec", "template"],
    "PyTorchJob": ["spec", "pytorchReplicaSpecs", "Worker", "template"],
}
