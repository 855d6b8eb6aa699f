"""``scheduling.sigs.k8s.io/v1alpha1`` PodGroup, and Koordinator's gang annotations and GangGroups.

A pod names its gang by the label ``pod-group.scheduling.sigs.k8s.io`` (settings come from the PodGroup of
that name), by the older label ``pod-group.scheduling.sigs.k8s.io/name``, or by the annotation
``gang.scheduling.koordinator.sh/name`` (settings come from the members). Source of the keys and defaults:
https://koordinator.sh/docs/user-manuals/gang-scheduling/ .
"""

from __future__ import annotations

import functools
import json
import re

import msgspec

from gangsched.model import wire
from gangsched.model.dialects import kai
from gangsched.model.errors import FieldError
from gangsched.model.queues import queue_labels
from gangsched.model.records import Gang, Labels, Pod
from gangsched.model.times import parse_time

FAMILY = "scheduling.sigs.k8s.io"
GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
LIGHT_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
LIGHT_MIN_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
PREFIX = "gang.scheduling.koordinator.sh/"
NAME, MIN, MODE, WAIT, GROUPS = (PREFIX + k for k in ("name", "min-available", "mode", "waiting-time", "groups"))
MATCH_POLICY, MATCH_POLICY_ALIAS = PREFIX + "match-policy", "pod-group.scheduling.sigs.k8s.io/match-policy"
TOPOLOGY = PREFIX + "network-topology-spec"
HOSTNAME = "kubernetes.io/hostname"

MATCH_POLICIES = ("once-satisfied", "only-waiting", "waiting-and-running")
#: More gangs than this in one GangGroup is refused: the object comes from users and its size is theirs to choose.
MAX_GROUPS = 256
MAX_MEMBERS = 1_000_000
#: A label key has a prefix of up to 253 characters, a slash and a name of up to 63.
MAX_KEY = 317
#: Layers of a topology, the outermost first, and the node labels that stand for them. In Koordinator a
#: ClusterNetworkTopology object says which label a layer has; these are the labels of its documentation, of Kubernetes
#: and of topograph. Names are compared without case and without a final "Layer" or "TopologyLayer".
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
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class _Gather(msgspec.Struct):
    layer: str
    strategy: str


class _TopologySpec(msgspec.Struct):
    gather: list[_Gather] = msgspec.field(name="gatherStrategy", default_factory=list)


def group_name(labels: Labels, annotations: Labels) -> str:
    """The gang's name as a member gives it, or an empty string."""
    return labels.get(GROUP_LABEL) or labels.get(LIGHT_LABEL) or annotations.get(NAME) or ""


def needs_object(pod: Pod) -> bool:
    """Only the CRD label refers to a PodGroup object."""
    return bool(pod.labels.get(GROUP_LABEL))


def gang_from_object(obj: wire.SigsPodGroup) -> Gang:
    """A PodGroup with the Koordinator annotations that it may carry. Raises :class:`FieldError`."""
    meta, spec = obj.metadata, obj.spec
    if not 1 <= spec.min_member <= MAX_MEMBERS:
        raise FieldError("spec.minMember", f"{spec.min_member} is not between 1 and {MAX_MEMBERS}")
    notes = meta.annotations or {}
    seconds = spec.schedule_timeout_seconds
    return Gang(
        family=FAMILY,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        generation=meta.generation,
        min_member=spec.min_member,
        timeout_seconds=float(seconds) if seconds and seconds > 0 else None,
        match_policy=_match_policy(notes),
        strict=notes.get(MODE) != "NonStrict",
        group=_groups(notes, "metadata.annotations"),
        topology=_topology(notes),
        source="PodGroup.scheduling.sigs.k8s.io",
        preemption_delay_seconds=kai.preemption_delay(notes),
        queue=queue_labels(meta.labels or {}),
    )


def gang_from_member(pod: Pod) -> Gang | None:
    """The gang as a member's annotations describe it; None without a valid minimum."""
    raw = pod.hints.get(MIN) or pod.labels.get(LIGHT_MIN_LABEL)
    if raw is None or not re.fullmatch(r"[0-9]{1,7}", raw) or not 1 <= int(raw) <= MAX_MEMBERS:
        return None
    try:
        groups = _groups(pod.hints, "metadata.annotations")
    except FieldError:
        groups = ()
    try:
        topology = _topology(pod.hints)
    except FieldError:
        topology = ()
    return Gang(
        family=FAMILY,
        namespace=pod.namespace,
        name=pod.gang.name,
        kind="Gang",
        created=pod.created,
        min_member=int(raw),
        timeout_seconds=_duration(pod.hints.get(WAIT)),
        match_policy=_match_policy(pod.hints),
        strict=pod.hints.get(MODE) != "NonStrict",
        group=groups,
        topology=topology,
        source="annotations gang.scheduling.koordinator.sh",
    )


def _match_policy(notes: Labels) -> str:
    raw = notes.get(MATCH_POLICY) or notes.get(MATCH_POLICY_ALIAS)
    return raw if raw in MATCH_POLICIES else MATCH_POLICIES[0]


def _groups(notes: Labels, field: str) -> tuple[str, ...]:
    raw = notes.get(GROUPS)
    return _listed(raw, f"{field}[{GROUPS}]") if raw else ()


@functools.lru_cache(maxsize=1024)  # every member of a gang, and every gang of a GangGroup, bears the same list
def _listed(raw: str, where: str) -> tuple[str, ...]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise FieldError(where, 'is not a JSON list such as ["ns/gang-a", "ns/gang-b"]') from None
    if not isinstance(value, list) or not all(isinstance(v, str) and re.fullmatch(r"[^/]+/[^/]+", v) for v in value):
        raise FieldError(where, 'is not a JSON list such as ["ns/gang-a", "ns/gang-b"]')
    names = tuple(sorted(set(value)))
    if len(names) > MAX_GROUPS:
        raise FieldError(where, f"lists {len(names)} gangs; at most {MAX_GROUPS} can form a GangGroup")
    return names if len(names) > 1 else ()


def _topology(notes: Labels) -> tuple[tuple[str, bool], ...]:
    """``{"gatherStrategy": [{"layer": ..., "strategy": "MustGather" | "PreferGather"}]}`` as constraints.

    Layers that are known come outermost first, whatever their order; as soon as one is a label key, the order is the
    user's. ``podCountMultiple`` is not looked at.
    """
    raw = notes.get(TOPOLOGY)
    if not raw:
        return ()
    where = f"metadata.annotations[{TOPOLOGY}]"
    try:
        listed = msgspec.json.decode(raw, type=_TopologySpec).gather
    except (msgspec.DecodeError, RecursionError) as error:
        text = 'is not JSON such as {"gatherStrategy": [{"layer": "RackLayer", "strategy": "MustGather"}]}'
        raise FieldError(where, f"{text}: {error}"[:300]) from None
    if len(listed) > MAX_LAYERS:
        raise FieldError(where, f"lists {len(listed)} layers; at most {MAX_LAYERS} can be asked for")
    required: dict[str, bool] = {}
    for entry in listed:
        if entry.strategy not in _GATHER:
            raise FieldError(where, f"strategy {entry.strategy!r} of layer {entry.layer!r} is none of {list(_GATHER)}")
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
        raise FieldError(where, f"layer {layer[:80]!r} is neither a known layer nor a label key")
    return layer


def _duration(raw: str | None) -> float | None:
    """A Go duration ("10m", "1h30m") in seconds; None when absent, zero or malformed, as Koordinator does."""
    if not raw or len(raw) > 40:
        return None
    parts = _DURATION.findall(raw)
    if "".join(n + u for n, u in parts) != raw:
        return None
    return sum(float(n) * _UNITS[u] for n, u in parts) or None
