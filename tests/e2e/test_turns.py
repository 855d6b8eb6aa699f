"""Gangs that never fit do not keep the pod of another tenant waiting, on a real API server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

import pytest

from tests.amounts import amount
from tests.controlplane.client import Client, Object
from tests.e2e.stories import Start
from tests.e2e.tenants import group, pod

pytestmark = pytest.mark.controlplane

LABEL = "pod-group.scheduling.sigs.k8s.io"
AT_ONCE = 32


def hopeless(gang: int, members: int, space: str) -> list[Object]:
    """A gang of which all members but one fit; each is of another size."""
    name = f"g{gang}"
    cpus = [*(f"{500 + gang}m" for _ in range(members - 1)), "64"]
    made = group(name, members)
    made["metadata"]["namespace"] = space
    return [made, *(pod(f"{name}-{n}", cpu, space=space, labels={LABEL: name}) for n, cpu in enumerate(cpus))]


@pytest.mark.parametrize("spaces", [1, 20])
async def test_an_honest_pod_passes_gangs_that_never_fit(
    admin: Client, make_nodes: Callable[..., Awaitable[list[str]]], start_scheduler: Start, spaces: int
) -> None:
    """The scheduler finds many of them when it starts, of one namespace or of many, and a younger pod that fits. Few of
    the gangs are decided before the pod. With `-rP` it says how many, and how long the pod and later ones waited.
    """
    gangs, members = amount(60, 20), amount(101, 41)
    await make_nodes(members - 1, cpu=1)
    names = [f"hopeless{spaces}-{n}" for n in range(spaces)]
    honest = f"honest{spaces}"
    for name in (*names, honest):
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    limit = asyncio.Semaphore(AT_ONCE)

    async def create(thing: Object) -> None:
        async with limit:
            await admin.create(thing)

    things = [each for g in range(gangs) for each in hopeless(g, members, names[g % spaces])]
    await asyncio.gather(*map(create, things))
    await admin.create(pod("first", "100m", space=honest))
    waited = []
    async with start_scheduler() as scheduler:
        for n in range(5):
            began = time.monotonic()
            if n:
                await admin.create(pod(f"later-{n}", "10m", space=honest))
            name = f"later-{n}" if n else "first"
            await admin.wait_for("Pod", name, lambda p: bool(p["spec"].get("nodeName")), honest, timeout=60)
            waited.append(f"{time.monotonic() - began:.2f}")
        lines = [json.loads(line) for line in scheduler.log.read_text().splitlines() if line.startswith("{")]
    decided = [line["gang"] for line in lines if "outcome" in line]
    before = [gang for gang in decided[: decided.index(f"{honest}/first")] if gang.startswith("hopeless")]
    print(f"{spaces} namespaces: {len(before)} of {gangs} gangs before the pod; waits {', '.join(waited)} s")
    assert len(before) < gangs / 2
