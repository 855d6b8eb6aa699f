"""How late the I/O loop runs while the decision thread searches for victims as long as it may. Run it to see.

    python -m tests.bench.lag [--plans 6] [--budget 500] [--limit 50]

The threads are those of a running scheduler: the decision thread with the loop, the core and the observers that bound
and freeze it, and the I/O loop with the client and the writer; Python switches between them as often. The cluster is
large, and a gang in it does not fit: its search ends when its budget is used up. The server, in a process of its own,
refuses its nominations, so the gang is decided again and again. Meanwhile pods are read at the rate of a
busy cluster.

A heartbeat measures how late callbacks of the I/O loop run. The same heartbeat in a process that does nothing else, at
the same time, says what the machine itself is late. Of both those beats count that were due during a plan. The exit
code is 1 when the 99th percentile of the I/O loop is above the limit, or nothing was shown because plans ended early.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import multiprocessing
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog

from gangsched.cluster.kube.adapter import Inbox
from gangsched.cluster.kube.client import Client
from gangsched.cluster.kube.clock import SteadyClock
from gangsched.cluster.kube.connection import load_connection
from gangsched.cluster.kube.decode import ObjectDecoder
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.writer import Writer
from gangsched.core.actions import Action
from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Synced
from gangsched.core.options import STEPS_PER_MILLISECOND, Options
from gangsched.core.scheduler import Scheduler
from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.runtime.loop import Observer, Observers, run_loop
from gangsched.runtime.memory import FreezeAfterSync, raise_thresholds
from gangsched.runtime.observers import FACTOR, Deadline
from gangsched.runtime.process import _SWITCH_SECONDS as SWITCH_SECONDS
from tests.bench.answering import answer_all, kubeconfig, response
from tests.bench.budget import document
from tests.bench.publish.tables import table
from tests.bench.worlds import cluster

HEARTBEAT_SECONDS = 0.005
EVENTS_PER_SECOND = 1000
BACKOFF_SECONDS = 0.3
#: A run that has not come to an end by then has gone wrong.
LONGEST_SECONDS = 600.0
LARGE: dict[str, Any] = {"nodes": 2000, "pods": 25_000, "gang_size": 32, "members": 500, "rule": "apart", "budgets": 10}

_NOMINATES = re.compile(rb'"nominatedNodeName": ?"[^"]')

#: When a beat was due and how late it came, in seconds of the clock that all processes share.
Beat = tuple[float, float]


class Plan(NamedTuple):
    """One decision: when it began, how long it took (seconds), and whether it used up its budget."""

    began: float
    seconds: float
    exhausted: bool


class Result(NamedTuple):
    """What one run came to; beats are those due during its plans."""

    plans: list[Plan]
    ours: list[Beat]
    idle: list[Beat]


async def heartbeat(beats: list[Beat]) -> None:
    """Note for ever how late a timer of this loop fires."""
    while True:
        due = time.perf_counter() + HEARTBEAT_SECONDS
        await asyncio.sleep(HEARTBEAT_SECONDS)
        beats.append((due, max(0.0, time.perf_counter() - due)))


def idle(pipe: Pipe) -> None:
    """A loop that does nothing else, until something comes on the pipe; then it tells its beats."""
    beats: list[Beat] = []

    async def beat() -> None:
        task = asyncio.create_task(heartbeat(beats))
        pipe.send("beating")
        over = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), over.set)
        await over.wait()
        task.cancel()

    asyncio.run(beat())
    pipe.send(beats)


def server(pipe: Pipe) -> None:
    """Finds no pod of a nomination, is pleased with everything else, and says on the pipe where it listens. After a
    refusal the gang would pause and not be decided again at once.
    """
    refusal = json.dumps({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no"})
    answers = response("200 OK", "{}"), response("404 Not Found", refusal)
    answer_all(pipe, lambda body: answers[_NOMINATES.search(body) is not None])


class Io:
    """A cluster for the decision loop, with an I/O thread that writes what it is told to, reads pods, and beats."""

    def __init__(self, port: int) -> None:
        self.beats: list[Beat] = []
        self.stopped = False
        self.inbox = Inbox(SteadyClock())
        self.wait, self.poll = self.inbox.wait, self.inbox.poll
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._writer: Writer | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="io", daemon=True)

    def start(self) -> None:
        """Begin; returns when everything is there."""
        self._thread.start()
        if not self._ready.wait(LONGEST_SECONDS):
            raise TimeoutError("the I/O thread does not begin")

    def stop(self) -> None:
        """End the decision loop too."""
        self.stopped = True
        self.inbox.close()
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(LONGEST_SECONDS)

    def submit(self, actions: Sequence[Action]) -> None:
        """See :class:`~gangsched.cluster.port.Cluster`."""
        if actions and self._writer is not None and not self.stopped:
            self._loop.call_soon_threadsafe(self._writer.submit, actions)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config"
            config.write_text(kubeconfig(self._port))
            client = Client(await load_connection(str(config), None), TokenBucket(500.0, 1000))
        client.open()
        fence = lambda: math.inf  # noqa: E731 - nobody else writes
        writer = Writer(client, self.inbox.put, now=time.time, fence=fence, controller="bench", instance="bench")
        self._writer = writer
        tasks = [asyncio.create_task(work) for work in (writer.run(), self._read(), heartbeat(self.beats))]
        self._ready.set()
        await self._over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()

    async def _read(self) -> None:
        """Pods of another scheduler change all the time."""
        decoder, convert = ObjectDecoder(wire.Pod), Converter()
        frames = []
        for number in range(100):
            shown = document(number)
            shown["spec"] = {**msgspec.convert(shown["spec"], dict[str, object]), "schedulerName": "another"}
            frames.append(msgspec.json.encode({"type": "MODIFIED", "object": shown}))
        while True:
            for frame in frames[: EVENTS_PER_SECOND // 100]:
                self.inbox.put([Changed(convert.pod(decoder.frame(frame).object))])
            frames = [*frames[10:], *frames[:10]]
            await asyncio.sleep(0.01)


class Plans(Observer):
    """Notes every plan, and ends the run after enough of them."""

    def __init__(self, io: Io, count: int, steps: int) -> None:
        self.made: list[Plan] = []
        self._io, self._count, self._steps = io, count, steps
        self._began = 0.0

    def deciding(self, gang: str) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._began = time.perf_counter()

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        exhausted = any(d.stopped or d.steps >= self._steps for d in decisions)
        self.made.append(Plan(self._began, seconds, exhausted))
        if len(self.made) >= self._count:
            self._io.stopped = True


@contextmanager
def beside(*works: Any) -> Iterator[list[Pipe]]:
    """Processes that do these, and the pipes to them."""
    context = multiprocessing.get_context("spawn")
    pipes = [multiprocessing.Pipe() for _ in works]
    running = [
        context.Process(target=w, args=(theirs,), daemon=True) for w, (_, theirs) in zip(works, pipes, strict=True)
    ]
    for process in running:
        process.start()
    try:
        yield [ours for ours, _ in pipes]
    finally:
        for process in running:
            process.terminate()
            process.join()


def measure(plans: int, budget_milliseconds: int, **large: Any) -> Result:
    """So many plans in such a cluster (see :func:`tests.bench.worlds.cluster`), and both loops beside them."""
    steps = budget_milliseconds * STEPS_PER_MILLISECOND
    options = Options(search_steps=steps, backoff_initial_seconds=BACKOFF_SECONDS, backoff_max_seconds=BACKOFF_SECONDS)
    switch, restore = sys.getswitchinterval(), raise_thresholds()
    sys.setswitchinterval(SWITCH_SECONDS)
    with beside(server, idle) as (from_server, from_idle):
        io, core = Io(from_server.recv()), Scheduler(options)
        from_idle.recv()
        deadline = Deadline(core.decider.watchdog, FACTOR * budget_milliseconds / 1000.0)
        seen = Plans(io, plans, steps)
        io.start()
        deadline.start()
        try:
            io.inbox.put([*cluster(**large).events(), Synced()])
            decisions = threading.Thread(
                target=run_loop,
                args=(core, io, Observers(deadline, FreezeAfterSync(), seen)),
                name="decisions",
                daemon=True,
            )
            decisions.start()
            decisions.join(LONGEST_SECONDS)
        finally:
            io.stop()
            deadline.stop()
            sys.setswitchinterval(switch)
            restore()
        from_idle.send("stop")
        return Result(seen.made, during(seen.made, io.beats), during(seen.made, from_idle.recv()))


def during(plans: Sequence[Plan], beats: Sequence[Beat]) -> list[Beat]:
    """The beats that were due during one of these plans."""
    return [beat for beat in beats if any(p.began <= beat[0] <= p.began + p.seconds for p in plans)]


def percentile(beats: Sequence[Beat], share: float) -> float:
    """Milliseconds, by nearest rank."""
    late = sorted(late for _, late in beats)
    return 1000.0 * late[max(0, math.ceil(share * len(late)) - 1)]


def problems(result: Result, plans: int, limit_milliseconds: float) -> list[str]:
    """Why this run does not show that the loop stays on time."""
    out = []
    exhausted = sum(plan.exhausted for plan in result.plans)
    if exhausted < plans:
        out.append(f"{exhausted} of {plans} plans have used up the budget of their search")
    if not result.ours or not result.idle:
        return [*out, "no beat was due during a plan"]
    if (late := percentile(result.ours, 0.99)) > limit_milliseconds:
        out.append(f"lag p99 is {late:.1f} ms, more than {limit_milliseconds:g} ms")
    return out


def rows(result: Result) -> list[list[str]]:
    """One for each loop."""
    out = []
    for name, beats in (("I/O loop of the scheduler", result.ours), ("a loop that does nothing", result.idle)):
        cells = [percentile(beats, share) for share in (0.5, 0.99, 1.0)] if beats else []
        out.append([name, str(len(beats)), *(f"{cell:.1f}" for cell in cells)])
    return out


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plans", type=int, default=6, help="how many plans (default 6)")
    parser.add_argument("--budget", type=int, default=500, help="preemption.budgetMilliseconds (default 500)")
    parser.add_argument("--limit", type=float, default=50.0, help="p99 of the lag in milliseconds (default 50)")
    given = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    result = measure(given.plans, given.budget, **LARGE)
    took = ", ".join(f"{1000 * plan.seconds:.0f}" for plan in result.plans)
    print(f"{len(result.plans)} plans took {took} ms; load average {os.getloadavg()[0]:.1f}")
    print(table(["lag, ms", "beats", "p50", "p99", "max"], rows(result)))
    found = problems(result, given.plans, given.limit)
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
