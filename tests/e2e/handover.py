"""A preemption that one process begins and another one finishes, on a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.controlplane.client import Change, Client, Object
from tests.e2e.stories import EXAMPLES, INTENT, bystander, condition, nodes_ready, running, split
from tests.faulty_proxy import Fault

#: A new leader need not wait long for the lease of one that was killed; a write may still take its two seconds.
ELECTION = {"leaseDuration": "3500ms", "renewDeadline": "1200ms", "retryPeriod": "300ms"}
MEMBERS, VICTIMS = ["hp-worker-1", "hp-worker-2"], ["lp-pod-1", "lp-pod-2"]


def removals(name: str) -> Fault:
    """Removals of this pod do not arrive."""
    return Fault(path=f"/pods/{name}$", method="DELETE", times=None, cut_before=True)


def ended(change: Change) -> bool:
    """The victim is on its way out."""
    return change.terminating


async def start(admin: Client) -> list[Object]:
    """Both nodes are full, and a small pod that nobody needs to evict runs beside; the gang that is to come."""
    early, late = split(EXAMPLES / "koordinator")
    await admin.apply([t for t in early if t["kind"] != "Pod"])
    await nodes_ready(admin)
    await admin.apply([t for t in early if t["kind"] == "Pod"])
    await bystander(admin, "node-1")
    await running(admin, [*VICTIMS, "bystander-node-1"])
    return late


def plans(changes: list[Change]) -> set[str]:
    """The plans that have nominated members, by what stands on record."""
    records = [condition(c.object, INTENT) for c in changes if c.name in MEMBERS]
    return {json.loads(r["message"])["plan"] for r in records if r.get("status") == "True"}


def of(name: str, sign: Callable[[Change], bool]) -> Callable[[Change], bool]:
    """The sign, seen on this pod."""
    return lambda change: change.name == name and sign(change)


def victims(changes: list[Change], sign: Callable[[Change], bool]) -> list[str]:
    """The victims of which something was seen, by name."""
    return sorted({c.name for c in changes if c.name in VICTIMS and sign(c)})


async def uids(admin: Client) -> dict[str, str]:
    """The pods that there are."""
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in await admin.list("Pod")}
