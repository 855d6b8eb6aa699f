"""What is counted of an object that cannot be understood, where its old state, or none, would be less safe.

A pod takes room all the same. It is not placed: while it is not bound it is its own gang, which waits. A running pod
holds the valid part of its requests and ports. Of a resource with a request above all nodes, it holds all that its node
has. Of very many resources, it holds those that nodes may have. If they cannot be read at all, it fills its node. A
budget allows no disruption, a class is as patient as can be, and a Job or JobSet does not go on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from gangsched.model import wire
from gangsched.model.children import ADDED_BY_FLAVOR
from gangsched.model.constraints import LabelSelector, PodShape
from gangsched.model.convert import MINIMUM_RUN_TIME, PREEMPTION_DELAY, Converter, annotated_duration, job_set
from gangsched.model.dialects.owners import GANG
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import JobSet, RawJobSet
from gangsched.model.preemptible import preemption_toleration
from gangsched.model.quantity import base_units
from gangsched.model.records import PREEMPT_LOWER, PREEMPT_NEVER, SINGLE, Budget, GangId, Job, Pod, PriorityClass
from gangsched.model.selectors import label_selector
from gangsched.model.shapes import MAX_RESOURCES
from gangsched.model.times import LONGEST_SECONDS, parse_time

#: More pods than any node takes: beside this one there is room for none.
_ALL = 1 << 30
#: Fields of resource lists, and an amount beyond all nodes of which those of many pods can be summed exactly.
_AMOUNTS = ("requests", "limits", "overhead", "allocatedResources")
_MOST = 1 << 46
FILLS_ITS_NODE = PodShape(requests=(("pods", _ALL),))
_T = TypeVar("_T")
_S = TypeVar("_S", bound=wire.Wire)

#: The fields of a pod that cannot be wrong in themselves, and those that say which room it takes.
_SPEC = (
    *("node_name", "scheduler_name", "priority", "priority_class_name", "preemption_policy", "scheduling_group"),
    "termination_grace_period_seconds",
)
_ROOM_OF_SPEC = ("containers", "init_containers", "resources", "overhead", "host_network")
_STATUS = ("phase", "nominated_node_name")
_ROOM_OF_STATUS = ("container_statuses", "init_container_statuses", "resources", "allocated_resources")


class _AnySpec(msgspec.Struct, rename="camel"):
    node_name: Any = ""
    scheduler_name: Any = ""
    priority: Any = None


class _AnyStatus(msgspec.Struct):
    phase: Any = ""


class _AnyPod(msgspec.Struct):
    spec: _AnySpec = msgspec.field(default_factory=_AnySpec)
    status: _AnyStatus = msgspec.field(default_factory=_AnyStatus)


def refused_pod(convert: Converter, raw: wire.Pod, error: FieldError) -> Pod:
    """The record of a pod that :meth:`~gangsched.model.convert.Converter.pod` does not accept for this reason."""
    meta, spec, status = raw.metadata, raw.spec, raw.status
    times = {"creation_timestamp": _time(meta.creation_timestamp), "deletion_timestamp": _time(meta.deletion_timestamp)}
    meta = msgspec.structs.replace(meta, **times)
    never = {} if spec.preemption_policy == PREEMPT_LOWER else {"preemption_policy": PREEMPT_NEVER}
    known = {"start_time": _time(status.start_time), "conditions": _timed(status.conditions)}

    def only(of_spec: tuple[str, ...], of_status: tuple[str, ...]) -> Pod:
        return convert.pod(wire.Pod(meta, _only(spec, of_spec, **never), _only(status, of_status, **known)))

    def with_room() -> Pod:
        return only(_SPEC + _ROOM_OF_SPEC, _STATUS + _ROOM_OF_STATUS)

    found = _unless_wrong(with_room, None)
    if found is None:
        names: set[str] = set()
        spec, status = _bounded(spec, names), _bounded(status, names)
    pod = found or _unless_wrong(with_room, None) or msgspec.structs.replace(only(_SPEC, _STATUS), shape=FILLS_ITS_NODE)
    gang = pod.gang if pod.node else GangId(SINGLE, pod.namespace, pod.name, pod.scheduler)
    return msgspec.structs.replace(pod, gang=gang, mistake=error.mistake)


def undecodable_pod(convert: Converter, meta: wire.ObjectMeta, body: bytes, error: FieldError) -> Pod:
    """The same of one whose fields have other types than those of the API."""
    try:
        found = msgspec.json.decode(body, type=_AnyPod)
    except msgspec.DecodeError:
        found = _AnyPod()
    spec, phase = found.spec, found.status.phase
    plain = wire.PodSpec(node_name=_text(spec.node_name), scheduler_name=_text(spec.scheduler_name))
    plain.priority = spec.priority if type(spec.priority) is int else None
    pod = refused_pod(convert, wire.Pod(meta, plain, wire.PodStatus(phase=_text(phase))), error)
    return msgspec.structs.replace(pod, shape=FILLS_ITS_NODE)


def refused_budget(raw: wire.PodDisruptionBudget) -> Budget:
    """A PodDisruptionBudget that allows nothing. If it is not known of which pods, of all in its namespace."""
    everything: LabelSelector | None = LabelSelector()
    selector = _unless_wrong(lambda: label_selector(raw.spec.selector, ""), everything)
    return Budget(raw.metadata.namespace, raw.metadata.name, selector, allowed=0)


def refused_class(raw: wire.PriorityClass) -> PriorityClass:
    """A PriorityClass of which the times that cannot be read are the longest that there are."""
    notes = raw.metadata.annotations or {}
    longest: float | None = LONGEST_SECONDS
    return PriorityClass(
        raw.metadata.name,
        raw.value,
        raw.global_default,
        raw.preemption_policy or PREEMPT_LOWER,
        _unless_wrong(lambda: annotated_duration(notes, MINIMUM_RUN_TIME), longest),
        _unless_wrong(lambda: annotated_duration(notes, PREEMPTION_DELAY), longest),
        *_unless_wrong(lambda: preemption_toleration(notes, raw.value), (raw.value + 1, 0.0)),
    )


def refused_job(convert: Converter, raw: wire.Job) -> Job:
    """A Job with its counts, queue and owner. Its pods are not known, so it is neither resumed nor suspended."""
    return msgspec.structs.replace(convert.job(_without_template(raw)), template=None)


def refused_jobset(convert: Converter, raw: RawJobSet) -> JobSet | None:
    """The same for a JobSet; None if not even the number of its Jobs is known."""
    replicated = [msgspec.structs.replace(r, template=_without_template(r.template)) for r in raw.spec.replicated_jobs]
    plain = RawJobSet(
        metadata=_plain(raw.metadata),
        spec=msgspec.structs.replace(raw.spec, replicated_jobs=replicated),
        status=msgspec.structs.replace(raw.status, conditions=_timed(raw.status.conditions)),
    )
    found = _unless_wrong(lambda: job_set(convert, plain), None)
    if found is None:
        return None
    parts = (msgspec.structs.replace(r, job=msgspec.structs.replace(r.job, template=None)) for r in found.replicated)
    return msgspec.structs.replace(found, replicated=tuple(parts))


def _without_template(raw: wire.Job) -> wire.Job:
    return wire.Job(
        metadata=_plain(raw.metadata),
        spec=msgspec.structs.replace(raw.spec, template=wire.PodTemplate(), scheduling=None),
        status=msgspec.structs.replace(raw.status, conditions=_timed(raw.status.conditions)),
    )


def _plain(meta: wire.ObjectMeta) -> wire.ObjectMeta:
    notes = {key: text for key, text in (meta.annotations or {}).items() if key not in (ADDED_BY_FLAVOR, GANG)}
    return msgspec.structs.replace(meta, annotations=notes, creation_timestamp=_time(meta.creation_timestamp))


def _bounded(raw: _S, names: set[str]) -> _S:
    """The same with amounts of resources that can be counted, of so many resources as can be; ``names`` gets those."""
    return msgspec.convert(_with_bounds(msgspec.to_builtins(raw), names), type(raw), str_keys=True)


def _with_bounds(value: Any, names: set[str]) -> Any:
    if isinstance(value, list):
        return [_with_bounds(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    amounts = {key: _amounts(inner, names) for key, inner in value.items() if key in _AMOUNTS and inner}
    return {key: amounts.get(key) or _with_bounds(inner, names) for key, inner in value.items()}


def _amounts(found: dict[str, Any], names: set[str]) -> dict[str, Any]:
    out = {}
    for name in sorted(found, key=lambda each: ("/" in each, each)):  # those that every node has come first
        if name in names or len(names) < MAX_RESOURCES:
            names.add(name)
            unit = "m" if name == "cpu" else ""
            raw = found[name]
            out[name] = raw if _unless_wrong(partial(base_units, name, raw), None) is not None else f"{_MOST}{unit}"
    return out


def _only(found: _S, names: tuple[str, ...], **others: Any) -> _S:
    """These fields of it, and others."""
    return type(found)(**{**{name: getattr(found, name) for name in names}, **others})


def _timed(conditions: list[wire.Condition] | None) -> list[wire.Condition]:
    return [c for c in conditions or () if _time(c.last_transition_time) == c.last_transition_time]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _time(raw: str | None) -> str | None:
    """The time if it is one."""
    return raw if _unless_wrong(lambda: parse_time(raw, ""), None) is not None else None


def _unless_wrong(read: Callable[[], _T], otherwise: _T) -> _T:
    try:
        return read()
    except FieldError:
        return otherwise
