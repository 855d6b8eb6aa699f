"""JobSets under faults and crashes: suspended and let go on by process after process, and complete in the end."""

from __future__ import annotations

import io
import random

import pytest

from gangsched.cluster.manifests import load
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.faults import SeededFaults
from gangsched.core.options import Options
from gangsched.model.jobsets import JOBSET
from tests.amounts import amount
from tests.chaos.checks import problems
from tests.chaos.play import Played, play
from tests.chaos.scenario import MAX_WRITE_DELAY, Scenario
from tests.chaos.trouble import Crash

JOBSETS = 3

CLASSES = "{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: p{0}}}, value: {0}}}"
NODE = "{{apiVersion: v1, kind: Node, metadata: {{name: n{}}}, status: {{allocatable: {{cpu: '4', pods: '50'}}}}}}"
QUEUE = """
{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: f}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 9}]}]}]
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: team}, spec: {clusterQueue: cq}}
"""
SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: js{number}
  labels: {labels}
  annotations: {{sim.gangsched.dev/run-for: {run}s, sim.gangsched.dev/grace-used: {grace}s}}
spec:
  suspend: {suspend}
  replicatedJobs:
  - name: w
    replicas: {replicas}
    template:
      spec:
        parallelism: {size}
        completions: {size}
        backoffLimit: {limit}
        template:
          spec:
            schedulerName: py-gang-scheduler
            priorityClassName: p{priority}
            containers: [{{resources: {{requests: {{cpu: 1}}}}}}]
"""
URGENT = """
apiVersion: v1
kind: Pod
metadata:
  name: vip-{number}
  annotations: {{sim.gangsched.dev/arrive-after: {at}s, sim.gangsched.dev/run-for: {run}s}}
spec:
  schedulerName: py-gang-scheduler
  priorityClassName: p9
  containers: [{{resources: {{requests: {{cpu: 4}}}}}}]
"""


def scenario(seed: int) -> Scenario:
    """Three nodes, three JobSets that fit only one after another, urgent pods, faults, and up to two crashes."""
    rng = random.Random(seed)
    texts = [CLASSES.format(p) for p in (1, 5, 9)] + [NODE.format(i) for i in range(3)] + [QUEUE]
    for number in range(JOBSETS):
        queued = rng.random() < 0.5
        texts.append(
            SET.format(
                number=number,
                labels="{kueue.x-k8s.io/queue-name: team}" if queued else "{}",
                suspend="true" if queued and rng.random() < 0.5 else "false",
                run=rng.randint(10, 30),
                grace=rng.randint(0, 3),
                replicas=rng.randint(1, 3),
                size=rng.randint(1, 3),
                priority=rng.choice([1, 5]),
                limit=rng.choice([0, 6]),
            )
        )
    texts += [
        URGENT.format(number=number, at=rng.randint(2, 60), run=rng.randint(5, 20))
        for number in range(rng.randint(1, 3))
    ]
    faults = SeededFaults(
        seed, before=0.05, after=0.05, write_delay_seconds=rng.uniform(0.0, MAX_WRITE_DELAY), watch_delay_seconds=0.05
    )
    crashes = [
        Crash(rng.randint(1, 60), lose_writes=rng.random() < 0.5, down_seconds=rng.uniform(0.0, 20.0))
        for _ in range(rng.randint(0, 2))
    ]
    events = load(["-"], stdin=io.StringIO("\n---\n".join(texts))).events
    return Scenario(seed=seed, events=events, faults=faults, crashes=crashes, troubles=[], options=Options())


def left(played: Played) -> list[str]:
    """The JobSets that are not complete at the end, and their Jobs that have failed."""
    entries = played.world.history
    done = {e.object for e in entries.with_verbs(log.COMPLETE) if e.kind == JOBSET}
    out = [f"default/js{n} is not complete" for n in range(JOBSETS) if f"default/js{n}" not in done]
    return out + [f"{e.object} has failed" for e in entries.with_verbs(log.FAIL) if e.kind in ("Job", JOBSET)]


@pytest.mark.parametrize("first", range(0, amount(60, 20), 20))
def test_whatever_fails_every_jobset_completes(first: int) -> None:
    """None of their Jobs counts a failed pod beyond its limit; nobody leaves without a mark."""
    found: dict[int, list[str]] = {}
    suspended = 0
    for seed in range(first, first + 20):
        played = play(scenario(seed))
        suspended += sum(
            e.kind == JOBSET and e.changed and e.outcome == log.OK for e in played.world.history.with_verbs(log.SUSPEND)
        )
        if wrong := problems(played) + left(played):
            found[seed] = wrong
    assert found == {}
    assert suspended > 1
