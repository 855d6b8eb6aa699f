"""Where objects of each kind that can be a gang have the templates of their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gangsched.messages import failures
from gangsched.model.dialects.operators import KUBEFLOW, RAY
from gangsched.model.dialects.owners import FAMILY
from gangsched.model.dialects.spark import GROUP as SPARK
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import GROUP as JOBSET
from gangsched.model.unsubmitted import TRAINER

_RAY = ("headGroupSpec.template", "workerGroupSpecs[]?.template")
_RUNTIME = ("spec.template.spec.replicatedJobs[].template.spec.template",)
#: By kind and API group: the paths, of which ``[]`` is each of a list, ``*`` each value, ``?`` what may be missing.
PATHS: dict[tuple[str, str], tuple[str, ...]] = {
    ("Job", "batch"): ("spec.template",),
    ("CronJob", "batch"): ("spec.jobTemplate.spec.template",),
    ("JobSet", JOBSET): ("spec.replicatedJobs[].template.spec.template",),
    ("StatefulSet", "apps"): ("spec.template",),
    ("LeaderWorkerSet", FAMILY): (
        "spec.leaderWorkerTemplate.leaderTemplate?",
        "spec.leaderWorkerTemplate.workerTemplate",
    ),
    ("PyTorchJob", KUBEFLOW): ("spec.pytorchReplicaSpecs.*.template",),
    ("TFJob", KUBEFLOW): ("spec.tfReplicaSpecs.*.template",),
    ("XGBoostJob", KUBEFLOW): ("spec.xgbReplicaSpecs.*.template",),
    ("PaddleJob", KUBEFLOW): ("spec.paddleReplicaSpecs.*.template",),
    ("JAXJob", KUBEFLOW): ("spec.jaxReplicaSpecs.*.template",),
    ("MPIJob", KUBEFLOW): ("spec.mpiReplicaSpecs.*.template",),
    ("RayCluster", RAY): tuple(f"spec.{path}" for path in _RAY),
    ("RayJob", RAY): (*(f"spec.rayClusterSpec.{path}" for path in _RAY), "spec.submitterPodTemplate?"),
    ("RayService", RAY): tuple(f"spec.rayClusterConfig.{path}" for path in _RAY),
    ("TrainingRuntime", TRAINER): _RUNTIME,
    ("ClusterTrainingRuntime", TRAINER): _RUNTIME,
    # Of Spark's pods the template is optional, and its fields beside it count.
    ("SparkApplication", SPARK): (),
}


class Template(NamedTuple):
    """One template of pods, and its path in the object."""

    value: dict[str, Any]
    path: str


def templates(value: dict[str, Any], paths: tuple[str, ...]) -> list[Template]:
    """All templates of an object. Raises :class:`FieldError` for one that has no containers."""
    return [each for path in paths for each in _at(value, path.split("."), "")]


def _at(value: Any, steps: list[str], path: str) -> Iterator[Template]:
    if not steps:
        if not isinstance(value, dict) or not _containers(value):
            raise FieldError(path, failures.NO_CONTAINERS)
        yield Template(value, path)
        return
    step, rest = steps[0], steps[1:]
    optional, many = step.endswith("?"), step.rstrip("?").endswith("[]")
    name = step.rstrip("?").removesuffix("[]")
    if not isinstance(value, dict):
        raise FieldError(path, failures.NO_TEMPLATE)
    if name == "*":
        if not value:
            raise FieldError(path, failures.NO_TEMPLATE)
        for key, each in value.items():
            yield from _at(each, rest, f"{path}.{key}")
        return
    found, here = value.get(name), f"{path}.{name}".removeprefix(".")
    if not found:
        if not optional:
            raise FieldError(here, failures.NO_TEMPLATE)
        return
    if not many:
        yield from _at(found, rest, here)
        return
    if not isinstance(found, list):
        raise FieldError(here, failures.NO_TEMPLATE)
    for i, each in enumerate(found):
        yield from _at(each, rest, f"{here}[{i}]")


def _containers(template: dict[str, Any]) -> bool:
    spec = template.get("spec")
    found = spec.get("containers") if isinstance(spec, dict) else None
    return isinstance(found, list) and bool(found)


def somewhere(value: Any) -> bool:
    """Return whether there is a template of pods anywhere in an object."""
    below = [value]
    while below:
        found = below.pop()
        if isinstance(found, list):
            below += found
        elif isinstance(found, dict):
            below += found.values()
            if _containers(found):
                return True
    return False
