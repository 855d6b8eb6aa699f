"""The floor: the calls that a cell needs, and no thought about them. Run as a process of its own, like a scheduler.

For a cell without victims: one Binding per pod. With victims: nominate every member (a status patch), mark every victim
(a status patch), delete every victim, bind every member; each step after the one before, since that is the contract.
Reads the pods in pages first, as every scheduler has to.

Where pods arrive: it reads nodes and pods in pages, then watches all pods, and binds a gang to the nodes in turn as
soon as all its members exist. ``/readyz`` answers when the watch is open.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

#: As many as the scheduler under test has in flight.
IN_FLIGHT = 48
PAGE = "500"
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
STATUS_PATCH = "application/strategic-merge-patch+json"


class _Meta(msgspec.Struct):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    token: str = msgspec.field(default="", name="continue")
    version: str = msgspec.field(default="", name="resourceVersion")


class _Object(msgspec.Struct):
    metadata: _Meta


class _List(msgspec.Struct):
    metadata: _Meta
    items: list[_Object]


class _Frame(msgspec.Struct):
    type: str
    object: _Object


_decoder = msgspec.json.Decoder(_List)
_frame = msgspec.json.Decoder(_Frame)


def _session(server: str, token: str, ca: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        server,
        connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca), limit=IN_FLIGHT + 2),
        headers={"Authorization": f"Bearer {token}"},
        timeout=aiohttp.ClientTimeout(total=None),
    )


async def backlog(server: str, token: str, ca: str, nodes: int, per_node: int, evicted: int) -> None:
    """Bind all pods that are pending, ``per_node`` to each node, and before that remove so many victims."""
    async with _session(server, token, ca) as session:
        pods, _ = await _list(session, PODS)
        pending = [p for p in pods if _is(p, "pending")]
        victims = [p for p in pods if _is(p, "victim")][:evicted]
        places = [(pod, f"node-{n // per_node % nodes:05d}") for n, pod in enumerate(pending)]
        if victims:
            await _all(places, lambda each: _patch(session, each[0], _intent(each[1])))
            await _all(victims, lambda pod: _patch(session, pod, _mark()))
            await _all(victims, lambda pod: _delete(session, pod))
        await _all(places, lambda each: _bind(session, *each))


async def arriving(server: str, token: str, ca: str, size: int, port: int) -> None:
    """Bind each gang of ``size`` pods that comes, until stopped; RuntimeError when the API server ends the watch."""
    probe = web.Application()
    probe.router.add_get("/readyz", _ready)
    runner = web.AppRunner(probe)
    await runner.setup()
    gangs: dict[str, list[_Object]] = {}
    async with _session(server, token, ca) as session, asyncio.TaskGroup() as binding:
        nodes, _ = await _list(session, NODES)
        turn = itertools.cycle([node.metadata.name for node in nodes])
        _, version = await _list(session, PODS)
        async for line in _watch(session, version):
            if not line:
                await web.TCPSite(runner, "127.0.0.1", port).start()
                continue
            frame = _frame.decode(line)
            if frame.type != "ADDED" or not _is(frame.object, "pending"):
                continue
            group = frame.object.metadata.name.rpartition("-")[0]
            gangs.setdefault(group, []).append(frame.object)
            if len(gangs[group]) == size:
                for pod in gangs.pop(group):
                    binding.create_task(_bind(session, pod, next(turn)))
        raise RuntimeError("the API server has ended the watch")


async def _ready(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _watch(session: aiohttp.ClientSession, version: str) -> AsyncIterator[bytes]:
    """The lines of the watch of pods, after an empty one when it is open."""
    async with session.get(PODS, params={"watch": "1", "resourceVersion": version}) as response:
        left = b""
        yield b""
        async for chunk in response.content.iter_any():
            *lines, left = (left + chunk).split(b"\n")
            for line in lines:
                yield line


def _is(pod: _Object, role: str) -> bool:
    return (pod.metadata.labels or {}).get("bench") == role


async def _list(session: aiohttp.ClientSession, path: str) -> tuple[list[_Object], str]:
    """All of these, and the version to watch from."""
    out: list[_Object] = []
    token = ""
    while True:
        params = {"limit": PAGE, **({"continue": token} if token else {})}
        async with session.get(path, params=params) as response:
            page = _decoder.decode(await response.read())
        out += page.items
        token = page.metadata.token
        if not token:
            return out, page.metadata.version


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


async def _patch(session: aiohttp.ClientSession, pod: _Object, status: dict[str, Any]) -> None:
    body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
    await _send(session, "PATCH", f"{PODS}/{pod.metadata.name}/status", body, STATUS_PATCH)


async def _delete(session: aiohttp.ClientSession, pod: _Object) -> None:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.metadata.uid}}
    await _send(session, "DELETE", f"{PODS}/{pod.metadata.name}", body, "application/json")


async def _bind(session: aiohttp.ClientSession, pod: _Object, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.metadata.name, "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await _send(session, "POST", f"{PODS}/{pod.metadata.name}/binding", body, "application/json")


if __name__ == "__main__":
    mode, server, token, ca, *numbers = sys.argv[1:]
    if mode == "arriving":
        asyncio.run(arriving(server, token, ca, *map(int, numbers)))
    else:
        asyncio.run(backlog(server, token, ca, *map(int, numbers)))
