"""The queue of gangs: priority first, then age; backoff per gang; woken by events that can help.

Namespaces take turns, and gangs that fit come before long searches: see :mod:`.rounds`.

The states are those of kube-scheduler, for gangs. An *active* gang is to be decided. A gang in *backoff* becomes active
at a time, and is decided before it when nothing is active. A *resting* one, after failed writes, becomes active at a
time and never before. A *parked* one is unschedulable until something happens that may help, or :data:`FLUSH_SECONDS`
have passed.

Gangs that do not fit are kept by their signature. An event that may help one of them takes the refusal of its signature
back. The first gang is then decided again, and the next one when the first has got its room. The order of decisions is
the same as if all were woken, without the decisions that are bound to fail. Gangs that quota alone refused, before any
node was tried, are checked only when quota changes in their tree of cohorts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence

from gangsched.core.agenda import Page
from gangsched.core.decision import Order, Unschedulable, Verdict
from gangsched.core.events import Change
from gangsched.core.options import Options
from gangsched.core.planning.cycle import Decider
from gangsched.core.queue.hint_index import HintIndex
from gangsched.core.queue.queueing_hints import QueueingHints
from gangsched.core.queue.rounds import Rounds
from gangsched.core.queue.signature import Refusal, Signature
from gangsched.core.world.world import World, for_its_minimum
from gangsched.model.records import GangId

#: A parked gang is tried again after this time even if no event has woken it, as in kube-scheduler.
FLUSH_SECONDS = Options().flush_seconds


class Queue:
    """Keys of gangs. Each key is in at most one of active, backoff, resting and parked."""

    def __init__(self, due: Page[str], flush_seconds: float = FLUSH_SECONDS) -> None:
        self._flush_seconds = flush_seconds
        self._active = Places()
        self._rounds = Rounds()
        self._shares: dict[str, str] = {}
        #: Active single pods, and other gangs, that were not decided since they became active.
        self._unseen_pods = Places()
        self._unseen_gangs = Places()
        #: Single pods that were tried without evictions, and wait for their decision.
        self._passing = Places()
        self._head: str | None = None
        self._glance = False
        self._backoff: dict[str, Order] = {}
        #: Those in backoff that were woken.
        self._eager = Places()
        self._due = due
        self._parked: dict[str, tuple[Order, float]] = {}

    def push(self, order: Order, share: str = "", *, single: bool = False) -> None:
        """Make the gang active, or the ``single`` pod. By its ``share`` it takes turns with others (:mod:`.rounds`)."""
        key = order[2]
        self.remove(key)
        self._shares[key] = share
        self._active.add(order)
        (self._unseen_pods if single else self._unseen_gangs).add(order)

    def park(self, order: Order, now: float, not_before: float, latest: float | None = None) -> None:
        """Wait for :meth:`wake`, then at least until ``not_before``; ``latest`` is when time alone may have helped."""
        key = order[2]
        self.remove(key)
        self._parked[key] = (order, not_before)
        flush = now + self._flush_seconds
        self._due.at(key, flush if latest is None else min(flush, max(latest, not_before)))

    def rest(self, key: str, when: float) -> None:
        """Become active at this time, whatever happens until then."""
        self.remove(key)
        self._due.at(key, when)

    def remove(self, key: str) -> None:
        """Take the gang out, wherever it is."""
        self._head = None
        self._shares.pop(key, None)
        for places in (self._active, self._unseen_pods, self._unseen_gangs, self._passing, self._eager):
            places.discard(key)
        self._backoff.pop(key, None)
        self._due.never(key)
        self._parked.pop(key, None)

    def parked(self) -> list[str]:
        """Gangs that wait for something to happen."""
        return sorted(self._parked)

    def asleep(self, key: str) -> Order | None:
        """The place of a gang that :meth:`wake` may wake, which is parked or in backoff; None for others."""
        return self._parked[key][0] if key in self._parked else self._backoff.get(key)

    def active_place(self, key: str) -> Order | None:
        """The place of an active gang; None for others."""
        return self._active.place(key)

    def backs_off(self, key: str) -> bool:
        """Return True if the gang was woken while it was in backoff. It becomes active when the backoff is over."""
        return key in self._backoff

    def wake(self, key: str, now: float) -> bool:
        """Something has happened that may help the gang, which is parked or in backoff. True when its backoff is over
        and it is to be made active; otherwise it waits its backoff out, unless the scheduler would be idle.
        """
        if key in self._parked:
            order, not_before = self._parked[key]
            if not_before <= now:
                return True
            del self._parked[key]
            self._backoff[key] = order
            self._due.at(key, not_before)
        if key not in self._eager:
            self._eager.add(self._backoff[key])
        return False

    def wait_out_backoff(self, key: str) -> None:
        """Decide this gang only when its backoff is over, even if the scheduler is idle."""
        self._eager.discard(key)

    def due(self, now: float) -> list[str]:
        """Gangs whose time has come; each is reported once."""
        out = sorted(self._due.due(now))
        for key in out:
            self.remove(key)
        return out

    def head(self) -> str | None:
        """The gang to be decided next; when none is active, one that would otherwise sit out its backoff."""
        if self._head is None:
            self._glance = False
            self._head = self._unseen_first() or self._in_turn()
        return self._head or self._eager.first()

    def is_glance(self, key: str) -> bool:
        """Return whether the head is only to be tried without evictions: searches have taken long enough."""
        return self._glance and key == self._head

    def glanced(self, key: str) -> None:
        """The gang does not fit without evictions. It keeps its place; a single pod is decided before gangs."""
        self._head = None
        self._unseen_gangs.discard(key)
        order = self._unseen_pods.discard(key)
        if order is not None:
            self._passing.add(order)

    def _unseen_first(self) -> str | None:
        """The next gang to be tried before the next search: single pods first."""
        if not self._rounds.glances_due:
            return None
        found = self._unseen_pods.first() or self._unseen_gangs.first()
        if found is None:
            self._rounds.glanced()
            return None
        self._glance = True
        return found

    def _in_turn(self) -> str | None:
        """The first active gang of those whose turn it is."""
        first = self._active.first()
        if first is None:
            self._rounds.end()
            return None
        passing = next((order for order in self._passing if not self._rounds.is_spent(self._shares[order[2]])), None)
        if passing is not None:
            return passing[2]
        return self._rounds.first(next(iter(self._active)), self._active.all, lambda order: self._shares[order[2]])[2]

    def searched(self, steps: int) -> None:
        """A decision that did not end in a binding took so many steps."""
        self._head = None
        self._rounds.searched(steps)

    def refused(self, share: str, steps: int) -> None:
        """The decision of a gang of this share came to nothing after so many steps."""
        self._head = None
        self._rounds.refused(share, steps)

    def active(self) -> list[str]:
        """All active gangs in the order in which they will be decided."""
        return [order[2] for order in self._active]

    def others_first(self, order: Order) -> bool:
        """Return whether another active gang of the priority of this one waits for its minimum."""
        return any(place[0] == order[0] and place[2] != order[2] and for_its_minimum(place) for place in self._active)

    def counts(self) -> dict[str, int]:
        """Gangs by queue: active, backoff (resting ones included), unschedulable."""
        parked = len(self._parked)
        return {"active": len(self._active), "backoff": len(self._due) - parked, "unschedulable": parked}


class Places:
    """Places in the queue in their order. Adding and removing one costs a search and a move of the list's tail."""

    def __init__(self) -> None:
        self._by_key: dict[str, Order] = {}
        self._sorted: list[Order] = []

    def __len__(self) -> int:
        return len(self._sorted)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Order]:
        return iter(self._sorted)

    def add(self, order: Order) -> None:
        """Add a place whose gang has none."""
        self._by_key[order[2]] = order
        insort(self._sorted, order)

    def discard(self, key: str) -> Order | None:
        """Remove the place of a gang and return it; None if it has none."""
        order = self._by_key.pop(key, None)
        if order is not None:
            del self._sorted[bisect_left(self._sorted, order)]
        return order

    def place(self, key: str) -> Order | None:
        """Return the place of a gang; None if it has none."""
        return self._by_key.get(key)

    def first(self) -> str | None:
        """Return the key of the first gang."""
        return self._sorted[0][2] if self._sorted else None

    def all(self) -> Sequence[Order]:
        """Return all places, first one first."""
        return self._sorted


class _Alike:
    """Gangs of one signature: the places of those that are ``asleep``, and the keys of those that are ``tried`` again.

    They do not fit, as decided for the one with this ``order``. That ``stands`` until something happens that may help.
    ``of_quota``: they lack only quota, whatever the nodes. ``behind``: gangs ahead keep something from them. ``had`` is
    the quota that they do not lack.
    """

    __slots__ = ("asleep", "behind", "had", "of_quota", "order", "refusal", "stands", "tried")

    def __init__(self) -> None:
        self.asleep: list[Order] = []
        self.tried: dict[str, Order] = {}

    def refuse(self, verdict: Verdict, order: Order, why: Unschedulable) -> None:
        """They do not fit."""
        first = self.next()
        # In a queue that is strictly FIFO for it alone nodes may not matter: others are ahead.
        alone = first is None or order <= first
        self.of_quota = alone and why.short_of_quota and why.nodes_unseen
        self.refusal, self.order, self.behind, self.had = Refusal(verdict), order, why.behind, why.had_quota
        self.stands = True

    def next(self, after: Order | None = None) -> Order | None:
        """The place of the first that sleeps, or of the first behind this place."""
        i = bisect_right(self.asleep, after) if after is not None else 0
        return self.asleep[i] if i < len(self.asleep) else None


class UnschedulableGangs:
    """The gangs in ``queue`` that sleep, by their keys; ``wake`` makes one of them active.

    Each change of a gang is passed to :meth:`update`. For every signature of a gang that sleeps a refusal stands, or
    one of its gangs has been woken.
    """

    def __init__(
        self, world: World, decider: Decider, strict_budgets: bool, queue: Queue, wake: Callable[[str], None]
    ) -> None:
        self._world = world
        self._decider = decider
        self._strict_budgets = strict_budgets
        self._queue = queue
        self._signal = wake
        self._alike: dict[Signature, _Alike] = {}
        #: Gangs that sleep, and those that were woken and are not through yet.
        self._known: dict[str, tuple[Signature, Order, Sequence[GangId]]] = {}
        self._woken: dict[str, tuple[Signature, Order]] = {}
        #: Signatures of those that only quota can help, by the root of the cohort tree and LocalQueue; and the others.
        self._for_quota: dict[str, dict[str, dict[Signature, None]]] = {}
        self._for_more = HintIndex(world, decider, strict_budgets)

    # -- following the gangs -------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._alike)

    def refusal(self, signature: Signature, order: Order) -> Refusal | None:
        """The refusal of an equal gang before this place in the queue, if it still holds."""
        alike = self._alike.get(signature)
        return alike.refusal if alike is not None and alike.stands and alike.order < order else None

    def refused(self, signature: Signature, order: Order, verdict: Verdict, why: Unschedulable) -> None:
        """A gang of this signature has been decided and does not fit. Neither do the others behind it."""
        alike = self._alike.setdefault(signature, _Alike())
        alike.refuse(verdict, order, why)
        for key, place in alike.tried.items():
            if order < place:
                self._queue.wait_out_backoff(key)  # it would be decided needlessly before its backoff is over
        if alike.asleep:
            self._index(signature)

    def update(self, key: str, signature: Signature | None, gangs: Sequence[GangId], *, queued: bool) -> None:
        """A gang has been put to sleep, woken, decided or changed; ``queued`` says that it is to be decided."""
        place = self._queue.asleep(key) if not queued else None
        if place is None or signature is None:
            self._leave(key)
        elif self._known.get(key) != (signature, place, gangs):
            self._leave(key, but=signature)
            self._known[key] = signature, place, gangs
            insort(self._alike[signature].asleep, place)
            self._index(signature)
        if key in self._woken and not queued and not self._queue.backs_off(key):
            self._through(key)
        if signature is not None and not queued:
            self._forget_unused(signature)  # it rests, or goes on: no gang sleeps because of that

    def forget(self, key: str) -> None:
        """The gang is no more."""
        self._leave(key)
        if key in self._woken:
            self._through(key)

    def due(self, key: str) -> None:
        """A gang is to be decided because time has passed; one that was not woken has slept long enough."""
        known = self._known.get(key)
        if known is not None and key not in self._woken:
            signature, order, _ = known
            self._alike[signature].stands = False
            self._try(key, signature, order)

    def _leave(self, key: str, but: Signature | None = None) -> None:
        """Take a gang out of those that sleep. Signatures of which none is left are forgotten, ``but`` this one."""
        known = self._known.pop(key, None)
        if known is None:
            return
        signature, order, _ = known
        asleep = self._alike[signature].asleep
        del asleep[bisect_left(asleep, order)]
        if not asleep:
            self._remove_from_indexes(signature)
            if signature != but:
                self._forget_unused(signature)

    def _forget_unused(self, signature: Signature) -> None:
        alike = self._alike.get(signature)
        if alike is not None and not alike.asleep and not alike.tried:
            del self._alike[signature]

    def _through(self, key: str) -> None:
        """A gang that was woken has been decided, or is gone: if nothing stands against it, the next is tried."""
        signature, order = self._woken.pop(key)
        alike = self._alike[signature]
        del alike.tried[key]
        if alike.asleep and not alike.stands:
            self._wake_first(signature, order)
        self._forget_unused(signature)

    # -- what is asked about -------------------------------------------------------------------------------

    def _index(self, signature: Signature) -> None:
        """Put a signature into the index of the events that may help its gangs."""
        self._remove_from_indexes(signature)
        if self._alike[signature].of_quota:
            tree, local_queue = _place(signature)
            self._for_quota.setdefault(tree, {}).setdefault(local_queue, {})[signature] = None
        else:
            self._for_more.add(signature)

    def _remove_from_indexes(self, signature: Signature) -> None:
        self._for_more.remove(signature)
        tree, local_queue = _place(signature)
        queues = self._for_quota.get(tree, {})
        queues.get(local_queue, {}).pop(signature, None)
        if local_queue in queues and not queues[local_queue]:
            del queues[local_queue]
        if tree in self._for_quota and not queues:
            del self._for_quota[tree]

    def _short(self, hints: QueueingHints) -> list[Signature]:
        """Return the signatures that only quota can help, and to which that may have happened."""
        out: list[Signature] = []
        for tree in list(self._for_quota) if hints.everywhere else sorted(hints.trees):
            queues = self._for_quota.get(tree, {})
            for local_queue in hints.queues(tree, queues):
                out += queues[local_queue]
        return out

    # -- waking --------------------------------------------------------------------------------------------

    def wake(self, changes: Sequence[Change]) -> None:
        """Something happened that may help."""
        if not self._known:
            return
        hints = QueueingHints(self._world, self._decider, self._strict_budgets, changes)
        for key in hints.reserving():
            if self._queue.asleep(key) is not None:
                self._wake(key)
        worth_asking = self._for_more.signatures_helped(changes)
        # Whose turn it is, and whether there is quota, is asked of all: that takes no look at nodes.
        asked = list(self._for_more) if hints.turns or hints.of_quota else worth_asking
        exactly = set(worth_asking)
        for signature in [*asked, *self._short(hints)]:
            alike = self._alike.get(signature)
            if alike is not None and alike.asleep and self._helped(hints, signature, alike, signature in exactly):
                alike.stands = False
                self._wake_first(signature)

    def _helped(self, hints: QueueingHints, signature: Signature, alike: _Alike, exactly: bool) -> bool:
        if alike.of_quota:
            return hints.gives_quota(signature)
        if (hints.turns and alike.behind) or hints.may_give_quota(signature, alike.had):
            return True
        return exactly and hints.helps(signature, self._known[alike.asleep[0][2]][2])

    def _wake_first(self, signature: Signature, after: Order | None = None) -> None:
        """Wake the first one, or the first behind this place, but none behind one that is tried already: it goes on
        from there. Gangs that lack nothing but quota skip their backoff, as in Kueue: a gang behind them would take
        what was given back.
        """
        alike = self._alike[signature]
        order = alike.next(after)
        if order is None or any(tried < order for tried in alike.tried.values()):
            return
        self._try(order[2], signature, order)
        self._wake(order[2], alike.of_quota)

    def _try(self, key: str, signature: Signature, order: Order) -> None:
        self._woken[key] = signature, order
        self._alike[signature].tried[key] = order

    def _wake(self, key: str, at_once: bool = False) -> None:
        if at_once or self._queue.wake(key, self._world.now):
            self._signal(key)


def _place(signature: Signature) -> tuple[str, str]:
    """The root of the cohort tree and the LocalQueue; empty where there is none."""
    known = signature.queue
    return (known[2], known[0]) if known is not None else ("", "")
