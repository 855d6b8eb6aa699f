"""Where the decision core runs: in a thread of its own, or on the I/O loop in slices. Run it to see the numbers.

    python tests/bench/where_core_runs.py [--seconds 0.5] [--rounds 6]

An event loop stands for the process's I/O: a heartbeat every 5 ms measures how late callbacks run, a timer stands for
the renewal of the lease, and (``busy``) pods are decoded at the rate of a busy cluster. Beside it a plan is computed,
a mix of small numpy operations and Python loops, as the search for victims is. The plan alone is the measure of its
slowdown, the loop alone that of its lag.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple, Self

import msgspec
import numpy as np

HEARTBEAT_SECONDS = 0.005
LEASE_SECONDS = 0.05
SLICE_SECONDS = 0.005
EVENTS_PER_SECOND = 2000


def plan(steps: int) -> Iterator[None]:
    """A search of so many small steps; it yields after each, and the work is the same wherever it runs."""
    chance = np.random.default_rng(1)
    free = chance.uniform(0.0, 64.0, (8, 1000))
    wanted = chance.uniform(1.0, 4.0, 8)
    jobs = [(f"team-{n % 7}/job-{n}", n % 13, float(n % 5)) for n in range(60)]
    for step in range(steps):
        mask = np.ones(free.shape[1], bool)
        for resource in range(3):
            mask &= free[resource] >= wanted[resource]
        score = free[0] * 0.5 + free[1]
        best = int(np.argmax(np.where(mask, score, -1.0)))
        free[:, best] -= wanted * 0.001
        victims = sorted(jobs, key=lambda job: (job[1], -job[2], job[0]))
        room: dict[str, float] = {}
        for name, priority, size in victims[: 10 + step % 10]:
            room[name] = room.get(name, 0.0) + size * priority
        yield


class Pod(msgspec.Struct):
    """What is decoded of a watched pod."""

    metadata: dict[str, str]
    spec: dict[str, str]


FRAME = msgspec.json.encode(
    {"metadata": {f"key-{n}": "v" * 30 for n in range(40)}, "spec": {f"key-{n}": "v" * 30 for n in range(40)}}
)


class Result(NamedTuple):
    """Lags in seconds, and how long one plan took."""

    heartbeat: list[float]
    lease: list[float]
    plan_seconds: float


class Io:
    """The loop's own work, and its lateness while it is measured."""

    def __init__(self, *, busy: bool) -> None:
        self.busy = busy
        self.heartbeat: list[float] = []
        self.lease: list[float] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._tick(HEARTBEAT_SECONDS, self.heartbeat)),
            asyncio.create_task(self._tick(LEASE_SECONDS, self.lease)),
        ]
        if self.busy:
            self._tasks.append(asyncio.create_task(self._decode()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tick(self, period: float, lags: list[float]) -> None:
        while True:
            due = time.perf_counter() + period
            await asyncio.sleep(period)
            lags.append(max(0.0, time.perf_counter() - due))

    async def _decode(self) -> None:
        decoder = msgspec.json.Decoder(Pod)
        while True:
            for _ in range(EVENTS_PER_SECOND // 100):
                decoder.decode(FRAME)
            await asyncio.sleep(0.01)


async def idle(seconds: float, steps: int) -> float:
    """The floor: nothing is planned."""
    del steps
    await asyncio.sleep(seconds)
    return seconds


async def in_thread(seconds: float, steps: int) -> float:
    """The plan in a decision thread; the interpreter switches between the threads."""
    del seconds
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    took = 0.0

    def work() -> None:
        nonlocal took
        began = time.perf_counter()
        for _ in plan(steps):
            pass
        took = time.perf_counter() - began
        loop.call_soon_threadsafe(done.set)

    thread = threading.Thread(target=work)
    thread.start()
    await done.wait()
    thread.join()
    return took


async def in_slices(seconds: float, steps: int) -> float:
    """The plan on the loop itself; it gives way every 5 ms."""
    del seconds
    began = time.perf_counter()
    until = began + SLICE_SECONDS
    for _ in plan(steps):
        if time.perf_counter() >= until:
            await asyncio.sleep(0)
            until = time.perf_counter() + SLICE_SECONDS
    return time.perf_counter() - began


def measure(
    place: Callable[[float, int], Awaitable[float]],
    seconds: float,
    steps: int,
    rounds: int,
    *,
    busy: bool,
    switch: float,
) -> Result:
    """Several plans one after the other, a pause between them."""

    async def run() -> Result:
        async with Io(busy=busy) as io:
            await asyncio.sleep(0.1)
            io.heartbeat.clear()
            io.lease.clear()
            took = [await place(seconds, steps) for _ in range(rounds)]
            return Result(list(io.heartbeat), list(io.lease), sorted(took)[len(took) // 2])

    before = sys.getswitchinterval()
    sys.setswitchinterval(switch)
    try:
        return asyncio.run(run())
    finally:
        sys.setswitchinterval(before)


def calibrate(seconds: float) -> tuple[int, float]:
    """How many steps take so long with nothing beside them, and how long they then really take."""
    for _ in plan(2000):  # the first steps are slower than all others
        pass
    began = time.perf_counter()
    for _ in plan(2000):
        pass
    steps = max(1, int(2000 * seconds / (time.perf_counter() - began)))
    alone = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in plan(steps):
            pass
        alone.append(time.perf_counter() - began)
    return steps, sorted(alone)[1]


def row(name: str, result: Result, alone: float | None) -> str:
    """One line of the table."""
    lags = sorted(result.heartbeat)
    cells = [lags[len(lags) // 2], lags[int(len(lags) * 0.99)], lags[-1], max(result.lease)]
    slow = "–" if alone is None else f"{result.plan_seconds / alone:.2f}×"
    return f"| {name} | " + " | ".join(f"{cell * 1000:.1f}" for cell in cells) + f" | {slow} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one plan with nothing beside it")
    parser.add_argument("--rounds", type=int, default=6, help="plans per line")
    args = parser.parse_args()
    steps, alone = calibrate(args.seconds)
    print(f"one plan: {steps} steps, {alone * 1000:.0f} ms alone ({alone / steps * 1e6:.0f} µs per step)\n")
    print("| the plan runs | lag p50, ms | p99 | max | lease timer late, max | plan takes |")
    print("|---|---|---|---|---|---|")
    for busy in (False, True):
        load = f", {EVENTS_PER_SECOND} events/s decoded" if busy else ""
        for name, place, switch in (
            ("nowhere (floor)", idle, 0.005),
            ("in a thread", in_thread, 0.005),
            ("in a thread, switch interval 1 ms", in_thread, 0.001),
            ("on the loop, slices of 5 ms", in_slices, 0.005),
        ):
            result = measure(place, args.seconds, steps, args.rounds, busy=busy, switch=switch)
            print(row(name + load, result, None if place is idle else alone), flush=True)


if __name__ == "__main__":
    main()
