"""The floor: the calls that a cell needs, and no thought about them. Run as a process of its own, like a scheduler.

For a cell without victims: one Binding per pod. With victims: nominate every member (a status patch), mark every victim
(a status patch), delete every victim, bind every member; each step after the one before, since that is the contract.
Reads the pods in pages first, as every scheduler has to.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import aiohttp
import msgspec

#: As many as the scheduler under test has in flight.
IN_FLIGHT = 48
PAGE = "500"
PODS = "/api/v1/namespaces/default/pods"
STATUS_PATCH = "application/strategic-merge-patch+json"


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    token: str = msgspec.field(default="", name="continue")


class _Pod(msgspec.Struct):
    metadata: _Meta


class _List(msgspec.Struct):
    metadata: _Meta
    items: list[_Pod]


_decoder = msgspec.json.Decoder(_List)


async def main(server: str, token: str, ca: str, nodes: int, per_node: int, evicted: int) -> None:
    """Do it."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca), limit=IN_FLIGHT + 2)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(server, connector=connector, headers=headers) as session:
        pods = await _list(session)
        pending = [p for p in pods if (p.metadata.labels or {}).get("bench") == "pending"]
        victims = [p for p in pods if (p.metadata.labels or {}).get("bench") == "victim"][:evicted]
        places = [(pod, f"node-{n // per_node % nodes:05d}") for n, pod in enumerate(pending)]
        if victims:
            await _all(places, lambda each: _patch(session, each[0], _intent(each[1])))
            await _all(victims, lambda pod: _patch(session, pod, _mark()))
            await _all(victims, lambda pod: _delete(session, pod))
        await _all(places, lambda each: _bind(session, *each))


async def _list(session: aiohttp.ClientSession) -> list[_Pod]:
    out: list[_Pod] = []
    token = ""
    while True:
        params = {"limit": PAGE, **({"continue": token} if token else {})}
        async with session.get(PODS, params=params) as response:
            page = _decoder.decode(await response.read())
        out += page.items
        token = page.metadata.token
        if not token:
            return out


async def _all(things: Iterable[Any], act: Callable[[Any], Awaitable[None]]) -> None:
    left = iter(things)

    async def work() -> None:
        for each in left:
            await act(each)

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


async def _send(session: aiohttp.ClientSession, method: str, path: str, body: Any, kind: str) -> None:
    async with session.request(method, path, data=json.dumps(body).encode(), headers={"Content-Type": kind}) as answer:
        await answer.read()
        answer.raise_for_status()


def _condition(kind: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


def _intent(node: str) -> dict[str, Any]:
    condition = _condition("gangsched.dev/Nominated", "Nominated", f"plan 0-1: nominated to {node}")
    return {"nominatedNodeName": node, "conditions": [condition]}


def _mark() -> dict[str, Any]:
    return {"conditions": [_condition("DisruptionTarget", "PreemptionByScheduler", "preempted by the floor")]}


async def _patch(session: aiohttp.ClientSession, pod: _Pod, status: dict[str, Any]) -> None:
    body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
    await _send(session, "PATCH", f"{PODS}/{pod.metadata.name}/status", body, STATUS_PATCH)


async def _delete(session: aiohttp.ClientSession, pod: _Pod) -> None:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.metadata.uid}}
    await _send(session, "DELETE", f"{PODS}/{pod.metadata.name}", body, "application/json")


async def _bind(session: aiohttp.ClientSession, pod: _Pod, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.metadata.name, "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await _send(session, "POST", f"{PODS}/{pod.metadata.name}/binding", body, "application/json")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    asyncio.run(main(arguments[0], arguments[1], arguments[2], *map(int, arguments[3:6])))
