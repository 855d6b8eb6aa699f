"""Holding nodes on a real API server: one taint comes and goes, and no other is ever lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from gangsched.core.actions import HoldNode, NodeRef, ReleaseNode
from gangsched.core.events import Outcome
from gangsched.model.held import HELD, Held
from gangsched.model.records import Node
from tests.cluster.kube.conftest import Reader
from tests.controlplane.client import Client, Object
from tests.faulty_proxy import Fault, FaultyProxy

Make = Callable[..., Awaitable[Reader]]
Nodes = Callable[..., Awaitable[list[str]]]
VALUE, LATER = "19af-1.py-gang-scheduler", "19af-2.py-gang-scheduler"
OTHER = {"key": "example.com/other", "value": "x", "effect": "PreferNoSchedule"}
TIMED = {"key": "example.com/timed", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def reference(node: Object) -> NodeRef:
    """The node as it is, as the core would name it."""
    meta, taints = node["metadata"], node["spec"].get("taints") or []
    at = next((i for i, each in enumerate(taints) if each["key"] == HELD), None)
    return NodeRef("", meta["name"], meta["uid"], meta["resourceVersion"], len(taints), at)


async def taints(admin: Client, name: str = "node-0") -> list[Object]:
    """All taints of a node."""
    found: list[Object] = (await admin.get("Node", name))["spec"].get("taints") or []
    return found


async def leading(make_cluster: Make) -> Reader:
    """An adapter that leads."""
    reader = await make_cluster()
    await reader.leading()
    return reader


@pytest.mark.parametrize("others", [[], [OTHER], [TIMED, OTHER]], ids=len)
async def test_the_taint_comes_changes_and_goes(
    make_cluster: Make, make_nodes: Nodes, admin: Client, others: list[Object]
) -> None:
    """Beside whatever taints there are, which stay as they are in every field."""
    await make_nodes(1, taints=others)
    before = await taints(admin)
    reader = await leading(make_cluster)

    async def node() -> NodeRef:
        return reference(await admin.get("Node", "node-0"))

    for value in (VALUE, VALUE, LATER):
        [answer] = await reader.do(HoldNode(reader.next_id(), await node(), value))
        assert answer.outcome == Outcome.OK
        [found] = [t for t in await taints(admin) if t["key"] == HELD]
        assert (found["value"], found["effect"]) == (value, "NoSchedule")
    shown = await reader.shown(Node, lambda n: n.held is not None and n.held.value == LATER)
    assert shown.held == Held(LATER, len(before))
    assert len(shown.taints) == len(before)
    [answer] = await reader.do(ReleaseNode(reader.next_id(), await node(), LATER))
    assert answer.outcome == Outcome.OK
    assert await taints(admin) == before


async def test_what_is_known_of_the_node_may_be_out_of_date(
    make_cluster: Make, make_nodes: Nodes, admin: Client
) -> None:
    """Another client has added a taint before ours, or taken ours off: the node is read, and nothing is lost."""
    await make_nodes(1, taints=[OTHER])
    reader = await leading(make_cluster)
    stale = reference(await admin.get("Node", "node-0"))
    await admin.patch("Node", "node-0", {"spec": {"taints": [TIMED, OTHER]}})
    [answer] = await reader.do(HoldNode(reader.next_id(), stale, VALUE))
    assert answer.outcome == Outcome.OK
    held = reference(await admin.get("Node", "node-0"))
    assert [t["key"] for t in await taints(admin)] == [TIMED["key"], OTHER["key"], HELD]
    await admin.patch("Node", "node-0", {"spec": {"taints": [*(await taints(admin))[::-1]]}})
    [answer] = await reader.do(ReleaseNode(reader.next_id(), held, VALUE))
    assert answer.outcome == Outcome.OK
    assert [t["key"] for t in await taints(admin)] == [OTHER["key"], TIMED["key"]]
    [answer] = await reader.do(ReleaseNode(reader.next_id(), held, VALUE))
    assert answer.outcome == Outcome.OK  # it is gone already
    assert [t["key"] for t in await taints(admin)] == [OTHER["key"], TIMED["key"]]


async def test_a_taint_that_was_not_seen_yet_is_taken_off(make_cluster: Make, make_nodes: Nodes, admin: Client) -> None:
    """It is taken back as soon as it is not needed, whether or not the watch has shown it."""
    await make_nodes(1)
    reader = await leading(make_cluster)
    before = reference(await admin.get("Node", "node-0"))
    await reader.do(HoldNode(reader.next_id(), before, VALUE))
    [answer] = await reader.do(ReleaseNode(reader.next_id(), before, VALUE))
    assert answer.outcome == Outcome.OK
    assert not await taints(admin)


async def test_another_node_of_the_name_is_left_alone(make_cluster: Make, make_nodes: Nodes, admin: Client) -> None:
    """A node that is gone, or was made anew, is not the one that is meant."""
    await make_nodes(1)
    reader = await leading(make_cluster)
    known = reference(await admin.get("Node", "node-0"))
    for wrong in ({"uid": "another"}, {"name": "missing"}):
        node = msgspec.structs.replace(known, **wrong)
        for action in (HoldNode(reader.next_id(), node, VALUE), ReleaseNode(reader.next_id(), node, VALUE)):
            [answer] = await reader.do(action)
            assert answer.outcome == Outcome.GONE
    assert not await taints(admin)


async def test_the_taint_of_another_installation_stays(make_cluster: Make, make_nodes: Nodes, admin: Client) -> None:
    """Two of one key and effect cannot stand on a node: it is held, by others, and only they take that back."""
    theirs = {"key": HELD, "value": "19af-9.their-scheduler", "effect": "NoSchedule"}
    await make_nodes(1, taints=[theirs])
    reader = await leading(make_cluster)
    node = msgspec.structs.replace(reference(await admin.get("Node", "node-0")), held_at=None)
    for action in (HoldNode(reader.next_id(), node, VALUE), ReleaseNode(reader.next_id(), node, VALUE)):
        [answer] = await reader.do(action)
        assert answer.outcome == Outcome.OK
    assert await taints(admin) == [theirs]


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut_before": True}, {"cut_after": True}], ids=str)
async def test_a_write_is_repeated(
    make_cluster: Make, make_nodes: Nodes, admin: Client, proxy: FaultyProxy, fault: dict[str, Any]
) -> None:
    """Trouble on the way is nobody's business but the writer's, also when only the answer was lost."""
    await make_nodes(1, taints=[OTHER])
    reader = await leading(make_cluster)
    hit = proxy.fail(Fault(path="/nodes/node-0$", method="PATCH", **fault))
    [answer] = await reader.do(HoldNode(reader.next_id(), reference(await admin.get("Node", "node-0")), VALUE))
    assert (answer.outcome, hit.hits) == (Outcome.OK, 1)
    assert [t["key"] for t in await taints(admin)] == [OTHER["key"], HELD]


async def test_without_the_right_the_write_is_refused(
    make_cluster: Make, make_nodes: Nodes, admin: Client, proxy: FaultyProxy
) -> None:
    """What the API server forbids is not tried again and again."""
    await make_nodes(1)
    reader = await leading(make_cluster)
    proxy.fail(Fault(path="/nodes/node-0$", method="PATCH", status=403, times=100))
    [answer] = await reader.do(HoldNode(reader.next_id(), reference(await admin.get("Node", "node-0")), VALUE))
    assert answer.outcome == Outcome.REFUSED
