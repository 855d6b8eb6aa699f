"""Objects that controllers of owners would create and the input lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gangsched.cluster.manifests.objects import Found
from gangsched.messages import invalid
from gangsched.model import operator_pods, wire
from gangsched.model.dialects import grove, koordinator, spark, volcano
from gangsched.model.dialects.operator_specs import OperatorObject
from gangsched.model.dialects.operators import TRAIN_JOB
from gangsched.model.errors import FieldError, Problem
from gangsched.model.jobsets import RawJobSet
from gangsched.model.pod_clique_sets import Bindings, PodCliqueSet, gangs_of, later_replicas
from gangsched.model.unsubmitted import (
    RAY_SERVICE,
    Runtimes,
    VolcanoJob,
    of_ray_service,
    of_train_job,
    of_vcjob,
)


class Made(NamedTuple):
    """An object that a controller makes, and the field of the owner in which its template stands."""

    object: wire.Pod | wire.Job | RawJobSet | OperatorObject | volcano.PodGroup | koordinator.PodGroup | grove.PodGang
    field: str


def expanded(each: Found, runtimes: Runtimes, bindings: Bindings, warnings: list[Problem]) -> Iterator[Made]:
    """The objects that the controller of an owner makes at once; remarks about them go to ``warnings``.

    Raises :class:`~gangsched.model.errors.FieldError`.
    """
    raw, kind, api_version = each.object, each.kind.name, each.kind.api_version
    if isinstance(raw, VolcanoJob):
        yield from _of_vcjob(each, raw, warnings)
        return
    if isinstance(raw, PodCliqueSet):
        yield from _of_pod_clique_set(each, raw, bindings, warnings)
        return
    if isinstance(raw, OperatorObject) and kind == RAY_SERVICE:
        yield Made(of_ray_service(raw, api_version), "spec.rayClusterConfig")
        return
    if isinstance(raw, OperatorObject) and kind == TRAIN_JOB:
        yield from _of_train_job(each, raw, runtimes, warnings)
        return
    if isinstance(raw, OperatorObject) and kind == spark.APPLICATION and raw.spec.batch_scheduler:
        text = invalid.in_groups_of_its_operator(scheduler=raw.spec.batch_scheduler)
        warnings.append(each.place.warning("spec.batchScheduler", text))
        return
    if isinstance(raw, OperatorObject | wire.StatefulSet):
        for object_, field in operator_pods.made_of(kind, api_version, raw):
            yield Made(object_, field)


def _of_vcjob(each: Found, raw: VolcanoJob, warnings: list[Problem]) -> Iterator[Made]:
    warnings.append(each.place.warning("kind", invalid.MADE_BY_VOLCANO))
    pods, minimum = 0, 0
    for made, field in of_vcjob(raw, each.kind.api_version):
        if isinstance(made, volcano.PodGroup):
            minimum = made.spec.min_member
        pods += isinstance(made, wire.Pod)
        yield Made(made, field)
    later = [f"spec.tasks[{i}].dependsOn" for i, task in enumerate(raw.spec.tasks or ()) if task.depends_on]
    if later and minimum > pods:
        text = invalid.waits_for_what_depends(minimum=minimum, pods=pods)
        warnings.append(each.place.warning(later[0], text))


def _of_pod_clique_set(each: Found, raw: PodCliqueSet, bindings: Bindings, warnings: list[Problem]) -> Iterator[Made]:
    for made, field in gangs_of(raw, each.kind.api_version, bindings):
        yield Made(made, field)
    later = later_replicas(raw)
    if later:
        text = invalid.gated_until_base(count=later)
        warnings.append(each.place.warning("spec.template.podCliqueScalingGroups", text))


def _of_train_job(each: Found, raw: OperatorObject, runtimes: Runtimes, warnings: list[Problem]) -> Iterator[Made]:
    try:
        for made in of_train_job(raw, each.kind.api_version, runtimes):
            yield Made(made, "spec.runtimeRef")
    except FieldError as error:
        if not raw.metadata.resource_version:
            raise
        # It is of a cluster, whose other objects are not to be left out because of it.
        warnings.append(each.place.warning(error.field, error.message))
