"""Whether honest pods are bound in time beside thousands that never fit. Run it to see the numbers.

    python -m tests.bench.soak [--minutes 2] [--pending 3000] [--rate 20] [--nodes 200]

A cluster that is nearly full of work of the same priority, 3,000 pending pods of as many shapes (too large for every
node, or for what is free of one; with selectors, anti-affinity and spread constraints), and every second 20 small pods
that are created and 20 that are deleted. The core runs as in the process: all that has arrived is taken in, then one
gang is decided. The clock is the processor's: it moves by what the core has computed, and jumps where the core waits.
So other load on the machine changes nothing, and an hour takes as long as the core works in it.

It prints how long small pods wait for their binding, the longest call of the core, the share of a processor that the
core needs, events handled per second of work, and the resident memory in each tenth of the run. Exit code 1: small pods
wait for longer than 2 s at the 99th percentile.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import resource
import sys
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from gangsched.core import events as ev
from gangsched.core.actions import Action, Bind, SetCondition
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.constraints import PodTerm, SpreadConstraint
from gangsched.model.records import Condition, Pod
from tests.bench.publish.tables import table
from tests.builders import PodBuilder, node, pod, selects

ZONE = "topology.kubernetes.io/zone"
#: How long a write and the watch event of it are under way, and how long a deleted pod terminates (seconds).
WRITE_SECONDS, GRACE_SECONDS = 0.01, 0.5
LIMIT_SECONDS = 2.0


def large(number: int) -> PodBuilder:
    """A pod that never fits, of a shape that no other has."""
    made = pod(f"large{number:05}", f"team{number % 7}").created(number / 1000).cpu(8.001 + number / 1000)
    match number % 5:
        case 0:
            return made.cpu(17 + number / 1000)  # no node is as large
        case 1:
            return made.selector(**{ZONE: f"z{number % 3}"})
        case 2:
            kept_off = PodTerm("kubernetes.io/hostname", selects(app="large"), (f"team{number % 7}",))
            return made.label(app="large").shape(anti_affinity=(kept_off,))
        case 3:
            spread = SpreadConstraint(ZONE, 1, selects(app="spread"), required=True)
            return made.label(app="spread").shape(spread=(spread,))
    return made


class Soak:
    """The cluster around the core, on a clock that the core's own work moves."""

    def __init__(self, nodes: int, pending: int, rate: float) -> None:
        self.core = Scheduler(Options())
        self.now = 1000.0
        self.work = self.longest = 0.0
        self.handled = self.decided = 0
        self.waits: list[float] = []
        self._period = 1 / rate
        self._pods: dict[str, Pod] = {}
        self._small: deque[str] = deque()
        self._since: dict[str, float] = {}
        self._numbers = itertools.count()
        self._order = itertools.count()
        self._coming: list[tuple[float, int, ev.Event]] = []
        first: list[ev.Event] = []
        for n in range(nodes):
            first.append(ev.Changed(node(f"n{n:04}").cpu(16).label(**{ZONE: f"z{n % 3}"}).obj()))
            first += [ev.Changed(pod(f"old{n:04}-{k}").cpu(3.5).on(f"n{n:04}").obj()) for k in range(4)]
        first += [ev.Changed(large(n).obj()) for n in range(pending)]
        for event in first:
            self._keep(event)
        self._timed(lambda: self.core.handle([*first, ev.Synced()], self.now))

    def _keep(self, event: ev.Event) -> None:
        if isinstance(event, ev.Changed) and isinstance(event.record, Pod):
            self._pods[event.record.uid] = event.record

    def _timed(self, call: Any) -> Any:
        began = time.thread_time()
        out = call()
        took = time.thread_time() - began
        self.now += took
        self.work += took
        self.longest = max(self.longest, took)
        return out

    def _show(self, event: ev.Event, after: float = 0.0) -> None:
        heapq.heappush(self._coming, (self.now + after, next(self._order), event))

    # -- what users do -------------------------------------------------------------------------------------

    def _create(self, at: float) -> None:
        made = pod(f"small{next(self._numbers):07}", "honest").cpu(0.25).created(at).obj()
        self._since[made.uid] = at
        self._change(made)

    def _delete(self) -> None:
        """The oldest small pod goes."""
        if len(self._small) < 40:
            return
        gone = self._pods[self._small.popleft()]
        self._change(msgspec.structs.replace(gone, deleting_since=self.now + GRACE_SECONDS))
        self._show(ev.Gone("Pod", gone.namespace, gone.name, gone.uid), GRACE_SECONDS)

    def _change(self, made: Pod, after: float = 0.0) -> None:
        self._pods[made.uid] = made
        self._show(ev.Changed(made), after)

    # -- what the core does --------------------------------------------------------------------------------

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, SetCondition) and action.pod.uid in self._pods:
                said = Condition("False", action.reason, action.message)
                told = msgspec.structs.replace(self._pods[action.pod.uid], scheduled_condition=said)
                self._change(told, WRITE_SECONDS)
            elif isinstance(action, Bind):
                bound = msgspec.structs.replace(
                    self._pods[action.pod.uid], node=action.node, phase="Running", started=self.now
                )
                if bound.uid in self._since:
                    self.waits.append(self.now - self._since.pop(bound.uid))
                    self._small.append(bound.uid)
                self._change(bound, WRITE_SECONDS)
                self._show(ev.WriteDone(action.id, ev.Outcome.OK), WRITE_SECONDS)

    def settle(self) -> None:
        """All large pods are decided once, before the clock of the measurement starts."""
        while self._step():
            pass

    def _step(self) -> bool:
        """Take in what has come, and decide one gang; return whether anything is left to do now."""
        batch: list[ev.Event] = []
        while self._coming and self._coming[0][0] <= self.now:
            batch.append(heapq.heappop(self._coming)[2])
        for event in batch:
            if isinstance(event, ev.Gone):
                self._pods.pop(event.uid, None)
        self.handled += len(batch)
        self._carry_out(self._timed(lambda: self.core.handle(batch, self.now)))
        if not self.core.has_work(self.now):
            return False
        self._carry_out(self._timed(lambda: self.core.decide(self.now)))
        self.core.drain_decisions()
        self.decided += 1
        return True

    def run(self, until: float) -> None:
        """Users act as the time comes, and the core works until then."""
        while self.now < until:
            while self._due <= self.now:
                self._create(self._due)
                self._delete()
                self._due += self._period
            if not self._step():
                wake = self.core.wake_at()
                coming = self._coming[0][0] if self._coming else self._due
                self.now = max(self.now, min(self._due, coming, wake if wake is not None else self._due))

    def start(self) -> None:
        """From now on is measured."""
        self._due = self.now
        self.work = self.longest = 0.0
        self.handled = self.decided = 0

    def waiting(self) -> list[float]:
        """For how long those wait that are not bound."""
        return [self.now - at for at in self._since.values()]


def resident_mib() -> float:
    """The resident memory of this process."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * resource.getpagesize() / 2**20


def main(arguments: list[str] | None = None) -> int:
    """Run it; 1 when small pods wait too long."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=2.0, help="minutes by the clock of the cluster (default 2)")
    parser.add_argument("--pending", type=int, default=3000, help="pods that never fit (default 3000)")
    parser.add_argument("--rate", type=float, default=20.0, help="creations, and deletions, a second (default 20)")
    parser.add_argument("--nodes", type=int, default=200, help="nodes (default 200)")
    given = parser.parse_args(arguments)
    soak = Soak(given.nodes, given.pending, given.rate)
    began = soak.work
    soak.settle()
    took = soak.work - began
    print(f"{given.pending} pods decided once in {took:.1f} s, longest call {soak.longest:.2f} s", flush=True)
    soak.start()
    start, memory = soak.now, [resident_mib()]
    for tenth in range(1, 11):
        soak.run(start + 60 * given.minutes * tenth / 10)
        memory.append(resident_mib())
    waits = sorted([*soak.waits, *soak.waiting()])
    late = waits[int(0.99 * (len(waits) - 1))]
    seconds = soak.now - start
    rows: list[list[object]] = [
        ["small pods", len(waits)],
        ["of these not bound", len(soak.waiting())],
        ["wait p50 s", f"{waits[len(waits) // 2]:.4f}"],
        ["wait p99 s", f"{late:.4f}"],
        ["wait max s", f"{waits[-1]:.4f}"],
        ["longest call s", f"{soak.longest:.3f}"],
        ["share of a processor", f"{soak.work / seconds:.1%}"],
        ["events", soak.handled],
        ["events per s of work", f"{soak.handled / soak.work:.0f}"],
        ["decisions", soak.decided],
        ["MiB, by tenths", " ".join(f"{each:.0f}" for each in memory)],
    ]
    print(table(["", "seen"], rows))
    return int(late > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
