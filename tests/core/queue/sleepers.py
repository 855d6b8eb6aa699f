"""The judge of those that sleep: deciding all of them anew."""

from __future__ import annotations

from gangsched.core.decision import UNSCHEDULABLE
from gangsched.core.planning.context import Question
from gangsched.core.queue.scheduling_queue import UnschedulableGangs
from gangsched.core.scheduler import Scheduler


def sleeping_in_vain(core: Scheduler, now: float) -> list[str]:
    """Gangs that are parked although a decision would now place them."""
    run, core.world.now = core._run, now
    out = []
    for key in run.queue.parked():
        group = run.groups[key]
        if group.outlook.until is not None and group.outlook.until <= now:
            continue  # time alone has helped: it sits out its backoff
        if _behind_its_equal(run.gangs.unschedulable, key):
            continue  # it is decided next if that one gets what it needs
        may_preempt = group.failures.paused_until <= now
        since = group.waiting_since
        found = core.decider.decide(Question(group.gangs, may_preempt=may_preempt, waiting_since=since))
        if found.outcome != UNSCHEDULABLE:
            out.append(f"{group.name}: {found.outcome}")
    return out


def _behind_its_equal(gangs: UnschedulableGangs, key: str) -> bool:
    """Has an equal gang that comes before this one been woken, and is not decided yet?"""
    signature, order, _ = gangs._known[key]
    return any(tried < order for tried in gangs._alike[signature].tried.values())
