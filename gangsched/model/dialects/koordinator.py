"""``scheduling.sigs.k8s.io/v1alpha1`` PodGroup, and Koordinator's gang annotations and GangGroups.

A pod names its gang by the label ``pod-group.scheduling.sigs.k8s.io``, with settings from the PodGroup of that name.
Other keys, with settings from the members, are the older label ``pod-group.scheduling.sigs.k8s.io/name`` and the
annotation ``gang.scheduling.koordinator.sh/name``. Source of the keys and defaults:
https://koordinator.sh/docs/user-manuals/gang-scheduling/ .
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec

from gangsched.messages import invalid
from gangsched.model import conditions, wire
from gangsched.model.constraints import Labels
from gangsched.model.dialects.dialect import CommonStatus, CurrentObject, Dialect, counts, evicted, scheduled
from gangsched.model.dialects.objects import (
    ALLOWED,
    MAX_MEMBERS,
    MinResources,
    described,
    is_key,
    members,
    min_resources,
    named_in,
    shown,
)
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.fields import Documented, ignored, in_status, used
from gangsched.model.records import ClusterNetworkTopology, Gang, Part, Pod
from gangsched.model.times import parse_duration, render_time

FAMILY = "scheduling.sigs.k8s.io"
GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
LIGHT_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
LIGHT_MIN_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
PREFIX = "gang.scheduling.koordinator.sh/"
NAME, MIN, MODE, WAIT, GROUPS = (PREFIX + k for k in ("name", "min-available", "mode", "waiting-time", "groups"))
TOTAL = PREFIX + "total-number"
MATCH_POLICY, MATCH_POLICY_ALIAS = PREFIX + "match-policy", "pod-group.scheduling.sigs.k8s.io/match-policy"
TOPOLOGY, INDEX = PREFIX + "network-topology-spec", PREFIX + "network-topology-index"
CONDITION = "PodGroupScheduled"
HOSTNAME = "kubernetes.io/hostname"

MODES = ("Strict", "NonStrict")
MATCH_POLICIES = ("once-satisfied", "only-waiting", "waiting-and-running")
#: The annotations by which a member says what its gang wishes.
_OF_GANGS = (MIN, TOTAL, MODE, MATCH_POLICY, MATCH_POLICY_ALIAS, GROUPS, TOPOLOGY, WAIT)
#: More gangs than this in one GangGroup is refused: the object comes from users and its size is theirs to choose.
MAX_GROUPS = 256
#: A longer list is not even looked at: it is of more gangs than these, whatever they are called.
MAX_LIST = MAX_GROUPS * 400
#: A label key has a prefix of up to 253 characters, a slash and a name of up to 63.
MAX_KEY = 317
#: Layers of a topology, the outermost first, and their default node labels if no ClusterNetworkTopology names others.
#: The labels come from its documentation, Kubernetes and topograph. Names are compared without case and without a final
#: "Layer" or "TopologyLayer".
LAYERS = {
    "region": "topology.kubernetes.io/region",
    "zone": "topology.kubernetes.io/zone",
    "datacenter": "network.topology.nvidia.com/datacenter",
    "core": "network.topology.nvidia.com/core",
    "spine": "network.topology.nvidia.com/spine",
    "block": "network.topology.nvidia.com/block",
    "leaf": "network.topology.nvidia.com/leaf",
    "rack": "topology.kubernetes.io/rack",
    "accelerator": "network.topology.nvidia.com/accelerator",
    "host": HOSTNAME,
    "node": HOSTNAME,
}
#: The root of every topology, which asks for nothing.
_CLUSTER = "cluster"
_LAYER_NAME = re.compile(r"(?i)(.+?)(topology)?layer")
_GATHER = {"MustGather": True, "PreferGather": False}
#: More layers than this are refused: each is one more search.
MAX_LAYERS = 16
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_T = TypeVar("_T")


class PodGroupSpec(wire.Wire):
    """The spec of a PodGroup, here and in scheduler-plugins."""

    min_member: Annotated[int, used("so many members start together, 1 to 1,000,000; anything else is refused")] = 1
    schedule_timeout_seconds: Annotated[
        int | None, used("from nomination to binding; 0 is the default; below 0 is reported")
    ] = None
    min_resources: MinResources = None


class PodGroup(wire.Object):
    """A PodGroup of Koordinator or of scheduler-plugins."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)


class _Gather(msgspec.Struct):
    layer: str
    strategy: str
    multiple: int = msgspec.field(name="podCountMultiple", default=0)


class _Layer(wire.Wire):
    topology_layer: Annotated[str, used("its name, in whatever case, with or without `Layer`")] = ""
    label_key: Annotated[list[str] | None, used("the node label that the layer has; more than one are refused")] = None
    parent_topology_layer: Annotated[str, ignored("gangs list layers in their order")] = ""


class _Layers(wire.Wire):
    network_topology_spec: list[_Layer] | None = None


class NetworkTopologyObject(wire.Object):
    """``scheduling.koordinator.sh/v1alpha1`` ClusterNetworkTopology."""

    spec: _Layers = msgspec.field(default_factory=_Layers)


class _TopologySpec(msgspec.Struct):
    gather: list[_Gather] = msgspec.field(name="gatherStrategy", default_factory=list)


def needs_object(labels: Labels) -> bool:
    """Only the CRD label refers to a PodGroup object."""
    return bool(labels.get(GROUP_LABEL))


def gang_from_object(obj: PodGroup) -> Gang:
    """A PodGroup with the Koordinator annotations that it may carry. Raises :class:`FieldError`."""
    notes, gang = obj.metadata.annotations or {}, gang_of(obj, FAMILY)
    strict = _strict(notes)
    return msgspec.structs.replace(
        gang,
        match_policy=_match_policy(notes),
        strict=strict,
        remark=gang.remark or _unmet(strict=strict),
        group=_groups(notes),
        topology=_topology(notes),
        parts=_segments(notes, gang.min_member),
    )


def segment_of(pod: Pod, gang: Gang) -> str:
    """Return the segment of a member, by its index, else by the number at the end of its name; empty if the gang has no
    segments.
    """
    if gang.parts is None:
        return ""
    (segments,) = gang.parts.parts
    number = pod.hints.get(INDEX) or pod.name.rpartition("-")[2]
    return f"{segments.name}/{int(number) // segments.count}" if re.fullmatch(r"[0-9]{1,7}", number) else ""


def gang_of(obj: PodGroup, family: str) -> Gang:
    """A PodGroup of this API group, without Koordinator's annotations. Raises :class:`FieldError`."""
    spec = obj.spec
    minimum = members(spec.min_member, "spec.minMember", 1)
    seconds = spec.schedule_timeout_seconds or 0
    below = (
        FieldError("spec.scheduleTimeoutSeconds", invalid.below(value=seconds, least=0)).remark if seconds < 0 else None
    )
    return described(
        family,
        obj,
        below,
        min_member=minimum,
        min_resources=min_resources(spec.min_resources),
        timeout_seconds=float(seconds) if seconds > 0 else None,
    )


def gang_from_member(pod: Pod) -> Gang | None:
    """The gang as a member's annotations describe it; None if they do not say how many members it needs.

    Invalid values are the ``mistake`` of the gang. If that is how many it needs, none of them can be spared.
    """
    wish = _wish(pod.labels, pod.hints)
    if not wish.min_member:
        return None
    return msgspec.structs.replace(wish, namespace=pod.namespace, name=pod.gang.name, created=pod.created, remark=None)


def mistake_of_member(labels: Labels, notes: Labels) -> Mistake | None:
    """The first thing that a member without a PodGroup says about its gang and that cannot be understood."""
    return None if needs_object(labels) else _wish(labels, notes).mistake


def remark_of_member(labels: Labels, notes: Labels) -> Mistake | None:
    """The same of what only the gang's time depends on: its default holds then, as in Koordinator."""
    return None if needs_object(labels) else _wish(labels, notes).remark


def _wish(labels: Labels, notes: Labels) -> Gang:
    """Return the valid part of a member's statements about its gang; none if it does not have the number of members."""
    return _read(labels.get(LIGHT_MIN_LABEL), *map(notes.get, _OF_GANGS))


@functools.lru_cache(maxsize=64)  # every member of a gang says the same
def _read(light_minimum: str | None, *told: str | None) -> Gang:
    labels = {LIGHT_MIN_LABEL: light_minimum or ""}
    notes = {key: text for key, text in zip(_OF_GANGS, told, strict=True) if text}
    mistakes: list[Mistake] = []

    def read(part: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return part()
        except FieldError as error:
            mistakes.append(error.mistake)
            return otherwise

    minimum = read(lambda: _minimum(labels, notes), MAX_MEMBERS)
    read(lambda: _total(notes, 0 if mistakes else minimum), None)
    strict = read(lambda: _strict(notes), True)
    timeout, remark = None, _unmet(strict=strict)
    try:
        timeout = _waiting_time(notes)
    except FieldError as error:
        remark = error.remark
    return Gang(
        family=FAMILY,
        namespace="",
        name="",
        kind="Gang",
        min_member=minimum,
        timeout_seconds=timeout,
        match_policy=read(lambda: _match_policy(notes), MATCH_POLICIES[0]),
        strict=strict,
        group=read(lambda: _groups(notes), ()),
        topology=read(lambda: _topology(notes), ()),
        parts=read(lambda: _segments(notes, minimum), None),
        source="annotations gang.scheduling.koordinator.sh",
        mistake=next(iter(mistakes), None),
        remark=remark,
    )


def _minimum(labels: Labels, notes: Labels) -> int:
    """How many members the gang needs; 0 without such an annotation."""
    if notes.get(MIN):
        return _count(notes[MIN], f"metadata.annotations[{MIN}]")
    if labels.get(LIGHT_MIN_LABEL):
        return _count(labels[LIGHT_MIN_LABEL], f"metadata.labels[{LIGHT_MIN_LABEL}]")
    return 0


def _total(notes: Labels, minimum: int) -> None:
    """How many members there will be decides nothing, but it cannot be fewer than the gang needs."""
    raw = notes.get(TOTAL)
    if not raw:
        return
    field = f"metadata.annotations[{TOTAL}]"
    if _count(raw, field) < minimum:
        raise FieldError(field, invalid.less_than_minimum(raw=raw, minimum=minimum, field=MIN))


def _count(raw: str, field: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", raw) or not 1 <= int(raw) <= MAX_MEMBERS:
        raise FieldError(field, invalid.not_whole_between(value=shown(raw), low=1, high=MAX_MEMBERS))
    return int(raw)


def _strict(notes: Labels) -> bool:
    raw = notes.get(MODE) or MODES[0]
    if raw not in MODES:
        raise FieldError(
            f"metadata.annotations[{MODE}]", invalid.neither(value=shown(raw), one=MODES[0], other=MODES[1])
        )
    return raw == MODES[0]


def _unmet(*, strict: bool) -> Mistake | None:
    """Return a request of the gang that is not fulfilled."""
    return None if strict else Mistake(f"metadata.annotations[{MODE}]", invalid.NON_STRICT)


def _match_policy(notes: Labels) -> str:
    key = MATCH_POLICY if notes.get(MATCH_POLICY) else MATCH_POLICY_ALIAS
    raw = notes.get(key) or MATCH_POLICIES[0]
    if raw not in MATCH_POLICIES:
        raise FieldError(
            f"metadata.annotations[{key}]", invalid.none_of(value=shown(raw), allowed=", ".join(MATCH_POLICIES))
        )
    return raw


def _groups(notes: Labels) -> tuple[str, ...]:
    raw = notes.get(GROUPS)
    field = f"metadata.annotations[{GROUPS}]"
    if raw and len(raw) > MAX_LIST:
        raise FieldError(field, invalid.group_too_long(count=len(raw), most=MAX_GROUPS))
    return _listed(raw, field) if raw else ()


@functools.lru_cache(maxsize=256)  # every member of a gang, and every gang of a GangGroup, bears the same list
def _listed(raw: str, where: str) -> tuple[str, ...]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise FieldError(where, invalid.NOT_A_LIST_OF_GANGS) from None
    if not isinstance(value, list) or not all(isinstance(v, str) and re.fullmatch(r"[^/]+/[^/]+", v) for v in value):
        raise FieldError(where, invalid.NOT_A_LIST_OF_GANGS)
    wrong = next((name for name in value if not is_key(name)), None)
    if wrong is not None:
        raise FieldError(where, invalid.lists_no_gang_name(value=shown(wrong), rule=ALLOWED))
    names = tuple(sorted(set(value)))
    if len(names) > MAX_GROUPS:
        raise FieldError(where, invalid.too_many_gangs(count=len(names), most=MAX_GROUPS))
    return names if len(names) > 1 else ()


def _gather(notes: Labels) -> list[_Gather]:
    """Return the layers that the annotation lists."""
    raw = notes.get(TOPOLOGY)
    if not raw:
        return []
    where = f"metadata.annotations[{TOPOLOGY}]"
    try:
        listed = msgspec.json.decode(raw, type=_TopologySpec).gather
    except (msgspec.DecodeError, RecursionError) as error:
        text = invalid.NOT_A_TOPOLOGY
        raise FieldError(where, f"{text}: {error}"[:300]) from None
    if len(listed) > MAX_LAYERS:
        raise FieldError(where, invalid.too_many_layers(count=len(listed), most=MAX_LAYERS))
    return listed


def _segments(notes: Labels, minimum: int) -> Part | None:
    """Return the segments of ``podCountMultiple`` members: each is in one domain of its layer, so that the domain holds
    a multiple of these members.
    """
    where = f"metadata.annotations[{TOPOLOGY}]"
    found = [
        (each.multiple, key) for each in _gather(notes) if each.multiple and (key := _label_key(each.layer, where))
    ]
    if not found:
        return None
    size, key = found[0]
    if len(found) > 1 or size < 0 or minimum % size:
        raise FieldError(where, invalid.no_segments(minimum=minimum))
    segments = Part("segment", size, least=minimum // size, topology=((key, True),))
    return Part(least=1, parts=(segments,))


def _topology(notes: Labels) -> tuple[tuple[str, bool], ...]:
    """``{"gatherStrategy": [{"layer": ..., "strategy": "MustGather" | "PreferGather"}]}`` as constraints.

    Layers that are known come outermost first, whatever their order; as soon as one is a label key, the order is the
    user's.
    """
    where = f"metadata.annotations[{TOPOLOGY}]"
    required: dict[str, bool] = {}
    for entry in _gather(notes):
        if entry.strategy not in _GATHER:
            raise FieldError(
                where,
                invalid.no_strategy(strategy=shown(entry.strategy), layer=shown(entry.layer), allowed=list(_GATHER)),
            )
        key = _label_key(entry.layer, where)
        if key:
            required[key] = required.get(key, False) or _GATHER[entry.strategy]
    order = list(dict.fromkeys(LAYERS.values()))
    if all(key in order for key in required):
        return tuple((key, required[key]) for key in sorted(required, key=order.index))
    return tuple(required.items())


def _label_key(layer: str, where: str) -> str:
    """The node label of a layer; empty for the whole cluster. ``rack`` is a label key, ``RackLayer`` is a layer."""
    match = _LAYER_NAME.fullmatch(layer)
    name = (match[1] if match else layer).lower()
    if match and name == _CLUSTER:
        return ""
    if name in LAYERS and (match or name in ("zone", "region", "host", "node")):
        return LAYERS[name]
    if len(layer) > MAX_KEY or not _LABEL_KEY.fullmatch(layer):
        raise FieldError(where, invalid.no_layer(layer=shown(layer)))
    return layer


def layers_from_object(obj: NetworkTopologyObject) -> ClusterNetworkTopology:
    """The label of each layer that has one. Raises :class:`FieldError`."""
    found: dict[str, str] = {}
    for number, each in enumerate(obj.spec.network_topology_spec or ()):
        path = f"spec.networkTopologySpec[{number}]"
        keys = each.label_key or []
        if len(keys) > 1:
            raise FieldError(f"{path}.labelKey", invalid.ONE_LABEL_OF_LAYER)
        name = _label_key(each.topology_layer, f"{path}.topologyLayer")
        if keys and name:
            found[name] = keys[0]
    return ClusterNetworkTopology(obj.metadata.name, tuple(sorted(found.items())))


def _waiting_time(notes: Labels) -> float | None:
    raw = notes.get(WAIT)
    if not raw:
        return None
    field = f"metadata.annotations[{WAIT}]"
    seconds = parse_duration(raw, field)
    if not seconds:
        raise FieldError(field, invalid.no_time_to_wait(value=shown(raw)))
    return seconds


def status(told: CommonStatus, seen: CurrentObject) -> dict[str, Any]:
    """The fields of Koordinator's PodGroup, and conditions."""
    ours = [*scheduled(told, CONDITION), *evicted(told)]
    listed = conditions.with_these(conditions.conditions_in(seen.status), ours, seen.generation, seen.now)
    return {**progress(told["phase"], told, seen), **counts(told, seen, "scheduled"), "conditions": listed}


def progress(phase: str, told: CommonStatus, seen: CurrentObject) -> dict[str, Any]:
    """Return the common part of PodGroups of Koordinator and of scheduler-plugins."""
    wanted = {"phase": phase, **counts(told, seen, "running", "succeeded", "failed")}
    if told.get("occupiedBy"):
        wanted["occupiedBy"] = told["occupiedBy"]
    if phase not in ("Pending", "PreScheduling") and not seen.status.get("scheduleStartTime"):
        wanted["scheduleStartTime"] = render_time(seen.now)
    return wanted


#: The fields that :func:`progress` writes.
STATUS = in_status(
    phase="one of those of the API ([events.md](events.md#status-of-groups))",
    running="members are counted by their phase",
    succeeded="the same",
    failed="the same",
    occupiedBy="the owner of the first member that has one",
    scheduleStartTime="when it was tried first",
)
DIALECT = Dialect(
    FAMILY,
    lambda meta, _: named_in(meta, ("labels", GROUP_LABEL), ("labels", LIGHT_LABEL), ("annotations", NAME)),
    ("v1alpha1",),
    PodGroup,
    gang_from_object=gang_from_object,
    needs_object=needs_object,
    gang_from_member=gang_from_member,
    minimum_key=MIN,
    mistake_of=mistake_of_member,
    remark_of=remark_of_member,
    role_of=segment_of,
    status=status,
    documented=(
        Documented(
            f"PodGroup `{FAMILY}/v1alpha1`",
            PodGroupSpec,
            {**STATUS, **in_status(scheduled="how many are bound or have succeeded")},
        ),
        Documented(
            "on members, or on a PodGroup",
            None,
            {
                f"label `{GROUP_LABEL}`": "the PodGroup that the pod is a member of, which must exist",
                f"label `{LIGHT_LABEL}`, else annotation `{NAME}`": "a gang without an object",
                f"annotation `{MIN}`, else label `{LIGHT_MIN_LABEL}`": "so many members of that start together",
                f"annotation `{TOTAL}`": "only checked: at least `min-available`",
                f"annotation `{WAIT}`": "as `scheduleTimeoutSeconds`, on members",
                f"annotation `{MATCH_POLICY}`, else `{MATCH_POLICY_ALIAS}`": "which members count towards the minimum",
                f"annotation `{GROUPS}`": "gangs that start and leave together",
                f"annotation `{MODE}`": "in both a gang starts with its minimum. `NonStrict`: bound members are spared "
                "when others cannot be bound, also with [`binding.onFailure: rollback`](configuration.md#binding); "
                "reported: in Koordinator its members keep their room while others do not fit, here members that wait "
                "hold none in either mode",
                f"annotation `{TOPOLOGY}`": "one domain of a node label for all members "
                "([topology.md](../topology.md)); `podCountMultiple` of one layer: so many members are a segment, "
                "which has one domain of it. The minimum must be a multiple",
                f"annotation `{INDEX}`": "the segment of a member; without it the number at the end of its name says "
                "that",
                "annotation `scheduling.koordinator.sh/network-topology-selector`": "ignored: members are not put near "
                "other pods",
                f"annotation `{PREFIX}timeout`": "ignored, as in Koordinator",
            },
        ),
        Documented(
            "ClusterNetworkTopology `scheduling.koordinator.sh/v1alpha1`",
            _Layers,
            in_status(detailStatus="ignored: nodes are counted here"),
        ),
    ),
)
