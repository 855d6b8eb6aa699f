"""The controller that creates the pods of an owner, by its field ``managedBy``.

Kueue's MultiKueue, for one, runs Jobs of one cluster in another one: the usual controller ignores an object that names
a different controller. Sources: KEP-4368 (Jobs), the API types of JobSet, mpi-operator, training-operator, Kubeflow
Trainer and KubeRay.
"""

from __future__ import annotations

from typing import NamedTuple

from gangsched.model import wire
from gangsched.model.dialects.operator_specs import OperatorObject
from gangsched.model.jobsets import RawJobSet

#: The controllers that make pods in the cluster of their object.
_HERE = frozenset(
    (
        "kubernetes.io/job-controller",
        "jobset.sigs.k8s.io/jobset-controller",
        "kubeflow.org/mpi-operator",
        "kubeflow.org/training-operator",
        "trainer.kubeflow.org/trainjob-controller",
        "ray.io/kuberay-operator",
    )
)


class OtherController(NamedTuple):
    """The controller that an object names, and the field in which it does."""

    field: str
    name: str


def other_controller(raw: wire.Object) -> OtherController | None:
    """Return the controller to which an object is left; None where the usual one makes its pods."""
    if isinstance(raw, OperatorObject) and raw.spec.run_policy is not None and raw.spec.run_policy.managed_by:
        found = OtherController("spec.runPolicy.managedBy", raw.spec.run_policy.managed_by)
    elif isinstance(raw, wire.Job | RawJobSet | OperatorObject) and raw.spec.managed_by:
        found = OtherController("spec.managedBy", raw.spec.managed_by)
    else:
        return None
    return None if found.name in _HERE else found
