"""What waits: the queue, gangs by what they wait for, the index of hints, and the agenda."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gangsched.core.agenda import Agenda
from gangsched.core.decision import Order
from gangsched.core.queue.hint_index import HintIndex
from gangsched.core.queue.scheduling_queue import Places, Queue, UnschedulableGangs, _place
from gangsched.core.scheduler import Scheduler
from tests.verify.differences import unlike


def _places(name: str, kept: Places, expected: set[Order]) -> Iterator[str]:
    """They are sorted, have a key each, and are the expected ones."""
    yield from unlike(f"order of {name}", list(kept), sorted(kept._by_key.values()))
    yield from unlike(name, set(kept), expected)


def queue(core: Scheduler) -> Iterator[str]:
    """Each gang is in at most one part of the queue, and has its place there."""
    kept: Queue = core._run.queue
    active, eager = set(kept._active), set(kept._eager)
    parts = [{order[2] for order in active}, set(kept._backoff), set(kept._parked)]
    yield from unlike(
        "gangs in two parts of the queue", (parts[0] & parts[1]) | (parts[0] & parts[2]) | (parts[1] & parts[2]), set()
    )
    yield from unlike("shares of active gangs", set(kept._shares), parts[0])
    yield from _places("active gangs", kept._active, active)
    yield from _places("gangs in backoff that were woken", kept._eager, eager & set(kept._backoff.values()))
    for name, some in (
        ("active pods not tried yet", kept._unseen_pods),
        ("active gangs not tried yet", kept._unseen_gangs),
        ("active pods that were tried", kept._passing),
    ):
        yield from _places(name, some, set(some) & active)
    yield from unlike("gangs without a time", {k for k in (parts[1] | parts[2]) if k not in kept._due}, set())
    yield from unlike(
        "gangs in the queue that are not known", {k for part in parts for k in part if k not in core._run.groups}, set()
    )


def asleep(core: Scheduler) -> Iterator[str]:
    """Gangs by their signature, and the rows of the index that says which changes are worth asking about."""
    kept: UnschedulableGangs = core._run.gangs.unschedulable
    of: dict[Any, list[Any]] = {}
    for key, (signature, place, _) in kept._known.items():
        of.setdefault(signature, []).append(place)
        yield from unlike(f"place of {key}", core._run.queue.asleep(key), place)
    yield from unlike(
        "gangs by signature",
        {s: a.asleep for s, a in kept._alike.items() if a.asleep},
        {s: sorted(found) for s, found in of.items()},
    )
    tried: dict[Any, dict[str, Any]] = {}
    for key, (signature, order) in kept._woken.items():
        tried.setdefault(signature, {})[key] = order
    yield from unlike("woken gangs by signature", {s: a.tried for s, a in kept._alike.items() if a.tried}, tried)
    sleeping = {s: a.of_quota for s, a in kept._alike.items() if a.asleep}
    by_queue = {
        s: (tree, local) for tree, queues in kept._for_quota.items() for local, found in queues.items() for s in found
    }
    yield from unlike(
        "signatures that wait for quota alone", by_queue, {s: _place(s) for s, of_quota in sleeping.items() if of_quota}
    )
    yield from unlike(
        "signatures in the hint index", set(kept._for_more), {s for s, of_quota in sleeping.items() if not of_quota}
    )
    yield from _rows(kept._for_more)


def _rows(kept: HintIndex) -> Iterator[str]:
    fresh = HintIndex(kept.world, kept.decider, kept.strict_budgets)
    fresh.column, fresh.asks = dict(kept.column), np.zeros((0, len(kept.column)))
    for signature in sorted(kept._rows, key=kept._turn.__getitem__):
        fresh.add(signature)
    yield from unlike("hint index rows", _told(kept), _told(fresh))
    yield from unlike("hint index selections", _selecting(kept), _selecting(fresh))
    unused = [n for n, used in enumerate(kept._used.tolist()) if not used]
    yield from unlike("hint index free rows", sorted(kept._free), unused)


def _told(index: HintIndex) -> dict[Any, list[Any]]:
    return {
        signature: [
            (
                index.owner[row],
                index.classes[row],
                bool(index._used[row]),
                index.asks[row].tolist(),
                int(index.priority[row]),
                bool(index.preempts[row]),
                bool(index.queued[row]),
                bool(index._kept_together[row]),
                int(index._elsewhere[row]),
            )
            for row in rows
        ]
        for signature, rows in index._rows.items()
    }


def _selecting(index: HintIndex) -> dict[Any, set[Any]]:
    def named(row: int) -> Any:
        pod = index.classes[row]
        return index.owner[row], pod.ident if pod is not None else None

    return {selection: {named(row) for row in rows} for selection, rows in index.selecting.items()}


def agenda(core: Scheduler) -> Iterator[str]:
    """Every time that counts is found, and none is found too late."""
    kept: Agenda | None = core.world.agenda
    while kept is not None:
        earliest = float("inf")
        for number, page in enumerate(kept._pages):
            heap = {id(entry) for entry in page.heap}
            yield from unlike(
                f"times of page {number} that are not found",
                {k for k, e in page._entries.items() if id(e) not in heap},
                set(),
            )
            yield from unlike(f"keys of page {number}", {k for k, e in page._entries.items() if e[2] != k}, set())
            yield from unlike(
                f"heap of page {number}",
                all(page.heap[(n - 1) // 2][:2] <= page.heap[n][:2] for n in range(1, len(page.heap))),
                True,
            )
            if core._acts:
                late = {k for k, entry in page._entries.items() if entry[0] < core.world.now - 1.0}
                yield from unlike(f"timers of page {number} that are over and that nothing reads", late, set())
            earliest = min([earliest, *(entry[0] for entry in page._entries.values())])
        yield from unlike("the next time of the agenda comes too late", kept.soonest.when > earliest, False)
        kept = kept.intended
