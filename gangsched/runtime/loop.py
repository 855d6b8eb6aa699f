"""The loop that joins the decision core and a cluster; the same code drives a real and a simulated one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from gangsched.cluster.port import Cluster
from gangsched.core.actions import Action, Write
from gangsched.core.decision import Decision
from gangsched.core.events import Event, LeadershipChanged, SearchCancelled, Synced, WriteDone
from gangsched.core.planning.contained import Fault
from gangsched.messages import quarantine
from gangsched.model.errors import one_line

#: So many different faults are kept.
_MOST_FAULTS = 100


class Core(Protocol):
    """The methods of :class:`gangsched.core.scheduler.Scheduler` that the loop needs."""

    def handle(self, events: Sequence[Event], now: float) -> list[Action]:
        """Take in events and return what follows from them."""

    def has_work(self, now: float) -> bool:
        """True when a gang is ready to be decided."""

    def decide(self, now: float) -> list[Action]:
        """Decide one gang."""

    def wake_at(self) -> float | None:
        """When to call ``handle`` although nothing happened."""

    def next_gang(self) -> str:
        """The name of the gang that :meth:`decide` would decide."""

    def drain_decisions(self) -> list[Decision]:
        """The decisions since the last call."""

    def drain_faults(self) -> list[Fault]:
        """Return failures over single gangs since the last call."""

    def cancelled(self) -> SearchCancelled | None:
        """The event to replay before the last decision for it to come out the same again."""

    @property
    def waits(self) -> bool:
        """True while there will be something to do that is not known yet."""


class Rebuilt(msgspec.Struct, frozen=True):
    """The core has failed ``where`` (an event, a decision, …) with this ``error``, and another one has its place.

    ``culprits`` were quarantined; ``trace`` is for those who maintain this program.
    """

    where: str
    error: str
    trace: str
    culprits: tuple[str, ...]

    @property
    def line(self) -> str:
        """The fault in one line."""
        return quarantine.fault(culprits=", ".join(self.culprits) or quarantine.UNKNOWN, error=self.error)


class Observer:
    """Sees all that passes through the loop, and how long it took; the base class does nothing.

    It may read clocks, which the core may not. Methods are called in the decision thread and must be quick.
    """

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """The core has taken in a batch (possibly empty) in ``seconds``."""

    def deciding(self, gang: str) -> None:
        """The core is about to decide the gang of this name (those of a GangGroup together)."""

    def cancelled(self, event: SearchCancelled) -> None:
        """The search of this decision was ended from outside; it comes before :meth:`decided`, as the inputs do."""

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """The core has decided one gang in ``seconds``; a GangGroup has a decision for each of its gangs."""

    def faulted(self, fault: Fault) -> None:
        """The core has failed over one gang, which gets to know; it goes on with the others."""

    def rebuilt(self, rebuilt: Rebuilt) -> None:
        """The core has failed, and another one has its place."""

    def busy(self) -> None:
        """The loop is about to work."""

    def idle(self) -> None:
        """The loop is about to wait."""


class Observers(Observer):
    """Several observers as one, called in order. An error in one goes to ``failed`` and stops neither the others nor
    the loop; without ``failed``, as in tests, it is raised.
    """

    def __init__(self, *observers: Observer, failed: Callable[[str, Exception], None] | None = None) -> None:
        self._all = observers
        self._failed = failed

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        self._tell("handled", events, actions, seconds, now)

    def deciding(self, gang: str) -> None:
        self._tell("deciding", gang)

    def faulted(self, fault: Fault) -> None:
        self._tell("faulted", fault)

    def rebuilt(self, rebuilt: Rebuilt) -> None:
        self._tell("rebuilt", rebuilt)

    def cancelled(self, event: SearchCancelled) -> None:
        self._tell("cancelled", event)

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        self._tell("decided", decisions, actions, seconds, now)

    def busy(self) -> None:
        self._tell("busy")

    def idle(self) -> None:
        self._tell("idle")

    def _tell(self, method: str, *args: Any) -> None:
        for each in self._all:
            try:
                getattr(each, method)(*args)
            except Exception as error:
                if self._failed is None:
                    raise
                self._failed(type(each).__name__.strip("_"), error)


class CoreFaults(Observer):
    """Keeps a line for each fault of the core, each once."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    @property
    def lines(self) -> list[str]:
        """The lines, the oldest first."""
        return list(self._lines)

    def faulted(self, fault: Fault) -> None:
        self._add(quarantine.fault(culprits=fault.gang, error=fault.error))

    def rebuilt(self, rebuilt: Rebuilt) -> None:
        self._add(rebuilt.line)

    def _add(self, line: str) -> None:
        if len(self._lines) < _MOST_FAULTS:
            self._lines[one_line(line)] = None


class WritesUnderWay(Observer):
    """Knows which writes have not been answered."""

    def __init__(self) -> None:
        self.under_way: set[int] = set()

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        self._asked(actions)
        self.under_way.difference_update(event.action_id for event in events if isinstance(event, WriteDone))

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        self._asked(actions)

    def _asked(self, actions: Sequence[Action]) -> None:
        self.under_way.update(action.id for action in actions if isinstance(action, Write))


class Slices:
    """Yield the events in parts, each for at most ``most_seconds`` of the core. The first has ``size`` events. The size
    of the others follows from the time of those before.

    After each part the loop is seen to live, and what follows from it is on its way. It makes a batch no shorter:
    that is, all of it is taken in before the next decision.
    """

    def __init__(self, most_seconds: float = 1.0, size: int = 4096) -> None:
        self._most_seconds = most_seconds
        self._size = size

    def slices_of(self, batch: Sequence[Event]) -> Iterator[Sequence[Event]]:
        """One part after another; one that is empty where nothing has arrived."""
        done = 0
        while True:
            part = batch[done : done + self._size]
            yield part
            done += len(part)
            if done >= len(batch):
                return

    def took(self, count: int, seconds: float) -> None:
        """A part with so many events has taken so long."""
        if seconds > self._most_seconds / 2:
            self._size = max(1, min(self._size, count) // 2)
        elif count == self._size and seconds < self._most_seconds / 8:
            self._size *= 2


class Completion(WritesUnderWay):
    """Knows when a single pass is over: caches synced, leading, and no write in flight.

    ``await_leadership``: the cluster will say when this process leads; until then nothing is over. ``await_writes``
    is False for a cluster that answers no writes, because it carries none out.
    """

    def __init__(self, *, await_leadership: bool, await_writes: bool) -> None:
        super().__init__()
        self._synced = False
        self._leading = not await_leadership
        self._await_writes = await_writes

    @property
    def reached(self) -> bool:
        """True when there is nothing left to wait for. The core must have no work either."""
        return self._synced and self._leading and not (self._await_writes and self.under_way)

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        super().handled(events, actions, seconds, now)
        for event in events:
            if isinstance(event, Synced):
                self._synced = True
            elif isinstance(event, LeadershipChanged):
                self._leading = event.leading


def run_loop(core: Core, cluster: Cluster, observer: Observer | None = None) -> None:
    """Decide until the cluster is stopped.

    Between two decisions everything that has arrived is taken in, so that no gang is decided on a state that is
    known to be old. Exceptions of the core or the cluster pass through: a core that has failed decides no more. Within
    a :class:`~gangsched.runtime.boundary.Boundary` another one has its place.
    """
    _run(core, cluster, observer or Observer(), None)


def run_once(
    core: Core,
    cluster: Cluster,
    observer: Observer | None = None,
    *,
    await_leadership: bool = False,
    await_writes: bool = True,
) -> None:
    """Decide all that is pending and return at the first moment with nothing to decide and no write in flight.

    A gang that has to wait for its victims is left behind in a state that the next run finishes. For the parameters
    see :class:`Completion`.
    """
    completion = Completion(await_leadership=await_leadership, await_writes=await_writes)
    _run(core, cluster, Observers(completion, observer or Observer()), completion)


def _run(core: Core, cluster: Cluster, observer: Observer, completion: Completion | None) -> None:
    clock, slices = time.perf_counter, Slices()
    now, batch = cluster.poll()
    while not cluster.stopped:
        for part in slices.slices_of(batch):
            observer.busy()
            began = clock()
            actions = core.handle(part, now)
            seconds = clock() - began
            slices.took(len(part), seconds)
            cluster.submit(actions)
            observer.handled(part, actions, seconds, now)
            _tell_faults(core, observer)
        if core.has_work(now):
            observer.deciding(core.next_gang())
            began = clock()
            actions = core.decide(now)
            seconds = clock() - began
            cluster.submit(actions)
            if (event := core.cancelled()) is not None:
                observer.cancelled(event)
            observer.decided(core.drain_decisions(), actions, seconds, now)
            _tell_faults(core, observer)
            now, batch = cluster.poll()
            continue
        if completion is not None and completion.reached and not core.waits:
            return
        observer.idle()
        now, batch = cluster.wait(core.wake_at())


def _tell_faults(core: Core, observer: Observer) -> None:
    for fault in core.drain_faults():
        observer.faulted(fault)
