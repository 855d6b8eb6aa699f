"""Whole lives of a gang of which one member cannot be bound at first: what its Job and others make of a rollback."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangsched.cluster.manifests import load
from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.arrival import arrivals
from gangsched.cluster.sim.faults import BEFORE, NO_FAULT, NoFaults, WriteFault
from gangsched.core.actions import Action, Bind
from gangsched.core.events import Outcome
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.runtime.loop import run_loop
from tests.judge import invariants

STORY = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 2}}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: g}
  spec:
    parallelism: 2
    completions: 2
    template:
      metadata: {labels: {pod-group.scheduling.sigs.k8s.io: g}}
      spec:
        schedulerName: py-gang-scheduler
        restartPolicy: Never
        terminationGracePeriodSeconds: 2
        containers: [{name: c, resources: {requests: {cpu: "3"}}}]
"""


class Refusing(NoFaults):
    """The bindings of the Job's second pod are refused so many times."""

    def __init__(self, times: int) -> None:
        self._left = times

    def write(self, action: Action) -> WriteFault:
        """A refusal for some bindings, nothing else."""
        if not isinstance(action, Bind) or action.pod.name != "g-1" or not self._left:
            return NO_FAULT
        self._left -= 1
        return WriteFault(fails=BEFORE, outcome=Outcome.REFUSED, message="no")


def lived(path: Path, times: int, *, rollback: bool) -> World:
    """The story to its end."""
    there = World(arrivals(load([str(path)]).events), faults=Refusing(times))
    cluster = SimCluster(there, until_seconds=600.0)
    run_loop(Scheduler(Options(rollback=rollback)), cluster)
    cluster.close()
    return there


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """The story as a file."""
    path = tmp_path / "story.yaml"
    path.write_text(STORY)
    return path


def test_a_rollback_ends_with_a_whole_gang(story: Path) -> None:
    """The bound pod leaves, its Job makes another one, and both run in the end; nothing stays marked."""
    there = lived(story, 3, rollback=True)
    removed = [e for e in there.history if e.verb == log.DELETE and e.actor == log.SCHEDULER]
    assert [e.object for e in removed] == ["default/g-0"]
    assert sorted(p.name for p in there.store.pods.values() if p.node) == ["g-1", "g-2"]
    assert invariants.violations(there.history) == []
    told = {e.detail.get("reason") for e in there.history if e.object == "default/g-0"}
    assert "RolledBack" in told


def test_without_it_the_bound_member_waits(story: Path) -> None:
    """The binding is repeated until it succeeds; nobody is removed."""
    there = lived(story, 6, rollback=False)
    assert not [e for e in there.history if e.actor == log.SCHEDULER and e.verb == log.DELETE]
    assert sorted(p.name for p in there.store.pods.values() if p.node) == ["g-0", "g-1"]
    assert invariants.violations(there.history) == []


def test_a_member_that_is_never_bound_costs_three_lives_of_the_others(story: Path) -> None:
    """After three rollbacks in a row the gang stays bound in part, and its Job alive."""
    there = lived(story, 10**6, rollback=True)
    removed = [e for e in there.history if e.verb == log.DELETE and e.actor == log.SCHEDULER]
    assert len(removed) == 3
    assert len([p for p in there.store.pods.values() if p.node]) == 1
    assert not any(job.finished for job in there.store.jobs())
