"""Carries out actions: many at once, each until it is answered, none after the leader's time is over."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from gangsched.cluster.kube.bodies import (
    Request,
    job_request,
    mark_request,
    remove_request,
    report_request,
    write_request,
)
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.foreign import Foreign
from gangsched.cluster.kube.hooks import Observe, ignore
from gangsched.cluster.kube.jobs import Verdict, left_out, look_at_job, read_job, writes_templates
from gangsched.cluster.kube.lanes import Item, Lanes
from gangsched.cluster.kube.marks import Marks
from gangsched.cluster.kube.recalls import RECALLED, Recalls
from gangsched.cluster.kube.retry import Backoff, Window
from gangsched.cluster.kube.tasks import end
from gangsched.cluster.kube.verdicts import Verdicts
from gangsched.core.actions import (
    Action,
    Bind,
    GangStatus,
    PodRef,
    Recall,
    Remove,
    Report,
    ResumeJob,
    SetCondition,
    SuspendJob,
    Write,
)
from gangsched.core.events import Event, Outcome, WriteDone

_log = structlog.get_logger(__name__)

#: With less time than this before the lease may pass, a write is not started.
MIN_ATTEMPT_SECONDS = 0.05
#: What people read is not worth long retries.
LOW_TOTAL_SECONDS = 5.0
NOT_LEADING = "not the leader (any more)"


class WriteSettings(NamedTuple):
    """How writes are sent.

    ``timeout_seconds`` bounds one attempt, here and on the server; ``total_seconds`` bounds an action with all
    its retries, counted from its submission; ``in_flight`` is how many are on their way at once at most; for
    ``kept_back_seconds`` nobody is told why a pod is not scheduled, which may be over by then; for ``calm_seconds``
    after many writes nobody is told anything.
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
    sign Events. ``foreign`` knows what others have bound since a binding was decided: such a one is not sent. ``marks``
    knows in which versions the marks of victims stand.
    """

    def __init__(
        self,
        client: Client,
        answer: Callable[[list[Event]], None],
        *,
        now: Callable[[], float],
        fence: Callable[[], float],
        controller: str,
        instance: str,
        foreign: Foreign | None = None,
        marks: Marks | None = None,
        on_gang_status: Callable[[GangStatus], None] | None = None,
        settings: WriteSettings | None = None,
        observe: Observe = ignore,
    ) -> None:
        self._client = client
        self._answer = answer
        self._now = now
        self._fence = fence
        self._foreign = foreign or Foreign()
        self._controller = controller
        self._instance = instance
        self._on_gang_status = on_gang_status
        self._settings = settings or WriteSettings()
        self._observe = observe
        self._lanes = Lanes(
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
        self._recalls = Recalls()
        self._marks = marks if marks is not None else Marks()
        self._verdicts = Verdicts(client, self._marks, self._settings.timeout_seconds)

    # ----------------------------------------------------------------------------------------------------- intake

    def submit(self, actions: Sequence[Action], known: int = 0) -> None:
        """Queue these actions, decided when so many events had been taken in. Call on the event loop."""
        started = time.monotonic()
        for action in actions:
            match action:
                case Recall(ids=ids):
                    self._recall(ids)
                case GangStatus():
                    if self._on_gang_status is not None:
                        self._on_gang_status(action)
                case SetCondition():
                    self._lanes.put_condition(action, started)
                case Report():
                    self._lanes.put_report(action, started)
                case _:
                    self._lanes.put_write(action, started, known)
        self._changed.set()
        self._note_lanes()

    def _recall(self, ids: Sequence[int]) -> None:
        """These removals are not to be sent any more; what waits is answered at once."""
        self._recalls.recall(ids)
        for item in self._lanes.recall(set(ids)):
            self._answered(item, Outcome.OUTDATED, RECALLED)

    def _note_lanes(self) -> None:
        """Measure what waits, and what the lanes have dropped since the last time."""
        self._observe("writes_waiting", self._lanes.writes_waiting, {"lane": "write"})
        self._observe("writes_waiting", self._lanes.low_waiting, {"lane": "low"})
        for reason, count in self._lanes.dropped.items():
            if new := count - self._reported_drops.get(reason, 0):
                self._observe("reports_dropped", new, {"reason": reason})
                self._reported_drops[reason] = count

    async def warm(self) -> None:
        """Open the connections that many writes will need, while the first decision is being made."""
        await self._client.warm(self._settings.in_flight)

    @property
    def idle(self) -> bool:
        """True when nothing waits and nothing is on its way."""
        return not len(self._lanes) and not self._sending

    async def drain(self, seconds: float) -> bool:
        """Wait until everything has been answered, at most so long; what is left then is cancelled. True: nothing was
        cancelled, so that nothing can take effect any more.

        After half of the time no more is begun: whoever leads next decides anew what waits for its turn, and is not to
        wait for the Lease to expire on account of it. How many writes that were, and how many conditions and Events, is
        logged; the latter are counted as dropped: those that waited as ``abandoned``, those on their way as ``failed``.
        """
        if await self._idle_within(seconds / 2):
            return True
        dropped = self._lanes.low_waiting
        left = self._lanes.clear()
        self._note_lanes()
        over = await self._idle_within(seconds / 2)
        dropped += self._lanes.low_in_flight
        on_their_way = len(self._sending) - self._lanes.low_in_flight
        _log.warning("writes were cancelled", waiting=len(left), on_their_way=on_their_way, reports_dropped=dropped)
        if not over:
            await asyncio.sleep(0)  # a task that is cancelled before it has begun does not answer
            await end(self._sending)
        return over

    async def _idle_within(self, seconds: float) -> bool:
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
            if not len(self._lanes) or len(self._sending) >= self._window.size:
                await self._wait()
            elif not has_token:
                # The token comes first, so that what is most urgent is chosen when it can really be sent.
                await self._client.bucket.take()
                has_token = True
            elif (item := self._lanes.take(now := time.monotonic())) is None:
                await self._wait(self._lanes.ready_in(now))
            else:
                has_token = False
                self._recalls.begin(item.action)
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
        outcome, message = Outcome.TRANSIENT, "the write was cancelled"
        try:
            outcome, message = await self._send(item)
        finally:
            self._lanes.done(item, time.monotonic())
            self._answered(item, outcome, message)

    def _answered(self, item: Item, outcome: Outcome, message: str) -> None:
        action = item.action
        if isinstance(action, Bind) and outcome not in (Outcome.OK, Outcome.TRANSIENT):
            self._foreign.failed(action)
        self._recalls.end(action)
        kind = type(action).__name__
        self._observe("write_seconds", time.monotonic() - item.submitted_at, {"kind": kind, "outcome": outcome})
        if not isinstance(action, SetCondition | Report):
            self._tell(WriteDone(action.id, outcome, message))
        elif outcome not in (Outcome.OK, Outcome.GONE):
            self._observe("reports_dropped", 1, {"reason": "failed"})
            _log.debug("not told", kind=kind, outcome=outcome, message=message)

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
        """One action until it has an outcome. A repeated write meets its own result, so repeating is safe."""
        action = item.action
        request: Request | None
        if isinstance(action, Report):
            request = report_request(action, self._controller, self._instance, self._now())
        elif _rests_on_what_is_there(action):
            request = None
        else:
            request = write_request(action, self._now())
        low = item.lane != "write"
        until = time.monotonic() + LOW_TOTAL_SECONDS if low else item.submitted_at + self._settings.total_seconds
        backoff = Backoff(max_seconds=2.0)
        unsure = False  # whether an earlier attempt has taken effect
        removal = self._recalls.of(action)
        while True:
            retry_after, problem = None, "what it rests on could not be read"
            if self._fence() - time.monotonic() < MIN_ATTEMPT_SECONDS:
                return Outcome.TRANSIENT, NOT_LEADING
            if news := self._news(item):
                return self._given_up(item, news)
            began, unsure_before = time.monotonic(), removal is not None and removal.unsure
            verdict: Verdict | None = None
            try:
                if request is None:
                    request, verdict = await self._prepared(action)
                if request is not None:
                    self._marks.written(action, await self._attempt(request, item))
                    verdict = (Outcome.OK, left_out(action, request))
                    self._window.answered(time.monotonic() - began, too_many=False)
            except ApiError as error:
                refused = error.status == 429 and "DisruptionBudget" not in error.causes
                if refused and isinstance(action, Bind) and not unsure:
                    self._foreign.failed(action)
                unsure = unsure or (error.transient and not refused)
                if removal is not None and (refused or not error.transient):
                    removal.unsure = unsure_before
                self._window.answered(time.monotonic() - began, too_many=refused)
                refused_by = (403, 409, 422) if request is not None and writes_templates(request) else (409, 422)
                if request is not None and error.status in refused_by and isinstance(action, SuspendJob | ResumeJob):
                    problem = str(error)
                    verdict, request = await look_at_job(
                        self._client, self._settings.timeout_seconds, action, request, error
                    )
                else:
                    retry_after, problem = error.retry_after_seconds, str(error)
                    if error.status == 409 and isinstance(action, Remove):
                        self._marks.forget(action.pod)  # it is not in this version any more
                    verdict = await self._verdicts.judge(action, error)
            except UnreachableError as error:
                unsure = True
                self._window.answered(time.monotonic() - began, too_many=False)
                if news := self._news(item):
                    return self._given_up(item, news)
                verdict, problem = await self._verdicts.unanswered(action), str(error)
            if verdict is not None:
                if verdict[0] is Outcome.OK and isinstance(action, Remove) and action.evict and action.mark:
                    await self._restore_mark(action)
                return verdict
            if isinstance(action, Remove) and action.mark:
                request = None  # it may be in another version by now
            delay = backoff.next_seconds(retry_after)
            if time.monotonic() + delay >= until:
                return Outcome.TRANSIENT, problem
            await self._recalls.pause(action, delay)
            if not self._news(item):
                await self._client.bucket.take()

    async def _prepared(self, action: Write | SetCondition | Report) -> tuple[Request | None, Verdict | None]:
        """The request for an action that rests on what the server has now, or what comes of it without one; neither
        when that could not be read. Raises :class:`ApiError` and :class:`UnreachableError`.
        """
        if isinstance(action, ResumeJob):
            found = await read_job(self._client, self._settings.timeout_seconds, action.job)
            return job_request(action, action.version, found), None
        assert isinstance(action, Remove)
        if not self._marks.version(action.pod):
            await self._client.bucket.take()
            verdict = await self._verdicts.look(action, 0, "nothing is known of its mark")
            if verdict is not None or not self._marks.version(action.pod):
                return None, verdict
        return remove_request(action, self._marks.version(action.pod)), None

    async def _attempt(self, request: Request, item: Item | None = None) -> bytes:
        now = time.monotonic()
        seconds = max(MIN_ATTEMPT_SECONDS, min(self._settings.timeout_seconds, self._fence() - now))
        return await self._client.attempt(
            request.method,
            request.path,
            body=request.body,
            content_type=request.content_type,
            accept=request.accept,
            timeout_seconds=seconds,
            server_timeout=True,
            fence=self._fence if item is None else lambda: self._may_leave_until(item, now + seconds),
        )

    def _news(self, item: Item) -> str:
        """Why a binding rests on what is not so any more, or a removal is not wanted, in words; else empty."""
        if self._recalls.recalled(item.action):
            return RECALLED
        return self._foreign.overtakes(item.action, item.known) if isinstance(item.action, Bind) else ""

    def _given_up(self, item: Item, news: str) -> tuple[Outcome, str]:
        """What is said of a write that is not sent (again) because of this. A removal that was may be under way."""
        removal = self._recalls.of(item.action)
        return Outcome.TRANSIENT if removal is not None and removal.unsure else Outcome.OUTDATED, news

    def _may_leave_until(self, item: Item, end: float) -> float:
        """The fence, or the attempt's ``end`` if that is earlier, asked as the bytes of a write are about to leave:
        never, if a binding has been overtaken or a removal recalled while it waited for its connection. From here to
        the handing over of the bytes the loop does nothing else, so what the watch brings later comes after the write.
        """
        until = min(end, self._fence())
        if time.monotonic() >= until:
            return until
        if self._news(item):
            return -math.inf
        if isinstance(item.action, Bind):
            self._foreign.leaves(item.action)
        elif (removal := self._recalls.of(item.action)) is not None:
            removal.unsure = True
        return until

    async def _restore_mark(self, action: Remove) -> None:
        """An eviction writes a DisruptionTarget of its own over ours; put ours back while the pod still exists."""
        pod: PodRef = action.pod
        try:
            await self._attempt(mark_request(pod, action.mark, self._now(), action.reason))
        except (ApiError, UnreachableError) as error:
            _log.debug("the mark was not restored", pod=pod.key, error=str(error))


def _rests_on_what_is_there(action: Write | SetCondition | Report) -> bool:
    """Is the request not known from the action alone? It may depend on what templates of a Job are, or on a mark."""
    return (isinstance(action, ResumeJob) and action.templates is not None) or (
        isinstance(action, Remove) and bool(action.mark)
    )
