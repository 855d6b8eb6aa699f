"""Announced evictions: victims know when they will leave, so that they may save their work before that.

The time stands in the victims' ``gangsched.dev/EvictedFor``, without ``DisruptionTarget``, so a process that takes over
knows it too. When it has come they are marked and removed like all others. If one of them has ended or saved its work
since then, others may be a better choice. The gang is decided again once, and a victim that is chosen again has had its
notice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from gangsched.core.actions import reference
from gangsched.core.decision import Victim
from gangsched.core.ledger.condemned import Eviction
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.options import Options
from gangsched.core.preemption.harm import unsaved
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.model.times import render_time


class Notices:
    """Says when victims may be marked, and tells them."""

    def __init__(self, world: World, options: Options, reporter: Reporter) -> None:
        self._world = world
        self._options = options
        self._reporter = reporter

    def ends(self, victims: Iterable[Victim], known: Mapping[str, float]) -> float:
        """When these victims may be marked and removed: those to whom it was announced before, by UID, at the time that
        is ``known`` to them. In whole seconds, as it is written down; 0: at once.
        """
        of_class, membership = dict(self._options.notice), self._world.membership
        times = [0.0]
        for victim in victims if of_class else ():
            pod = self._world.pods[victim.uid]
            spec = membership.spec(pod.gang)
            name = (spec.priority_class if spec is not None else "") or pod.priority_class
            seconds = of_class.get(name, of_class.get("", 0.0))
            if seconds:
                times.append(known.get(victim.uid, math.ceil(self._world.now + seconds)))
        return max(times)

    def announce(self, eviction: Eviction, preemptor: str) -> None:
        """Report it on each victim that stands, as an Event."""
        note = notes.eviction_announced(preemptor=preemptor, when=render_time(eviction.begins))
        for pod in eviction.standing(self._world.pods):
            self._reporter.event(reference(pod), report.EVICTION_ANNOUNCED, note)

    def needs_second_choice(self, eviction: Eviction) -> bool:
        """Return True if a victim has ended or saved its work since its eviction was announced. A second choice is
        final.
        """
        if eviction.weighed_again:
            return False
        world = self._world
        standing = eviction.standing(world.pods)
        if len(standing) < len(eviction.victims):
            return True
        found, slots = unsaved(world, self._world.now), world.snapshot.table.slot_of
        if found is None:
            return False
        since = ((pod.uid, pod.evicted_for.since) for pod in standing if pod.evicted_for is not None)
        return any(found.checkpoint[slots[uid]] > announced for uid, announced in since)
