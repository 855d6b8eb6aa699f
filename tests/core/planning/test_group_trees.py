"""CompositePodGroups: trees of groups, each with a minimum and a topology of its own, that are one gang."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Action, GangStatus
from gangsched.core.events import Changed, Gone
from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.dialects import upstream
from gangsched.model.errors import FieldError
from gangsched.model.records import Gang
from tests.builders import node
from tests.core.harness import Cluster, nodes_of, texts

WORKLOAD = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
ALL: dict[str, Any] = {"disruptionMode": {"all": {}}}


def composite(name: str, least: int = 1, above: str = "", key: str = "", **spec: Any) -> Gang:
    """A CompositePodGroup."""
    said = {"schedulingPolicy": {"gang": {"minGroupCount": least}}, **WORKLOAD, **within(key), **spec}
    said |= {"parentCompositePodGroupName": above} if above else {}
    raw = {"metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}"}, "spec": said}
    return upstream.composite_from_object(msgspec.convert(raw, wire.CompositePodGroup))


def leaf(name: str, least: int = 1, above: str = "", key: str = "", **spec: Any) -> Gang:
    """A PodGroup."""
    said = {"schedulingPolicy": {"gang": {"minCount": least}}, **WORKLOAD, **within(key), **spec}
    said |= {"parentCompositePodGroupName": above} if above else {}
    raw = {"metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}"}, "spec": said}
    return upstream.gang_from_object(msgspec.convert(raw, wire.UpstreamPodGroup))


def within(key: str) -> dict[str, Any]:
    """A topology."""
    return {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}


def members(group: str, count: int) -> list[Changed]:
    """Pods of a group with a core each."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulerName": "py-gang-scheduler",
        "containers": [container],
        "schedulingGroup": {"podGroupName": group},
    }
    return [
        Changed(
            Converter().pod(
                msgspec.convert(
                    {"metadata": {"name": f"{group}-{i}", "namespace": "d", "uid": f"uid-{group}-{i}"}, "spec": spec},
                    wire.Pod,
                )
            )
        )
        for i in range(count)
    ]


def racks(**cpus: int) -> list[Any]:
    """Nodes that are racks, in the zone of their first letter."""
    return [node(name).cpu(cpu).label(zone=name[0], rack=name) for name, cpu in cpus.items()]


def started(cluster: Cluster) -> dict[str, str]:
    """Where the pods went."""
    return nodes_of(cluster.run())


def by_group(places: dict[str, str], group: str) -> set[str]:
    """The nodes of the pods of a group."""
    return {where for name, where in places.items() if name.startswith(f"{group}-")}


TREE = [
    composite("serve", 2, key="zone"),
    composite("model", 2, "serve"),
    leaf("prefill", 2, "model", "rack"),
    leaf("decode", 3, "model", "rack"),
    leaf("router", 1, "serve"),
]
PODS = [*members("prefill", 2), *members("decode", 3), *members("router", 1)]
ROOM = {"a1": 3, "a2": 2, "b1": 3, "b2": 2, "b3": 1}


def test_a_tree_starts_as_one_gang() -> None:
    """All in one zone, and prefill and decode in a rack each: zone ``a`` has no room for the router."""
    found = started(Cluster(*racks(**ROOM), *map(Changed, TREE), *PODS))
    assert [by_group(found, name) for name in ("prefill", "decode", "router")] == [{"b2"}, {"b1"}, {"b3"}]
    assert started(Cluster(*racks(**{**ROOM, "b3": 0}), *map(Changed, TREE), *PODS)) == {}


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_objects_may_be_seen_in_any_order(order: tuple[int, ...]) -> None:
    """Pods before their groups, and groups before those above them."""
    parts: list[list[Changed]] = [[*map(Changed, TREE[:2])], [*map(Changed, TREE[2:])], PODS]
    found = started(Cluster(*racks(**ROOM), *(each for n in order for each in parts[n])))
    assert len(found) == 6


def test_some_groups_are_enough() -> None:
    """Of three replicas two start, those for which there is room in a rack."""
    replicas = [leaf(name, 2, "all", "rack") for name in ("x", "y", "z")]
    pods = [pod for each in replicas for pod in members(each.name, 2)]
    tree = [composite("all", 2), *replicas]
    found = started(Cluster(*racks(a1=2, a2=3), *map(Changed, tree), *pods))
    assert {len(by_group(found, name)) for name in ("x", "y", "z")} >= {1}
    assert sum(len([n for n in found if n.startswith(name)]) >= 2 for name in ("x", "y", "z")) == 2
    assert started(Cluster(*racks(a1=2, a2=1, a3=1), *map(Changed, tree), *pods)) == {}


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([leaf("a", 1, "none")], "CompositePodGroup d/none, in which its group is, does not exist yet"),
        ([composite("r", 2), leaf("a", 1, "r")], "CompositePodGroup d/r has 1 of the 2 groups that it needs"),
        (
            [composite("r", 1, "s"), composite("s", 1, "r"), leaf("a", 1, "r")],
            "more than 4 levels of groups, or in a circle",
        ),
        (
            [composite("r"), *(composite(f"c{n}", 1, f"c{n - 1}" if n else "r") for n in range(3)), leaf("a", 1, "c2")],
            "more than 4 levels of groups, or in a circle",
        ),
        ([composite("r"), leaf("a", 1, "r", priority=5)], "PodGroup a: spec.priority: is not that of the root r"),
        (
            [composite("r"), leaf("a", 1, "r", workloadRef={"workloadName": "v", "templateName": "t"})],
            "PodGroup a: spec.workloadRef.workloadName: is not that of the root r",
        ),
        ([composite("r"), leaf("a", 1, "r", **ALL)], "PodGroup a: spec.disruptionMode: is `all` below a root"),
    ],
)
def test_invalid_trees_wait_with_a_reason(groups: list[Gang], why: str) -> None:
    """No pod of them starts."""
    cluster = Cluster(*racks(a1=9), *map(Changed, groups), *members("a", 1))
    actions = cluster.run()
    assert nodes_of(actions) == {}
    assert why in texts(actions, "a-0")[-1][1]


def test_a_tree_waits_for_its_last_group() -> None:
    """It starts when that is there; without its root it does not."""
    first, *others = TREE
    cluster = Cluster(*racks(**ROOM), *map(Changed, others), *PODS)
    assert started(cluster) == {}
    cluster.show(Changed(first))
    assert len(started(cluster)) == 6
    gone = Cluster(*racks(**ROOM), *map(Changed, TREE), Gone("PodGroup", "d", "serve", "", upstream.COMPOSITES), *PODS)
    assert started(gone) == {}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedulingPolicy": {"basic": {}}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"gang": {"minGroupCount": 0}}}, "spec.schedulingPolicy.gang.minGroupCount"),
        ({"workloadRef": None}, "spec.workloadRef"),
        ({"schedulingConstraints": {"topology": [{"key": ""}]}}, "spec.schedulingConstraints.topology[0].key"),
    ],
)
def test_what_a_composite_cannot_say(spec: dict[str, Any], field: str) -> None:
    """The field is named."""
    with pytest.raises(FieldError) as caught:
        composite("r", **spec)
    assert caught.value.field == field


def test_the_groups_with_members_get_the_status_of_the_tree() -> None:
    """Upstream's condition: at first they do not fit, then they run. Groups of groups get none."""
    cluster = Cluster(*racks(**{**ROOM, "b3": 0}), *map(Changed, TREE), *PODS)

    def told(actions: list[Action]) -> dict[str, str]:
        return {f"{a.plural}/{a.name}": str(a.status["phase"]) for a in actions if isinstance(a, GangStatus)}

    groups = [f"podgroups/{name}" for name in ("decode", "prefill", "router")]
    assert told(cluster.run()) == dict.fromkeys(groups, "Scheduling")
    cluster.show(*racks(b3=1))
    assert told([*cluster.pass_time(60), *cluster.run()]) == dict.fromkeys(groups, "Running")
