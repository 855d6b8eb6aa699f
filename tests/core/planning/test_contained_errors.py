"""An error of the scheduler itself over one gang, and a gang over which a process has ended: the others go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched.core import events as ev
from gangsched.core.decision import SCHEDULER, Unschedulable
from gangsched.core.options import Options
from gangsched.core.planning.cycle import GangCycle
from gangsched.core.scheduler import Scheduler
from gangsched.core.world.world import queue_order
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, texts
from tests.oracle.case import NOW
from tests.oracle.generate import case


def world(**options: Any) -> Cluster:
    """A gang of two, and a pod of its own, which is younger and of a lower priority."""
    members = [pod(f"m{i}").cpu(1).gang("g").priority(5) for i in range(2)]
    return Cluster(node("n0").cpu(8), gang("g").min(2), *members, pod("other").cpu(1).created(9), **options)


def broken(of: str) -> Callable[[GangCycle], Any]:
    """A decision that fails for gangs of this name."""
    right = GangCycle.decide

    def decide(self: GangCycle) -> Any:
        if self._gangs[0].name == of:
            raise OverflowError("year 31690708 is out of range")
        return right(self)

    return decide


def test_an_error_in_the_decision_of_a_gang_is_that_gangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members are told SchedulerError with what failed and where; others are bound, and it is tried again."""
    monkeypatch.setattr(GangCycle, "decide", broken("g"))
    cluster = world(contain_errors=True)
    cluster.run()
    assert cluster.pod("other").node == "n0"
    first = cluster.decisions[0]
    assert isinstance(first, Unschedulable)
    assert first.failed_plugin == SCHEDULER
    (reason, said), *_ = texts(cluster.log, "m0")
    assert reason == "SchedulerError"
    assert said.startswith("the scheduler failed in decide (test_contained_errors.py:")
    assert said.endswith("OverflowError: year 31690708 is out of range")
    fault, *_ = cluster.core.drain_faults()
    assert fault.gang == "d/g"
    assert "Traceback" in fault.trace
    assert cluster.core.drain_faults() == []
    monkeypatch.undo()
    cluster.pass_time(400.0)
    assert cluster.pod("m0").node == "n0"


def test_an_error_in_any_other_question_about_a_gang_is_that_gangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang that waits for its victims is looked at again when they are gone; if that fails the process goes on."""
    cluster = Cluster(
        node("n0").cpu(1), pod("low").cpu(1).on("n0"), pod("high").cpu(1).priority(9), contain_errors=True
    )
    cluster.run()
    assert cluster.pod("low").deleting_since is not None

    def fails(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(GangCycle, "decide", fails)
    cluster.leave()
    cluster.run()
    assert not cluster.pod("high").node
    assert cluster.core.drain_faults()
    monkeypatch.undo()
    cluster.pass_time(400.0)
    assert cluster.pod("high").node == "n0"


def test_errors_pass_through_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is asked for otherwise, an error ends the test or the program that has found it."""
    monkeypatch.setattr(GangCycle, "decide", broken("g"))
    with pytest.raises(OverflowError):
        world().run()


def decided(cluster: Cluster) -> list[str]:
    """Names of gangs in the order in which they were decided."""
    return [decision.gang.name for decision in cluster.decisions]


def test_a_gang_over_which_a_process_has_ended_is_decided_last() -> None:
    """Before: by priority. Once it has been decided it has its place again."""
    usual = world()
    usual.run()
    assert decided(usual) == ["g", "other"]
    cluster = world()
    cluster.show(ev.Quarantined("", "", "d/g", "", 1, 0.0))
    cluster.run()
    assert decided(cluster) == ["other", "g"]
    cluster.decisions.clear()
    cluster.show(gang("g2").min(1), pod("again").cpu(1).gang("g").priority(5), pod("third").cpu(1).created(10))
    cluster.run()
    assert decided(cluster) == ["g", "third"]


def test_a_gang_over_which_processes_have_ended_again_and_again_pauses() -> None:
    """A minute the second time, then two: in between others are decided, however long it takes to restart."""
    cluster = world()
    cluster.show(ev.Quarantined("", "", "d/g", "", 3, 0.0))
    cluster.run()
    assert decided(cluster) == ["other"]
    cluster.pass_time(119.0)
    assert decided(cluster) == ["other"]
    cluster.pass_time(2.0)
    assert decided(cluster) == ["other", "g"]
    assert cluster.pod("m1").node == "n0"


def test_a_gang_whose_search_the_clock_has_ended_comes_behind_its_equals() -> None:
    """Those of its priority that wait by then are decided before it is decided again."""
    core = Scheduler(Options())
    core.handle([*case(2, mixed=False).events(), ev.Synced(), ev.SearchCancelled(1)], NOW)
    gangs = [group.gangs for group in core._run.groups.values()]
    before = sorted(queue_order(core.world, each) for each in gangs)
    core.decide(NOW)
    (decided,) = core.drain_decisions()
    assert decided.stopped
    after = sorted(queue_order(core.world, each) for each in gangs)
    assert before[0][1] < NOW
    assert NOW in {place[1] for place in after}
    assert [place[0] for place in before] == [place[0] for place in after]
