"""Announced evictions: victims know when they will leave, so that they may save their work before that.

The time stands in the victims' ``gangsched.dev/EvictedFor``, without ``DisruptionTarget``, so a process that takes over
knows it too. When it has come they are marked and removed like all others. If one of them has ended, or has saved its
work since then, others may be the better choice now: the gang is decided anew, once, and who is chosen again has
had its notice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from gangsched.core.decision import Victim
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.eviction import Eviction
from gangsched.core.lifecycle.run import Run
from gangsched.core.preemption.work import unsaved
from gangsched.model.times import render_time


def begins(run: Run, victims: Iterable[Victim], known: Mapping[str, float]) -> float:
    """When these victims may be marked and removed: those to whom it was announced before, by UID, at the time that is
    ``known`` to them. In whole seconds, as it is written down; 0: at once.
    """
    of_class, membership = dict(run.options.notice), run.world.membership
    times = [0.0]
    for victim in victims if of_class else ():
        pod = run.world.pods[victim.uid]
        spec = membership.spec(pod.gang)
        name = (spec.priority_class if spec is not None else "") or pod.priority_class
        seconds = of_class.get(name, of_class.get("", 0.0))
        if seconds:
            times.append(known.get(victim.uid, math.ceil(run.now + seconds)))
    return max(times)


def announce(run: Run, eviction: Eviction, preemptor: str) -> None:
    """Report it on each victim that stands, as an Event."""
    when = render_time(eviction.begins)
    for pod in eviction.standing(run.world):
        run.actions.append(report.eviction_announced(report.reference(pod), preemptor, when))


def calls_for_another_look(run: Run, eviction: Eviction) -> bool:
    """Has a victim ended, or saved its work, since its eviction was announced? A second choice is final."""
    if eviction.weighed_again:
        return False
    world = run.world
    standing = eviction.standing(world)
    if len(standing) < len(eviction.victims):
        return True
    found, slots = unsaved(world, run.now), world.snapshot.table.slot_of
    if found is None:
        return False
    since = ((pod.uid, pod.evicted_for.since) for pod in standing if pod.evicted_for is not None)
    return any(found.checkpoint[slots[uid]] > announced for uid, announced in since)
