"""The pods of a SparkApplication: its driver, and executors that the running driver requests.

Source: the API types of kubeflow/spark-operator (SparkApplication v1beta2). Spark requests the heap with an overhead: a
tenth of it (two fifths for Python and R) and at least 384 MiB
(https://spark.apache.org/docs/latest/running-on-kubernetes.html).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects.operator_specs import OperatorSpec, SparkPods
from gangsched.model.dialects.roles import DRIVER, EXECUTOR, Role, all_at_once, count
from gangsched.model.errors import FieldError

GROUP, APPLICATION = "sparkoperator.k8s.io", "SparkApplication"
#: On pods of Spark: driver, or executor.
ROLE = "spark-role"
_LEAST_OVERHEAD_MIB = 384
_BY_LANGUAGE = {"Python": 0.4, "R": 0.4}
_SIZE = re.compile(r"(\d{1,9})([bkmgtp]?)b?", re.ASCII)
_MIB = {"b": 2**-20, "k": 2**-10, "": 1.0, "m": 1.0, "g": 2.0**10, "t": 2.0**20, "p": 2.0**30}
_DEFAULT_MEMORY = "1g"


def roles_of(spec: OperatorSpec) -> list[Role]:
    """Return the driver, which can work with any number of executors, and the executors, which it creates later."""
    executors = 1 if spec.executor.instances is None else spec.executor.instances
    dynamic = spec.dynamic_allocation
    if dynamic is not None and dynamic.enabled:
        given = (dynamic.initial_executors, dynamic.min_executors, spec.executor.instances)
        executors = max((each for each in given if each is not None), default=0)
    wanted = count(executors, "spec.executor.instances")
    driver = all_at_once(DRIVER, 1, _template(spec, spec.driver, DRIVER), f"spec.{DRIVER}")
    template = _template(spec, spec.executor, EXECUTOR)
    later = Role(EXECUTOR, wanted, 0, 0, template, f"spec.{EXECUTOR}", kept=False, named="exec", first=1)
    return [driver, later]


def notes_of(pods: SparkPods) -> Mapping[str, str]:
    """The annotations that pods of a role will have."""
    own = pods.template.metadata.annotations if pods.template is not None else None
    return {**(own or {}), **(pods.annotations or {})}


def _template(spec: OperatorSpec, pods: SparkPods, role: str) -> wire.PodTemplate:
    """Return the pod template that Spark and its operator create from the template and the fields beside it."""
    own = pods.template or wire.PodTemplate()
    base = own.spec
    main = f"spark-kubernetes-{role}"
    container = next((each for each in base.containers if each.name == main), None)
    container = container or next(iter(base.containers), wire.Container(name=main))
    others = [each for each in base.containers if each is not container]
    asked = wire.ResourceRequirements(requests=_requests(spec, pods, role))
    if pods.gpu is not None and pods.gpu.name:
        asked = wire.ResourceRequirements({**(asked.requests or {}), pods.gpu.name: str(pods.gpu.quantity)})
    pod = msgspec.structs.replace(
        base,
        containers=[msgspec.structs.replace(container, resources=asked), *others],
        scheduler_name=pods.scheduler_name or spec.batch_scheduler or base.scheduler_name,
        priority_class_name=pods.priority_class_name or base.priority_class_name,
        node_selector={**(base.node_selector or {}), **(pods.node_selector or {})} or None,
        affinity=pods.affinity or base.affinity,
        tolerations=[*(base.tolerations or ()), *(pods.tolerations or ())] or None,
    )
    labels = {**(own.metadata.labels or {}), **(pods.labels or {})}
    return wire.PodTemplate(wire.ObjectMeta(labels=labels, annotations={**notes_of(pods)}), pod)


def _requests(spec: OperatorSpec, pods: SparkPods, role: str) -> dict[str, str | int | float]:
    cores = 1 if pods.cores is None else count(pods.cores, f"spec.{role}.cores")
    heap = _mebibytes(pods.memory or _DEFAULT_MEMORY, f"spec.{role}.memory")
    if pods.memory_overhead:
        over = _mebibytes(pods.memory_overhead, f"spec.{role}.memoryOverhead")
    else:
        over = max(_LEAST_OVERHEAD_MIB, int(heap * _factor(spec)))
    return {"cpu": pods.core_request or str(cores), "memory": f"{heap + over}Mi"}


def _factor(spec: OperatorSpec) -> float:
    if spec.memory_overhead_factor is None:
        return _BY_LANGUAGE.get(spec.type, 0.1)
    try:
        found = float(spec.memory_overhead_factor)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 100:  # nor is it NaN
        text = invalid.not_between(value=spec.memory_overhead_factor, low=0, high=100)
        raise FieldError("spec.memoryOverheadFactor", text)
    return found


def _mebibytes(text: str, field: str) -> int:
    """A size as Java writes it: ``512m``, ``1g``, a number alone in MiB."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise FieldError(field, invalid.not_a_jvm_size(value=text))
    return int(int(match[1]) * _MIB[match[2]])
