"""The examples' stories and a mixed load of many gangs behind a network and a server that fail; another scheduler."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.controlplane.cleanup import wipe
from tests.controlplane.client import Client
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.test_stories import EXAMPLES, Story, play
from tests.faulty_proxy import FaultyProxy
from tests.resilience import audit
from tests.resilience.load import HIGH, LOW, OURS, TOP, Gang, Life, Load, furnish
from tests.resilience.replicas import Replica
from tests.resilience.rules import REMARKS, WAY_SECONDS, Rules
from tests.resilience.weather import Storm

RIVAL = "rival"
#: As in a default configuration, but with more requests per second.
SETTINGS: dict[str, Any] = {
    "clientConnection": {"qps": 1000, "burst": 2000},
    "logging": {"format": "json", "level": "info"},
}
LIMITS = {"request_timeout_seconds": 2.0, "renew_deadline_seconds": 10.0, "duration_seconds": 15.0}
#: How long after somebody else's binding one of ours may still rest on a picture without it.
RACE_SECONDS = 1.0
#: A run that takes longer has failed.
STORY_SECONDS, LOAD_SECONDS = 120.0, 900.0


class Outcome(msgspec.Struct):
    """What one run came to."""

    name: str
    gangs: int = 0
    pods: int = 0
    seconds: float = 0.0
    preemptions: int = 0
    planned: int = 0
    evicted: int = 0
    late: int = 0
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    rivals: int = 0
    overcommitted: dict[str, int] = msgspec.field(default_factory=dict)
    oldest_picture_ms: float = 0.0
    planned_again: int = 0
    violations: dict[str, list[str]] = msgspec.field(default_factory=dict)
    problems: list[str] = msgspec.field(default_factory=list)

    @property
    def good(self) -> bool:
        """Nothing is wrong."""
        return not self.problems and not any(self.violations.values())


def mixed(seed: int, count: int, rivals: int = 0) -> Iterator[Gang]:
    """So many gangs of one to eight pods of three priorities, and among them single pods of another scheduler."""
    chance = random.Random(seed)
    kinds = [True] * count + [False] * rivals
    chance.shuffle(kinds)
    for number, ours in enumerate(kinds):
        size = chance.randint(1, 8) if ours else 1
        priority = chance.choices((LOW, HIGH, TOP), (50, 35, 15))[0]
        yield Gang(
            name=f"{'gang' if ours else 'rival'}-{number:05d}",
            size=size,
            priority_class=priority,
            milli=chance.choice((500, 1000, 2000)),
            seconds=chance.uniform(4.0, 10.0) if priority == LOW else chance.uniform(0.5, 3.0),
            with_object=ours and size > 1 and chance.random() < 0.5,
            scheduler=OURS if ours else RIVAL,
            grace_seconds=chance.choice((0, 1)),
        )


async def stories(plane: ControlPlane, folder: Path, seed: int) -> list[Outcome]:
    """Both examples in a storm: in order, exactly these victims, nobody else."""
    out = []
    for number, (name, victims) in enumerate((("koordinator", 2), ("workload", 4))):
        outcome = Outcome(f"story {name}")
        storm = Storm(seed + number, share=0.25)
        async with Client(plane.admin_kubeconfig) as admin:
            await apply_manifests_crds(admin)
            await apply_manifests_rbac(admin, SCHEDULER_USER)
            with FaultyProxy(plane.server, plane.ca_file, storm) as proxy:
                kubeconfig = plane.kubeconfig(SCHEDULER_USER, proxy.url)
                replica = Replica(f"story-{name}", kubeconfig, folder, SETTINGS)
                await replica.prepare()
                replica.go()
                began = time.monotonic()
                try:
                    async with asyncio.timeout(STORY_SECONDS):
                        recorder, members, evicted = await play(admin, EXAMPLES / name, [])
                    Story(recorder, members, evicted).check_order()
                    touched = {c.name for c in recorder.changes}
                    assert touched == {*members, *evicted}, f"others were touched: {touched}"
                    outcome.gangs, outcome.pods, outcome.evicted = 1, len(members), len(evicted)
                    outcome.planned, outcome.preemptions = victims, 1
                except (AssertionError, StopIteration, TimeoutError) as error:
                    outcome.problems.append(f"{type(error).__name__}: {error}")
                finally:
                    await replica.kill()
            outcome.seconds = time.monotonic() - began
            outcome.faults = dict(storm.counts)
            if outcome.planned != outcome.evicted:
                outcome.problems.append(f"{outcome.evicted} pods were evicted, not {outcome.planned}")
            await wipe(admin)
        out.append(outcome)
    return out


async def load(
    plane: ControlPlane,
    folder: Path,
    seed: int,
    *,
    gangs: int,
    nodes: int,
    cpu: int = 8,
    rivals: int = 0,
    stormy: bool = True,
    at_once: int = 100,
) -> Outcome:
    """So many gangs, until every one has been whole for its time; the audit log is judged afterwards."""
    outcome = Outcome(f"{gangs} gangs{f' beside kube-scheduler, {rivals} pods' if rivals else ''}")
    storm = Storm(seed)
    async with Client(plane.admin_kubeconfig) as admin:
        await furnish(admin, nodes, cpu)
        work = Load(admin, fillers=[], gangs=mixed(seed, gangs, rivals), at_once=at_once)
        with FaultyProxy(plane.server, plane.ca_file, storm if stormy else lambda _: None) as proxy:
            server = proxy.url if stormy else None
            replica = Replica(f"load-{gangs}-{rivals}", plane.kubeconfig(SCHEDULER_USER, server), folder, SETTINGS)
            await replica.prepare()
            replica.go()
            began = time.monotonic()
            async with work.running():
                try:
                    await replica.until_leads()
                    await work.settled(LOAD_SECONDS)
                    replica.check()
                except AssertionError as error:
                    outcome.problems.append(str(error))
                    (folder / "metrics.txt").write_text((await replica.answers("/metrics"))[1])
                outcome.problems += [f"partial: {text}" for text in work.partial()]
                outcome.seconds = time.monotonic() - began
            await replica.kill()
        outcome.problems += work.failures
        outcome.faults = dict(storm.counts)
        await asyncio.sleep(0.5)  # the log is written behind the answers
        log = audit.writes(plane.audit_events())
    done = [g for g in work.known.values() if g.finished]
    outcome.gangs = sum(g.scheduler == OURS for g in done)
    outcome.rivals = sum(g.scheduler == RIVAL for g in done)
    outcome.pods = sum(1 for w in log if w.kind == audit.BIND and w.done and w.user == SCHEDULER_USER)
    rules = Rules(log, work.lives, SCHEDULER_USER)
    outcome.violations = rules.violations(**LIMITS)
    outcome.late = sum(len(outcome.violations.pop(kind)) for kind in REMARKS)
    outcome.planned, outcome.evicted = rules.planned()
    outcome.preemptions = len({w.plan for w in rules.ours if w.kind == audit.NOMINATE and w.victims})
    plans = Counter(
        {(work.lives[w.uid].preemptor, w.plan) for w in rules.ours if w.kind == audit.NOMINATE and w.uid in work.lives}
    )
    outcome.planned_again = sum(n > 1 for n in Counter(gang for gang, _ in plans).values())
    _overcommitted(outcome, log, work.lives, cpu * 1000)
    return outcome


def _overcommitted(outcome: Outcome, log: list[audit.Write], lives: Mapping[str, Life], room: int) -> None:
    """Who bound beyond a node's room, and whether the binding that took the room could have been known."""
    steps: list[tuple[float, bool, str]] = []  # time, has it left, which pod
    binds = {w.uid: w for w in log if w.kind == audit.BIND and w.done and w.uid in lives}
    for uid, w in binds.items():
        steps.append((w.answered, False, uid))
        gone = lives[uid].gone_at
        if gone is not None:
            steps.append((max(gone - WAY_SECONDS, w.answered), True, uid))
    used: Counter[str] = Counter()
    there: dict[str, list[str]] = {}
    found: Counter[str] = Counter()
    for at, left, uid in sorted(steps):
        node = binds[uid].node
        others = there.setdefault(node, [])
        used[node] += -lives[uid].milli if left else lives[uid].milli
        if left:
            others.remove(uid)
            continue
        if used[node] > room:
            mine = binds[uid].user == SCHEDULER_USER
            newest = max((binds[o].answered for o in others if binds[o].user != SCHEDULER_USER), default=0.0)
            if not mine:
                found["by the other, in a race"] += 1
            elif binds[uid].received - newest <= RACE_SECONDS:
                found["by us, in a race"] += 1
                age = max(0.0, binds[uid].received - newest) * 1000.0
                outcome.oldest_picture_ms = max(outcome.oldest_picture_ms, age)
            else:
                outcome.problems.append(f"{at:.3f}: {lives[uid].name} was bound to {node} beyond its room")
        others.append(uid)
    outcome.overcommitted = dict(found)
