"""Processes that end or freeze at random moments while gangs preempt on a real API server; its audit log is judged."""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec

from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.resilience import audit, evidence
from tests.resilience.findings import Findings
from tests.resilience.load import Life, Load, fillers, furnish, stream
from tests.resilience.replicas import LEASE_SECONDS, QUICK, RENEW_SECONDS, REQUEST_SECONDS, Replica
from tests.resilience.rules import REMARKS, Rules

ONE, TWO, FROZEN = "one process, killed", "two replicas", "two replicas, frozen"
NODES, CPU = 8, 4
#: Promised: from the signal to the first write of the next leader.
CLEAN_SECONDS, KILLED_SECONDS = 3.0, LEASE_SECONDS + 3.0


class Outcome(Findings):
    """One mode's run. ``handovers`` are seconds from a signal to the first write of the next leader, by signal."""

    mode: str
    seed: int
    kills: int = 0
    stops: int = 0
    freezes: int = 0
    seconds: float = 0.0
    gangs: int = 0
    preemptions: int = 0
    planned: int = 0
    evicted: int = 0
    struck: int = 0
    writes: int = 0
    late: int = 0
    on_the_wire: int = 0
    fenced: int = 0
    midway: int = 0
    handovers: dict[str, list[float]] = msgspec.field(default_factory=dict)


class Moments:
    """Waits for a moment that a seeded draw has chosen: some time, or just after something was seen to happen."""

    SIGNS = ("time", "nominated", "marked", "leaving", "bound")

    def __init__(self, load: Load, seed: int) -> None:
        self._chance = random.Random(seed)
        self._seen: dict[str, asyncio.Event] = {sign: asyncio.Event() for sign in self.SIGNS}
        #: Has any victim left?
        self.evicted = False
        load.listeners.append(self._look)

    def _look(self, change: str, pod: Object, life: Life) -> None:
        conditions = {c["type"]: c.get("status") for c in pod.get("status", {}).get("conditions", [])}
        if conditions.get("gangsched.dev/Nominated") == "True" and life.bound_at is None:
            self._seen["nominated"].set()
        if conditions.get("DisruptionTarget") == "True":
            self._seen["leaving" if life.leaving_at else "marked"].set()
            self.evicted |= bool(life.leaving_at)
        if life.bound_at and change == "MODIFIED":
            self._seen["bound"].set()

    async def next(self, longest: float) -> str:
        """Wait for it, at most so long (plus a moment); what it was."""
        sign = self._chance.choice(self.SIGNS)
        if sign == "time":
            await asyncio.sleep(self._chance.uniform(0.0, longest))
            return sign
        self._seen[sign].clear()
        try:
            await asyncio.wait_for(self._seen[sign].wait(), longest)
        except TimeoutError:
            return "nothing"
        await asyncio.sleep(self._chance.uniform(0.0, 0.15))
        return sign


class Run:
    """What the modes share: the load, the replicas there have been, and how the next one is made."""

    def __init__(self, load: Load, admin: Client, kubeconfig: Path, folder: Path, outcome: Outcome) -> None:
        self.load = load
        self.admin = admin
        self.outcome = outcome
        self.moments = Moments(load, outcome.seed)
        self.chance = random.Random(outcome.seed + 1)
        self.signals: list[tuple[str, str, float]] = []
        self.frozen: list[tuple[str, float]] = []
        self._kubeconfig = kubeconfig
        self._folder = folder
        self.all: list[Replica] = []
        self._next: Replica | None = None

    async def replica(self) -> Replica:
        """One process more, started."""
        made, self._next = self._next or await self._prepared(), None
        made.go()
        self._next = await self._prepared()
        return made

    async def _prepared(self) -> Replica:
        made = Replica(f"p{len(self.all):03d}", self._kubeconfig, self._folder, QUICK)
        self.all.append(made)
        await made.prepare()
        return made

    async def probe(self) -> None:
        """A small pod that the next leader can bind at once, so that its first write does not wait for work."""
        name = f"probe-{len(self.signals):04d}"
        await self.load.pod(name)
        await self.load.drop(self.load.known[name])

    async def end(self) -> None:
        """Kill whoever lives."""
        for each in self.all:
            if each.alive:
                each.send(signal.SIGCONT)
                await each.kill()

    def struck(self, what: str, replica: Replica, at: float) -> None:
        """Remember a signal."""
        self.signals.append((what, replica.tag, at))


async def one(run: Run, count: int) -> None:
    """Kill, start again, at every stage of a process' life."""
    for _ in range(count):
        replica = await run.replica()
        if run.chance.random() < 0.15:
            await asyncio.sleep(run.chance.uniform(0.0, 4.0))
        else:
            await replica.until_leads()
            sign = await run.moments.next(1.5)
            run.outcome.struck += sign not in ("time", "nothing")
        run.struck("kill", replica, await replica.kill())
        run.outcome.kills += 1
    last = await run.replica()
    await last.until_leads()
    # On a busy machine no process may have come so far before it was killed.
    await wait_until(lambda: run.moments.evicted, 60.0, "a victim leaves")


async def two(run: Run, count: int) -> None:
    """The leader is killed or told to stop, the standby goes on, and a new standby comes."""
    leader = await run.replica()
    await leader.until_leads()
    for number in range(count):
        standby = await run.replica()
        await standby.until_warm()
        sign = await run.moments.next(1.5)
        run.outcome.struck += sign not in ("time", "nothing")
        if number % 2:
            probing = asyncio.create_task(_later(run.probe))
            run.struck("stop", leader, await leader.stop())
            run.outcome.stops += 1
        else:
            run.struck("kill", leader, await leader.kill())
            probing = asyncio.create_task(run.probe())
            run.outcome.kills += 1
        await standby.until_leads()
        await probing
        leader = standby


async def _later(probe: Callable[[], Awaitable[None]]) -> None:
    """A process that was told to stop decides nothing more after a moment."""
    await asyncio.sleep(0.1)
    await probe()


async def frozen(run: Run, count: int) -> None:
    """The leader sleeps for longer than its lease, the standby takes over, the sleeper wakes up as a standby."""
    leader, standby = await run.replica(), await run.replica()
    await asyncio.gather(leader.until_warm(), standby.until_warm())

    async def leads(each: Replica) -> Replica:
        await each.until_leads()
        return each

    tasks = [asyncio.create_task(leads(each)) for each in (leader, standby)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    if done.pop().result() is standby:
        leader, standby = standby, leader
    for _ in range(count):
        sign = await run.moments.next(1.5)
        run.outcome.struck += sign not in ("time", "nothing")
        stopped = leader.send(signal.SIGSTOP)
        run.struck("freeze", leader, stopped)
        run.frozen.append((leader.tag, stopped))
        run.outcome.freezes += 1
        probing = asyncio.create_task(run.probe())
        await asyncio.sleep(LEASE_SECONDS * run.chance.uniform(1.2, 2.5))
        await standby.until_leads()
        leader.send(signal.SIGCONT)
        await probing
        await wait_until(partial(_follows, leader), 10.0, f"{leader.tag} knows that it does not lead")
        leader, standby = standby, leader


def _follows(replica: Replica) -> bool:
    return not replica.leads


MODES: dict[str, Callable[[Run, int], Awaitable[None]]] = {ONE: one, TWO: two, FROZEN: frozen}


async def play(mode: str, count: int, seed: int, keep: Path | None = None) -> Outcome:
    """One mode on a control plane of its own."""
    with tempfile.TemporaryDirectory(prefix="resilience-") as name:
        folder = keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        plane = ControlPlane(folder / "plane", audit=True)
        await asyncio.to_thread(plane.start)
        try:
            return await _play(mode, count, seed, plane, folder)
        finally:
            await asyncio.to_thread(plane.stop)


async def _play(mode: str, count: int, seed: int, plane: ControlPlane, folder: Path) -> Outcome:
    outcome = Outcome(mode, seed)
    async with Client(plane.admin_kubeconfig) as admin:
        await furnish(admin, NODES, CPU)
        load = Load(
            admin,
            fillers=fillers(NODES, CPU, grace_seconds=1),
            gangs=stream(seed, sizes=(2, 4), milli=(1000, 2000), seconds=(0.3, 1.5)),
            at_once=4,
            when_full=(NODES * CPU - 2) * 1000,
        )
        run = Run(load, admin, plane.scheduler_kubeconfig, folder, outcome)
        async with load.running():
            began = time.monotonic()
            try:
                await MODES[mode](run, count)
                outcome.seconds = time.monotonic() - began
                load.no_more()
                await load.settled(120.0)
            except AssertionError as error:
                outcome.seconds = outcome.seconds or time.monotonic() - began
                outcome.problems.append(str(error))
            finally:
                await run.end()
            outcome.problems += [f"partial: {text}" for text in load.partial()]
        outcome.problems += load.failures
        outcome.gangs = load.finished
        await asyncio.sleep(0.5)  # the log is written behind the answers
        judge(outcome, plane, run)
    return outcome


def judge(outcome: Outcome, plane: ControlPlane, run: Run) -> None:
    """Read the audit log into the outcome."""
    log = audit.writes(plane.audit_events())
    known = evidence.read(each.evidence for each in run.all)
    rules = Rules(log, run.load.lives, SCHEDULER_USER, known, run.frozen)
    found = rules.violations(
        request_timeout_seconds=REQUEST_SECONDS, renew_deadline_seconds=RENEW_SECONDS, duration_seconds=LEASE_SECONDS
    )
    outcome.late, outcome.on_the_wire, outcome.fenced, outcome.midway = (len(found.pop(kind)) for kind in REMARKS)
    outcome.violations = found
    outcome.planned, outcome.evicted = rules.planned()
    outcome.preemptions = len({w.plan for w in log if w.kind == audit.NOMINATE and w.victims})
    outcome.writes = len(rules.ours)
    for what, tag, at in run.signals if outcome.mode != ONE else ():
        first = next(
            (w.received for w in rules.ours if w.kind == audit.BIND and w.received > at and w.process != tag), 0
        )
        if first:
            outcome.handovers.setdefault(what, []).append(first - at)
    for what, limit in (("stop", CLEAN_SECONDS), ("kill", KILLED_SECONDS), ("freeze", KILLED_SECONDS)):
        slow = [t for t in outcome.handovers.get(what, ()) if t > limit]
        outcome.slow += [f"hand-over after {what} took {t:.1f} s, not {limit:g} s" for t in slow]
