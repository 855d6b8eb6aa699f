"""The statuses of groups, queues and Jobs: what each should be, what each is, and the patch that makes them meet.

The writer sends that patch in its lowest lane, when the object has its turn: so what changes while it waits is written
together.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from gangsched import logs
from gangsched.cluster.kube.bodies import Request, object_path
from gangsched.cluster.kube.client import MERGE, ApiError, UnreachableError, answer_of
from gangsched.cluster.kube.discovery import Served
from gangsched.cluster.kube.json_limits import bounded
from gangsched.cluster.kube.preconditions import newer
from gangsched.cluster.kube.status_fields import changed_fields
from gangsched.core.actions import GangStatus, ObjectKey
from gangsched.model import jobsets

_log = logs.get(__name__)

#: Jobs and JobSets, by plural. There are many, and seldom anything to say: they are read then, and not watched.
JOBS: Mapping[str, Served] = {
    each.plural: each
    for each in (Served("batch", "v1", True, "jobs"), Served(jobsets.GROUP, jobsets.VERSION, True, "jobsets"))
}
RETRY_SECONDS = (1.0, 2.0, 5.0, 15.0, 60.0)
#: So many unforeseen reasons are remembered, and so many characters of each.
_REASONS, _REASON_LIMIT = 100, 200

_decoder: msgspec.json.Decoder[Mapping[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class Seen(NamedTuple):
    """An object as it was last seen."""

    uid: str
    version: str
    generation: int
    status: Mapping[str, Any]


class _Written(NamedTuple):
    """The last written status, how often in a row it was restored, and when (s since the epoch) the row ends: after the
    longest pause without an overwrite since the last restoration.
    """

    status: GangStatus | None = None
    restored: int = 0
    row_ends: float = 0.0


#: Sends one request and returns the body of the answer; raises ApiError and UnreachableError.
Attempt = Callable[[Request], Awaitable[bytes]]


class Timer(Protocol):
    """A call that is made later."""

    def cancel(self) -> None:
        """It is not made."""


def _call_later(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call)


class Statuses:
    """Wanted and seen states of objects.

    ``want``, ``saw``, ``lost``, ``serve``, ``asked`` and ``set_leading`` may be called from any thread;
    ``bring_about`` belongs to one event loop. ``now`` is the wall clock (seconds).
    A status that another client overwrites is restored when the object is seen again; one that is overwritten again and
    again, later and later. Each patch names the UID and the resourceVersion that it was made for, so that it never hits
    another object or overwrites news. Jobs and JobSets are not seen: they are read when there is something to write,
    which is written once.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        call_later: Callable[[float, Callable[[], None]], Timer] = _call_later,
    ) -> None:
        self._now = now
        self._call_later = call_later
        self._lock = threading.Lock()
        self._leading = True
        self._wanted: dict[ObjectKey, GangStatus] = {}
        self._seen: dict[ObjectKey, Seen] = {}
        self._served: dict[tuple[str, str], Served] = {}
        self._refused_fields: dict[tuple[str, str], set[str]] = {}
        self._failures: dict[ObjectKey, int] = {}
        self._written: dict[ObjectKey, _Written] = {}
        self._told: set[str] = set()
        #: Objects that need a look, each once, and whom to tell when there are some.
        self._asked: dict[ObjectKey, None] = {}
        self._wake: Callable[[], None] = _nobody
        self._later: dict[ObjectKey, Timer] = {}

    # -------------------------------------------------------------------------------------------- from any thread

    def want(self, action: GangStatus) -> None:
        """The status that an object should have from now on. Dropped while another process leads."""
        key = action.key
        with self._lock:
            if not self._leading:
                return
            earlier = self._wanted.get(key)
            self._wanted[key] = action.after(earlier) if earlier is not None else action
            known = key in self._seen or key.plural in JOBS
        if known:
            self._ask(key)

    def set_leading(self, *, leading: bool) -> None:
        """Whether this process may write (it may at first). Statuses of an earlier reign are forgotten."""
        with self._lock:
            self._leading = leading
            if not leading:
                self._wanted.clear()
                self._written.clear()

    def saw(self, key: ObjectKey, seen: Seen) -> None:
        """An object exists in this state."""
        with self._lock:
            self._seen[key] = seen
            wanted = key in self._wanted
        if wanted:
            self._ask(key)

    def lost(self, key: ObjectKey, uid: str) -> None:
        """The object of this UID is gone. One of the same name may have been seen, or be wanted, by now: it stays."""
        with self._lock:
            if key in self._seen and self._seen[key].uid == uid:
                del self._seen[key]
            if key in self._wanted and self._wanted[key].uid in ("", uid):
                del self._wanted[key]
                self._failures.pop(key, None)
                self._written.pop(key, None)

    def serve(self, served: frozenset[Served]) -> None:
        """The APIs that exist now; what was seen of the old ones is forgotten, and what they refused may be
        accepted.
        """
        with self._lock:
            self._served = {(each.family, each.plural): each for each in served}
            self._seen.clear()  # all are seen anew
            self._refused_fields.clear()

    def tell(self, wake: Callable[[], None]) -> None:
        """Call this, on any thread, when there are objects that need a look and were none before."""
        with self._lock:
            self._wake = wake
            waiting = bool(self._asked)
        if waiting:
            wake()

    def asked(self) -> list[GangStatus]:
        """What is wanted of the objects that need a look, each once; they are not asked for again without a reason."""
        with self._lock:
            out = [self._wanted[key] for key in self._asked if key in self._wanted]
            self._asked.clear()
        return out

    def _ask(self, key: ObjectKey) -> None:
        with self._lock:
            fresh = not self._asked
            self._asked[key] = None
            wake = self._wake
        if fresh:
            wake()

    # ------------------------------------------------------------------------------------------- in its event loop

    async def bring_about(self, action: GangStatus, attempt: Attempt) -> None:
        """Compare an object with what is wanted of it by now, and patch it. A problem with one object, or with an
        answer about it, affects only that object. It is processed again later.
        """
        key = action.key
        try:
            await self._reconcile(key, attempt)
        except Exception as error:  # noqa: BLE001 - see above; logged once for each reason, as it may happen to all
            reason = f"{type(error).__name__}: {error}"[:_REASON_LIMIT]
            if reason not in self._told:
                self._told = {*self._told, reason} if len(self._told) < _REASONS else {reason}
                _log.exception("a status could not be written for an unforeseen reason", what=str(key))
            self._try_again(key)

    async def _reconcile(self, key: ObjectKey, attempt: Attempt) -> None:
        """A Job is read first, and then done with."""
        job = key.plural in JOBS
        with self._lock:
            wanted, seen = self._wanted.get(key), self._seen.get(key)
            served = JOBS[key.plural] if job else self._served.get((key.family, key.plural))
        if wanted is None or served is None:
            return
        path = _path(served, key)
        try:
            if job:
                seen = await _answered(attempt, Request("GET", path, b""))
            if seen is not None and wanted.uid in ("", seen.uid):  # else: seeing the one that is meant comes back here
                await self._patch(key, served, wanted, seen, attempt)
        except (ApiError, UnreachableError) as error:
            if not job or self._failures.get(key, 0) + 1 < len(RETRY_SECONDS):
                self._failed(key, seen.uid if seen is not None else wanted.uid, error)
                return
            _log.warning("conditions could not be written", what=str(key), error=str(error))
        self._failures.pop(key, None)
        with self._lock:
            if job and self._wanted.get(key) is wanted:
                del self._wanted[key]

    async def _patch(self, key: ObjectKey, served: Served, wanted: GangStatus, seen: Seen, attempt: Attempt) -> None:
        fields = self._missing(key, served, wanted, seen)
        earlier = self._written.get(key, _Written())
        again = wanted == earlier.status
        if not fields or (again and key in self._later):
            return
        body = msgspec.json.encode({"metadata": {"uid": seen.uid, "resourceVersion": seen.version}, "status": fields})
        path = _path(served, key) + ("/status" if served.status_subresource else "")
        after = await _answered(attempt, Request("PATCH", path, body, MERGE))
        if after.uid != seen.uid:
            raise UnreachableError("the answer to the patch is not this object")
        if key.plural in JOBS:
            return
        with self._lock:
            known = self._seen.get(key)
            if known is None or not newer(known.version, after.version):  # else others wrote it before the answer came
                self._seen[key] = after
            count = earlier.restored if again and self._now() < earlier.row_ends else 0
            row_ends = self._now() + _pause(count) + RETRY_SECONDS[-1]
            self._written[key] = _Written(wanted, count + 1 if again else 0, row_ends)
        if again:  # the other one may be as sure of it as we are
            self._look_later(key, count)
        # Fields that the server did not keep are not sent repeatedly: an older CRD removes unknown fields.
        refused = set(self._missing(key, served, wanted, after)) & set(fields)
        if refused:
            self._refused_fields.setdefault((key.family, key.plural), set()).update(refused)
            kept = f"{key.plural}.{key.family}"
            _log.info("the API does not keep some status fields", api=kept, fields=sorted(refused))

    def _missing(self, key: ObjectKey, served: Served, wanted: GangStatus, seen: Seen) -> dict[str, Any]:
        fields = changed_fields(key.family, served.version, wanted.status, seen.status, seen.generation, self._now())
        refused = self._refused_fields.get((key.family, key.plural), ())
        return {name: value for name, value in fields.items() if name not in refused}

    def _failed(self, key: ObjectKey, uid: str, error: ApiError | UnreachableError) -> None:
        status = error.status if isinstance(error, ApiError) else 0
        if status == 404:
            self.lost(key, uid)
            return
        if status == 409 and key.plural not in JOBS:
            return  # the object has changed: its new state is on the way here
        log = _log.debug if status == 409 else _log.warning
        log("a status could not be written", what=str(key), error=str(error))
        self._try_again(key)

    def _try_again(self, key: ObjectKey) -> None:
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        self._look_later(key, count)

    def _look_later(self, key: ObjectKey, count: int) -> None:
        """Have a look at an object after a pause, the longer the more there were before."""
        if key in self._later:  # after the pause of an earlier status, or of an earlier attempt
            self._later[key].cancel()
        self._later[key] = self._call_later(_pause(count), lambda: self._retry(key))

    def _retry(self, key: ObjectKey) -> None:
        self._later.pop(key, None)
        self._ask(key)


def _nobody() -> None:
    """Nothing writes yet."""


def _path(served: Served, key: ObjectKey) -> str:
    return object_path(f"{served.family}/{served.version}", served.plural, key.namespace, key.name)


async def _answered(attempt: Attempt, request: Request) -> Seen:
    """The object after a request. Raises ApiError and UnreachableError."""
    return seen_object(answer_of(_decoder, bounded(await attempt(request)), f"{request.method} {request.path}"))


def _pause(count: int) -> float:
    """Seconds to wait after so many attempts before."""
    return RETRY_SECONDS[min(count, len(RETRY_SECONDS) - 1)]


def seen_object(body: Mapping[str, Any]) -> Seen:
    """The part of an API object that matters here; in an API without a schema the status may be anything."""
    meta, status = body.get("metadata") or {}, body.get("status")
    return Seen(
        str(meta.get("uid", "")),
        str(meta.get("resourceVersion", "")),
        int(meta.get("generation") or 0),
        dict(status) if isinstance(status, Mapping) else {},
    )
