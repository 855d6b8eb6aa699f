"""What holds for the gangs of each API: cases that are written in every dialect and decided by `plan`.

They are the first table of docs/reference/dialects.md; the others are what each dialect says of its fields.
"""

from __future__ import annotations

import copy
import functools
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from gangsched.api import Decision, load, plan
from gangsched.model.dialects import DIALECTS, has_status
from gangsched.model.dialects.dialect import Dialect as Described

Object: TypeAlias = dict[str, Any]
OURS = "py-gang-scheduler"


class Wish(NamedTuple):
    """What a gang asks for: how many of its ``pods`` start together, the priority of its PriorityClass ``high``, one
    rack for all, so many of each role, room for so many further members of one core that do not exist yet, ``least`` of
    the roles whole, or each role in one rack (``apart``).
    """

    pods: int
    minimum: int
    high: bool = False
    rack: bool = False
    roles: Mapping[str, int] | None = None
    announced: int = 0
    least: int = 0
    apart: bool = False


class NoWayError(Exception):
    """The API has no way to say it."""


#: Writes the gang's object (if there is one) and what its members have beside their spec, by role.
Members: TypeAlias = Callable[[str], Object]
Dialect: TypeAlias = Callable[[Wish], tuple[list[Object], Members]]


def _group(api: str, spec: Object, notes: Mapping[str, str] | None = None) -> Object:
    meta = {"name": "g", "namespace": "ns", "annotations": dict(notes or {})}
    return {"apiVersion": api, "kind": "PodGroup", "metadata": meta, "spec": spec}


def _only(wish: Wish, **can: bool) -> None:
    """Refuse a wish that the dialect cannot express."""
    asked = {"minimum": wish.minimum < wish.pods, "high": wish.high, "rack": wish.rack, "roles": bool(wish.roles)}
    asked |= {"announced": bool(wish.announced), "least": bool(wish.least), "apart": wish.apart}
    if any(yes and not can.get(name, False) for name, yes in asked.items()):
        raise NoWayError


def _sum(wish: Wish) -> Object:
    """What all members request together, where some do not exist yet."""
    return {"minResources": {"cpu": str(wish.pods + wish.announced)}} if wish.announced else {}


_KOORDINATOR = "gang.scheduling.koordinator.sh/"


def _gathered(wish: Wish) -> dict[str, str]:
    """Koordinator's annotation for one rack for all, or for each two members."""
    layer: Object = {"layer": "example.com/rack", "strategy": "MustGather" if wish.rack else "PreferGather"}
    layer |= {"podCountMultiple": 2} if wish.apart else {}
    return {f"{_KOORDINATOR}network-topology-spec": json.dumps({"gatherStrategy": [layer]})}


def _index(wish: Wish, role: str) -> dict[str, str]:
    """Koordinator's annotation by which members of one role are in one segment."""
    return {f"{_KOORDINATOR}network-topology-index": "0" if role == "a" else "2"} if wish.apart else {}


def _sigs(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True, rack=True, announced=True, apart=True, roles=wish.apart)
    spec = {"minMember": wish.minimum, **_sum(wish)}
    group = _group("scheduling.sigs.k8s.io/v1alpha1", spec, _gathered(wish) if wish.rack or wish.apart else {})
    labels = {"pod-group.scheduling.sigs.k8s.io": "g"}
    return [group], lambda role: {"labels": labels, "annotations": _index(wish, role)}


def _koordinator(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True, rack=True, apart=True, roles=wish.apart)
    notes = {f"{_KOORDINATOR}name": "g", f"{_KOORDINATOR}min-available": str(wish.minimum)}
    notes |= _gathered(wish) if wish.rack or wish.apart else {}
    return [], lambda role: {"annotations": {**notes, **_index(wish, role)}}


def _upstream(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True, rack=True, high=True)
    spec: Object = {"schedulingPolicy": {"gang": {"minCount": wish.minimum}}, "disruptionMode": {"all": {}}}
    if wish.rack:
        spec["schedulingConstraints"] = {"topology": [{"key": "example.com/rack"}]}
    if wish.high:
        spec["priorityClassName"] = "high"
    return [_group("scheduling.k8s.io/v1beta1", spec)], lambda _: {"spec": {"schedulingGroup": {"podGroupName": "g"}}}


def _composite(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True, rack=True, high=True, roles=True, least=True, apart=True)
    groups = wish.roles or {"g": wish.minimum}
    tree: Object = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
    tree |= {"priorityClassName": "high"} if wish.high else {}
    rack = {"schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}}
    policy = {"gang": {"minGroupCount": wish.least or len(groups)}}
    root = {"schedulingPolicy": policy, "disruptionMode": {"all": {}}, **tree, **(rack if wish.rack else {})}
    own = {"parentCompositePodGroupName": "g", **tree, **(rack if wish.apart else {})}
    api = "scheduling.k8s.io/v1alpha3"
    made = [{**_group(api, root), "kind": "CompositePodGroup"}]
    for name, count in groups.items():
        leaf = _group(api, {"schedulingPolicy": {"gang": {"minCount": count}}, **own})
        leaf["metadata"]["name"] = name
        made.append(leaf)
    return made, lambda role: {"spec": {"schedulingGroup": {"podGroupName": role if wish.roles else "g"}}}


def _coscheduling(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True, announced=True)
    group = _group("scheduling.x-k8s.io/v1alpha1", {"minMember": wish.minimum, **_sum(wish)})
    return [group], lambda _: {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}


def _hyper_node(name: str) -> Object:
    """A rack of the one node of this name."""
    members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}}]
    spec = {"tier": 1, "members": members}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def _volcano(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True, high=True, roles=True, announced=True, rack=True, least=True, apart=True)
    spec: Object = {"minMember": wish.minimum, "minTaskMember": dict(wish.roles or {}), **_sum(wish)}
    rack = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    if wish.roles and (wish.least or wish.apart):
        key, (size,) = "example.com/part", set(wish.roles.values())
        least = wish.least or len(wish.roles)
        policy: Object = {"name": "p", "matchLabelKeys": [key], "subGroupSize": size, "minSubGroups": least}
        policy |= rack if wish.apart else {}
        spec = {"minMember": wish.minimum, "subGroupPolicy": [policy]}
    if wish.high:
        spec["priorityClassName"] = "high"
    racks: list[Object] = []
    spec |= rack if wish.rack else {}
    if wish.rack or wish.apart:
        racks = [_hyper_node(name) for name in ("n0", "n1")]
    notes = {"scheduling.k8s.io/group-name": "g"}
    return [*racks, _group("scheduling.volcano.sh/v1beta1", spec)], lambda role: {
        "annotations": {**notes, "volcano.sh/task-spec": role},
        "labels": {"example.com/part": role},
    }


def _kai(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True, high=True, roles=True, rack=True, least=True, apart=True)
    spec: Object = {"minMember": wish.minimum}
    rack = {"topologyConstraint": {"topology": "racks", "requiredTopologyLevel": "example.com/rack"}}
    if wish.roles:
        own = rack if wish.apart else {}
        spec = {"subGroups": [{"name": role, "minMember": count, **own} for role, count in wish.roles.items()]}
    if wish.least:
        spec["minSubGroup"] = wish.least
    if wish.high:
        spec["priorityClassName"] = "high"
    racks: list[Object] = []
    spec |= rack if wish.rack else {}
    if wish.rack or wish.apart:
        levels = {"levels": [{"nodeLabel": "example.com/rack"}]}
        racks = [
            {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "racks"}, "spec": levels}
        ]
    notes = {"pod-group-name": "g"}
    return [*racks, _group("scheduling.run.ai/v2alpha2", spec)], lambda role: {
        "annotations": notes,
        "labels": {"kai.scheduler/subgroup-name": role},
    }


def _kueue(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish)
    notes = {"kueue.x-k8s.io/pod-group-total-count": str(wish.pods)}
    return [], lambda _: {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}, "annotations": notes}


def _yunikorn(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True, roles=True, announced=True)
    needed = dict(wish.roles or {"worker": wish.minimum})
    listed = [{"name": role, "minMember": count} for role, count in needed.items()]
    if wish.announced:
        listed.append({"name": "executor", "minMember": wish.announced, "minResource": {"cpu": "1"}})
    groups, prefix = json.dumps(listed), "yunikorn.apache.org/"
    driver = {"spark-role": "driver"} if wish.announced else {}
    return [], lambda role: {
        "labels": {f"{prefix}app-id": "g", **driver},
        "annotations": {f"{prefix}task-groups": groups, f"{prefix}task-group-name": role},
    }


def _grove(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True, high=True, roles=True, rack=True, apart=True)
    rack = {"topologyConstraint": {"packConstraint": {"required": "example.com/rack"}}}
    groups, own = wish.roles or {"all": wish.minimum}, rack if wish.apart else {}
    listed = [{"name": name, "minReplicas": count, "podReferences": [], **own} for name, count in groups.items()]
    spec: Object = {"podgroups": listed}
    if wish.high:
        spec["priorityClassName"] = "high"
    spec |= rack if wish.rack else {}
    gang = {**_group("scheduler.grove.io/v1alpha1", spec), "kind": "PodGang"}
    return [gang], lambda role: {
        "labels": {"grove.io/podgang": "g", "grove.io/podclique": role if wish.roles else "all"}
    }


_TEMPLATE = {"spec": {"schedulerName": OURS, "restartPolicy": "Never", "containers": []}}


def _owned(api: str, kind: str, spec: Object, *, declared: bool = True) -> tuple[list[Object], Members]:
    """An object that is declared a gang, and what its pods have of it."""
    notes = {"gangsched.dev/gang": "true"} if declared else {}
    meta = {"name": "g", "namespace": "ns", "uid": "uid-g", "annotations": notes}
    owner = {"apiVersion": api, "kind": kind, "name": "g", "uid": "uid-g", "controller": True}
    return [{"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}], lambda _: {"ownerReferences": [owner]}


def _job(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish)
    return _owned("batch/v1", "Job", {"parallelism": wish.pods, "completions": wish.pods, "template": _TEMPLATE})


def _job_scheduling(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True, rack=True)
    scheduling: Object = {"schedulingPolicy": {"gang": {"minCount": wish.minimum}}, "disruptionMode": {"all": {}}}
    if wish.rack:
        scheduling["schedulingConstraints"] = {"topology": [{"key": "example.com/rack"}]}
    spec = {"parallelism": wish.pods, "completions": wish.pods, "template": _TEMPLATE, "scheduling": scheduling}
    return _owned("batch/v1", "Job", spec, declared=False)


def _jobset(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish)
    job = {"parallelism": wish.pods, "completions": wish.pods, "template": _TEMPLATE}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": job}}]}
    (jobset,), _ = _owned("jobset.x-k8s.io/v1alpha2", "JobSet", spec)
    (made,), members = _owned("batch/v1", "Job", job)
    above = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "g", "uid": "uid-g"}
    made["metadata"] |= {"name": "g-w-0", "uid": "uid-g-w-0", "ownerReferences": [{**above, "controller": True}]}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "g-w-0", "uid": "uid-g-w-0", "controller": True}
    return [jobset, made], lambda role: {**members(role), "ownerReferences": [owner]}


def _lws(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, announced=True)
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    size, worker = wish.pods + wish.announced, {"spec": {"containers": [container]}}
    spec: Object = {"leaderWorkerTemplate": {"size": size, "workerTemplate": worker}}
    if wish.announced:
        spec["startupPolicy"] = "LeaderReady"
    prefix = "leaderworkerset.sigs.k8s.io/"
    found, _ = _owned("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
    labels = {
        f"{prefix}name": "g",
        f"{prefix}group-index": "0",
        f"{prefix}worker-index": "0" if wish.announced else "1",
    }
    return found, lambda _: {"labels": labels, "annotations": {f"{prefix}size": str(size)}}


def _kubeflow(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, minimum=True)
    policy = {"schedulingPolicy": {"minAvailable": wish.minimum}}
    workers = {"Worker": {"replicas": wish.pods, "template": _TEMPLATE}}
    return _owned("kubeflow.org/v1", "PyTorchJob", {"runPolicy": policy, "pytorchReplicaSpecs": workers})


def _ray(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish)
    workers = {"groupName": "w", "replicas": wish.pods - 1, "template": _TEMPLATE}
    return _owned("ray.io/v1", "RayCluster", {"headGroupSpec": {"template": _TEMPLATE}, "workerGroupSpecs": [workers]})


def _ray_job(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, announced=True)
    (cluster,), _ = _ray(wish._replace(announced=0))
    container = {"name": "submit", "resources": {"requests": {"cpu": str(wish.announced)}}}
    spec = {"rayClusterSpec": cluster["spec"], "submitterPodTemplate": {"spec": {"containers": [container]}}}
    (job,), _ = _owned("ray.io/v1", "RayJob", {**spec, "submissionMode": "" if wish.announced else "HTTPMode"})
    above = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "g", "uid": "uid-g", "controller": True}
    cluster["metadata"] |= {"name": "g-x", "uid": "uid-g-x", "ownerReferences": [above]}
    owner = {**above, "kind": "RayCluster", "name": "g-x", "uid": "uid-g-x"}
    return [job, cluster], lambda _: {"ownerReferences": [owner], "labels": {"ray.io/node-type": "worker"}}


def _stateful_set(wish: Wish) -> tuple[list[Object], Members]:
    _only(wish, announced=True)
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    spec = {"replicas": wish.pods + wish.announced, "template": {"spec": {"containers": [container]}}}
    policy = "OrderedReady" if wish.announced else "Parallel"
    return _owned("apps/v1", "StatefulSet", {**spec, "podManagementPolicy": policy})


class Api(NamedTuple):
    """A dialect as the table names it. ``family`` is the API group of its object, empty where members say all."""

    name: str
    write: Dialect
    family: str = ""
    gang: str = "ns/g"


APIS = (
    Api("`scheduling.sigs.k8s.io`", _sigs, "scheduling.sigs.k8s.io"),
    Api("Koordinator's annotations", _koordinator),
    Api("`scheduling.k8s.io`", _upstream, "scheduling.k8s.io"),
    Api("trees of `scheduling.k8s.io`", _composite, "scheduling.k8s.io"),
    Api("`scheduling.x-k8s.io`", _coscheduling, "scheduling.x-k8s.io"),
    Api("Volcano", _volcano, "scheduling.volcano.sh"),
    Api("KAI", _kai, "scheduling.run.ai"),
    Api("Kueue's pod groups", _kueue),
    Api("YuniKorn's task groups", _yunikorn),
    Api("Grove", _grove, "scheduler.grove.io"),
    Api("Job with `gangsched.dev/gang`", _job),
    Api("Job with `spec.scheduling`", _job_scheduling),
    Api("JobSet with `gangsched.dev/gang`", _jobset),
    Api("LeaderWorkerSet with it, each group", _lws, gang="ns/g-0"),
    Api("PyTorchJob (and others of Kubeflow) with it", _kubeflow),
    Api("RayCluster with it", _ray),
    Api("RayJob with it", _ray_job),
    Api("StatefulSet with it", _stateful_set),
)


def _pod(name: str, cpu: int = 1, **more: Any) -> Object:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **{k: v for k, v in more.items() if k != "spec"}}
    container = {"name": "main", "image": "example.com/x", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"schedulerName": OURS, "containers": [container], **more.get("spec", {})},
    }


def node(name: str, cpu: int) -> Object:
    """A node that is a rack of its own."""
    labels = {"kubernetes.io/hostname": name, "example.com/rack": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}},
    }


def _class(name: str, value: int) -> Object:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def members(dialect: Dialect, wish: Wish, on: str = "") -> tuple[list[Object], list[Object]]:
    """The objects of a gang, and its pods; bound to nodes ``n0``, ``n1`` in turns if ``on`` says so."""
    objects, extra = dialect(wish)
    # The member of the role that has one comes last by name.
    names = ["worker"] * (wish.pods - 1) + ["ps"] if wish.roles else ["worker"] * wish.pods
    if wish.roles and (wish.least or wish.apart):
        names = list(wish.roles) * (wish.pods // len(wish.roles))
    pods = []
    for number in range(wish.pods):
        pod = _pod(f"g-{number}", **copy.deepcopy(extra(names[number])))
        if on:
            pod["spec"]["nodeName"] = f"{on}{number}"
            pod["status"] = {"phase": "Running"}
        pods.append(pod)
    return objects, pods


def decisions(*objects: Object) -> dict[str, Decision]:
    """What `plan` says of these, by gang."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        return {decision.gang: decision for decision in plan(load(path)).decisions}


# -- the behaviours: True if it holds; NoWayError where the API cannot ask for it ------------------------------------


def all_or_nothing(api: Api) -> bool:
    """With room for one of two members none starts, with room for both they do."""
    objects, pods = members(api.write, Wish(2, 2))
    few = decisions(node("n0", 1), *objects, *pods)[api.gang]
    enough = decisions(node("n0", 2), *objects, *pods)[api.gang]
    return (few.outcome, few.placements, enough.outcome) == ("unschedulable", {}, "bind")


def waits_for_members(api: Api) -> bool:
    """A member that does not exist yet is waited for."""
    objects, pods = members(api.write, Wish(2, 2))
    return decisions(node("n0", 2), *objects, pods[0])[api.gang].outcome == "gathering"


def minimum(api: Api) -> bool:
    """Two of three start where there is room for two."""
    objects, pods = members(api.write, Wish(3, 2))
    found = decisions(node("n0", 2), *objects, *pods)[api.gang]
    return (found.outcome, len(found.placements)) == ("bind", 2)


def roles(api: Api) -> bool:
    """Of three that start one is of the role that has one, though others come first by name."""
    objects, pods = members(api.write, Wish(4, 3, roles={"worker": 2, "ps": 1}))
    found = decisions(node("n0", 3), *objects, *pods)[api.gang]
    without = decisions(node("n0", 4), *objects, *(p for p in pods if p["metadata"]["name"] != "g-3"))[api.gang]
    return found.outcome == "bind" and "ns/g-3" in found.placements and without.outcome == "gathering"


def sub_groups(api: Api) -> bool:
    """With room for three of two sub-groups of two members those of one start, and one more."""
    objects, pods = members(api.write, Wish(4, 2, roles={"a": 2, "b": 2}, least=1))
    found = decisions(node("n0", 3), *objects, *pods)[api.gang]
    without = decisions(node("n0", 3), *objects, *pods[:2])[api.gang]
    started = {"ns/g-0", "ns/g-2"} <= found.placements.keys() or {"ns/g-1", "ns/g-3"} <= found.placements.keys()
    return found.outcome == "bind" and started and without.outcome == "gathering"


def own_priority(api: Api) -> bool:
    """The priority of its object counts, whatever its pods have."""
    objects, pods = members(api.write, Wish(1, 1, high=True))
    low = _pod("low", spec={"nodeName": "n0", "priority": 10, "priorityClassName": "low"})
    found = decisions(_class("high", 100), _class("low", 10), node("n0", 1), *objects, *pods, low)[api.gang]
    return found.outcome == "preempt"


def topology(api: Api) -> bool:
    """Two members go into one rack, and wait where no rack has room for both."""
    objects, pods = members(api.write, Wish(2, 2, rack=True))
    apart = decisions(node("n0", 1), node("n1", 1), *objects, *pods)[api.gang]
    together = decisions(node("n0", 1), node("n1", 2), *objects, *pods)[api.gang]
    domain = (together.topology_domain or "").rpartition("=")[2]
    return (apart.outcome, together.outcome, domain) == ("unschedulable", "bind", "n1")


def topology_of_parts(api: Api) -> bool:
    """Two parts of two members go into a rack each, and wait where only one rack has room for a part."""
    objects, pods = members(api.write, Wish(4, 4, roles={"a": 2, "b": 2}, apart=True))
    few = decisions(node("n0", 3), node("n1", 1), *objects, *pods)[api.gang]
    found = decisions(node("n0", 3), node("n1", 2), *objects, *pods)[api.gang]
    places = [found.placements.get(f"ns/g-{number}") for number in range(4)]
    apart = places[0] == places[2] != places[1] == places[3]
    return (few.outcome, found.outcome, apart) == ("unschedulable", "bind", True)


def evicted_whole(api: Api) -> bool:
    """For the room of one of two members both are evicted, also on a node that nobody needs."""
    objects, pods = members(api.write, Wish(2, 2), on="n")
    nodes = [node("n0", 1), node("n1", 1)]
    above = _pod("above", spec={"priorityClassName": "high", "priority": 100})
    found = decisions(_class("high", 100), *nodes, *objects, *pods, above)["ns/above"]
    return sorted(victim.pod for victim in found.victims) == ["ns/g-0", "ns/g-1"]


def announced_room(api: Api) -> bool:
    """The first member starts only when there is room for two that do not exist yet."""
    objects, pods = members(api.write, Wish(1, 1, announced=2))
    few = decisions(node("n0", 2), *objects, *pods)[api.gang]
    enough = decisions(node("n0", 3), *objects, *pods)[api.gang]
    return (few.outcome, few.placements, enough.outcome) == ("unschedulable", {}, "bind")


def restarted(api: Api) -> bool:
    """Of two members that run one is lost: the one that is made instead starts beside the other."""
    objects, pods = members(api.write, Wish(2, 2), on="n")
    _, (new, _) = members(api.write, Wish(2, 2))
    found = decisions(node("n0", 1), node("n1", 1), *objects, new, pods[1])[api.gang]
    return (found.outcome, found.required, found.placements) == ("bind", 1, {"ns/g-0": "n0"})


def status(api: Api) -> bool:
    """The status of its object is written."""
    if not api.family:
        raise NoWayError
    return has_status(api.family)


BEHAVIOURS: Mapping[str, Callable[[Api], bool]] = {
    "all or nothing": all_or_nothing,
    "waits for members": waits_for_members,
    "minimum below its size": minimum,
    "minimum per role": roles,
    "some of its sub-groups": sub_groups,
    "priority of its own": own_priority,
    "announced room": announced_room,
    "topology": topology,
    "topology of a part": topology_of_parts,
    "restart of a member": restarted,
    "evicted whole": evicted_whole,
    "status is written": status,
}


def cell(api: Api, behaviour: Callable[[Api], bool]) -> str:
    """``yes``, ``no``, or nothing where the API cannot ask for it."""
    try:
        return "yes" if behaviour(api) else "no"
    except NoWayError:
        return ""
    except KeyError:  # there is no gang of that name
        return "no"


def _rows() -> Iterator[str]:
    yield f"| | {' | '.join(BEHAVIOURS)} |"
    yield "|---|" + "---|" * len(BEHAVIOURS)
    for api in APIS:
        yield f"| {api.name} | {' | '.join(cell(api, each) for each in BEHAVIOURS.values())} |"


def as_markdown() -> str:
    """The table for the documentation."""
    return "\n".join(_rows())


def fields_of(dialect: Described) -> str:
    """What each field, label and annotation of an API means, for the documentation."""
    tables = []
    for each in dialect.documented:
        rows = "\n".join(f"| {name} | {text} |" for name, text in each.rows())
        tables.append(f"| {each.title} | here |\n|---|---|\n{rows}")
    return "\n\n".join(tables)


#: What stands between the marks of that page.
BLOCKS: Mapping[str, Callable[[], str]] = {
    "dialects": as_markdown,
    **{f"fields of {each.family}": functools.partial(fields_of, each) for each in DIALECTS},
}
