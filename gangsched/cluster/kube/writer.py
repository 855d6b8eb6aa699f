"""Carries out actions: many at once, each until it is answered, none after the leader's time is over."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import structlog

from gangsched.cluster.kube.bodies import (
    Request,
    claim_path,
    job_request,
    mark_request,
    pod_path,
    report_request,
    volume_path,
    write_request,
)
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, answer_of
from gangsched.cluster.kube.foreign import Foreign
from gangsched.cluster.kube.hooks import Observe, ignore
from gangsched.cluster.kube.jobs import Verdict, left_out, look_at_job, read_job, writes_templates
from gangsched.cluster.kube.lanes import Item, Lanes
from gangsched.cluster.kube.recalls import RECALLED, Recalls
from gangsched.cluster.kube.retry import Backoff, Window
from gangsched.cluster.kube.tasks import end
from gangsched.core.actions import (
    Action,
    Bind,
    BindVolume,
    GangStatus,
    PodRef,
    Recall,
    Remove,
    Report,
    ResumeJob,
    SelectNode,
    SetCondition,
    SuspendJob,
    Write,
)
from gangsched.core.events import Event, Outcome, WriteDone
from gangsched.model import wire_volumes
from gangsched.model.convert_volumes import SELECTED_NODE

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


class _Identity(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Identity = msgspec.field(default_factory=_Identity)
    spec: _Spec = msgspec.field(default_factory=_Spec)


_pod_decoder = msgspec.json.Decoder(_Pod)
_volume_decoder = msgspec.json.Decoder(wire_volumes.PersistentVolume)
_claim_decoder = msgspec.json.Decoder(wire_volumes.PersistentVolumeClaim)


class Writer:
    """Executes actions on one event loop; run :meth:`run` as a task.

    ``answer`` gets one :class:`WriteDone` for every action with an id. ``fence`` is the monotonic time after
    which nothing may be written; ``now`` is the wall clock for condition times. ``controller`` and ``instance``
    sign Events. ``foreign`` knows what others have bound since a binding was decided: such a one is not sent.
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
        elif isinstance(action, ResumeJob) and action.templates is not None:
            request = None  # it depends on what the templates are
        else:
            request = write_request(action, self._now())
        low = item.lane != "write"
        until = time.monotonic() + LOW_TOTAL_SECONDS if low else item.submitted_at + self._settings.total_seconds
        backoff = Backoff(max_seconds=2.0)
        unsure = False  # whether an earlier attempt has taken effect
        removal = self._recalls.of(action)
        while True:
            retry_after, problem = None, ""
            if self._fence() - time.monotonic() < MIN_ATTEMPT_SECONDS:
                return Outcome.TRANSIENT, NOT_LEADING
            if news := self._news(item):
                return self._given_up(item, news)
            began, unsure_before = time.monotonic(), removal is not None and removal.unsure
            try:
                if request is None:
                    assert isinstance(action, ResumeJob)
                    found = await read_job(self._client, self._settings.timeout_seconds, action.job)
                    request = job_request(action, action.version, found)
                await self._attempt(request, item)
                verdict: Verdict | None = (Outcome.OK, left_out(action, request))
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
                    verdict = await self._judge(action, error)
            except UnreachableError as error:
                unsure = True
                self._window.answered(time.monotonic() - began, too_many=False)
                if news := self._news(item):
                    return self._given_up(item, news)
                verdict, problem = await self._unanswered(action), str(error)
            if verdict is not None:
                if verdict[0] is Outcome.OK and isinstance(action, Remove) and action.evict and action.mark:
                    await self._restore_mark(action)
                return verdict
            delay = backoff.next_seconds(retry_after)
            if time.monotonic() + delay >= until:
                return Outcome.TRANSIENT, problem
            await self._recalls.pause(action, delay)
            if not self._news(item):
                await self._client.bucket.take()

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

    async def _judge(self, action: Write | SetCondition | Report, error: ApiError) -> Verdict | None:
        """The outcome that an error means for this action; None when it should be tried again."""
        status, message = error.status, error.message
        if isinstance(action, Report):
            if status == 409:
                return Outcome.OK, ""  # our own earlier attempt has been stored
            return None if error.transient or status == 401 else (Outcome.REFUSED, message)
        if status == 404:
            return Outcome.GONE, message
        if isinstance(action, Remove) and action.evict:
            if status == 429 and "DisruptionBudget" in error.causes:
                return Outcome.BLOCKED, message
            if status == 500 and "more than one PodDisruptionBudget" in message:
                return Outcome.REFUSED, message
            if status == 504:
                return await self._unanswered(action)
        if status in (409, 422) and isinstance(action, BindVolume | SelectNode):
            return await self._look_at_volume(action, message)
        if status in (409, 422):
            # Both are said for another pod of that name, and for other reasons: the pod itself knows.
            return await self._look(action, error.status, message)
        if error.transient or status == 401:
            return None
        return Outcome.REFUSED, message

    async def _unanswered(self, action: Write | SetCondition | Report) -> Verdict | None:
        """No answer came in time; usually repeating the write tells, but not for an eviction.

        Of an eviction that means another pod the API server repeats the conflict itself, longer than we wait.
        """
        if isinstance(action, Remove) and action.evict:
            return await self._look(action, 0, "no answer to the eviction")
        return None

    async def _look(self, action: Write | SetCondition, status: int, message: str) -> Verdict | None:
        """What the pod itself says about an attempt that failed with ``status`` (0: without an answer)."""
        path = pod_path(action.pod)
        try:
            body = await self._client.attempt("GET", path, timeout_seconds=self._settings.timeout_seconds)
            pod = answer_of(_pod_decoder, body, f"GET {path}")
        except ApiError as failure:
            return (Outcome.GONE, message) if failure.status == 404 else None
        except UnreachableError:
            return None
        if pod.metadata.uid != action.pod.uid:
            return Outcome.GONE, message
        if status == 422:
            return Outcome.REFUSED, message
        if isinstance(action, Bind):
            if pod.spec.node_name == action.node:
                return Outcome.OK, ""
            if pod.spec.node_name or pod.metadata.deletion_timestamp:
                return Outcome.CONFLICT, message
        return None

    async def _look_at_volume(self, action: BindVolume | SelectNode, message: str) -> Verdict | None:
        """What a volume or claim says about an attempt to bind it that was refused: it may be as it should be."""
        if isinstance(action, BindVolume):
            path = volume_path(action.volume)
        else:
            path = claim_path(action.pod.namespace, action.claim)
        try:
            body = await self._client.attempt("GET", path, timeout_seconds=self._settings.timeout_seconds)
            if isinstance(action, BindVolume):
                volume = answer_of(_volume_decoder, body, f"GET {path}")
                uid, ref = volume.metadata.uid, volume.spec.claim_ref
                wanted, done = action.volume_uid, ref is not None and ref.uid == action.claim_uid
            else:
                claim = answer_of(_claim_decoder, body, f"GET {path}")
                uid, wanted = claim.metadata.uid, action.claim_uid
                done = (claim.metadata.annotations or {}).get(SELECTED_NODE) == action.node
        except ApiError as failure:
            return (Outcome.GONE, message) if failure.status == 404 else None
        except UnreachableError:
            return None
        if uid != wanted:
            return Outcome.GONE, message
        return (Outcome.OK, "") if done else (Outcome.CONFLICT, message)

    async def _restore_mark(self, action: Remove) -> None:
        """An eviction writes a DisruptionTarget of its own over ours; put ours back while the pod still exists."""
        pod: PodRef = action.pod
        try:
            await self._attempt(mark_request(pod, action.mark, self._now(), action.reason))
        except (ApiError, UnreachableError) as error:
            _log.debug("the mark was not restored", pod=pod.key, error=str(error))
