"""A pod that its owner replaces however it ends has not done its gang's work when it ends with 0."""

from __future__ import annotations

import pytest

from gangsched.core.decision import Fits, Gathering
from tests.builders import gang, node, pod
from tests.core.harness import plan

RUN_PODS = ["StatefulSet", "ReplicaSet", "ReplicationController", "RayCluster"]


def pair(kind: str, *, deleted: bool):
    """A gang of two on one node: one of them has ended with 0, the other waits."""
    ended = pod("db-0").gang("g").owner(kind, "db").on("n1").phase("Succeeded")
    ended = ended.terminating() if deleted else ended
    return [node("n1"), gang("g").min(2), ended, pod("db-1").gang("g").owner(kind, "db")]


@pytest.mark.parametrize("deleted", [True, False])
@pytest.mark.parametrize("kind", RUN_PODS)
def test_the_others_wait_until_it_is_replaced(kind, deleted):
    """The other member does not start alone where the owner makes the ended one anew."""
    made = plan(*pair(kind, deleted=deleted))["d/g"]
    assert isinstance(made, Gathering)
    assert "1 of 2 members" in made.message


def test_a_member_of_a_job_has_done_its_work():
    """A Job counts pods that complete, and makes no other: the gang goes on."""
    assert isinstance(plan(*pair("Job", deleted=True))["d/g"], Fits)
