"""What plans do together is judged as a whole: gangs that are left half, budgets overspent beyond what was planned."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.cli.simulation import Simulation, simulate
from gangsched.cluster.sim.history import DECIDE, DELETE, EVENT, GONE, KUBELET, SCHEDULER, SUCCEED, USER, Cause
from gangsched.core.actions import Mark, Remove
from gangsched.core.events import Gone
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.review import Reviews
from gangsched.core.options import Options
from tests import builders
from tests.builders import gang, node, pdb
from tests.cluster.sim import objects
from tests.cluster.sim.objects import outcomes, ref, world
from tests.core.harness import Built, event
from tests.judge.disrupted import broken_gangs, overspent_budgets
from tests.judge.invariants import violations

MESSAGE = "sched: preempting to accommodate higher priority pods, preemptor: ns/g, triggerpod: ns/a"


def running(name: str, **fields: Any) -> Any:
    """A pod of one CPU that runs on n1."""
    return objects.pod(name, 1, node="n1", phase="Running", **fields)


def three(**options: Any) -> Any:
    """A gang of three that needs two, where x leaves and then, if asked for, y and z."""
    spec = msgspec.structs.replace(objects.gang("low", 2), **options)
    return world(objects.node("n1"), spec, *(running(name, gang="low") for name in "xyz"))


def evict(there: Any, *names: str) -> list[str]:
    """These are marked and removed; what is said of it then."""
    outcomes(there, *(Mark(1, ref(n), MESSAGE) for n in names), *(Remove(2, ref(n)) for n in names))
    return ends(there)


def ends(there: Any, seconds: float = 100.0) -> list[str]:
    """What is said of it so much later."""
    there.clock.advance_to(there.clock.now + seconds)
    there.store.put_pod(objects.pod(f"later-{there.clock.now}"), Cause(USER, GONE))
    return broken_gangs(there.history, Options())


@pytest.mark.parametrize(("leave", "broken"), [("x", False), ("xy", True), ("xyz", False)])
def test_a_gang_that_runs_on_below_its_minimum_is_broken(leave: str, broken: bool) -> None:
    """Its surplus may go, and all of it; not more than the surplus and less than all."""
    assert bool(evict(three(), *leave)) == broken


def test_a_gang_whose_pods_go_one_by_one_is_not_judged() -> None:
    """Its own API says so, or the options do."""
    assert evict(three(disruption="pod"), "x", "y") == []
    there = three()
    evict(there, "x", "y")
    assert broken_gangs(there.history, Options(gang_mode="minimal")) == []


def user_deletes(there: Any, name: str) -> None:
    """The pod is gone at once."""
    there.store.apply(Gone("Pod", "ns", name, f"uid-{name}"), Cause(USER, GONE))


def test_what_its_user_deletes_breaks_no_gang() -> None:
    """Only the scheduler is judged."""
    there = three()
    user_deletes(there, "x")
    user_deletes(there, "y")
    there.clock.advance_to(30.0)
    assert broken_gangs(there.history, Options()) == []


@pytest.mark.parametrize(("phase", "broken"), [("Succeeded", False), ("Failed", True)])
def test_who_has_done_its_work_counts_for_the_minimum(phase: str, broken: bool) -> None:
    """Of three of which two are needed one has ended, and then another is evicted."""
    there = three()
    there.store.put_pod(msgspec.structs.replace(there.store.pods["ns", "z"], phase=phase), Cause(KUBELET, SUCCEED))
    there.clock.advance_to(10.0)
    assert bool(evict(there, "x")) == broken


@pytest.mark.parametrize(("about", "broken"), [("y", False), ("elsewhere", True)])
def test_a_gang_whose_rest_may_not_leave_is_reported(about: str, broken: bool) -> None:
    """An Event on a member that runs on says so; one about others does not."""
    there = three(min_member=3)
    outcomes(there, Mark(1, ref("x"), MESSAGE), Remove(2, ref("x")))
    there.clock.advance_to(40.0)
    cause = Cause(SCHEDULER, EVENT, {"reason": report.GANG_BROKEN})
    there.history.add(cause, "Pod", f"ns/{about}", uid=f"uid-{about}", changed=False)
    assert bool(ends(there)) == broken


@pytest.mark.parametrize(("seconds", "broken"), [(50.0, False), (70.0, True)])
def test_a_gang_has_half_a_minute_to_be_made_whole_and_as_long_to_be_finished(seconds: float, broken: bool) -> None:
    """Its controller makes pods again; only then the rest is of no use."""
    there = three(min_member=3)
    outcomes(there, Mark(1, ref("x"), MESSAGE), Remove(2, ref("x")))
    assert bool(ends(there, seconds)) == broken


def test_the_gangs_of_a_group_leave_together() -> None:
    """One of a GangGroup leaves whole, the other runs on."""
    keys = ("ns/a", "ns/b")
    specs = [msgspec.structs.replace(objects.gang(name, 1), group=keys) for name in "ab"]
    there = world(objects.node("n1"), *specs, running("x", gang="a"), running("y", gang="b"))
    assert len(evict(there, "x")) == 1


def budget(leave: str, over: tuple[str, ...] = ()) -> list[str]:
    """Three pods of which two have to be available; these leave, after a decision that takes some beyond the budget."""
    keep = pdb("keep").selects(app="web").field(min_available=2).obj()
    pods = [running(name, labels={"app": "web"}) for name in "xyz"]
    there = world(objects.node("n1"), msgspec.structs.replace(keep, namespace="ns"), *pods)
    there.history.add(Cause(SCHEDULER, DECIDE, {"overBudget": list(over)}), "Pod", "ns/a", changed=False)
    evict(there, *leave)
    return overspent_budgets(there.history)


@pytest.mark.parametrize(
    ("leave", "over", "found"),
    [("x", (), []), ("xy", (), ["ns/keep: 1 beyond it, 0 planned"]), ("xy", ("ns/y",), []), ("yx", ("ns/y",), [])],
)
def test_what_is_taken_beyond_a_budget_was_planned(leave: str, over: tuple[str, ...], found: list[str]) -> None:
    """Whichever leaves first. What a decision has said is no surprise."""
    assert budget(leave, over) == found


# -- plans that do not know of each other ---------------------------------------------------------------------


def preemptors(count: int, *there: Built) -> Simulation:
    """So many pods that fill a node, in the same moment."""
    made = [*there, *(builders.pod(f"p{i}").cpu(4).priority(5) for i in range(count))]
    return simulate([event(each) for each in made], Options(), until_seconds=120.0)


def replicas() -> Simulation:
    """Of four replicas three have to be available; two other pods are worth more."""
    there: list[Built] = [pdb("keep").selects(app="web").field(min_available=3)]
    for i in range(4):
        there += [node(f"a{i}"), builders.pod(f"web{i}").cpu(4).label(app="web").on(f"a{i}")]
    for i in range(2):
        there += [node(f"b{i}"), builders.pod(f"other{i}").cpu(4).priority(2).on(f"b{i}")]
    return preemptors(3, *there)


def surplus() -> Simulation:
    """A gang of three that needs two, and two pods that are worth more."""
    there: list[Built] = [gang("low").min(2)]
    for i in range(3):
        there += [node(f"a{i}"), builders.pod(f"w{i}").cpu(4).gang("low").on(f"a{i}")]
    for i in range(2):
        there += [node(f"b{i}"), builders.pod(f"other{i}").cpu(4).priority(2).on(f"b{i}")]
    return preemptors(2, *there)


@pytest.mark.parametrize("story", [replicas, surplus])
def test_plans_of_one_moment_violate_nothing_together(story: Any) -> None:
    """They share a budget, or the surplus of a gang."""
    run = story()
    assert violations(run.history, run.options) == []
    assert any(e.verb == DELETE for e in run.history)


def test_plans_that_do_not_know_of_each_other_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a ledger in which no pod is condemned for another plan, and plans that are not reviewed, the judge says what
    has gone wrong.
    """
    monkeypatch.setattr(Condemned, "counts_on", lambda *_: False)
    monkeypatch.setattr(Reviews, "_changed", lambda *_: False)
    run = replicas()
    assert any(text.startswith("overspent_budgets: d/keep") for text in violations(run.history, run.options))
