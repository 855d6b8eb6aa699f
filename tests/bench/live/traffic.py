"""What the benchmark itself does where pods arrive: it creates gangs on time and deletes them; and bare loops."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.bench.live import cells
from tests.bench.live.api import PATHS, Api, Ruler
from tests.bench.live.arrival import Arrival
from tests.bench.live.cells import Cell, Object

#: As many calls at once as the scheduler makes.
IN_FLIGHT = 48
#: The floor is measured with this many gangs for each second of the cell.
_FLOOR_GANGS = 6


async def bare_list(api: Api) -> float:
    """Seconds for reading all nodes and pods in pages, as a scheduler has to, and doing nothing with them."""
    began = time.monotonic()
    for path in (PATHS["Node"], "/api/v1/pods"):
        token = ""
        while True:
            body = await api.request("GET", path, params={"limit": "500", **({"continue": token} if token else {})})
            token = msgspec.json.decode(body, type=_Page).metadata.get("continue", "") or ""
            if not token:
                break
    return time.monotonic() - began


class _Page(msgspec.Struct):
    metadata: dict[str, Any]


async def bare_churn(api: Api, arrival: Arrival) -> float:
    """Pods per second at which gangs can be created, bound and deleted by somebody who does nothing else."""
    cell = msgspec.structs.replace(arrival.cell, gangs=max(IN_FLIGHT, int(_FLOOR_GANGS * arrival.seconds)))
    gangs = iter(list(_gangs(cell, "nobody")))
    began = time.monotonic()

    async def work() -> None:
        for number, (group, members) in enumerate(gangs):
            for each in (*group, *members):
                await api.write("POST", PATHS[each["kind"]], each)
            for member in members:
                name = member["metadata"]["name"]
                target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % cell.nodes:05d}"}
                body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
                await api.write("POST", f"{PATHS['Pod']}/{name}/binding", body)
            for each in (*members, *reversed(group)):
                await api.remove(each)

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return cell.pods / (time.monotonic() - began)


def _gangs(cell: Cell, scheduler: str) -> Iterator[tuple[tuple[Object, Object], list[Object]]]:
    """The two group objects and the members of each gang."""
    objects = cells.groups(msgspec.structs.replace(cell, victim_gang=1))
    pods = cells.pending(cell, scheduler)
    for group in zip(objects[: cell.gangs], objects[cell.gangs :], strict=True):
        yield group, [next(pods) for _ in range(cell.size)]


async def arrive(api: Api, arrival: Arrival, candidate: str, ruler: Ruler) -> int:
    """Create the gangs on time, whatever each takes to be created; delete them when they have lived.

    Returns how many could not be created.
    """
    failed = 0
    started = time.monotonic()

    async def live(group: tuple[Object, Object], members: list[Object]) -> None:
        nonlocal failed
        try:
            await _gang(api, arrival, ruler, group, members)
        except (RuntimeError, OSError):  # an overloaded server; the pods that are missing tell it
            failed += 1

    async with asyncio.TaskGroup() as work:
        for number, (group, members) in enumerate(_gangs(arrival.cell, candidate)):
            await asyncio.sleep(max(0.0, started + number * arrival.cell.size / arrival.rate - time.monotonic()))
            work.create_task(live(group, members))
    return failed


async def _gang(api: Api, arrival: Arrival, ruler: Ruler, group: tuple[Object, Object], members: list[Object]) -> None:
    for each in (*group, *members):
        await api.write("POST", PATHS[each["kind"]], each)
    if not arrival.life_seconds:
        return
    await ruler.until_bound((m["metadata"]["name"] for m in members), arrival.last_seconds)
    await asyncio.sleep(arrival.life_seconds)
    with contextlib.suppress(RuntimeError, OSError):  # what an overloaded server does not delete does no harm
        for each in (*members, *reversed(group)):
            await api.remove(each)
