"""Gangs that do not fit and sleep until something happens that may help them.

They are kept by what the same events help: gangs that are alike are asked about together, and those for which nodes
were not even looked at, because quota alone refused them, only when quota changes in their tree of cohorts. Of gangs
that are alike and short of quota only the first one is woken, and the next one when that has got what it asked for: the
order of decisions is the one that they would have if all were woken, without the decisions that are bound to fail.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gangsched.core.groups import Group
from gangsched.core.hints import Change
from gangsched.core.lifecycle.steps import Steps
from gangsched.core.lifecycle.table import Signal, State
from gangsched.core.options import Options
from gangsched.core.planning.decider import Decider
from gangsched.core.queue.buckets import Buckets
from gangsched.core.queue.queueing_hints import Wakeups
from gangsched.core.queue.scheduling_queue import Order
from gangsched.core.queue.signature import Likeness
from gangsched.core.state.world import World


class Lack(enum.Enum):
    """What a gang did not have when it was last decided."""

    NODES = "room on nodes"
    BOTH = "quota and room on nodes"
    QUOTA = "quota, whatever the nodes"


class Kind(NamedTuple):
    """Gangs that the same events help. ``like`` is None for those that are no longer what they were."""

    like: Likeness | None
    lack: Lack

    @property
    def queue(self) -> tuple[str, str]:
        """The root of the cohort tree and the LocalQueue; empty where there is none."""
        known = self.like.queue if self.like is not None else None
        return (known[2], known[0]) if known is not None else ("", "")


def _kind(group: Group) -> Kind:
    if not group.outlook.short_of_quota:
        return Kind(group.likeness, Lack.NODES)
    return Kind(group.likeness, Lack.QUOTA if group.outlook.nodes_unseen else Lack.BOTH)


class Waking:
    """Keeps the index of those that sleep in line with the groups; :meth:`moved` is told of every step of one."""

    def __init__(
        self,
        world: World,
        decider: Decider,
        options: Options,
        steps: Steps,
        groups: dict[str, Group],
        signal: Callable[[Group, Signal], None],
    ) -> None:
        self._world = world
        self._decider = decider
        self._options = options
        self._steps = steps
        self._groups = groups
        self._signal = signal
        self._asleep: Buckets[Kind] = Buckets()
        self._tried: Buckets[Likeness] = Buckets()
        #: Kinds that sleep: by tree and LocalQueue those that only quota can help, and the others.
        self._for_quota: dict[str, dict[str, dict[Kind, None]]] = {}
        self._for_more: dict[Kind, None] = {}
        #: Of a kind of which one at a time is woken, those that are, and their place.
        self._woken: dict[str, tuple[Kind, Order]] = {}

    # -- following the groups ------------------------------------------------------------------------------

    def moved(self, group: Group) -> None:
        """The group is in another state, or is not what it was."""
        key, queue = group.key, self._steps.queue
        place = queue.asleep(key) if group.state is State.BACKOFF else None
        if place is not None:
            self._file(_kind(group), place)
        else:
            self._unfile(key)
        active = queue.active_place(key) if group.state is State.QUEUED and group.likeness is not None else None
        if active is not None and group.likeness is not None:
            self._tried.put(group.likeness, active)
        else:
            self._tried.drop(key)
        if key in self._woken and group.state is not State.QUEUED and not queue.backs_off(key):
            self._go_on(key)

    def forget(self, group: Group) -> None:
        """The group is no more."""
        self._unfile(group.key)
        self._tried.drop(group.key)
        if group.key in self._woken:
            self._go_on(group.key)

    def in_vain(self, group: Group) -> None:
        """The group has been decided and does not fit, and neither would others of its kind behind it: for them it is
        as if they had been decided, too.
        """
        if group.key not in self._woken:
            return
        kind, order = self._woken.pop(group.key)
        lack = _kind(group).lack
        if lack is kind.lack:
            return
        for place in self._asleep.members(kind, order):
            other = self._groups[place[2]]
            other.outlook = group.outlook
            self._file(Kind(kind.like, lack), place)

    def tried(self, like: Likeness) -> list[Group]:
        """Active groups that are alike and were decided before, in queue order."""
        return [self._groups[order[2]] for order in self._tried.members(like)]

    def calm(self, like: Likeness) -> None:
        """It is of no use to decide gangs like this before their backoff is over."""
        for lack in Lack:
            for order in self._asleep.members(Kind(like, lack)):
                self._steps.queue.calm(order[2])

    def _file(self, kind: Kind, place: Order) -> None:
        self._unfile(place[2])
        self._asleep.put(kind, place)
        if kind.lack is Lack.QUOTA:
            tree, local_queue = kind.queue
            self._for_quota.setdefault(tree, {}).setdefault(local_queue, {})[kind] = None
        else:
            self._for_more[kind] = None

    def _unfile(self, key: str) -> None:
        kind = self._asleep.drop(key)
        if kind is None or kind in self._asleep:
            return
        if kind.lack is not Lack.QUOTA:
            del self._for_more[kind]
            return
        tree, local_queue = kind.queue
        queues = self._for_quota[tree]
        del queues[local_queue][kind]
        if not queues[local_queue]:
            del queues[local_queue]
        if not queues:
            del self._for_quota[tree]

    # -- waking --------------------------------------------------------------------------------------------

    def wake(self, changes: Sequence[Change]) -> None:
        """Something happened that may help."""
        if not self._asleep:
            return
        wakeups = Wakeups(self._world, self._decider, self._options.strict_budgets, changes)
        for key in wakeups.reserving():
            if self._steps.queue.asleep(key) is not None:
                self._wake(key)
        for kind in [*self._for_more, *self._short(wakeups)]:
            members = self._asleep.members(kind)
            if not members:
                continue
            first = self._groups[members[0][2]]
            if kind.lack is Lack.QUOTA:
                helps = wakeups.gives_quota(kind.like)
            else:
                helps = wakeups.helps(kind.like, first, self._steps.now)
            if helps and kind.lack is not Lack.NODES:
                self._wake_first(kind)
            elif helps or wakeups.turns:
                for _, _, key in members:
                    if helps or self._groups[key].outlook.behind:
                        self._wake(key)

    def _short(self, wakeups: Wakeups) -> list[Kind]:
        """Kinds that only quota can help, and to which that may have happened."""
        out: list[Kind] = []
        for tree in self._for_quota if wakeups.everybody else sorted(wakeups.trees):
            queues = self._for_quota.get(tree, {})
            for local_queue in wakeups.queues(tree, queues):
                out += queues[local_queue]
        return out

    def _wake_first(self, kind: Kind, after: Order | None = None) -> None:
        """Wake the first one whose backoff is over, and the first one before it that is in backoff. Nobody who is
        behind one that is active already: it goes on from there. Those that lack nothing but quota do not sit out a
        backoff, as in Kueue: somebody behind them would take what was given back.
        """
        queue, now = self._steps.queue, self._steps.now
        eager = False
        active = self._tried.members(kind.like)[:1] if kind.like is not None else []
        for order in self._asleep.members(kind, after):
            if active and active[0] < order and active[0][2] in self._woken:
                return
            ready = kind.lack is Lack.QUOTA or queue.ready(order[2], now)
            if ready or not eager:
                self._woken[order[2]] = kind, order
                self._wake(order[2], ready)
                eager = True
            if ready:
                return

    def _go_on(self, key: str) -> None:
        kind, order = self._woken.pop(key)
        self._wake_first(kind, order)

    def _wake(self, key: str, at_once: bool = False) -> None:
        if at_once or self._steps.queue.wake(key, self._steps.now):
            self._signal(self._groups[key], Signal.WAKE)
