"""Carries out actions: many at once, each until it is answered, none after the leader's time is over."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from gangsched import logs
from gangsched.cluster.bystanders import Bystanders
from gangsched.cluster.kube.bodies import Request
from gangsched.cluster.kube.client import ApiError, Client, Observe, UnreachableError, ignore
from gangsched.cluster.kube.kind_of_write import KindOfWrite, Means, Verdict
from gangsched.cluster.kube.preconditions import Preconditions
from gangsched.cluster.kube.retry import Backoff, Window, end
from gangsched.cluster.kube.statuses import Statuses
from gangsched.cluster.kube.writes import kinds_of_writes
from gangsched.cluster.queue import Item, Sendable, WriteQueue
from gangsched.core.actions import (
    Action,
    GangStatus,
    Report,
    SetCondition,
    SetGroupStatus,
)
from gangsched.core.events import Event, Outcome, WriteDone
from gangsched.messages import notes

_log = logs.get(__name__)

#: With less time than this before the lease may pass, a write is not started.
MIN_ATTEMPT_SECONDS = 0.05
#: Texts for users are not worth long retries.
LOW_TOTAL_SECONDS = 5.0
NOT_LEADING = notes.NOT_LEADER
UNWANTED = notes.NOT_WANTED


class WriteSettings(NamedTuple):
    """How writes are sent.

    ``timeout_seconds`` bounds one attempt, here and on the server; ``total_seconds`` bounds an action with all its
    retries, counted from its submission; ``in_flight`` is the most writes in flight. Reasons why a pod is not scheduled
    are delayed for ``kept_back_seconds``, because they may be over by then. After many writes all reports are delayed
    for ``calm_seconds``.
    """

    in_flight: int = 48
    timeout_seconds: float = 2.0
    total_seconds: float = 15.0
    kept_back_seconds: float = 0.5
    calm_seconds: float = 0.05


class Writer:
    """Executes actions on one event loop; run :meth:`run` as a task.

    ``answer`` gets one :class:`WriteDone` for every action with an id. ``fence`` is the monotonic time after
    which nothing may be written; ``now`` is the wall clock for condition times. ``controller`` and ``instance``
    sign Events. ``served`` returns the version in which a resource is
    watched. ``preconditions`` know what the watch has brought since a write was decided. ``stale`` says why
    nothing may be written at the moment that rests on some kinds. ``statuses`` of groups, queues and Jobs are kept
    if they are given.
    """

    def __init__(  # noqa: PLR0913
        self,
        client: Client,
        answer: Callable[[list[Event]], None],
        *,
        now: Callable[[], float],
        fence: Callable[[], float],
        controller: str,
        instance: str,
        preconditions: Preconditions | None = None,
        statuses: Statuses | None = None,
        stale: Callable[[Collection[str]], str] = lambda _: "",
        settings: WriteSettings | None = None,
        observe: Observe = ignore,
        bystanders: Bystanders | None = None,
        served: Callable[[str], str] = lambda _: "v1",
    ) -> None:
        self._client = client
        self._answer = answer
        self._bystanders = bystanders or Bystanders(observe)
        self._fence = fence
        self._statuses = statuses
        self._stale = stale
        self._settings = settings or WriteSettings()
        self._observe = observe
        self._queue = WriteQueue(
            low_in_flight=max(1, self._settings.in_flight // 3),
            busy_writes=self._settings.in_flight // 4,
            calm_seconds=self._settings.calm_seconds,
            kept_back_seconds=self._settings.kept_back_seconds,
        )
        self._window = Window(self._settings.in_flight)
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()  # set when it may have become idle
        self._sending: set[asyncio.Task[None]] = set()
        self._answers: list[Event] = []
        self._reported_drops: dict[str, int] = {}
        self._kinds = kinds_of_writes(
            Means(
                client,
                preconditions or Preconditions(),
                self._settings.timeout_seconds,
                lambda event: self.submit([event]),
                now,
                controller,
                instance,
                served,
            )
        )

    # ----------------------------------------------------------------------------------------------------- intake

    def submit(self, actions: Sequence[Action], known: int = 0) -> None:
        """Queue these actions, decided when so many events had been taken in. Call on the event loop."""
        started = time.monotonic()
        for action in actions:
            if not isinstance(action, GangStatus):
                for item in self._queue.put(action, started, known):
                    self._answered(item, Outcome.OUTDATED, UNWANTED)
            elif self._statuses is not None:
                self._bystanders.call("statuses", self._statuses.want, action)
        self.look_at_statuses()
        self._note_queue()

    def look_at_statuses(self) -> None:
        """Queue the statuses of objects that need a look. Call on the event loop."""
        self._bystanders.call("statuses", self._queue_statuses)
        self._changed.set()

    def _queue_statuses(self) -> None:
        for action in self._statuses.asked() if self._statuses is not None else ():
            self._queue.put(action, time.monotonic())

    def _note_queue(self) -> None:
        """Measure what waits, and what has been dropped since the last time."""
        self._observe("writes_waiting", self._queue.writes_waiting, {"lane": "write"})
        self._observe("writes_waiting", self._queue.low_waiting, {"lane": "low"})
        for reason, count in self._queue.dropped.items():
            if new := count - self._reported_drops.get(reason, 0):
                self._observe("reports_dropped", new, {"reason": reason})
                self._reported_drops[reason] = count

    async def warm(self) -> None:
        """Open the connections that many writes will need, while the first decision is being made."""
        await self._client.warm(self._settings.in_flight)

    @property
    def idle(self) -> bool:
        """True when nothing waits and nothing is on its way."""
        return not len(self._queue) and not self._sending

    async def drain(self, seconds: float) -> bool:
        """Wait until everything has been answered, at most so long; what is left then is cancelled. True: nothing was
        cancelled, so that nothing can take effect any more.

        After half of the time, no write is started. The next leader decides waiting gangs again, and should not have to
        wait for the Lease to expire. The numbers of writes, conditions and Events are logged. Conditions and Events
        count as dropped: ``abandoned`` if they waited, ``failed`` if they were in flight.
        """
        if await self.idle_within(seconds / 2):
            return True
        dropped = self._queue.low_waiting
        left = self._queue.clear()
        self._note_queue()
        over = await self.idle_within(seconds / 2)
        dropped += self._queue.low_in_flight
        on_their_way = len(self._sending) - self._queue.low_in_flight
        _log.warning("writes were cancelled", waiting=len(left), on_their_way=on_their_way, reports_dropped=dropped)
        if not over:
            await asyncio.sleep(0)  # a task that is cancelled before it has begun does not answer
            await end(self._sending)
        return over

    async def idle_within(self, seconds: float) -> bool:
        """Wait until nothing waits and nothing is on its way, at most so long; whether that came to be."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.idle:
                    self._drained.clear()
                    await self._drained.wait()
        return self.idle

    # --------------------------------------------------------------------------------------------------- dispatch

    async def run(self) -> None:
        """Send what is submitted until cancelled."""
        has_token = False
        while True:
            if not len(self._queue) or len(self._sending) >= self._window.size:
                await self._wait()
            elif not has_token:
                # The token comes first, so that what is most urgent is chosen when it can really be sent.
                await self._client.bucket.acquire()
                has_token = True
            elif (item := self._queue.next_write(now := time.monotonic())) is None:
                await self._wait(self._queue.ready_in(now))
            else:
                has_token = False
                task = asyncio.create_task(self._carry_out(item))
                self._sending.add(task)
                task.add_done_callback(self._finished)

    async def _wait(self, seconds: float | None = None) -> None:
        self._changed.clear()
        if seconds is None:
            await self._changed.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._changed.set()
        self._drained.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a write failed in an unforeseen way", exc_info=error)

    async def _carry_out(self, item: Item) -> None:
        outcome, message = Outcome.TRANSIENT, notes.CANCELLED
        try:
            outcome, message = await self._send(item)
        finally:
            self._queue.done(item, time.monotonic())
            self._answered(item, outcome, message)

    def _answered(self, item: Item, outcome: Outcome, message: str) -> None:
        action = item.action
        kind = type(action).__name__
        self._observe("write_seconds", time.monotonic() - item.submitted_at, {"kind": kind, "outcome": outcome})
        if isinstance(action, GangStatus):
            return  # what failed is looked at again
        if outcome not in (Outcome.OK, Outcome.TRANSIENT):
            self._kinds[type(action)].failed(action)
        if not isinstance(action, SetCondition | SetGroupStatus | Report):
            self._tell(WriteDone(action.id, outcome, message))
        elif outcome not in (Outcome.OK, Outcome.GONE):
            self._observe("reports_dropped", 1, {"reason": "failed"})
            log = _log.warning if isinstance(action, SetGroupStatus) else _log.debug
            log("report dropped", kind=kind, outcome=outcome, message=message)

    def _tell(self, done: WriteDone) -> None:
        """Answer, together with all that is answered in this turn of the loop."""
        if not self._answers:
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._answers.append(done)

    def _hand_over(self) -> None:
        answers, self._answers = self._answers, []
        self._answer(answers)

    # ------------------------------------------------------------------------------------------------------- send

    async def _send(self, item: Item) -> Verdict:
        """One action until it has an outcome."""
        if not isinstance(item.action, GangStatus):
            return await self._write(item, item.action)
        if self._statuses is not None:
            await self._statuses.bring_about(item.action, self._attempt_for_status)
        return Outcome.OK, ""

    async def _write(self, item: Item, action: Sendable) -> Verdict:
        kind, request = self._kinds[type(action)], None
        patient = item.submitted_at + self._settings.total_seconds
        until = patient if kind.patient else time.monotonic() + LOW_TOTAL_SECONDS
        backoff = Backoff(max_seconds=2.0)
        while (no := self._not_to_be_sent(item)) is None:
            verdict, retry_after, problem = None, None, notes.PRECONDITION_UNREADABLE
            try:
                if request is None:
                    request, verdict = await kind.prepared(action)
                if request is not None:
                    verdict = await self._attempted(item, kind, request)
            except ApiError as error:
                retry_after, problem = error.retry_after_seconds, str(error)
                verdict, request = await kind.judge(action, request, error)
            except UnreachableError as error:
                if (no := self._not_to_be_sent(item)) is not None:
                    return no
                verdict, problem = await kind.unanswered(action), str(error)
                request = kind.retry_request(action, request)
            if verdict is not None:
                if verdict[0] is Outcome.OK:
                    await self._send_follow_up(kind.followed_by(action))
                if verdict[0] is Outcome.GONE and kind.done_when_gone and item.unsure:
                    return Outcome.OK, verdict[1]
                return verdict
            delay = backoff.next_seconds(retry_after)
            if time.monotonic() + delay >= until:
                return Outcome.TRANSIENT, problem
            await asyncio.sleep(delay)
            if not self._objection(item):
                await self._client.bucket.acquire()
        return no

    async def _attempt_for_status(self, request: Request) -> bytes:
        """Raises :class:`UnreachableError` behind the fence too: then the object has another turn."""
        if self._too_late():
            raise UnreachableError(NOT_LEADING)
        if request.method == "GET":  # the write that follows has the token of the item
            await self._client.bucket.acquire()
        return await self._attempt(request)

    async def _attempted(self, item: Item, kind: KindOfWrite[Any], request: Request) -> Verdict:
        """Return the result of a successful attempt. Raises :class:`ApiError` and :class:`UnreachableError`."""
        began, unsure, too_many = time.monotonic(), item.unsure, False
        try:
            body = await self._attempt(request, item)
        except ApiError as error:
            too_many = error.status == 429 and "DisruptionBudget" not in error.causes
            if too_many or not error.transient:  # this attempt has had no effect
                item.unsure = unsure
                if not unsure:
                    kind.failed(item.action)
            raise
        finally:
            self._window.answered(time.monotonic() - began, too_many=too_many)
        return Outcome.OK, kind.succeeded(item.action, request, body)

    async def _attempt(self, request: Request, item: Item | None = None) -> bytes:
        now = time.monotonic()
        seconds = max(MIN_ATTEMPT_SECONDS, min(self._settings.timeout_seconds, self._fence() - now))
        return await self._client.attempt(
            request.method,
            request.path,
            body=request.body or None,
            content_type=request.content_type,
            accept=request.accept,
            timeout_seconds=seconds,
            server_timeout=True,
            fence=self._fence if item is None else lambda: self._may_leave_until(item, now + seconds),
        )

    # -- may it still be sent? -----------------------------------------------------------------------------

    def _objection(self, item: Item) -> str:
        """Why a write is not wanted any more, or rests on what is not so any more, in words; else empty."""
        return self._kinds[type(item.action)].objection(item.action, item.known)

    def _too_late(self) -> bool:
        """Return whether the lease may pass before an attempt that began now could end."""
        return self._fence() - time.monotonic() < MIN_ATTEMPT_SECONDS

    def _not_to_be_sent(self, item: Item) -> Verdict | None:
        """The message about a write that is not to be sent (again) by now. One that was may have taken effect."""
        if self._too_late():
            return Outcome.TRANSIENT, NOT_LEADING
        rests_on = self._kinds[type(item.action)].rests_on
        if rests_on and (why := self._stale(rests_on)):
            return Outcome.TRANSIENT, why
        why = self._objection(item)
        return (Outcome.TRANSIENT if item.unsure else Outcome.OUTDATED, why) if why else None

    def _may_leave_until(self, item: Item, end: float) -> float:
        """Return the fence, or the attempt's ``end`` if that is earlier, just before the bytes of a write are sent. A
        write that is obsolete or was overtaken meanwhile is never sent. From here to the handing over of the bytes the
        loop does nothing else, so what the watch brings later comes after the write.
        """
        until = min(end, self._fence())
        if time.monotonic() >= until:
            return until
        if self._objection(item):
            return -math.inf
        item.unsure = True
        self._kinds[type(item.action)].leaves(item.action)
        return until

    async def _send_follow_up(self, request: Request | None) -> None:
        try:
            if request is not None:
                await self._attempt(request)
        except (ApiError, UnreachableError) as error:
            _log.debug("what follows a write has failed", error=str(error))
