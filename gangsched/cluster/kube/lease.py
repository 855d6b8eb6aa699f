"""One writer at a time: election by a ``coordination.k8s.io/v1`` Lease, and a fence for every write. Also reads the
Leases of former owners of scheduler names.

The protocol is that of client-go's leader election. The holder renews the lease. All others watch the record and may
take it once it has not changed for its duration *on their own monotonic clock*. Clocks of different machines are never
compared. There are three additions. The holder knows until when it may write (:attr:`Elector.may_write_until`). A
candidate that takes over from a vanished holder waits until that holder's last write must have ended. A deleted lease
is not free at once: its holder may write until its renewal would be due. Only the first process of an installation does
not wait.
"""

from __future__ import annotations

import asyncio
import math
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from gangsched import logs
from gangsched.cluster.kube.client import ApiError, Client, Observe, UnreachableError, ignore, segment
from gangsched.cluster.kube.json_limits import bounded
from gangsched.cluster.kube.quarantine_record import ANNOTATION, QuarantineRecord
from gangsched.core.events import Event, FormerNames, NameLeased
from gangsched.messages import failures, notes
from gangsched.model.times import render_micro_time

_log = logs.get(__name__)

#: The annotation of the Lease that names the schedulers of its holder.
NAMES = "gangsched.dev/scheduler-names"
#: Candidates do not all ask at the same moment.
_JITTER = 0.2
#: A standby takes a released lease within its retry period and this. The lease is read so often meanwhile (seconds).
_STANDBY_SECONDS, _LOOK_SECONDS = 1.0, 0.25


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the lease is, who we are, and how long things may take.

    ``identity`` must be unique for each process. ``renew_deadline_seconds`` after the last good renewal began
    the holder stops writing; others may take the lease ``duration_seconds`` after they saw it change.
    ``takeover_wait_seconds`` is the longest time a write of the previous holder may take. ``names`` are the scheduler
    names of this installation: the Lease tells them to a later leader, which may have others.
    """

    namespace: str
    name: str
    identity: str
    duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0
    takeover_wait_seconds: float = 2.0
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.duration_seconds > self.renew_deadline_seconds > self.retry_period_seconds * (1 + _JITTER) > 0:
            raise ValueError(
                f"lease: duration {self.duration_seconds:g} s must exceed the renew deadline "
                f"{self.renew_deadline_seconds:g} s, and that 1.2 times the retry period "
                f"{self.retry_period_seconds:g} s"
            )


class LeaseSpec(msgspec.Struct, rename="camel"):
    """The part of a Lease's ``spec`` that elections read."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease:
    """A Lease as the server sent it; fields that we do not know survive an update."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    @property
    def spec(self) -> LeaseSpec:
        """What it says. Raises :class:`msgspec.ValidationError`."""
        return msgspec.convert(self._body.get("spec") or {}, LeaseSpec)

    @property
    def annotations(self) -> dict[str, Any]:
        """Its annotations, whatever they are."""
        metadata = self._body.get("metadata")
        found = metadata.get("annotations") if isinstance(metadata, dict) else None
        return found if isinstance(found, dict) else {}

    def annotated(self, key: str, text: str) -> Lease:
        """The object with another annotation of this key; without one if the text is empty."""
        kept = {k: v for k, v in self.annotations.items() if k != key}
        metadata = {**(self._body.get("metadata") or {}), "annotations": {**kept, **({key: text} if text else {})}}
        return Lease({**self._body, "metadata": metadata})

    def with_spec(self, **changes: Any) -> bytes:
        """The whole object with other values in its ``spec``, as JSON."""
        return msgspec.json.encode({**self._body, "spec": {**(self._body.get("spec") or {}), **changes}})


def lease_of(answer: bytes, request: str) -> Lease:
    """The Lease that a server has answered with. Raises :class:`~gangsched.cluster.kube.client.UnreachableError`."""
    try:
        lease = Lease(msgspec.json.decode(bounded(answer), type=dict[str, Any]))
        _ = lease.spec
    except msgspec.MsgspecError as error:
        raise UnreachableError(f"{request}: the answer is not a Lease ({error})") from None
    return lease


def lease_path(namespace: str, name: str = "") -> str:
    """The URL path of a Lease, or of all of a namespace."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{segment(namespace)}/leases"
    return f"{path}/{segment(name)}" if name else path


def unique_identity() -> str:
    """An identity for one process: the host (in a pod: the pod's name), made unique."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


#: The states that a candidate may find: free, held by us, held by another process, overdue, or absent.
Standing: TypeAlias = Literal["free", "ours", "held", "expired", "absent"]


class Watcher:
    """Judges a lease by when its record was last seen to change, on our own clock. Pure."""

    def __init__(self, identity: str, duration_seconds: float) -> None:
        self._identity = identity
        self._duration = duration_seconds
        self._record: LeaseSpec | None = None
        self._gone = False
        self._seen_at = 0.0

    def observe(self, spec: LeaseSpec, at: float) -> Standing:
        """Take in the record as it was read at monotonic time ``at``. Return what it means."""
        if self._gone or spec != self._record:
            self._record, self._gone, self._seen_at = spec, False, at
        return self._judge(spec, at)

    def absent(self, at: float) -> Standing:
        """There is no lease at monotonic time ``at``: it was never taken, or it has been deleted.

        The last known holder may have renewed it until it was found deleted. Of one that was never seen it is not known
        who held it a moment ago.
        """
        if self._record is None:
            return "absent"
        if not self._gone:
            self._gone, self._seen_at = True, at
        return self._judge(self._record, at)

    def _judge(self, spec: LeaseSpec, at: float) -> Standing:
        if not spec.holder_identity:
            return "free"
        if spec.holder_identity == self._identity:
            return "ours"
        duration = float(spec.lease_duration_seconds or 0) or self._duration
        return "expired" if at - self._seen_at >= duration else "held"


async def _not_known() -> bool:
    return False


class Elector:
    """A candidate of the election. Run :meth:`run` as a task, then :meth:`release`.

    ``on_started`` runs as a task while we lead (it is cancelled when we stop), ``on_stopped`` is called at once
    when leadership ends for whatever reason. The Lease keeps the ``record`` of decisions; what an earlier leader has
    left there goes to ``deliver`` before we lead. The attribute ``is_first`` is asked when we have made a Lease that
    was absent; if it says that no process led before us, there is no wait.
    """

    def __init__(
        self,
        client: Client,
        settings: LeaseSettings,
        *,
        on_started: Callable[[], Coroutine[Any, Any, None]],
        on_stopped: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        observe: Observe = ignore,
        record: QuarantineRecord | None = None,
        deliver: Callable[[Sequence[Event]], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._settings = settings
        self.is_first: Callable[[], Awaitable[bool]] = _not_known
        self._record = record
        self._deliver = deliver
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._clock = clock
        self._observe = observe
        self._watcher = Watcher(settings.identity, settings.duration_seconds)
        self._lease: Lease | None = None
        self._until = self._opens_at = float("-inf")
        self._leading = False
        self._started: asyncio.Task[None] | None = None
        self.holder = ""
        self._collection = lease_path(settings.namespace)
        self._path = lease_path(settings.namespace, settings.name)

    @property
    def may_write_until(self) -> float:
        """Monotonic time after which nothing may be written; in the past when we do not lead."""
        return self._until if self._leading else float("-inf")

    async def run(self) -> None:
        """Acquire, renew, lose, acquire again, until cancelled."""
        try:
            while True:
                await self._acquire()
                await self._hold()
        finally:
            self._stop_leading("stopping")

    async def release(self) -> bool:
        """Give the lease back, so that the next leader need not wait. Call after the last write has ended. Returns
        whether it was ours, and is given back.
        """
        lease, us = self._lease, self._settings.identity
        try:
            for _ in range(2):
                if lease is None or lease.spec.holder_identity != us:
                    return False
                released = self._annotated(lease).with_spec(
                    holderIdentity="", leaseDurationSeconds=1, renewTime=render_micro_time(time.time())
                )
                try:
                    await self._put(released)
                except ApiError as error:
                    if error.status != 409:
                        raise
                    lease = await self._get()  # our last renewal was stored, and we stopped before its answer came
                else:
                    _log.info("lease released", lease=f"{self._settings.namespace}/{self._settings.name}")
                    return True
            _log.warning("lease not released: others write it all the time")
        except (ApiError, UnreachableError) as error:
            _log.warning("lease not released; the next leader waits until it expires", error=str(error))
        return False

    async def taken_over(self) -> bool:
        """Return whether another process takes the lease that was released, in the time in which a standby looks."""
        seconds = self._settings.retry_period_seconds
        give_up = self._clock() + seconds * (1 + _JITTER) + _STANDBY_SECONDS
        while True:
            try:
                found = await self._get()
            except (ApiError, UnreachableError):
                found = None
            if found is not None and found.spec.holder_identity:
                return True
            if self._clock() >= give_up:
                return False
            await asyncio.sleep(min(seconds, _LOOK_SECONDS))

    # ---------------------------------------------------------------------------------------------------- phases

    async def _acquire(self) -> None:
        """Take the lease."""
        settings = self._settings
        problem = ""
        while True:
            started = self._clock()
            try:
                standing = await self._try_to_take()
            except (ApiError, UnreachableError) as error:
                if problem != str(error):
                    problem = str(error)
                    _log.warning("lease cannot be read or taken", lease=self._path, error=problem)
                standing = None
            if standing is not None and standing != "held":
                break
            await asyncio.sleep(settings.retry_period_seconds * (1 + _JITTER * random.random()))  # noqa: S311
        self._until = started + settings.renew_deadline_seconds
        if standing == "expired":
            _log.info("lease taken over from a holder that vanished", wait_seconds=settings.takeover_wait_seconds)

    async def _hold(self) -> None:
        """Lead, once that may be, and renew until that fails for too long or another process holds the lease."""
        settings = self._settings
        while True:
            wait = self._opens_at - self._clock()
            if wait <= 0 and not self._leading:
                self._start_leading()
            remaining = self._until - self._clock()
            pause = min(settings.retry_period_seconds, remaining, wait if wait > 0 else remaining)
            try:
                # The deadline is noticed when it passes, also if a request hangs.
                async with asyncio.timeout(max(0.0, remaining)):
                    await asyncio.sleep(max(0.0, pause))
                    started = self._clock()
                    if not await self._renew():
                        self._stop_leading(failures.lease_of_another(holder=self.holder or "no process"))
                        return
                    self._until = started + settings.renew_deadline_seconds
            except TimeoutError:
                pass
            except (ApiError, UnreachableError) as error:
                _log.warning("lease not renewed", remaining_seconds=round(remaining, 1), error=str(error))
            if self._clock() >= self._until:
                self._stop_leading(failures.lease_not_renewed(seconds=settings.renew_deadline_seconds))
                return

    def _start_leading(self) -> None:
        self._leading = True
        self._observe("leader", 1, {})
        lease, identity = f"{self._settings.namespace}/{self._settings.name}", self._settings.identity
        _log.info("leading", lease=lease, identity=identity)
        self._started = asyncio.create_task(self._on_started())

    def _stop_leading(self, reason: str) -> None:
        self._until = float("-inf")
        if self._started is not None:
            self._started.cancel()
            self._started = None
        if self._leading:
            self._leading = False
            self._observe("leader", 0, {})
            _log.warning("no longer leading", reason=reason, lease=f"{self._settings.namespace}/{self._settings.name}")
            self._on_stopped()

    # -------------------------------------------------------------------------------------------------- requests

    async def _try_to_take(self) -> Standing:
        """Return the earlier state of the lease. Unless ``held``, it is ours now. Raises when another candidate was
        faster.
        """
        found = await self._get()
        if found is None:
            standing = self._watcher.absent(self._clock())
        else:
            standing = self._watcher.observe(found.spec, self._clock())
            self.holder = found.spec.holder_identity or ""
        if standing == "held":
            return standing
        if standing in ("expired", "absent"):
            # Before it is tried: it may be ours although no answer arrived, and is then found to be.
            self._opens_at = self._clock() + self._wait_seconds(standing)
        if found is None:
            await self._create()
            if standing == "absent" and await self.is_first():
                self._opens_at = self._clock()
        elif standing == "ours":
            await self._put(self._annotated(found).with_spec(**self._renewal()))
        else:
            self._take_over_record(found)
            times = (found.spec.lease_transitions or 0) + 1
            renewal = self._renewal()
            await self._put(
                self._annotated(found).with_spec(**renewal, acquireTime=renewal["renewTime"], leaseTransitions=times)
            )
        return standing

    async def _renew(self) -> bool:
        """Renew with the version we wrote last; True when the lease is still ours.

        One that was deleted is made again: who has seen us hold it waits for longer than we may write without it.
        """
        assert self._lease is not None
        try:
            await self._put(self._annotated(self._lease).with_spec(**self._renewal()))
        except ApiError as error:
            if error.status not in (404, 409):
                raise
        else:
            return True
        # It was written: by another holder, or our own attempt whose answer was lost, or a person with kubectl.
        for _ in range(2):
            try:
                return await self._try_to_take() == "ours"
            except ApiError as error:
                if error.status != 409:
                    raise  # otherwise: written between our look at it and our writing
        return False

    def _wait_seconds(self, standing: Standing) -> float:
        """How long what another process has begun may go on. The holder of a Lease that was deleted finds ours when it
        would renew its own.
        """
        settings = self._settings
        renews = settings.retry_period_seconds * (1 + _JITTER) if standing == "absent" else 0.0
        return renews + settings.takeover_wait_seconds

    def _annotated(self, lease: Lease) -> Lease:
        """Return the Lease with what is known of decisions, and our scheduler names."""
        if self._settings.names:
            lease = lease.annotated(NAMES, ",".join(self._settings.names))
        return lease.annotated(ANNOTATION, self._record.text()) if self._record is not None else lease

    def _take_over_record(self, lease: Lease) -> None:
        names = str(lease.annotations.get(NAMES, "")).split(",")
        if former := tuple(sorted({*filter(None, names)} - {*self._settings.names})):
            self._deliver([FormerNames(former)])
        if self._record is not None:
            cut = self._record.load(str(lease.annotations.get(ANNOTATION, "")))
            if cut:
                self._deliver(cut)

    def _renewal(self) -> dict[str, Any]:
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": max(1, math.ceil(self._settings.duration_seconds)),
            "renewTime": render_micro_time(time.time()),
        }

    async def _get(self) -> Lease | None:
        try:
            return await self._request("GET", self._path, None)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _create(self) -> None:
        renewal = self._renewal()
        metadata = {"namespace": self._settings.namespace, "name": self._settings.name}
        new = Lease({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata})
        spec = {**renewal, "acquireTime": renewal["renewTime"], "leaseTransitions": 0}
        self._taken(await self._request("POST", self._collection, new.with_spec(**spec)))

    async def _put(self, body: bytes) -> None:
        self._taken(await self._request("PUT", self._path, body))

    def _taken(self, lease: Lease) -> None:
        self._lease = lease
        self.holder = lease.spec.holder_identity or ""
        self._watcher.observe(lease.spec, self._clock())

    async def _request(self, method: str, path: str, body: bytes | None) -> Lease:
        answer = await self._client.attempt(
            method,
            path,
            body=body,
            # Half of the deadline: one request that hangs leaves time for another.
            timeout_seconds=self._settings.renew_deadline_seconds / 2,
            server_timeout=True,
        )
        return lease_of(answer, f"{method} {path}")


#: How often each Lease is read, and how long one counts as renewed that says nothing about it (seconds).
PERIOD_SECONDS, DURATION_SECONDS = 5.0, 15.0
_TIMEOUT_SECONDS = 5.0


class FormerOwners:
    """Tells ``deliver`` who holds the Lease of a name, or that it is free; run :meth:`run` as a task.

    ``leases`` has the ``namespace/name`` of Leases by scheduler name. A Lease that may not be read may be held: its
    name is left alone. Without an answer the last one stands. ``looked`` is set when all have been answered for.
    """

    def __init__(
        self,
        client: Client,
        leases: Mapping[str, tuple[str, ...]],
        deliver: Callable[[list[Event]], None],
        period_seconds: float = PERIOD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._leases = leases
        self._deliver = deliver
        self._period_seconds = period_seconds
        self._clock = clock
        self._watchers = {each: Watcher("", DURATION_SECONDS) for of in leases.values() for each in of}
        self._reported: dict[str, str] = {}
        self.looked = asyncio.Event()

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            for name, leases in self._leases.items():
                await self._read_owner(name, leases)
            if self._reported.keys() >= self._leases.keys():
                self.looked.set()
            await asyncio.sleep(self._period_seconds)

    async def _read_owner(self, name: str, leases: tuple[str, ...]) -> None:
        try:
            owners = [(await self._owner(lease), lease) for lease in leases]
        except (ApiError, UnreachableError) as error:
            _log.warning("the Lease of a former owner cannot be read", name=name, error=str(error))
            return
        owner, lease = next((each for each in owners if each[0]), ("", ""))
        if self._reported.get(name) != owner:
            self._reported[name] = owner
            self._deliver([NameLeased(name, owner, lease)])

    async def _owner(self, lease: str) -> str:
        """Return the holder of a Lease in words; empty if it is free. Raises what says nothing about it."""
        namespace, _, name = lease.partition("/")
        path = lease_path(namespace, name)
        try:
            body = await self._client.attempt("GET", path, timeout_seconds=_TIMEOUT_SECONDS)
            spec = lease_of(body, f"GET {path}").spec
        except ApiError as error:
            if error.transient:
                raise
            return "" if error.status == 404 else notes.lease_unreadable(lease=lease, error=error)
        standing = self._watchers[lease].observe(spec, self._clock())
        return notes.lease_held(lease=lease, holder=spec.holder_identity) if standing == "held" else ""
