import pytest

from gangsched.cluster.sim.history import Cause
from gangsched.core.events import Changed, Gone, Synced
from tests.cluster.sim.objects import changed, get, node, pod, pods_in, world

BY_TEST = Cause("test", "change")


def test_every_change_has_a_newer_version():
    """Versions grow with every change of any object."""
    there = world(node("n1"), pod("a"), pod("b"))
    first = int(get(there, "a").version)
    there.apply(Changed(changed(get(there, "b"), priority=1)), BY_TEST)
    there.apply(Changed(changed(get(there, "a"), priority=1)), BY_TEST)
    assert first < int(get(there, "b").version) < int(get(there, "a").version)


def test_a_change_that_changes_nothing_is_told_to_nobody():
    """An update to the same value makes no event and no new version."""
    there = world(pod("a"))
    seen = []
    there.store.subscribe(lambda event, old: seen.append(event))
    before = get(there, "a")
    assert not there.apply(Changed(changed(before, version="other")), BY_TEST)
    assert seen == []
    assert get(there, "a") == before


def test_listeners_see_the_new_event_and_the_old_record():
    """A listener can compare what was there with what is there."""
    there = world(pod("a"))
    seen = []
    there.store.subscribe(lambda event, old: seen.append((pods_in([event])[0].priority, old.priority)))
    there.apply(Changed(changed(get(there, "a"), priority=7)), BY_TEST)
    assert seen == [(7, 0)]


def test_removing_another_incarnation_removes_nothing():
    """The end of a pod with the UID of an earlier pod of that name leaves the pod alone."""
    there = world(pod("a", uid="new"))
    assert not there.apply(Gone("Pod", "ns", "a", "old"), BY_TEST)
    assert get(there, "a").uid == "new"
    assert there.apply(Gone("Pod", "ns", "a", "new"), BY_TEST)
    assert there.store.pods == {}


def test_every_change_is_in_the_history():
    """The history names who did what to which object, and how the object was afterwards."""
    there = world(node("n1"))
    there.clock.advance_to(3.0)
    there.apply(Gone("Node", "", "n1"), Cause("test", "unplug"))
    first, last = there.history.entries
    assert (first.kind, first.record.name) == ("Node", "n1")
    assert (last.at_seconds, last.actor, last.verb, last.object, last.record) == (3.0, "test", "unplug", "n1", None)


def test_what_is_no_object_cannot_be_stored():
    """Events that are no changes of objects are a mistake of the caller."""
    with pytest.raises(TypeError, match="Synced"):
        world().apply(Synced(), BY_TEST)


def test_pods_without_a_uid_get_one():
    """A record without UID, as a test or a notebook may make it, gets a UID that follows from its name."""
    there = world(pod("a", uid=""))
    assert get(there, "a").uid == "sim:ns/a"
