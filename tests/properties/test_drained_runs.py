"""Whole lives of Jobs whose queues are stopped and opened at random, with late writes and restarts in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gangsched.cluster.manifests import load
from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.arrival import arrivals
from gangsched.cluster.sim.faults import SeededFaults
from gangsched.cluster.sim.history import USER, Cause, drained_by
from gangsched.core.events import Changed
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.queues import STOP_DRAIN, STOP_HOLD, STOP_NONE, ClusterQueue, LocalQueue, QueueObject
from gangsched.model.records import Job, Pod
from gangsched.runtime.loop import run_loop
from tests.amounts import amount
from tests.judge.disrupted import drained_while_open
from tests.judge.invariants import violations
from tests.properties.job_runs import JOBS, manifests

#: Queues are stopped and opened in this time (seconds); afterwards all are open.
TROUBLE = 120
#: One watch event and one write may be on their way when a queue is opened.
LATE_SECONDS = 0.55
#: A queue that has been drained for so long is empty: writes, grace periods, and a restart in between.
EMPTY_AFTER = 40.0


def lived(seed: int, folder: Path) -> World:
    """Fourteen Jobs, a few groups and three queues that are stopped again and again, some for less than a second, under
    four processes one after another. Two of these end just after a queue was stopped.
    """
    (folder / "all.yaml").write_text(f"{manifests(seed)[0]}\n---\n{groups(seed)}")
    loaded = load([str(folder)])
    faults = SeededFaults(seed, write_delay_seconds=0.3, watch_delay_seconds=0.2)
    there = World(arrivals(loaded.events), start=loaded.now, faults=faults)
    queues = [e.record for e in loaded.events if isinstance(e, Changed) and isinstance(e.record, QueueObject)]
    stoppable = [q for q in queues if isinstance(q, ClusterQueue | LocalQueue)]
    rng = random.Random(seed)
    stops = sorted(rng.uniform(10, TROUBLE) for _ in range(10))
    for at in stops:
        queue = rng.choice(stoppable)
        _at(there, at, queue, rng.choice([STOP_DRAIN, STOP_DRAIN, STOP_DRAIN, STOP_HOLD]))
        _at(there, at + rng.choice([rng.uniform(0, 1.5), rng.uniform(5, 60)]), queue, STOP_NONE)
    for queue in stoppable:
        _at(there, TROUBLE + 60, queue, STOP_NONE)
    for until in sorted([stops[3] + rng.uniform(0, 1), stops[6] + rng.uniform(0, 1), rng.uniform(5, TROUBLE)]):
        cluster = SimCluster(there, until_seconds=until)
        run_loop(Scheduler(Options()), cluster)
        cluster.close(lose_writes=True)
    cluster = SimCluster(there, until_seconds=1800.0)
    run_loop(Scheduler(Options()), cluster)
    cluster.close()
    return there


def groups(seed: int) -> str:
    """Groups of three pods with a queue, which nobody creates again."""
    rng = random.Random(-seed)
    out = []
    for name in ("g0", "g1", "g2"):
        out.append(
            f"{{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {{name: {name}, labels:"
            f" {{kueue.x-k8s.io/queue-name: q{rng.choice('abc')}}}}}, spec: {{minMember: 3}}}}"
        )
        notes = f"sim.gangsched.dev/arrive-after: {rng.randint(0, 30)}s, sim.gangsched.dev/grace-used: 2s"
        out += [
            f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}-{i}, annotations: {{{notes}}}, labels:"
            f" {{pod-group.scheduling.sigs.k8s.io: {name}}}}}, spec: {{schedulerName: py-gang-scheduler,"
            f" containers: [{{name: c, resources: {{requests: {{cpu: '1'}}}}}}]}}}}"
            for i in range(3)
        ]
    return "\n---\n".join(out)


def _at(there: World, seconds: float, queue: ClusterQueue | LocalQueue, policy: str) -> None:
    changed = Changed(msgspec.structs.replace(queue, stop=policy))

    def change() -> None:
        there.store.apply(changed, Cause(USER, log.CHANGE))

    there.clock.after(seconds, change)


def stays(there: World) -> Iterator[str]:
    """Pods that ran in a queue when it had been drained for long enough."""
    stopped: dict[str, float] = {}
    queue_of: dict[str, tuple[str, ...]] = {}
    running: dict[str, Pod] = {}
    local = {q.key: q.cluster_queue for q in _records(there, LocalQueue) if isinstance(q, LocalQueue)}
    for job in _records(there, Job):
        if isinstance(job, Job) and job.queue.local_queue:
            key = f"{job.namespace}/{job.queue.local_queue}"
            queue_of[f"{job.namespace}/{job.name}"] = (key, local[key])
    for entry in there.history:
        long = {name for name, since in stopped.items() if entry.at_seconds - since > EMPTY_AFTER}
        for pod in running.values() if long else ():
            if pod.owner is not None and long.intersection(queue_of[f"{pod.namespace}/{pod.owner.name}"]):
                yield f"{pod.key} runs at {entry.at_seconds:.1f} s"
        record = entry.record
        if isinstance(record, ClusterQueue | LocalQueue):
            name = record.key if isinstance(record, LocalQueue) else record.name
            if record.stop != STOP_DRAIN:
                stopped.pop(name, None)
            else:
                stopped.setdefault(name, entry.at_seconds)
        elif isinstance(record, Pod) and record.bound and record.live:
            running[entry.uid] = record
        else:
            running.pop(entry.uid, None)


def _records(there: World, kind: type) -> list[object]:
    return [e.record for e in there.history if isinstance(e.record, kind)]


@pytest.mark.parametrize("seed", range(amount(12, 5)))
def test_stopped_queues_are_emptied_and_everybody_finishes(seed: int, tmp_path: Path) -> None:
    """Nobody leaves without a mark or for an open queue, a drained queue is empty soon, and all Jobs complete."""
    there = lived(seed, tmp_path)
    assert violations(there.history) == []
    assert drained_while_open(there.history, LATE_SECONDS) == []
    assert list(stays(there)) == []
    assert sum(e.verb == log.COMPLETE for e in there.history) == JOBS
    assert any(drained_by(e) for e in there.history)
