"""Whole lives of Jobs with queues, at random: quota is used and never exceeded, and everybody's turn comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangsched.cli.simulation import Simulation, simulate, summary_of
from gangsched.cluster.manifests import load
from gangsched.cluster.sim import history as log
from gangsched.core.options import Options
from gangsched.model.records import Pod
from tests.properties.job_runs import JOBS, manifests


def most_held(simulation: Simulation) -> int:
    """The most CPU (milli) that pods have held on nodes at once; terminating ones hold theirs until they are gone."""
    held: dict[str, int] = {}
    most = 0
    for entry in simulation.history:
        if entry.kind == "Pod" and entry.verb == log.BIND and entry.outcome == log.OK and isinstance(entry.record, Pod):
            held[entry.uid] = dict(entry.record.shape.requests)["cpu"]
        elif entry.verb in (log.GONE, log.SUCCEED):
            held.pop(entry.uid, None)
        most = max(most, sum(held.values()))
    return most


@pytest.mark.parametrize(("seed", "fair"), [(2, False), (4, False), (13, False), (16, False), (2, True), (16, True)])
def test_everybody_runs_and_nobody_above_the_quota(seed: int, fair: bool, tmp_path: Path):
    """Jobs are preempted and come back until all are complete; the quota is full at some time, and never exceeded."""
    text, quota = manifests(seed)
    (tmp_path / "all.yaml").write_text(text)
    loaded = load([str(tmp_path)])
    run = simulate(loaded.events, Options(fair_sharing=fair), until_seconds=1200.0, start=loaded.now)
    summary = summary_of(run)
    assert summary["violations"] == []
    assert sum(e.verb == log.COMPLETE for e in run.history) == JOBS
    assert summary["preempted"] > 0
    assert quota * 0.8 <= most_held(run) <= quota
