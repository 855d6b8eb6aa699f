"""A stronger pod comes at any moment while a gang waits for its volumes, and leaves again; writes fail meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangsched.cluster.sim import World
from gangsched.cluster.sim import history as log
from gangsched.core.events import Changed, Gone
from gangsched.model.records import Pod
from tests.builders import pod
from tests.cluster.sim.volume_story import EXPECTED, STORY, live, outcome, world
from tests.judge import invariants


@pytest.mark.parametrize("tenths", range(0, 40, 3))
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_the_gang_is_whole_in_the_end_with_the_same_volumes(tmp_path: Path, tenths: int, seed: int | None) -> None:
    """As long as no member is bound nobody is evicted: the gang waits, and ends where its volumes are. Later it leaves
    as a whole.
    """
    path = tmp_path / "story.yaml"
    path.write_text(STORY)
    there = world(path, seed)
    strong = pod("strong", "default").cpu(3).priority(99).obj()
    there.create_after(tenths / 10, Changed(strong))
    there.after(60.0, lambda: _gone(there, strong))
    live(there)
    pods, volumes = outcome(there)
    first = next((e.number for e in there.history.with_verbs(log.BIND) if e.object == "default/strong"), 0)
    was_bound = any(e.object != "default/strong" and e.number < first for e in there.history.with_verbs(log.BIND))
    assert pods == ({} if was_bound else EXPECTED[0])
    assert volumes == EXPECTED[1]
    assert invariants.violations(there.history) == []


def _gone(there: World, strong: Pod) -> None:
    there.store.apply(Gone("Pod", strong.namespace, strong.name, strong.uid), log.Cause(log.USER, log.GONE))
