"""What contradicts itself means the same in every dialect: cases written in each, and decided by `plan`."""

from __future__ import annotations

import pytest

from tests.cluster.dialects import APIS, Api, Wish, decisions, members, node

every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
with_object = pytest.mark.parametrize("api", [api for api in APIS if api.family], ids=lambda api: api.name)
without = pytest.mark.parametrize(
    "api", [a for a in APIS if a.name.startswith(("Koordinator's", "Kueue's", "YuniKorn's"))], ids=lambda api: api.name
)
ROOM = node("n0", 9)


@every_api
def test_members_over_namespaces(api: Api) -> None:
    """A pod of another namespace that names the gang is no member of it: the gang waits for one of its own."""
    objects, pods = members(api.write, Wish(2, 2))
    pods[1]["metadata"]["namespace"] = "other"
    found = decisions(ROOM, *objects, *pods)
    assert found[api.gang].outcome == "gathering"
    assert found[api.gang].placements == {}


@every_api
def test_members_of_two_schedulers(api: Api) -> None:
    """A pod of another scheduler is no member: nobody knows when it will run."""
    objects, pods = members(api.write, Wish(2, 2))
    pods[1]["spec"]["schedulerName"] = "another"
    assert decisions(ROOM, *objects, *pods)[api.gang].outcome == "gathering"


@with_object
def test_members_of_a_group_that_was_deleted(api: Api) -> None:
    """What runs goes on, and a member that is made anew waits for an object, whatever other members were together."""
    _, (runs, _) = members(api.write, Wish(2, 1), on="n")
    _, (_, new) = members(api.write, Wish(2, 1))
    found = decisions(ROOM, node("n1", 9), runs, new)[api.gang]
    assert (found.outcome, found.victims) == ("gathering", [])
    assert "does not exist" in found.message


@without
@pytest.mark.parametrize("oldest", [0, 1])
def test_members_that_disagree(api: Api, oldest: int) -> None:
    """The oldest counts: two start if it says two, and wait for a third if it says three."""
    _, pods = members(api.write, Wish(2, 2))
    _, three = members(api.write, Wish(3, 3))
    for number, pod in enumerate(listed := [pods[0], three[1]]):
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{int(number != oldest)}Z"
    outcome = decisions(ROOM, *listed)[api.gang].outcome
    assert outcome == ("bind" if oldest == 0 else "gathering")


@without
def test_members_that_disagree_once_the_oldest_is_gone(api: Api) -> None:
    """What the next one says counts from then on, for members that run too."""
    _, (_, runs, _) = members(api.write, Wish(3, 3), on="n")
    _, (new, _) = members(api.write, Wish(2, 2))
    new["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    found = decisions(ROOM, node("n1", 9), runs, new)[api.gang]
    assert (found.outcome, found.placements) == ("gathering", {})
