"""The cluster behind a real API server, as the decision loop sees it.

Two threads: the decision thread calls :meth:`KubeCluster.wait` and :meth:`KubeCluster.submit`; a thread of its
own runs an asyncio loop with watches, writes and the lease, so that none of them waits for a decision.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gangsched import logs
from gangsched.cluster.kube import discovery, dryrun
from gangsched.cluster.kube.caches import CacheHealth, Caches
from gangsched.cluster.kube.client import Client
from gangsched.cluster.kube.former_owners import FormerOwners
from gangsched.cluster.kube.history import History
from gangsched.cluster.kube.inbox import Inbox, SteadyClock
from gangsched.cluster.kube.lease import Elector, LeaseSettings, unique_identity
from gangsched.cluster.kube.measuring import Observe, ignore
from gangsched.cluster.kube.preconditions import Preconditions
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.server_clock import ServerTime
from gangsched.cluster.kube.tasks import end
from gangsched.cluster.kube.writer import NOT_LEADING, Writer, WriteSettings
from gangsched.core.actions import Action, GangStatus, Write
from gangsched.core.events import Event, LeadershipChanged, Outcome, ServerClock, Synced, WriteDone
from gangsched.http.connection import Connection
from gangsched.messages import failures

_log = logs.get(__name__)

TICK_SECONDS = 1.0
#: An I/O loop that has not ticked for so long counts as dead.
DEAD_AFTER_SECONDS = 10.0
#: So long the first list waits for the election: one that begins when we lead already need not be repeated.
ELECTION_SECONDS = 1.0
DEFAULT_QPS = 500.0
DEFAULT_BURST = 1000


class Health(NamedTuple):
    """What ``/healthz`` and ``/readyz`` are made of.

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
        return self.failure or (failures.io_loop_stands(self.tick_age_seconds) if stuck else "")

    @property
    def problems(self) -> tuple[str, ...]:
        """What cannot be read at the moment, in words."""
        return tuple(f"{c.resource}: {c.problem}" for c in self.caches if c.problem)


class KubeCluster:
    """Implements :class:`gangsched.cluster.port.Cluster` on an API server.

    Args:
        connection: from :func:`~gangsched.http.connection.load_connection`.
        lease: the election to take part in; None leads without one (tests, or a single replica on purpose).
        dry_run: never writes anything, the lease included. What is submitted is logged and *not* answered,
            since no answer would be true; the caller decides once and then stops.
        qps: requests per second on average; ``burst``: at once. Lease and watches do not count.
        controller: who signs Events (``reportingController``).
        on_gang_status: takes the state of group objects; called on the I/O thread, must be quick.
        observe: takes measurements; called on the I/O thread and on the decision thread.
        loop_factory: makes the event loop (``uvloop.new_event_loop``); None is asyncio's own.
        discovery_seconds: how often to look for gang and queue APIs that came or went.
        quota_mode: whether queue objects are read: ``auto`` (not where Kueue runs), ``own`` or ``off``.
        history_namespace: where the record of evictions is kept; empty for nowhere.
        former_leases: Leases (``namespace/name``) of the former owners of scheduler names, by name.
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
        on_gang_status: Callable[[GangStatus], None] | None = None,
        observe: Observe = ignore,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
        discovery_seconds: float = 60.0,
        quota_mode: str = discovery.AUTO,
        history_namespace: str = "",
        former_leases: Mapping[str, tuple[str, ...]] | None = None,
        drain_seconds: float = 2.0,
    ) -> None:
        self._connection = connection
        self._lease_settings = None if dry_run else lease
        self._dry_run = dry_run
        self._writes = writes or WriteSettings()
        self._controller = controller
        self._identity = lease.identity if lease else unique_identity()
        self._on_gang_status = on_gang_status
        self._observe = observe
        self._loop_factory = loop_factory
        self._discovery_seconds = discovery_seconds
        self._quota_mode = quota_mode
        self._history_namespace = "" if dry_run else history_namespace
        self._former_leases = former_leases or {}
        self._drain_seconds = drain_seconds
        self._bucket = TokenBucket(qps, burst)
        self._clock = SteadyClock()
        self._inbox = Inbox(self._clock)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked: asyncio.Event | None = None
        self._told_synced: asyncio.Event | None = None
        self._may_list: asyncio.Event | None = None
        self._ready = threading.Event()
        self._tick_at = math.inf
        self._synced = False
        self._leading = False
        # Changes of leadership that were reported, and those that the decision thread has taken in.
        self._term = self._known_term = 0
        self._preconditions = Preconditions()
        self._known_events = 0  # that the decision thread has taken in
        # What has been submitted and not fetched by the I/O thread, with the two numbers of then.
        self._leaving: deque[tuple[tuple[Action, ...], int, int]] = deque()
        self._fetching = False
        self._failure = ""
        self._caches: Caches | None = None
        self._elector: Elector | None = None
        self._writer: Writer | None = None
        self._history: History | None = None
        self._former: FormerOwners | None = None
        self._giving_up: asyncio.Task[bool] | None = None
        self._warming: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------------ the decision thread's side

    def start(self) -> None:
        """Start the I/O thread; returns when it runs, not when anything has been read."""
        if self._thread is not None:
            raise RuntimeError("already started")
        self._tick_at = time.monotonic()
        self._thread = threading.Thread(target=self._run_loop, name="kube-io", daemon=True)
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Stop in order: no more submissions, finish writes, release the lease, close. Safe to call again."""
        self._inbox.close()
        thread, loop, asked = self._thread, self._loop, self._stop_asked
        if thread is None:
            return
        if loop is not None and asked is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(asked.set)
        thread.join()

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

        What was decided before a change of leadership that :meth:`wait` and :meth:`poll` have not reported yet is not
        written: it rests on what was true in an earlier term. Nor is a binding to a node to which another scheduler has
        bound a pod meanwhile: it is answered ``outdated``.
        """
        if not actions:
            return
        if self._dry_run:
            for action in actions:
                what, details = dryrun.told(action)
                _log.info(f"would {what}", **details)
            return
        loop, writer = self._loop, self._writer
        if loop is None or writer is None or self._inbox.closed:
            return
        self._leaving.append((tuple(actions), self._known_term, self._known_events))
        if not self._fetching:  # else the I/O thread is going to find it
            self._fetching = True
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._fetch, writer)

    @property
    def stopped(self) -> bool:
        """True when the decision loop must end: after :meth:`stop` or :meth:`finish`, or when I/O has failed."""
        return self._inbox.closed

    def health(self) -> Health:
        """The state of things; from any thread."""
        elector, caches = self._elector, self._caches
        return Health(
            synced=self._synced,
            leading=self._leading,
            lease_holder=elector.holder if elector else "",
            tick_age_seconds=time.monotonic() - self._tick_at,
            caches=tuple(caches.health()) if caches else (),
            failure=self._failure,
        )

    # ------------------------------------------------------------------------------------------ the I/O thread's side

    def _run_loop(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._main())
        except Exception as error:  # noqa: BLE001 - whatever it is, the decision loop must learn that it is alone
            self._failure = f"{type(error).__name__}: {error}"
            _log.exception("the connection to the cluster has failed")
        finally:
            self._leading = False
            self._ready.set()
            self._inbox.close()

    async def _main(self) -> None:
        client = Client(self._connection, self._bucket, self._observe)
        client.open()
        self._loop = asyncio.get_running_loop()
        self._stop_asked = asyncio.Event()
        self._told_synced = asyncio.Event()
        self._may_list = asyncio.Event()
        caches = self._caches = Caches(
            client,
            self._deliver,
            observe=self._observe,
            discovery_seconds=self._discovery_seconds,
            quota_mode=self._quota_mode,
        )
        if self._lease_settings is not None:
            self._elector = Elector(
                client,
                self._lease_settings,
                on_started=self._take_the_lead,
                on_stopped=self._lose_the_lead,
                observe=self._observe,
            )
        writer = self._writer = Writer(
            client,
            self._deliver,
            now=ServerTime(client.seconds_ahead).now,
            fence=self._fence,
            preconditions=self._preconditions,
            controller=self._controller,
            instance=self._identity,
            on_gang_status=self._on_gang_status,
            settings=self._writes,
            observe=self._observe,
        )
        if self._history_namespace:
            self._history = History(
                client,
                self._history_namespace,
                now=ServerTime(client.seconds_ahead).now,
                fence=self._fence,
                quiet=writer.idle_within,
                timeout_seconds=self._writes.timeout_seconds,
            )
        former = self._former = FormerOwners(client, self._former_leases, self._deliver)
        _log.info("connecting", server=self._connection.server, source=self._connection.description)
        self._ready.set()
        tasks = [
            asyncio.create_task(self._tick(), name="tick"),
            asyncio.create_task(self._mirror(caches), name="caches"),
            asyncio.create_task(writer.run(), name="writer"),
            asyncio.create_task(self._lead(client), name="lead"),
            *([asyncio.create_task(self._history.run(), name="history")] if self._history else []),
            asyncio.create_task(former.run(), name="former owners of names"),
        ]
        stop = asyncio.create_task(self._stop_asked.wait(), name="stop")
        all_answered = False
        try:
            done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
                raise RuntimeError(f"{task.get_name()} has ended")
            all_answered = await writer.drain(self._drain_seconds)
            if self._history is not None:
                await self._history.write()
        finally:
            await end([stop, *tasks, *([self._warming] if self._warming else [])])
            await writer.drain(0.0)  # after a failure: nothing may be on its way when the connections close
            # A write that we gave up may still take effect: then the next leader had better wait for the expiry.
            if self._elector is not None and all_answered:
                await self._elector.release()
            await client.close()

    async def _mirror(self, caches: Caches) -> None:
        assert self._may_list is not None
        if self._elector is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ELECTION_SECONDS):
                    await self._may_list.wait()
        self._may_list.set()
        await caches.run()

    async def _lead(self, client: Client) -> None:
        """Say when everything is known, then lead or stand for election."""
        assert self._caches is not None
        syncing = asyncio.create_task(self._sync(client, self._caches))
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

    async def _sync(self, client: Client, caches: Caches) -> None:
        await caches.synced()
        assert self._told_synced is not None
        assert self._former is not None
        await self._former.looked.wait()
        self._synced = True
        ahead = client.seconds_ahead(self._clock.now())
        self._deliver([*([ServerClock(ahead)] if ahead is not None else []), Synced()])
        self._told_synced.set()
        _log.info("all caches have been listed")

    async def _take_the_lead(self) -> None:
        """What the last leader wrote is in the store: read everything again before deciding anything."""
        caches, told, may_list = self._caches, self._told_synced, self._may_list
        assert caches is not None
        assert told is not None
        assert may_list is not None
        listed_before = may_list.is_set()
        may_list.set()
        await told.wait()
        if listed_before:
            await caches.refresh()
        self._set_leading(leading=True)

    def _lose_the_lead(self) -> None:
        if self._leading:
            self._set_leading(leading=False)
            assert self._writer is not None
            # What waits for its turn or for another try must not be sent when we lead again.
            self._giving_up = asyncio.create_task(self._writer.drain(0.0))

    def _fetch(self, writer: Writer) -> None:
        """Take what has been submitted: while many pods are decided one after another, several at once."""
        self._fetching = False  # first: whatever is submitted from now on is fetched below, or asked for anew
        while self._leaving:
            actions, term, known = self._leaving.popleft()
            while self._leaving and self._leaving[0][1:] == (term, known):
                actions += self._leaving.popleft()[0]
            self._submit(writer, actions, term, known)

    def _submit(self, writer: Writer, actions: Sequence[Action], term: int, known: int) -> None:
        if term == self._term:
            writer.submit(actions, known)
            if self._history is not None:
                self._history.note(actions)
            return
        writer.submit([action for action in actions if isinstance(action, GangStatus)])
        self._deliver([WriteDone(a.id, Outcome.TRANSIENT, NOT_LEADING) for a in actions if isinstance(a, Write)])

    def _taken_in(self, events: list[Event]) -> list[Event]:
        if events:
            self._observe("inbox_events", len(self._inbox), {})
        self._known_term += sum(isinstance(event, LeadershipChanged) for event in events)
        self._known_events += len(events)
        return events

    def _set_leading(self, *, leading: bool) -> None:
        self._leading = leading
        self._term += 1
        self._deliver([LeadershipChanged(leading)])
        if leading and self._writer is not None and not self._dry_run:
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
