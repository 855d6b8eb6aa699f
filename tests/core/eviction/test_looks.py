"""When a gang that waits for pods to leave is looked at again: its members are written to one after another."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Mark
from gangsched.model.records import Condition, GangId
from tests.core.harness import Cluster
from tests.core.stories import stopped_in


def looks(cluster: Cluster) -> list[GangId]:
    """Fills with each gang that is looked at from now on."""
    gangs, seen = cluster.core._run.gangs, list[GangId]()
    refresh = gangs.refresh

    def noted(gang: GangId) -> tuple[GangId, ...]:
        seen.append(gang)
        return refresh(gang)

    gangs.refresh = noted  # type: ignore[method-assign]
    return seen


@pytest.mark.parametrize(
    ("fields", "again"),
    [
        ({"intent": Condition("True", "Nominated", "told again")}, False),
        ({"nominated_node": ""}, False),
        ({"scheduled_condition": Condition("False", "Unschedulable", "waits")}, False),
        ({"version": "9"}, False),
        ({"labels": {"app": "other"}}, True),
        ({"priority": 4}, True),
        ({"gates": ("wait",)}, True),
        ({"disruption": Condition("True", "EvictionByEvictionAPI", "leaves")}, True),
        ({"deleting_since": 0.0}, True),
        ({"node": "n1"}, True),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else None,
)
def test_what_is_written_to_members_is_no_reason_to_look_at_their_gang(fields: dict[str, object], again: bool) -> None:
    """A gang that evicts is looked at when a member is another one, and not when it shows what was written to it."""
    cluster = stopped_in(Mark)
    seen = looks(cluster)
    cluster.change("m1", **fields)
    cluster.handle()
    assert bool(seen) == again
