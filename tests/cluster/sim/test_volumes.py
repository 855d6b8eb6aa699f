"""Whole lives of gangs with volumes, from manifests: who makes and binds them, and what a crash in between changes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.clock import Timing
from gangsched.core.events import Changed
from tests.cluster.sim.volume_story import EXPECTED, STORY, live, outcome, world
from tests.judge import invariants

VICTIM = """
---
apiVersion: v1
kind: Pod
metadata: {name: low}
spec:
  nodeName: n2
  terminationGracePeriodSeconds: 3
  containers: [{name: c, resources: {requests: {cpu: "2"}}}]
status: {phase: Running}
"""


@pytest.fixture(params=["room", "preemption"])
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The story as a file, with and without a pod in the way."""
    path = tmp_path / "story.yaml"
    path.write_text(STORY + (VICTIM if request.param == "preemption" else ""))
    return path


def test_a_gang_with_volumes_of_all_kinds(story: Path) -> None:
    """The static volume decides where its member goes; the others are made; then both members are bound."""
    there = world(story)
    live(there)
    assert outcome(there) == EXPECTED
    assert invariants.violations(there.history) == []
    verbs = [e.verb for e in there.history if e.verb in (log.SELECT_NODE, log.BIND_VOLUME, log.PROVISION, log.BIND)]
    assert verbs[-2:] == [log.BIND, log.BIND]
    assert verbs.count(log.PROVISION) == verbs.count(log.SELECT_NODE) == 2


@pytest.mark.parametrize("lose_writes", [False, True], ids=["writes-arrive", "writes-lost"])
def test_a_crash_anywhere_changes_nothing(story: Path, lose_writes: bool) -> None:
    """Whichever moment is the last of the first process: the same volumes, the same nodes, never a part of the gang."""
    whole = world(story)
    start = len(whole.history)
    live(whole)
    for position in range(start, len(whole.history)):
        there = world(story)
        live(there, position, lose_writes=lose_writes)
        there.clock.advance_to(there.clock.now + 0.02)
        live(there)
        when = f"died at {position}: {whole.history.entries[position].as_json()}"
        assert outcome(there) == EXPECTED, when
        assert invariants.violations(there.history) == [], when


@pytest.mark.parametrize("seed", range(12))
def test_failing_writes_do_no_harm(story: Path, seed: int) -> None:
    """Writes that fail, or whose answers are lost, end in the same place."""
    there = world(story, seed)
    live(there)
    assert outcome(there) == EXPECTED
    assert invariants.violations(there.history) == []


def test_a_claim_that_is_never_bound_holds_nobody_up_for_ever(story: Path) -> None:
    """Without a provisioner that works the gang says so after its time, and no member runs."""
    there = world(story, timing=Timing(provision_seconds=10_000.0))
    live(there)
    assert {n for n, node in outcome(there)[0].items() if node} <= {"low"}
    told = [
        str(e.detail["note"]) for e in there.history.with_verbs(log.EVENT) if e.detail["reason"] == "FailedScheduling"
    ]
    assert any(text.startswith("timed out while PreBinding: waiting for volumes of") for text in told)


def test_immediate_claims_are_bound_without_the_scheduler(tmp_path: Path) -> None:
    """A claim of a class that does not wait is bound by the controller; the pod follows."""
    path = tmp_path / "story.yaml"
    path.write_text(STORY.replace("WaitForFirstConsumer", "Immediate"))
    there = world(path)
    live(there)
    assert outcome(there) == EXPECTED
    assert not any(c.selected_node for c in there.store.claims())


@pytest.mark.parametrize(("later", "made"), [("", 0), ("n2", 1)])
def test_a_node_that_is_taken_off_a_claim_ends_its_provisioning(tmp_path: Path, later: str, made: int) -> None:
    """As when a provisioner fails: there is a volume only if one is asked for again, and it takes its time anew."""
    path = tmp_path / "story.yaml"
    path.write_text(STORY)
    there = world(path)

    def select(node: str) -> None:
        claim = next(c for c in there.store.claims() if c.name == "logs")
        changed = Changed(msgspec.structs.replace(claim, selected_node=node))
        there.store.apply(changed, log.Cause(log.USER, log.CHANGE))

    for moment, node in ((0.0, "n1"), (1.0, ""), (1.5, later)):
        there.clock.advance_to(moment)
        select(node)
    there.clock.advance_to(3.0)
    assert list(there.history.with_verbs(log.PROVISION)) == []
    there.clock.advance_to(10.0)
    assert len(list(there.history.with_verbs(log.PROVISION))) == made
