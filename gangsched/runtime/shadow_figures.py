"""Figures of another scheduler's actions and of the decisions of this one, for each gang and for a period.

Four figures are taken of both: when a gang has its minimum on nodes, how many pods were evicted for it, which gangs
were left below their minimum, and which ran in part before they had it. Real figures come from the events of the
cluster when they arrive, the others from the first decision that starts a gang.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from gangsched.core.actions import MARK_REASON
from gangsched.core.decision import Decision, Fits, FitsWhenFreed, Gathering, Preempt, Victim
from gangsched.core.events import Changed, Event, Gone
from gangsched.core.state.incomplete import without
from gangsched.core.world.world import World
from gangsched.model.records import SINGLE, GangId, Pod

#: Takes a measurement by name, as :class:`gangsched.runtime.metrics.Meters` does.
Note = Callable[[str, float, Mapping[str, str]], None]
REAL, OWN = "other", "shadow"
_BY = {REAL: MappingProxyType({"by": REAL}), OWN: MappingProxyType({"by": OWN})}

#: A gang that has lost members is judged after so many seconds, because the rest may be evicted, too.
SETTLED_SECONDS = 10.0
#: So many of the last removals say how long a pod takes to leave.
_LEAVINGS = 100
#: So many gangs are named, and so many pods of one.
_DIFFERENCES, _NAMES = 10, 3
#: So many victims whose preemptor is not known yet are remembered, the newest.
_UNCLAIMED = 10_000


class Difference(msgspec.Struct, frozen=True):
    """One gang in both worlds; ``started`` and ``would_start`` are None where it has not, waits are in seconds."""

    gang: str
    pods: int
    evicted: int
    would_evict: int
    would_evict_pods: tuple[str, ...]
    waited: float
    would_wait: float | None
    started: bool

    @property
    def size(self) -> tuple[float, float]:
        """How much the worlds differ: pods evicted first, then seconds."""
        longer = self.waited - self.would_wait if self.would_wait is not None else 0.0
        return abs(self.evicted - self.would_evict), abs(longer)


class Side(msgspec.Struct):
    """The figures of one scheduler in a period. ``waits`` counts gangs by whole seconds of their wait: of those that
    started in both worlds.
    """

    started: int = 0
    evicted: int = 0
    evicted_for: int = 0
    broken: int = 0
    in_part: int = 0
    waiting: int = 0
    waits: Counter[int] = msgspec.field(default_factory=Counter)

    def quantile(self, share: float) -> int:
        """The wait that this share of the gangs did not exceed."""
        left = share * self.waits.total()
        for seconds, count in sorted(self.waits.items()):
            left -= count
            if left <= 0:
                return seconds
        return 0

    @property
    def in_sum(self) -> int:
        """Seconds that all of them waited together."""
        return sum(seconds * count for seconds, count in self.waits.items())


class Figures(msgspec.Struct):
    """A time from ``since``: both sides, and what differs most. Of gangs that have started in one world only there are
    ``only_real`` and ``only_own``, of which some are named. The longest round took so many seconds.
    """

    since: float
    real: Side = msgspec.field(default_factory=Side)
    own: Side = msgspec.field(default_factory=Side)
    differences: list[Difference] = msgspec.field(default_factory=list)
    only_real: int = 0
    only_real_names: list[str] = msgspec.field(default_factory=list)
    only_own: int = 0
    only_own_names: list[str] = msgspec.field(default_factory=list)
    longest_round: float = 0.0


class _Life:
    """One gang from its first decision to its real start. ``pods`` has the moment at which each was first seen."""

    def __init__(self, gang: GangId, needed: int, since: float) -> None:
        self.gang = gang
        self.needed = needed
        self.since = since
        self.pods: dict[str, float] = {}
        self.refused = False
        #: When it would have been started, had its victims left at once, and their grace periods.
        self.decided: float | None = None
        self.graces: tuple[float, ...] = ()
        self.victims: tuple[Victim, ...] = ()
        self.evicted = 0
        self.gone: set[str] = set()  # pods that were deleted
        self.partial_since: float | None = None
        self.ran_in_part = False


class Comparison:
    """Takes in what happens and what is decided; ``figures`` are those of the time that runs.

    ``names`` are the scheduler names of the other one. ``note`` takes measurements.
    """

    def __init__(self, names: Sequence[str], note: Note = lambda _name, _value, _labels: None) -> None:
        self.figures = Figures(0.0)
        self._names = frozenset(names)
        self._marks = tuple(f"{name}: " for name in names)
        self._note = note
        self._seen: dict[str, tuple[float, float]] = {}  # pending pods: first seen, and waiting since
        self._bound: dict[str, float] = {}
        self._places: dict[str, tuple[str, int]] = {}  # of pods that wait: nominated or bound to this node; priority
        self._lives: dict[GangId, _Life] = {}
        self._life_of: dict[str, _Life] = {}
        self._marked: dict[str, Pod] = {}
        self._counted: set[str] = set()
        self._unclaimed: dict[str, tuple[str, int]] = {}  # victims: node and priority
        self._losing: dict[GangId, float] = {}
        self._leaving: dict[str, float] = {}
        self._left_in: deque[float] = deque(maxlen=_LEAVINGS)
        self._gathering: dict[GangId, float] = {}
        self._told: set[str] = set()  # victims of this round

    # -- real events ----------------------------------------------------------------------------------------

    def preempted(self, pod: Pod) -> bool:
        """Return whether the other scheduler has marked this pod as its victim."""
        mark = pod.disruption
        if mark is None or mark.status != "True":
            return False
        return mark.reason == MARK_REASON and mark.message.startswith(self._marks)

    def happened(self, event: Event, known: Pod | None, now: float, *, first: bool) -> None:
        """Take in an event as it arrives; ``known`` is the pod as it was shown before, ``first`` says that it was there
        already.
        """
        match event:
            case Changed(Pod() as pod):
                if pod.scheduler in self._names:
                    self._of_other(pod, now, first=first)
                self._may_leave(pod, known, now)
            case Gone("Pod", _, _, uid):
                self._pod_deleted(uid, known, now)

    def _of_other(self, pod: Pod, now: float, *, first: bool) -> None:
        if pod.node:
            if pod.uid in self._seen and pod.uid not in self._bound:
                self._bound[pod.uid] = now
                self._places[pod.uid] = pod.node, pod.priority
        elif pod.live and not pod.gates:
            if pod.uid not in self._seen:
                self._seen[pod.uid] = now, min(pod.created, now) if first and pod.created else now
            if pod.nominated_node:
                self._places[pod.uid] = pod.nominated_node, pod.priority

    def _may_leave(self, pod: Pod, known: Pod | None, now: float) -> None:
        if pod.deleting_since is not None and pod.bound:
            self._leaving.setdefault(pod.uid, now)
        if not self.preempted(pod):
            self._marked.pop(pod.uid, None)
        elif pod.deleting_since is not None:
            self._evicted(pod, known, now)
        else:
            self._marked[pod.uid] = pod

    def _pod_deleted(self, uid: str, known: Pod | None, now: float) -> None:
        if uid in self._leaving:
            self._left_in.append(now - self._leaving.pop(uid))
        if uid in self._marked:
            self._evicted(self._marked.pop(uid), known, now)
        self._counted.discard(uid)
        self._seen.pop(uid, None)
        life = self._life_of.get(uid)
        if life is not None:  # it may have run, and counts for the start of its gang
            life.gone.add(uid)
        else:
            self._bound.pop(uid, None)
            self._places.pop(uid, None)

    def _evicted(self, victim: Pod, known: Pod | None, now: float) -> None:
        if victim.uid in self._counted:
            return
        self._counted.add(victim.uid)
        self._marked.pop(victim.uid, None)
        self.figures.real.evicted += 1
        self._note("shadow_evictions", 1, _BY[REAL])
        gang = known.gang if known is not None else victim.gang
        if gang.family != SINGLE:
            self._losing[gang] = now
        self._unclaimed[victim.uid] = victim.node, victim.priority
        if len(self._unclaimed) > _UNCLAIMED:
            del self._unclaimed[next(iter(self._unclaimed))]

    def _claim(self) -> None:
        """Victims were evicted for the gang of which a stronger pod is nominated or bound to their node, as far as is
        known.
        """
        on: dict[str, list[str]] = {}
        for victim, (node, _) in self._unclaimed.items():
            on.setdefault(node, []).append(victim)
        for uid, (node, priority) in self._places.items() if on else ():
            life = self._life_of.get(uid)
            for victim in on.get(node, ()) if life is not None else ():
                if victim in self._unclaimed and self._unclaimed[victim][1] < priority and life is not None:
                    del self._unclaimed[victim]
                    self.figures.real.evicted_for += not life.evicted
                    life.evicted += 1

    # -- what is decided -----------------------------------------------------------------------------------

    def begins(self, now: float) -> None:
        """A round begins."""
        self._told.clear()
        if not self.figures.since:
            self.figures.since = now

    def decided(self, decision: Decision, world: World, began: float) -> None:
        """Take in a decision of the round that ``began`` then."""
        gang = decision.gang
        if isinstance(decision, Gathering):
            self._gathering[gang] = began
            return
        life = self._lives.get(gang)
        if life is None:
            if not decision.required:
                return  # it runs; further members are not compared
            life = self._lives[gang] = _Life(gang, decision.required, began)
        for pod in world.membership.known_pods(gang):
            if pod.uid in self._seen and pod.uid not in life.pods:
                seen, since = self._seen[pod.uid]
                life.pods[pod.uid] = seen
                life.since = min(life.since, since)
                self._life_of[pod.uid] = life
        if life.decided is None:
            self._may_start(life, decision, world, began)

    def _may_start(self, life: _Life, decision: Decision, world: World, began: float) -> None:
        planned = isinstance(decision, Preempt) or any(each.plan for each in decision.awaiting)
        if not isinstance(decision, Fits) and not (planned and isinstance(decision, Preempt | FitsWhenFreed)):
            life.refused = True
            return
        complete = max(sorted(life.pods.values())[: life.needed], default=began)
        # One that did not fit, or was not complete, starts when it is seen to; else as soon as its pods are there.
        late = life.refused or self._gathering.get(life.gang, 0.0) > complete
        leaving = [*(each.uid for each in decision.victims), *(each.uid for each in decision.awaiting)]
        life.graces = tuple(world.pods[uid].grace_seconds for uid in leaving if uid in world.pods and planned)
        life.decided = began if late else complete
        life.victims = tuple(each for each in decision.victims if each.uid not in self._told)
        self._told.update(each.uid for each in life.victims)
        own = self.figures.own
        own.started += 1
        own.evicted += len(life.victims)
        own.evicted_for += bool(life.victims)
        broken = sum(1 for _ in self._broken_by(life.victims, world))
        own.broken += broken
        self._note("shadow_gangs_started", 1, _BY[OWN])
        self._note("shadow_evictions", len(life.victims), _BY[OWN])
        self._note("shadow_gangs_broken", broken, _BY[OWN])

    def _would_start(self, life: _Life) -> float | None:
        """Return when the gang would have started; None if it would not have by now. Victims of both schedulers leave
        equally fast: as pods were seen to leave by now, also after the decision.
        """
        if life.decided is None:
            return None
        seen = sum(self._left_in) / len(self._left_in) if self._left_in else None
        takes = (grace if seen is None else min(grace, seen) for grace in life.graces)
        return life.decided + max(takes, default=0.0)

    def _would_wait(self, life: _Life) -> float | None:
        starts = self._would_start(life)
        return None if starts is None else max(0.0, starts - life.since)

    @staticmethod
    def _broken_by(victims: Iterable[Victim], world: World) -> Iterable[GangId]:
        """Gangs that are whole, and would be left with members, but too few."""
        uids = {victim.uid for victim in victims}
        membership = world.membership
        for gang in {world.pods[uid].gang for uid in uids if uid in world.pods}:
            census = membership.census(gang)
            stay = any(pod.uid not in uids for pod in census.bound)
            if stay and not membership.required(gang, census) and without(membership, gang, uids):
                yield gang

    def ends(self, world: World, began: float, now: float) -> None:
        """The round is over: what has really started by now is compared, and what was really broken is counted."""
        figures = self.figures
        figures.longest_round = max(figures.longest_round, now - began)
        self._gathering = {gang: at for gang, at in self._gathering.items() if at >= began}
        self._claim()
        for life in list(self._lives.values()):
            bound = sorted(self._bound[uid] for uid in life.pods if uid in self._bound)
            if len(bound) >= life.needed:
                self._finish(life, bound[life.needed - 1])
            elif not any(uid in self._seen for uid in life.pods):
                self._forget(life)  # deleted before it started
            else:
                self._runs_in_part(life, world, now)
        for gang in [gang for gang, since in self._losing.items() if now - since >= SETTLED_SECONDS]:
            del self._losing[gang]
            if world.membership.half_bound([gang]):
                figures.real.broken += 1
                self._note("shadow_gangs_broken", 1, _BY[REAL])
        figures.real.waiting = len(self._lives)
        starts = [self._would_start(life) for life in self._lives.values()]
        figures.own.waiting = sum(at is None or at > now for at in starts)
        self._note("shadow_gangs_waiting", figures.real.waiting, _BY[REAL])
        self._note("shadow_gangs_waiting", figures.own.waiting, _BY[OWN])

    def _runs_in_part(self, life: _Life, world: World, now: float) -> None:
        """Count the gang once if members run, and fewer than it needs, for longer than a start takes."""
        runs = any(uid in self._bound and uid not in life.gone for uid in life.pods)
        if not runs and not world.membership.census(life.gang).bound:
            life.partial_since = None
            return
        if life.partial_since is None:
            life.partial_since = now
        if now - life.partial_since >= SETTLED_SECONDS and not life.ran_in_part:
            life.ran_in_part = True
            self.figures.real.in_part += 1
            self._note("shadow_gangs_in_part", 1, _BY[REAL])

    def _finish(self, life: _Life, started: float) -> None:
        figures, waited = self.figures, max(0.0, started - life.since)
        figures.real.started += 1
        self._note("shadow_gangs_started", 1, _BY[REAL])
        self._note("shadow_wait_seconds", waited, _BY[REAL])
        would_wait = self._would_wait(life)
        if would_wait is None:
            figures.only_real += 1
            if len(figures.only_real_names) < _NAMES:
                figures.only_real_names.append(life.gang.key)
        else:
            figures.real.waits[int(waited)] += 1
            figures.own.waits[int(would_wait)] += 1
            self._note("shadow_wait_seconds", would_wait, _BY[OWN])
        figures.differences.append(self._difference(life, waited, started=True))
        if len(figures.differences) > 10 * _DIFFERENCES:
            figures.differences = largest(figures.differences)
        self._forget(life)

    def _forget(self, life: _Life) -> None:
        del self._lives[life.gang]
        for uid in life.pods:
            for known in (self._life_of, self._bound, self._seen, self._places):
                known.pop(uid, None)

    # -- what is read --------------------------------------------------------------------------------------

    def close_period(self, now: float) -> Figures:
        """The figures of the time that ends now, with what still waits; another time begins."""
        out, self.figures = self.upto(now), Figures(now)
        return out

    def upto(self, now: float) -> Figures:
        """The figures so far, with what still waits."""
        figures = msgspec.structs.replace(self.figures, differences=list(self.figures.differences))
        waiting = {life: at for life in self._lives.values() if (at := self._would_start(life)) is not None}
        figures.differences.extend(self._difference(life, now - life.since, started=False) for life in waiting)
        own = [life.gang.key for life, at in waiting.items() if at <= now]
        figures.only_own, figures.only_own_names = len(own), own[:_NAMES]
        figures.differences = largest(figures.differences)
        return figures

    def _difference(self, life: _Life, waited: float, *, started: bool) -> Difference:
        names, would = tuple(victim.key for victim in life.victims[:_NAMES]), self._would_wait(life)
        pods, evicted = len(life.pods), len(life.victims)
        return Difference(life.gang.key, pods, life.evicted, evicted, names, waited, would, started)


def largest(rows: Iterable[Difference]) -> list[Difference]:
    """The gangs that differ most, in that order."""
    return sorted((row for row in rows if row.size > (0, 1.0)), key=lambda row: row.size, reverse=True)[:_DIFFERENCES]
