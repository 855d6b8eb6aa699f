"""Groups that change, are made anew, or are called alike: the same rules for the objects of every API."""

from __future__ import annotations

import pytest

from gangsched.core import events as ev
from gangsched.core.actions import Bind, GangStatus, SetGroupStatus
from gangsched.model.dialects import DIALECTS, has_status
from tests.builders import gang, node, pod
from tests.core.harness import Cluster

FAMILIES = [each.family for each in DIALECTS if each.decoded_as is not None]

every_api = pytest.mark.parametrize("family", FAMILIES)


def group(family, minimum, **fields):
    """The group of these tests."""
    return gang("g").family(family).min(minimum).field(source="PodGroup", **fields)


def members(family, *names, on=""):
    """Members of it; bound, if a node is given."""
    made = [pod(name).cpu(1).priority(1).gang("g", family) for name in names]
    return [each.on(on) for each in made] if on else made


def bound(cluster):
    """The names of pods that have been bound by now, in the order of their names."""
    cluster.run()
    return sorted(action.pod.name for action in cluster.log if isinstance(action, Bind))


@every_api
def test_a_minimum_that_is_raised_while_members_wait(family):
    """They wait for more members than before."""
    cluster = Cluster(group(family, 2), *members(family, "a", "b"))
    assert bound(cluster) == []
    cluster.show(group(family, 3), node("n").cpu(4))
    assert bound(cluster) == []
    cluster.show(*members(family, "c"))
    assert bound(cluster) == ["a", "b", "c"]


@every_api
def test_a_minimum_that_is_lowered_while_members_wait(family):
    """They start at once."""
    cluster = Cluster(node("n").cpu(4), group(family, 2), *members(family, "a"))
    assert bound(cluster) == []
    cluster.show(group(family, 1))
    assert bound(cluster) == ["a"]


@every_api
def test_a_gang_that_is_scaled_up_while_it_runs(family):
    """Those that run count; the new ones start when they are together as many as lack."""
    cluster = Cluster(node("n").cpu(8), group(family, 2), *members(family, "a", "b", on="n"))
    cluster.show(group(family, 4), *members(family, "c"))
    assert bound(cluster) == []
    cluster.show(*members(family, "d"))
    assert bound(cluster) == ["c", "d"]


@every_api
def test_a_gang_that_is_scaled_down_while_it_runs(family):
    """No pod leaves because of it; those that are no longer needed may be victims one by one."""
    cluster = Cluster(node("n").cpu(3), group(family, 3), *members(family, "a", "b", "c", on="n"))
    cluster.show(group(family, 1))
    assert bound(cluster) == []
    cluster.show(pod("above").cpu(1).priority(10))
    cluster.run()
    (victims,) = [decision.victims for decision in cluster.decisions if decision.victims]
    assert len(victims) == 1


@every_api
def test_a_group_that_is_deleted(family):
    """What runs goes on; members that are created afterwards wait for the object."""
    cluster = Cluster(node("n").cpu(4), group(family, 1), *members(family, "a", on="n"))
    cluster.run()
    cluster.show(ev.Gone("PodGroup", "d", "g", group=family), *members(family, "b"))
    assert bound(cluster) == []
    cluster.show(group(family, 1, uid="another"))
    assert bound(cluster) == ["b"]


@every_api
def test_a_group_that_is_made_anew(family):
    """What its new object says counts, for members that ran before too, and its status is that of the new object."""
    cluster = Cluster(node("n").cpu(4), group(family, 1), *members(family, "a", on="n"))
    cluster.run()
    cluster.show(ev.Gone("PodGroup", "d", "g", group=family), group(family, 3, uid="another"), *members(family, "b"))
    assert bound(cluster) == []
    cluster.show(*members(family, "c"))
    assert bound(cluster) == ["b", "c"]
    told = [a.uid for a in cluster.log if isinstance(a, GangStatus)]
    told += [a.pod.uid for a in cluster.log if isinstance(a, SetGroupStatus)]
    assert told[-1:] == (["another"] if has_status(family) else [])


@every_api
def test_groups_of_two_namespaces_are_two_gangs(family):
    """A member counts for the group of its own namespace."""
    cluster = Cluster(node("n").cpu(4), group(family, 2), *members(family, "a"))
    cluster.show(pod("b", "other").cpu(1).gang("g", family))
    assert bound(cluster) == []


@every_api
def test_a_member_that_names_another_group(family):
    """It is in that one from now on, and missing in the first."""
    cluster = Cluster(group(family, 2), *members(family, "a", "b"))
    cluster.run()
    cluster.show(gang("h").family(family).min(1), pod("b").cpu(1).gang("h", family), node("n").cpu(4))
    assert bound(cluster) == ["b"]
