"""The cluster behind a real API server, as the decision loop sees it.

There are two threads. The decision thread calls :meth:`KubeCluster.wait` and :meth:`KubeCluster.submit`. The I/O thread
runs an asyncio loop with watches, writes and the lease, so that none of them waits for a decision.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Collection, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from gangsched import logs
from gangsched.cluster.bystanders import Bystanders
from gangsched.cluster.kube import discovery, dryrun, nodes
from gangsched.cluster.kube.access import Access, access
from gangsched.cluster.kube.client import Client, Observe, UnreachableError, ignore
from gangsched.cluster.kube.clock import ServerTime, SteadyClock
from gangsched.cluster.kube.connection import Connection
from gangsched.cluster.kube.first_start import is_first
from gangsched.cluster.kube.held_nodes import give_back
from gangsched.cluster.kube.history import History, Line, recorded
from gangsched.cluster.kube.lease import Elector, FormerOwners, LeaseSettings, unique_identity
from gangsched.cluster.kube.preconditions import Preconditions
from gangsched.cluster.kube.published import Facts, Publisher
from gangsched.cluster.kube.quarantine_record import QuarantineRecord
from gangsched.cluster.kube.reflector import CacheHealth, Caches
from gangsched.cluster.kube.retry import TokenBucket, end
from gangsched.cluster.kube.statuses import Statuses
from gangsched.cluster.kube.writer import NOT_LEADING, Writer, WriteSettings
from gangsched.core.actions import Action, ReleaseNode, Write
from gangsched.core.events import Event, LeadershipChanged, Outcome, ServerClock, Synced, WriteDone
from gangsched.messages import failures

_log = logs.get(__name__)
T = TypeVar("T")

#: The time is read at least this often (seconds), unless the process is stopped or very busy.
LOOK_SECONDS = 1.0
#: If an event follows others within this time, wait so much longer for more: ten events at once cost hardly more than
#: one, and waking up costs more. One that comes after a quiet time is alone, and is fetched at once.
LINGER_SECONDS = 0.005
TICK_SECONDS = 1.0
#: An I/O loop that has not ticked for so long counts as dead.
DEAD_AFTER_SECONDS = 10.0
#: So long the first list waits for the election: one that begins when we lead already need not be repeated.
ELECTION_SECONDS = 1.0
#: So long one question takes at most about who may read metrics, or what is on record.
ACCESS_SECONDS = 2.0
DEFAULT_QPS = 500.0
DEFAULT_BURST = 1000


class Inbox:
    """A queue of events between two threads; what has come is fetched in one batch.

    Python's own locks with conditions can be left held by an interrupt (Ctrl-C) between two of their steps, and the
    other thread would wait for ever. So nothing is locked here: a deque and a :class:`queue.SimpleQueue`, whose steps
    cannot be interrupted, are all there is.
    """

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._events: deque[Event] = deque()
        self._changed: SimpleQueue[None] = SimpleQueue()  # an entry for each change since the events were fetched last
        self._closed = False

    def __len__(self) -> int:
        return len(self._events)

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._closed

    def put(self, events: Sequence[Event]) -> None:
        """Add events, in order; from any thread. Dropped once closed."""
        if events and not self._closed:
            self._events.extend(events)
            self._changed.put(None)

    def close(self) -> None:
        """Wake all waiting callers, now and in the future."""
        self._closed = True
        self._changed.put(None)

    def wait(self, until: float | None) -> tuple[float, list[Event]]:
        """Block until there are events, ``until`` has come (None: never) or the inbox is closed."""
        began = 0.0
        while not self._events and not self._closed:
            now = self._clock.now()
            if until is not None and until <= now:
                break
            began = began or now
            with contextlib.suppress(Empty):
                self._changed.get(timeout=LOOK_SECONDS if until is None else min(until - now, LOOK_SECONDS))
        if began and not self._closed and self._clock.now() - began < LINGER_SECONDS:
            time.sleep(LINGER_SECONDS)
        return self.poll()

    def poll(self) -> tuple[float, list[Event]]:
        """The events so far."""
        now = self._clock.now()
        with contextlib.suppress(Empty):
            while True:
                self._changed.get_nowait()
        # Events are added before this flag is set: later events wake the next waiting call.
        return now, [self._events.popleft() for _ in range(len(self._events))]


class Health(NamedTuple):
    """The facts behind ``/healthz`` and ``/readyz``.

    ``tick_age_seconds`` is the age of the last sign of life of the I/O loop, or of its start; ``failure`` says why the
    adapter has stopped by itself, or is empty.
    """

    synced: bool
    leading: bool
    lease_holder: str
    tick_age_seconds: float
    caches: tuple[CacheHealth, ...]
    failure: str

    @property
    def dead(self) -> str:
        """Why nothing is read or written any more, in words; empty while the I/O loop turns."""
        stuck = self.tick_age_seconds >= DEAD_AFTER_SECONDS
        return self.failure or (failures.io_loop_stands(seconds=self.tick_age_seconds) if stuck else "")

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what cannot be read at the moment, in words."""
        return tuple(f"{c.resource}: {c.problem}" for c in self.caches if c.problem)


class KubeCluster:
    """Implements :class:`gangsched.cluster.port.Cluster` on an API server.

    Args:
        connection: from :func:`~gangsched.cluster.kube.connection.load_connection`.
        lease: the election to take part in; None leads without one (tests, or a single replica on purpose).
        dry_run: never writes anything, the lease included. What is submitted is logged and *not* answered,
            since no answer would be true; the caller decides once and then stops.
        qps: requests per second on average; ``burst``: at once. Lease and watches do not count.
        controller: who signs Events (``reportingController``).
        statuses: what is wanted of the statuses of groups, queues and Jobs; None leaves them alone.
        observe: takes measurements; called on the I/O thread and on the decision thread.
        bystanders: contains the errors of what only observes: the history and the published status.
        discovery_seconds: how often to look for gang and queue APIs that came or went.
        quota_mode: whether queue objects are read: ``auto`` (not where Kueue runs), ``own`` or ``off``.
        history_namespace: where the record of evictions is kept; empty for nowhere.
        publishes: the configuration as JSON and what gives further facts, both for a ConfigMap beside that record.
        former_leases: Leases (``namespace/name``) of the former owners of scheduler names, by name.
        holds_nodes: whether nodes may have to be held, so that the log says at the start if they cannot be.
        record: the decision that is under way, which the Lease keeps for whoever leads next.
        fallback_namespace: of which is read what may not be read in the whole cluster; empty: that is waited for.
        readable_only: whether APIs are left out that may not be read; None: not in a dry run, which waits for them.
        drain_seconds: how long :meth:`stop` lets submitted writes finish; none is begun in the second half of it.
    """

    def __init__(  # noqa: PLR0913
        self,
        connection: Connection,
        *,
        lease: LeaseSettings | None,
        dry_run: bool = False,
        qps: float = DEFAULT_QPS,
        burst: int = DEFAULT_BURST,
        writes: WriteSettings | None = None,
        controller: str = "py-gang-scheduler",
        statuses: Statuses | None = None,
        observe: Observe = ignore,
        discovery_seconds: float = 60.0,
        quota_mode: str = discovery.AUTO,
        history_namespace: str = "",
        publishes: tuple[bytes, Facts] | None = None,
        former_leases: Mapping[str, tuple[str, ...]] | None = None,
        holds_nodes: bool = False,
        drain_seconds: float = 2.0,
        record: QuarantineRecord | None = None,
        fallback_namespace: str = "",
        readable_only: bool | None = None,
        bystanders: Bystanders | None = None,
    ) -> None:
        self._connection = connection
        self._dry_run = dry_run
        self._observe = observe
        self._bystanders = bystanders or Bystanders(observe)
        self._drain_seconds = drain_seconds
        self._clock = SteadyClock()
        self._inbox = Inbox(self._clock)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._stop_asked, self._told_synced, self._may_list = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._tick_at = math.inf
        self._synced = False
        self._leading = False
        self._leading_since = 0.0  # seconds since the epoch
        # Changes of leadership that were reported, and those that the decision thread has taken in.
        self._term = self._known_term = 0
        self._known_events = 0  # that the decision thread has taken in
        # Actions that the I/O thread has not fetched yet, with the two numbers of their submission.
        self._leaving: deque[tuple[tuple[Action, ...], int, int]] = deque()
        self._fetching = False
        self._failure = ""
        self._giving_up: asyncio.Task[bool] | None = None
        self._held: Sequence[ReleaseNode] = ()
        self._warming: asyncio.Task[None] | None = None

        client = self._client = Client(connection, TokenBucket(qps, burst), observe)
        sent = writes or WriteSettings()
        now = ServerTime(client.seconds_ahead).now
        self._preconditions = Preconditions()
        self._caches = Caches(
            client,
            self._deliver,
            observe=observe,
            discovery_seconds=discovery_seconds,
            quota_mode=quota_mode,
            fallback=fallback_namespace,
            readable_only=not dry_run if readable_only is None else readable_only,
        )
        self._elector: Elector | None = None
        if lease is not None and not dry_run:
            started, stopped = self._take_the_lead, self._lose_the_lead
            self._elector = Elector(
                client,
                lease,
                on_started=started,
                on_stopped=stopped,
                observe=observe,
                record=record,
                deliver=self._deliver,
            )
            self._elector.is_first = lambda: self._is_first(lease.names)
        self._writer = Writer(
            client,
            self._deliver,
            now=now,
            fence=self._fence,
            preconditions=self._preconditions,
            controller=controller,
            instance=lease.identity if lease else unique_identity(),
            statuses=statuses,
            stale=self._outdated,
            settings=sent,
            observe=observe,
            bystanders=self._bystanders,
            served=self._caches.version_of,
        )
        self._statuses = statuses
        self._history: History | None = None
        self._history_namespace = history_namespace
        if history_namespace and not dry_run:
            quiet, seconds = self._writer.idle_within, sent.timeout_seconds
            self._history = History(
                client, history_namespace, now=now, fence=self._fence, quiet=quiet, timeout_seconds=seconds
            )
        self._holds_nodes, self._write_seconds = holds_nodes and not dry_run, sent.timeout_seconds
        self._publisher: Publisher | None = None
        if history_namespace and publishes is not None and not dry_run:
            document, known = publishes
            self._publisher = Publisher(
                client,
                history_namespace,
                (document, lambda: {**known(), "stale": self._caches.stale()}, self._caches.measured),
                now=now,
                leading_since=lambda: self._leading_since if self._leading else None,
                fence=self._fence,
                quiet=self._writer.idle_within,
                timeout_seconds=sent.timeout_seconds,
            )
        self._former = FormerOwners(client, former_leases or {}, self._deliver)

    # ------------------------------------------------------------------------------------ the decision thread's side

    def start(self) -> None:
        """Start the I/O thread; returns when it runs, not when anything has been read."""
        if self._thread is not None:
            raise RuntimeError("already started")
        self._tick_at = time.monotonic()
        self._thread = threading.Thread(target=self._run_loop, name="kube-io", daemon=True)
        self._thread.start()
        self._ready.wait()

    def stop(self, held: Sequence[ReleaseNode] = ()) -> None:
        """Stop in order: no more submissions, finish writes, release the lease, close. Safe to call again. If no
        standby takes over, the taint is taken off the nodes that are still ``held``.
        """
        self._held = held
        self._inbox.close()
        if self._thread is None:
            return
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._stop_asked.set)
        self._thread.join()

    def finish(self) -> None:
        """Make :attr:`stopped` true and wake the decision loop, from any thread; :meth:`stop` must follow."""
        self._inbox.close()

    def now(self) -> float:
        """The time of this cluster's clock, seconds since the epoch."""
        return self._clock.now()

    def wait(self, until: float | None) -> tuple[float, list[Event]]:
        """See :class:`gangsched.cluster.port.Cluster`."""
        now, events = self._inbox.wait(until)
        return now, self._taken_in(events)

    def poll(self) -> tuple[float, list[Event]]:
        """See :class:`gangsched.cluster.port.Cluster`."""
        now, events = self._inbox.poll()
        return now, self._taken_in(events)

    def submit(self, actions: Sequence[Action]) -> None:
        """See :class:`gangsched.cluster.port.Cluster`. Dropped once stopped; only logged in a dry run.

        Actions are dropped if leadership has changed since, and :meth:`wait` and :meth:`poll` have not reported the
        change yet: they depend on the state of an earlier term. Nor is a binding to a node to which another scheduler
        has bound a pod meanwhile: it is answered ``outdated``.
        """
        if not actions:
            return
        if self._dry_run:
            for action in actions:
                what, details = dryrun.describe(action)
                _log.info(f"would {what}", **details)
            return
        if self._loop is None or self._inbox.closed:
            return
        self._leaving.append((tuple(actions), self._known_term, self._known_events))
        if not self._fetching:  # else the I/O thread is going to find it
            self._fetching = True
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._fetch)

    @property
    def stopped(self) -> bool:
        """True when the decision loop must end: after :meth:`stop` or :meth:`finish`, or when I/O has failed."""
        return self._inbox.closed

    def access(self, token: str, verb: str, path: str) -> Access:
        """Return whether the account of ``token`` may do ``verb`` with a ``path`` of ours. From any thread but the I/O
        loop's.

        Raises ApiError, UnreachableError and TimeoutError.
        """
        return self._asked(access(self._client, token, verb, path, ACCESS_SECONDS))

    def evictions(self) -> list[Line]:
        """The record of evictions, the oldest first. From any thread but the I/O loop's; raises as :meth:`access`."""
        get = partial(self._client.attempt, "GET", timeout_seconds=ACCESS_SECONDS)
        return self._asked(recorded(get, self._history_namespace))

    def _asked(self, question: Coroutine[Any, Any, T]) -> T:
        """The answer of the I/O loop, whose thread goes on meanwhile."""
        if self._loop is None or self._loop.is_closed():
            question.close()
            raise UnreachableError(failures.NOT_CONNECTED)
        try:
            answer = asyncio.run_coroutine_threadsafe(question, self._loop)
        except RuntimeError:  # the loop has ended meanwhile
            question.close()
            raise UnreachableError(failures.NOT_CONNECTED) from None
        try:
            return answer.result(2 * ACCESS_SECONDS)
        except CancelledError:
            raise UnreachableError(failures.NOT_CONNECTED) from None
        finally:
            answer.cancel()

    def stale(self) -> str:
        """Why no pod is evicted at the moment by what is known, in words; else empty. From any thread."""
        return self._caches.stale()

    def _outdated(self, kinds: Collection[str]) -> str:
        """Return why nothing is to be written that rests on these kinds, in words; else empty."""
        unshown = self._preconditions.unshown(time.monotonic()) if "Pod" in kinds else ""
        return unshown or self._caches.stale(kinds)

    def health(self) -> Health:
        """The state of things; from any thread."""
        return Health(
            synced=self._synced,
            leading=self._leading,
            lease_holder=self._elector.holder if self._elector else "",
            tick_age_seconds=time.monotonic() - self._tick_at,
            caches=tuple(self._caches.health()),
            failure=self._failure,
        )

    # ------------------------------------------------------------------------------------------ the I/O thread's side

    def _run_loop(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as error:  # noqa: BLE001 - whatever it is, the decision loop must learn that it is alone
            self._failure = f"{type(error).__name__}: {error}"
            _log.exception("the connection to the cluster has failed")
        finally:
            self._leading = False
            self._ready.set()
            self._inbox.close()

    def _look_at_statuses(self) -> None:
        """From any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._writer.look_at_statuses)

    async def _main(self) -> None:
        self._client.open()
        self._loop = asyncio.get_running_loop()
        if self._statuses is not None:
            self._statuses.tell(self._look_at_statuses)
        _log.info("connecting", server=self._connection.server, source=self._connection.description)
        self._ready.set()
        observing = [
            *([("history", self._history.run)] if self._history else []),
            *([("status", self._publisher.run)] if self._publisher else []),
        ]
        tasks = [
            asyncio.create_task(self._tick(), name="tick"),
            asyncio.create_task(self._mirror(), name="caches"),
            asyncio.create_task(self._writer.run(), name="writer"),
            asyncio.create_task(self._lead(), name="lead"),
            *(asyncio.create_task(self._bystanders.keep_running(name, run), name=name) for name, run in observing),
            asyncio.create_task(self._former.run(), name="former owners of names"),
        ]
        stop = asyncio.create_task(self._stop_asked.wait(), name="stop")
        all_answered = False
        try:
            done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
                raise RuntimeError(f"{task.get_name()} has ended")
            all_answered = await self._writer.drain(self._drain_seconds)
            if self._history is not None:
                try:
                    await self._history.write()
                except Exception as error:  # noqa: BLE001 - the Lease is to be released all the same
                    self._bystanders.failed("history", error)
        finally:
            await end([stop, *tasks, *([self._warming] if self._warming else [])])
            await self._writer.drain(0.0)  # after a failure: nothing may be on its way when the connections close
            # A write that we gave up may still take effect: then the next leader had better wait for the expiry.
            released = self._elector is None and not self._dry_run
            if self._elector is not None and all_answered:
                released = await self._elector.release()
            if self._held and released:
                await give_back(self._client, self._held, self._elector)
            await self._client.close()

    async def _mirror(self) -> None:
        if self._elector is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ELECTION_SECONDS):
                    await self._may_list.wait()
        self._may_list.set()
        await self._caches.run()

    async def _lead(self) -> None:
        """Say when everything is known, then lead or stand for election."""
        syncing = asyncio.create_task(self._sync())
        try:
            if self._elector is None:
                await syncing
                self._set_leading(leading=True)
                await asyncio.Event().wait()
            else:
                # A candidate may win before its caches are complete; it learns that it leads only afterwards.
                await self._elector.run()
        finally:
            await end([syncing])

    async def _sync(self) -> None:
        await self._caches.synced()
        await self._former.looked.wait()
        self._synced = True
        ahead = self._client.seconds_ahead(self._clock.now())
        self._deliver([*([ServerClock(ahead)] if ahead is not None else []), Synced()])
        self._told_synced.set()
        _log.info("all caches have been listed")
        if self._holds_nodes:
            await nodes.tell_rights(self._client, self._write_seconds, self._observe)

    async def _take_the_lead(self) -> None:
        """The writes of the last leader are in the store: read everything again before the first decision."""
        listed_before = self._may_list.is_set()
        self._may_list.set()
        await self._told_synced.wait()
        if listed_before:
            await self._caches.refresh()
        self._set_leading(leading=True)

    async def _is_first(self, names: tuple[str, ...]) -> bool:
        """Only a process that publishes leaves the sign by which the next one would see it."""
        return self._publisher is not None and await is_first(
            self._client, self._publisher, self._history_namespace, names, self._write_seconds
        )

    def _lose_the_lead(self) -> None:
        if self._leading:
            self._set_leading(leading=False)
            # Waiting writes and retries must not be sent when we lead again.
            self._giving_up = asyncio.create_task(self._writer.drain(0.0))

    def _fetch(self) -> None:
        """Take what has been submitted: while many pods are decided one after another, several at once."""
        self._fetching = False  # first: whatever is submitted from now on is fetched below, or asked for anew
        while self._leaving:
            actions, term, known = self._leaving.popleft()
            while self._leaving and self._leaving[0][1:] == (term, known):
                actions += self._leaving.popleft()[0]
            self._submit(actions, term, known)

    def _submit(self, actions: Sequence[Action], term: int, known: int) -> None:
        if term == self._term:
            self._writer.submit(actions, known)
            if self._history is not None:
                self._bystanders.call("history", self._history.note, actions)
            return
        self._deliver([WriteDone(a.id, Outcome.TRANSIENT, NOT_LEADING) for a in actions if isinstance(a, Write)])

    def _taken_in(self, events: list[Event]) -> list[Event]:
        if events:
            self._observe("inbox_events", len(self._inbox), {})
        self._known_term += sum(isinstance(event, LeadershipChanged) for event in events)
        self._known_events += len(events)
        return events

    def _set_leading(self, *, leading: bool) -> None:
        self._leading = leading
        self._leading_since = time.time()
        self._term += 1
        if self._statuses is not None:
            self._bystanders.call("statuses", partial(self._statuses.set_leading, leading=leading))
        self._deliver([LeadershipChanged(leading)])
        if leading and not self._dry_run:
            self._warming = asyncio.create_task(self._writer.warm(), name="warm")

    def _fence(self) -> float:
        return math.inf if self._elector is None else self._elector.may_write_until

    def _deliver(self, events: Sequence[Event]) -> None:
        self._preconditions.delivered(events)
        self._inbox.put(events)
        self._observe("inbox_events", len(self._inbox), {})

    async def _tick(self) -> None:
        while True:
            self._tick_at = began = time.monotonic()
            await asyncio.sleep(TICK_SECONDS)
            self._observe("io_loop_lag_seconds", max(0.0, time.monotonic() - began - TICK_SECONDS), {})
            for resource, age in self._caches.ages().items():
                self._observe("cache_age_seconds", age, {"resource": resource})
            if (ahead := self._client.seconds_ahead(self._clock.now())) is not None:
                self._observe("clock_ahead_seconds", ahead, {})
