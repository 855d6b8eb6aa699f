"""The objects of a cluster, kept for those who look."""

from __future__ import annotations

from gangsched.core.events import (
    Changed,
    Gone,
    KindRead,
    ObjectRefused,
    Outcome,
    Reading,
    ServerClock,
    Synced,
    WriteDone,
)
from gangsched.runtime.known import Known
from tests import builders


def kept(*events):
    """What is left of these events."""
    known = Known()
    known.handled(events, [], 0.0, 0.0)
    return known.events()


def test_the_last_event_of_each_object_is_kept():
    """In the order of the last changes, and nothing of objects that are gone."""
    first, second = (Changed(builders.node("n").cpu(cores).obj()) for cores in (1, 2))
    other, pod = Changed(builders.node("m").cpu(1).obj()), Changed(builders.pod("p").uid("u1").obj())
    assert kept(first, other, second, pod) == [other, second, pod]
    assert kept(first, pod, Gone("Node", "", "n"), Gone("Pod", "d", "p", "u1")) == []
    gang = builders.gang("g").obj()
    assert kept(Changed(gang), Gone("PodGroup", "d", "g", "", gang.family)) == []


def test_a_pod_is_known_by_its_uid():
    """One that is there again under its name is not taken for the one that is gone."""
    old, new = (Changed(builders.pod("p").uid(uid).obj()) for uid in ("u1", "u2"))
    assert kept(old, new, Gone("Pod", "d", "p", "u1")) == [new]


def test_what_is_known_beside_objects_is_kept():
    """Kinds that are read, the server's clock, and objects that are not understood, until they are gone."""
    read, clock = KindRead("Job.batch", Reading.READ), ServerClock(2.0)
    refused = ObjectRefused("Node", "", "n", "u", "status", "no")
    node = Changed(builders.node("n").cpu(1).obj())
    assert kept(read, clock, refused, Synced(), WriteDone(1, Outcome.OK)) == [read, clock, refused]
    assert kept(refused, node, refused) == [node, refused], "what happened last counts last"
    assert kept(refused, Gone("Node", "", "n")) == []
