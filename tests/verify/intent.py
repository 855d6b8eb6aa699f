"""What is intended: the ledger, pods that are to leave, and held nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from gangsched.core.ledger.ledger import Ledger
from gangsched.core.scheduler import Scheduler
from tests.verify.differences import unlike


def ledger(core: Scheduler) -> Iterator[str]:
    """Kept room by node and owner, who waits for whom, and turns."""
    kept: Ledger = core.ledger
    on: dict[str, set[str]] = {}
    for holder, made in kept._rooms.items():
        yield from unlike("holder of kept room", made.holder, holder)
        for pod in made.pods:
            on.setdefault(pod.node, set()).add(holder)
    yield from unlike("kept room by node", dict(kept._holders_on.items()), on)
    yield from unlike(
        "kept room by owner", kept.resuming, {made.owner: holder for holder, made in kept._rooms.items() if made.owner}
    )
    waits: dict[str, set[str]] = {}
    for uid, keys in kept.awaited.items():
        for key in keys:
            waits.setdefault(key, set()).add(uid)
    yield from unlike("pods that groups wait for", dict(kept._waits.items()), waits)
    yield from unlike(
        "turns of gangs that are not blocked", set(kept.turns._reserved) - set(kept.turns._blocked), set()
    )
    yield from unlike(
        "deadlines of unknown groups", {k for k in kept.deadlines._entries if k not in core._run.groups}, set()
    )


def condemned(core: Scheduler) -> Iterator[str]:
    """Pods that are to leave, their Jobs, and what budgets are charged."""
    kept = core.ledger.condemned
    suspends = Counter(each.suspended for each in kept.records.values() if each.standing and each.suspended)
    yield from unlike("pods of Jobs that are suspended", dict(kept.suspends), dict(suspends))
    over = {u for u, each in kept.records.items() if each.owner is None and each.named is None and each.left is None}
    yield from unlike("records of pods that leave no more", over, set())
    owners = {each.owner for each in kept.records.values() if each.owner}
    yield from unlike("owners without an eviction", owners - set(kept.evictions), set())
    charged = set(kept._left)
    lost = {u for u, each in kept.records.items() if each.left is not None and (each.left, u) not in charged}
    yield from unlike("budget charges that never end", lost, set())
    yield from unlike("records by another UID", {u for u, each in kept.records.items() if each.pod.uid != u}, set())
    yield from unlike("evictions by another key", {k for k, each in kept.evictions.items() if each.key != k}, set())


def holding(core: Scheduler) -> Iterator[str]:
    """Nodes that are held against other schedulers."""
    kept = core._run.gangs.holding
    on: dict[str, set[str]] = {}
    for key, hold in kept._holds.items():
        for node in hold.nodes:
            on.setdefault(node, set()).add(key)
    yield from unlike("holds by node", dict(kept._on.items()), on)
    values: Any = {hold.value for hold in kept._holds.values()}
    wrong = {
        node
        for node, value in core.ledger.held.items()
        if value not in values and node not in kept._linger and node not in kept._on
    }
    yield from unlike("held nodes without a plan", wrong, set())
