"""The examples' stories and a mixed load of many gangs behind a network and a server that fail; another scheduler."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.controlplane.cleanup import wipe
from tests.controlplane.client import Client
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.stories import EXAMPLES, Story, play
from tests.faulty_proxy import FaultyProxy
from tests.resilience import audit, evidence
from tests.resilience.findings import Findings
from tests.resilience.load import HIGH, LOW, OURS, TOP, Gang, Load, furnish
from tests.resilience.replicas import Replica
from tests.resilience.rivals import judge, planned_again
from tests.resilience.rules import REMARKS, Rules
from tests.resilience.weather import Storm

RIVAL = "rival"
#: As in a default configuration, but with more requests per second.
SETTINGS: dict[str, Any] = {
    "clientConnection": {"qps": 1000, "burst": 2000},
    "logging": {"format": "json", "level": "info"},
}
LIMITS = {"request_timeout_seconds": 2.0, "renew_deadline_seconds": 10.0, "duration_seconds": 15.0}
#: A run that takes longer has failed.
STORY_SECONDS, LOAD_SECONDS = 120.0, 900.0


class Outcome(Findings):
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
    beyond_by_us: int = 0
    beyond_by_others: int = 0
    oldest_picture_ms: float = 0.0
    underway_ms: float = 0.0
    learned: int = 0
    planned_again: int = 0


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


async def load(  # noqa: PLR0913
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
    known = evidence.read([replica.evidence])
    rules = Rules(log, work.lives, SCHEDULER_USER, known)
    outcome.violations = rules.violations(**LIMITS)
    outcome.late = sum(len(outcome.violations.pop(kind)) for kind in REMARKS)
    outcome.planned, outcome.evicted = rules.planned()
    outcome.preemptions = len({w.plan for w in rules.ours if w.kind == audit.NOMINATE and w.victims})
    outcome.planned_again = planned_again((w for w in rules.ours if w.kind == audit.NOMINATE), work.lives)
    beyond = judge(log, work.lives, SCHEDULER_USER, cpu * 1000, known)
    outcome.beyond_by_us, outcome.beyond_by_others = beyond.by_us, beyond.by_others
    outcome.oldest_picture_ms = beyond.oldest_seconds * 1000.0
    outcome.underway_ms, outcome.learned = beyond.underway_seconds * 1000.0, beyond.learned
    outcome.problems += beyond.faults
    if beyond.learned:
        outcome.problems.append(f"{beyond.learned} bindings beyond a node's room left when another's was known")
    return outcome
