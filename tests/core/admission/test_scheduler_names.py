"""Scheduler names that were those of others: nothing is done for them while their owners are alive."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core import events as ev
from gangsched.core.actions import Bind, Nominate, PodWrite, Report, SetCondition, SetGroupStatus
from gangsched.core.state.scheduler_names import ALIVE_SECONDS
from tests.builders import gang, node, pod
from tests.core.harness import Cluster

OURS = "py-gang-scheduler"
LEASE = "volcano-system/volcano"
HELD = ev.NameLeased("volcano", f"Lease {LEASE} is held by vc-0", LEASE)
FREE = ev.NameLeased("volcano", "")


def cluster(*objects, leased=True):
    """A cluster with a profile for the name of Volcano, which is guarded."""
    options = {"guarded_names": ("volcano",), "leased_names": ("volcano",) if leased else ()}
    return Cluster(node("n").cpu(4), *objects, scheduler_names=(OURS, "volcano"), **options)


def theirs(name, cpu=1):
    """A pod that asks for Volcano."""
    return pod(name).cpu(cpu).scheduler("volcano")


def told(made):
    """Reasons of the Events about scheduler names, each with what shows it."""
    reports = (a for a in made.log if isinstance(a, Report) and a.reason.startswith("SchedulerName"))
    return [(report.reason, report.regarding[1], report.regarding[3]) for report in reports]


def bound(made):
    """The names of the pods that were bound by us, in order."""
    return [a.pod.name for a in made.log if isinstance(a, Bind)]


def test_nothing_is_written_before_the_lease_has_been_looked_at():
    """Its own pods are bound meanwhile."""
    made = cluster(theirs("a"), pod("b").cpu(1))
    made.run()
    assert bound(made) == ["b"]
    assert told(made) == []


def test_the_name_is_left_to_an_owner_that_is_alive():
    """No condition, no phase and no Event is written on what is theirs; who it is, is told where that is seen."""
    group = gang("g").family("scheduling.volcano.sh").min(1)
    made = cluster(theirs("a"), group, HELD)
    made.run()
    touched = [a for a in made.log if isinstance(a, PodWrite | SetCondition | SetGroupStatus)]
    assert touched == []
    assert told(made) == [("SchedulerNameTaken", "Lease", "volcano")]


def test_the_name_is_taken_over_when_its_owner_is_gone():
    """As soon as its Lease is not renewed any more."""
    made = cluster(theirs("a"), HELD)
    made.run()
    before = bound(made)
    made.show(FREE)
    made.run()
    assert (before, bound(made)) == ([], ["a"])
    assert [reason for reason, *_ in told(made)] == ["SchedulerNameTaken", "SchedulerNameServed"]


def test_what_is_under_way_is_given_up_when_the_owner_comes_back():
    """A gang that was about to evict withdraws its nominations, and nobody leaves for it."""
    victim = pod("low").cpu(4).on("n").priority(0)
    made = cluster(victim, theirs("a", cpu=4).priority(10), FREE)
    made.slow = lambda write: isinstance(write, Nominate)
    made.run()
    assert "d/a" in {group for group, state in made.core.states().items() if state != "Queued"}
    made.show(HELD)
    made.run()
    made.answer()
    made.run()
    assert made.core.states() == {}
    assert made.pods["d", "low"].deleting_since is None
    assert made.pods["d", "a"].nominated_node == ""


@pytest.mark.parametrize("ours", [True, False])
def test_a_binding_by_somebody_else_shows_that_the_owner_is_alive(ours):
    """A binding of ours does not."""
    made = cluster(theirs("a", cpu=1 if ours else 8), leased=False)
    made.run()
    made.show(msgspec.structs.replace(made.pods["d", "a"], node="n", phase="Running"))
    made.run()
    assert bound(made) == (["a"] if ours else [])
    expected = [] if ours else [("SchedulerNameTaken", "Pod", "a")]
    assert told(made) == expected


@pytest.mark.parametrize(("passed", "free"), [(ALIVE_SECONDS - 1, False), (ALIVE_SECONDS, True)])
def test_without_a_lease_the_owner_counts_as_alive_for_some_time(passed, free):
    """It has bound nothing for so long."""
    made = cluster(theirs("a", cpu=8), leased=False)
    made.run()
    made.show(msgspec.structs.replace(made.pods["d", "a"], node="n", phase="Succeeded"))
    made.show(theirs("b"))
    made.run()
    began = made.now
    made.now = began + passed
    made.run()
    assert (bound(made) == ["b"]) is free


def test_a_standby_takes_the_bindings_of_its_leader_for_nobody_elses():
    """Only a process that leads knows what it has bound itself."""
    options = {"scheduler_names": (OURS, "volcano"), "guarded_names": ("volcano",), "wait_for_leadership": True}
    made = Cluster(node("n").cpu(4), theirs("a"), **options)
    made.run()
    made.show(msgspec.structs.replace(made.pods["d", "a"], node="n", phase="Running"), theirs("b"))
    made.run()
    made.show(ev.LeadershipChanged(True))
    made.run()
    assert bound(made) == ["b"]
