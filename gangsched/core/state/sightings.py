"""What is remembered of pods and names beyond their records, and for how long it counts.

Stamps in objects are of the API server's clock, which may be another, and what decides about victims counts the time
that has passed. So when pods began and should be gone is written down by the scheduler's own clock, as is who was
evicted how often, on which nodes other schedulers have made room, and who answers to a name of ours. The process that
has seen it knows it.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from gangsched.core.agenda import Page
from gangsched.messages import causes
from gangsched.model.records import SINGLE, GangId, Pod

#: Clocks that differ by less are the same: stamps have whole seconds, and an answer takes its time.
SAME_CLOCK_SECONDS = 3.0


class Sightings:
    """Seconds by UID: ``leaves_by`` when the grace period of each pod that terminates ends, ``began_at`` when pods were
    seen to begin, the latest last. Of those that ran before, that is known where their stamps would mislead.

    ``overdue`` are the UIDs of pods that still terminate ``overdue_after`` seconds after the end of their grace period,
    as of the last :meth:`look`. What else is remembered of pods is updated with it.
    """

    def __init__(
        self,
        overdue_after: float,
        due: Page[str],
        evictions: Evictions,
        nominations: ForeignNominations,
        names: SchedulerNames,
        refused: RefusedRemovals,
    ) -> None:
        self._evictions = evictions
        self._refused = refused
        self._nominations = nominations
        self._names = names
        self.leaves_by: dict[str, float] = {}
        self.overdue: set[str] = set()
        self.began_at: dict[str, float] = {}
        self._overdue_after = overdue_after
        self._due = due
        self._clocks_differ = False

    def seen(self, old: Pod | None, pod: Pod, now: float) -> None:
        """A pod has a new record instead of the ``old`` one, or is new."""
        self._evictions.seen(old, pod)
        self._nominations.seen(old, pod, now)
        if pod.deleting_since is not None and (old is None or old.deleting_since != pod.deleting_since):
            # Its deletionTimestamp is the end of its grace period, by the same clock or not. What was live counts from
            # now, whatever that says.
            ends, told = now + pod.grace_seconds, old is None and not self._clocks_differ
            self._leaves_by(pod.uid, min(ends, pod.deleting_since) if told else ends, now)
        if pod.node and self._begins(old, pod, now):
            self.began_at.pop(pod.uid, None)
            self.began_at[pod.uid] = now

    def _begins(self, old: Pod | None, pod: Pod, now: float) -> bool:
        """Does a pod that is bound begin to run now? One that was not known before began now at the latest. What its
        stamps say counts only if they are of the same clock.
        """
        if old is None:
            return self._clocks_differ or pod.runs_since > now
        return not old.node or old.started != pod.started

    def gone(self, uid: str, pod: Pod | None, now: float) -> None:
        """A pod no longer exists; ``pod`` is its last record, if it was known."""
        self._nominations.gone(uid)
        self._names.gone(uid)
        self._refused.gone(uid)
        self.overdue.discard(uid)
        self.began_at.pop(uid, None)
        if self.leaves_by.pop(uid, None) is not None:
            self._due.never(uid)
        if pod is not None:
            self._evictions.seen(pod, None)
            if pod.deleting_since is not None:
                self._nominations.freed(pod.node, now)

    def _leaves_by(self, uid: str, when: float, now: float) -> None:
        self.leaves_by[uid] = when
        self.overdue.discard(uid)
        over = math.nextafter(when + self._overdue_after, math.inf)  # the first moment after the time that it may take
        self._due.at(uid, over)
        if over <= now:
            self._due.never(uid)
            self.overdue.add(uid)

    def look(self, now: float) -> list[str]:
        """UIDs of the pods that have become overdue."""
        found = self._due.due(now)
        self.overdue.update(found)
        return found

    def set_server_clock(self, ahead: float, pods: Iterable[Pod], now: float) -> None:
        """The clock of all stamps is so many seconds ahead of ours: what those of the pods say is put right."""
        self._clocks_differ = abs(ahead) >= SAME_CLOCK_SECONDS
        if self._clocks_differ:
            began = sorted((min(pod.runs_since - ahead, now), pod.uid) for pod in pods if pod.bound)
            self.began_at = {uid: at for at, uid in began}
            for pod in pods:
                if pod.deleting_since is not None:
                    self._leaves_by(pod.uid, min(now + pod.grace_seconds, pod.deleting_since - ahead), now)


#: A pod whose removal the API server has refused is no victim for so long.
REFUSED_SECONDS = 3600.0


class RefusedRemoval(NamedTuple):
    """Until when a pod is no victim, and the reason that the API server gave."""

    until: float
    why: str


class RefusedRemovals:
    """The pods of which the API server has refused the removal, as an admission policy does: others that would leave
    with them would leave for nothing, again and again. They are remembered by the process that has tried. Others of
    their namespaces are likely to be refused, too.
    """

    def __init__(self) -> None:
        self._of: dict[str, RefusedRemoval] = {}
        self._namespaces: dict[str, float] = {}

    def note(self, uid: str, namespace: str, why: str, now: float) -> None:
        """The removal of the pod with this UID was refused."""
        until = now + REFUSED_SECONDS
        for known, key in ((self._of, uid), (self._namespaces, namespace)):
            known.pop(key, None)
            while len(known) >= _MOST:
                del known[next(iter(known))]
        self._of[uid], self._namespaces[namespace] = RefusedRemoval(until, why), until

    def likely(self, namespace: str, now: float) -> bool:
        """Return whether a removal was refused in this namespace lately, be that pod there or not."""
        return self._namespaces.get(namespace, now) > now

    def gone(self, uid: str) -> None:
        """The pod no longer exists."""
        self._of.pop(uid, None)

    def at(self, now: float) -> Mapping[str, RefusedRemoval]:
        """By UID, those that count now."""
        return {uid: each for uid, each in self._of.items() if each.until > now} if self._of else {}


#: Evictions count for so long.
WINDOW_SECONDS = 3600.0
#: A unit that has been evicted too often is protected for so long after the last time.
PROTECTED_SECONDS = 1800.0
#: So many units are remembered, the one that was evicted last the longest.
_MOST = 10_000

Unit: TypeAlias = "GangId | tuple[str, str, str]"


def unit_of(pod: Pod) -> Unit:
    """What brings the pod back."""
    if pod.gang.family != SINGLE:
        return pod.gang
    if pod.owner is None:
        return "Pod", pod.namespace, pod.name
    return pod.owner.kind, pod.namespace, pod.owner.name


class Evictions:
    """A unit of n pods has been evicted once when n of its pods have been: all of them, or one n times. An eviction is
    remembered by the process that has seen it.
    """

    def __init__(self) -> None:
        self._when: dict[Unit, deque[float]] = {}
        self._size: Counter[Unit] = Counter()

    def seen(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has come, has changed, or is gone."""
        was = unit_of(old) if old is not None and old.live else None
        now = unit_of(new) if new is not None and new.live else None
        if was == now:
            return
        if now is not None:
            self._size[now] += 1
        if was is not None:
            self._size[was] -= 1
            if not self._size[was]:
                del self._size[was]

    def note(self, pod: Pod, now: float) -> None:
        """The pod has been evicted for others."""
        unit = unit_of(pod)
        when = self._when.pop(unit, None) or deque()
        when.append(now)
        self._when[unit] = when
        self._forget_old(now)

    def times(self, unit: Unit, now: float) -> int:
        """How often the unit has been evicted in the last hour."""
        when = self._when.get(unit)
        if when is None:
            return 0
        while when and when[0] <= now - WINDOW_SECONDS:
            when.popleft()
        return len(when) // max(1, self._size[unit])

    def protected_until(self, unit: Unit, limit: int, now: float) -> float:
        """Until when a unit is protected that may be evicted ``limit`` times in an hour; 0: it is not."""
        if not limit or self.times(unit, now) < limit:
            return 0.0
        return self._when[unit][-1] + PROTECTED_SECONDS

    def repeatedly(self, limit: int, now: float) -> int:
        """How many units have been evicted so often in the last hour."""
        return sum(self.times(unit, now) >= max(1, limit) for unit in self._when)

    def _forget_old(self, now: float) -> None:
        for unit, when in list(self._when.items()):
            if len(self._when) <= _MOST and when[-1] > now - WINDOW_SECONDS:
                break  # they are in the order of their last evictions
            del self._when[unit]


#: A nomination that has not been used for so long (seconds), with nothing on its node to wait for, is left alone.
UNUSED_SECONDS = 120.0


class ForeignNominations:
    """Pods by UID, each with the node to which another scheduler has nominated it. ``ours`` says whether a gang is for
    this scheduler; ``terminates`` whether a pod that terminates is on a node.

    ``moved`` has the nodes that were left to such pods, and are now (empty: none), change by change; whoever has read
    it clears it.
    """

    def __init__(self, ours: Callable[[GangId], bool], terminates: Callable[[str], bool], due: Page[str]) -> None:
        self.moved: list[tuple[str, str]] = []
        self._ours = ours
        self._terminates = terminates
        self._pods: dict[str, Pod] = {}
        self._due = due

    def __bool__(self) -> bool:
        return bool(self._pods)

    def seen(self, old: Pod | None, pod: Pod, now: float) -> None:
        """A pod has a new record instead of the ``old`` one, or is new."""
        node = self._node(pod)
        if not node:
            self.gone(pod.uid)
        elif old is None or self._node(old) != node:
            known = self._pods.get(pod.uid)
            self.moved.append((known.nominated_node if known is not None else "", node))
            self._pods[pod.uid] = pod
            self._due.at(pod.uid, now + UNUSED_SECONDS)
        elif pod.uid in self._pods:
            self._pods[pod.uid] = pod

    def gone(self, uid: str) -> None:
        """The pod no longer exists, or is not nominated any more."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self.moved.append((pod.nominated_node, ""))
            self._due.never(uid)

    def freed(self, node: str, now: float) -> None:
        """A pod that terminated has left this node: only from now on it can be used."""
        for uid, pod in self._pods.items():
            if pod.nominated_node == node:
                self._due.at(uid, now + UNUSED_SECONDS)

    def above(self, priority: int) -> list[Pod]:
        """The pods of higher priority to which their nodes are left."""
        return [self._pods[uid] for uid in sorted(self._pods) if self._pods[uid].priority > priority]

    def lapsed(self, now: float) -> list[str]:
        """The nodes that need not be left to a pod any more, because it has not used them in time."""
        nodes = []
        for uid in self._due.due(now):
            node = self._pods[uid].nominated_node
            if self._terminates(node):
                self._due.at(uid, now + UNUSED_SECONDS)
            else:
                del self._pods[uid]
                nodes.append(node)
        return nodes

    def _node(self, pod: Pod) -> str:
        waits = pod.nominated_node and pod.live and not pod.node and not self._ours(pod.gang)
        return pod.nominated_node if waits else ""


#: So long after a binding by another scheduler (seconds) that counts as alive; one that has work binds sooner.
ALIVE_SECONDS = 60.0


class Owner(NamedTuple):
    """Who has a name, in words, and the Lease or pod that shows it: (apiVersion, kind, namespace, name, uid)."""

    text: str
    shown_by: tuple[str, str, str, str, str] | None = None


#: Of a name as long as the Lease has not been read.
NOT_KNOWN = Owner(causes.FORMER_OWNER_UNKNOWN)


class SchedulerNames:
    """``guarded`` are the names of which a former owner may be alive, ``leased`` those of them that have a Lease to be
    looked at first. ``taken`` has the names that are left to their owners. Under the ``trusted`` names, ours or not, a
    group has the priority of the class that it names.
    """

    def __init__(self, guarded: Iterable[str] = (), leased: Iterable[str] = (), trusted: Iterable[str] = ()) -> None:
        self.trusted = frozenset(trusted)
        self.guarded = frozenset(guarded)
        self._leases: dict[str, Owner | None] = dict.fromkeys(leased, NOT_KNOWN)
        self._bindings: dict[str, Owner] = {}
        #: Until when each counts as alive whose pod was bound by another scheduler.
        self.alive: Page[str] = Page()
        #: UIDs of pods of these names that we have bound, or tried to: they are no sign of another scheduler.
        self._ours: set[str] = set()
        self.taken: Mapping[str, Owner] = dict.fromkeys(leased, NOT_KNOWN)

    def leased(self, name: str, owner: str, lease: str) -> None:
        """The Lease (``namespace/name``) of the former owner of a name is held by ``owner``, or free (empty)."""
        namespace, _, own = lease.partition("/")
        self._leases[name] = Owner(owner, ("coordination.k8s.io/v1", "Lease", namespace, own, "")) if owner else None

    def assumed(self, pod: Pod) -> None:
        """We are about to bind a pod."""
        if pod.scheduler in self.guarded:
            self._ours.add(pod.uid)

    def gone(self, uid: str) -> None:
        """A pod no longer exists."""
        self._ours.discard(uid)

    def seen(self, old: Pod | None, pod: Pod, now: float) -> None:
        """A pod has a new record instead of the ``old`` one, while we are not binding it."""
        bound = old is not None and not old.node and pod.node
        if bound and pod.scheduler in self.guarded and pod.uid not in self._ours:
            text = causes.bound_by_another(pod=pod.key, node=pod.node)
            self._bindings[pod.scheduler] = Owner(text, ("v1", "Pod", pod.namespace, pod.name, pod.uid))
            self.alive.at(pod.scheduler, now + ALIVE_SECONDS)

    def look(self, now: float) -> dict[str, tuple[Owner, bool]]:
        """The names that are taken now and were not at the last look, or the other way round (False), each with its
        owner.
        """
        found = {name: owner for name, owner in self._leases.items() if owner is not None}
        for name in self.alive.due(now):
            del self._bindings[name]
        for name, owner in self._bindings.items():
            found.setdefault(name, owner)
        before, self.taken = self.taken, found
        changed = {name: (owner, True) for name, owner in found.items() if before.get(name, NOT_KNOWN) is NOT_KNOWN}
        return changed | {name: (owner, False) for name, owner in before.items() if name not in found}
