"""Keeps the status of objects as the core wants it: compares what is there with what should be, and patches."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from gangsched import logs
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, answer_of, segment
from gangsched.cluster.kube.discovery import Served, allowed, survey
from gangsched.cluster.kube.json_limits import bounded
from gangsched.core.actions import GangStatus
from gangsched.model import conditions, jobsets
from gangsched.model.conditions import Condition
from gangsched.model.dialects import DIALECTS, changed_status, dialect
from gangsched.model.queues import GROUP

MERGE_PATCH = "application/merge-patch+json"
_TIMEOUT_SECONDS = 10.0

#: Objects that have a status that we keep. Where others wait for a phase the scheduler writes it by itself.
KEPT = (
    *(f"podgroups.{each.family}" for each in DIALECTS if each.status is not None and not each.awaited_from),
    *(f"{plural}.{GROUP}" for plural in ("clusterqueues", "cohorts", "localqueues")),
)

#: Jobs and JobSets, by plural. There are many, and seldom anything to say: they are read then, and not watched.
JOBS: Mapping[str, Served] = {
    each.plural: each
    for each in (Served("batch", "v1", True, "jobs"), Served(jobsets.GROUP, jobsets.VERSION, True, "jobsets"))
}


_object = msgspec.json.Decoder(dict[str, Any])


async def discover(client: Client) -> frozenset[Served]:
    """The kinds that the server has now, each in the version that is preferred here.

    Where Kueue runs, the statuses of queue objects are Kueue's, whoever reads them.
    Raises :class:`~gangsched.cluster.kube.client.ApiError` and UnreachableError when the server does not say.
    """
    found = (await allowed(client, await survey(client))).served
    return frozenset(found[name] for name in KEPT if name in found)


async def read_object(client: Client, served: Served, namespace: str, name: str) -> dict[str, Any]:
    """The object. Raises :class:`~gangsched.cluster.kube.client.ApiError` and UnreachableError."""
    await client.bucket.take()
    path = _path(served, namespace, name)
    body = await client.attempt("GET", path, timeout_seconds=_TIMEOUT_SECONDS)
    return answer_of(_object, bounded(body), f"GET {path}")


def _path(served: Served, namespace: str, name: str) -> str:
    """``namespace`` is empty for kinds of the whole cluster."""
    within = f"/namespaces/{segment(namespace)}" if namespace else ""
    return f"/apis/{served.family}/{served.version}{within}/{served.plural}/{segment(name)}"


async def patch_status(client: Client, served: Served, namespace: str, name: str, patch: Any) -> dict[str, Any]:
    """Merge a patch into an object, through the status subresource where there is one; the object after it.

    ``namespace`` is empty for kinds of the whole cluster.

    Raises :class:`~gangsched.cluster.kube.client.ApiError` and UnreachableError.
    """
    path = _path(served, namespace, name)
    if served.status_subresource:
        path += "/status"
    await client.bucket.take()
    body = await client.attempt(
        "PATCH",
        path,
        query={"fieldManager": "gangsched"},
        body=msgspec.json.encode(patch),
        content_type=MERGE_PATCH,
        timeout_seconds=_TIMEOUT_SECONDS,
        server_timeout=True,
    )
    return answer_of(_object, bounded(body), f"PATCH {path}")


#: The API groups of Jobs and JobSets.
_JOB_FAMILIES = ("batch", jobsets.GROUP)
#: The condition of queues, and that of Jobs and JobSets after which those of an earlier eviction are history.
_ACTIVE, _RESERVED = "Active", "QuotaReserved"
_OF_EVICTION = ("Evicted", "Preempted")


def changed_fields(
    family: str, version: str, desired: Mapping[str, Any], current: Mapping[str, Any], generation: int, now: float
) -> dict[str, Any]:
    """The top-level fields of ``status`` that differ from what they should be; empty when all is well.

    ``desired`` is :attr:`gangsched.core.actions.GangStatus.status`, ``current`` the object's status, ``now`` seconds
    since the epoch for times that have to be set. Fields of others are left alone, conditions of others are kept.
    """
    wanted: dict[str, Any] = {}
    if family == GROUP:
        wanted = {name: value for name, value in desired.items() if name != "active"}
        told = [(_ACTIVE, *desired["active"])] if "active" in desired else []
    elif family in _JOB_FAMILIES:
        told, generation = _of_job(desired["conditions"], current), 0
    else:
        return changed_status(family, desired, dialect.Seen(version, generation, current, now))
    listed = conditions.with_these(conditions.listed(current), told, generation, now)
    if listed or current.get("conditions"):
        wanted["conditions"] = listed
    return {name: value for name, value in wanted.items() if current.get(name) != value}


def _of_job(desired: Iterable[Condition], current: Mapping[str, Any]) -> list[Condition]:
    """The conditions of a Job or JobSet; with new quota those of its last eviction become False, as in Kueue."""
    out = list(desired)
    if any(name == _RESERVED and status == "True" for name, status, _, _ in out):
        told = {name for name, *_ in out}
        for name in _OF_EVICTION:
            old = conditions.named(conditions.listed(current), name)
            if name not in told and old is not None and old.get("status") == "True":
                out.append((name, "False", _RESERVED, f"Previously: {old.get('message', '')}"))
    return out


_log = logs.get("gangsched.controllers")

#: At most one write per object in this time; what changes meanwhile is written together.
PERIOD_SECONDS = 1.0
#: So many Jobs and JobSets at most in each period: groups and queues do not wait for them for long.
JOBS_AT_ONCE = 10
RETRY_SECONDS = (1.0, 2.0, 5.0, 15.0, 60.0)
#: So many unforeseen reasons are remembered, and so many characters of each.
_REASONS, _REASON_LIMIT = 100, 200


class Key(NamedTuple):
    """One object, by API family, name and kind; ``namespace`` is empty for kinds of the whole cluster."""

    family: str
    namespace: str
    name: str
    plural: str = "podgroups"

    def __str__(self) -> str:
        return f"{self.plural}.{self.family} {self.namespace}{'/' if self.namespace else ''}{self.name}"


class Seen(NamedTuple):
    """An object as it was last seen."""

    uid: str
    version: str
    generation: int
    status: Mapping[str, Any]


class _Written(NamedTuple):
    """What was written last, how often in a row it was restored, and when (s since the epoch) the row ends: when it has
    not been overwritten for the longest pause after that of its last restoration.
    """

    status: GangStatus | None = None
    restored: int = 0
    row_ends: float = 0.0


#: Reads an object; raises ApiError and UnreachableError.
Read = Callable[[Served, str, str], Awaitable[dict[str, Any]]]
#: Sends one merge patch and returns the object after it; raises ApiError and UnreachableError.
Patch = Callable[[Served, str, str, Any], Awaitable[dict[str, Any]]]


class StatusWriter:
    """Wanted and seen states of objects, and the task that makes them meet.

    ``want``, ``saw``, ``lost`` and ``set_leading`` may be called from any thread. ``run`` belongs to one event loop.
    A status that another client overwrites is restored when the object is seen again; one that is overwritten again and
    again, later and later. Each patch names the UID and the resourceVersion that it was made for, so that it never hits
    another object or overwrites news. Jobs and JobSets are not seen: they are read when there is something to write,
    which is written once.
    """

    def __init__(
        self,
        patch: Patch,
        read: Read,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._patch = patch
        self._read = read
        self._now = now
        self._sleep = sleep
        self._lock = threading.Lock()
        self._leading = True
        self._wanted: dict[Key, GangStatus] = {}
        self._seen: dict[Key, Seen] = {}
        self._served: dict[tuple[str, str], Served] = {}
        self._refused_fields: dict[tuple[str, str], set[str]] = {}
        self._failures: dict[Key, int] = {}
        self._written: dict[Key, _Written] = {}
        self._told: set[str] = set()
        #: Objects that need a look, each once, for the event loop that writes, if one does.
        self._asked: dict[Key, None] = {}
        self._reader: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._later: dict[Key, asyncio.Task[None]] = {}

    # -------------------------------------------------------------------------------------------- from any thread

    def want(self, action: GangStatus) -> None:
        """The status that an object should have from now on. Dropped while another process leads."""
        key = Key(action.family, action.namespace, action.name, action.plural)
        with self._lock:
            if not self._leading:
                return
            earlier = self._wanted.get(key)
            self._wanted[key] = action.after(earlier) if earlier is not None else action
        self._ask(key)

    def set_leading(self, *, leading: bool) -> None:
        """Whether this process may write (it may at first). Statuses of an earlier reign are forgotten."""
        with self._lock:
            self._leading = leading
            if not leading:
                self._wanted.clear()
                self._written.clear()

    def saw(self, key: Key, seen: Seen) -> None:
        """An object exists in this state."""
        with self._lock:
            self._seen[key] = seen
            wanted = key in self._wanted
        if wanted:
            self._ask(key)

    def lost(self, key: Key, uid: str) -> None:
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

    # ------------------------------------------------------------------------------------------- in its event loop

    async def run(self) -> None:
        """Write until cancelled; another may go on where this one has ended."""
        news = asyncio.Event()
        with self._lock:
            self._reader = asyncio.get_running_loop(), news
            if self._asked:
                news.set()
        keys: list[Key] = []
        try:
            while True:
                await news.wait()
                with self._lock:
                    keys = list(self._asked)
                    self._asked.clear()
                    news.clear()
                keys.sort(key=lambda key: key.plural in JOBS)  # groups and queues first
                jobs = 0
                while keys and jobs < JOBS_AT_ONCE:
                    jobs += keys[0].plural in JOBS
                    await self._alone(keys[0])
                    del keys[0]
                self._ask(*keys)
                keys = []
                await self._sleep(PERIOD_SECONDS)
        finally:
            with self._lock:
                self._reader = None
            self._ask(*keys, *self._later)
            for task in self._later.values():
                task.cancel()
            self._later.clear()

    def _ask(self, *keys: Key) -> None:
        """Have a look at these objects, all at the next opportunity."""
        with self._lock:
            fresh = not self._asked
            self._asked.update(dict.fromkeys(keys))
            if fresh and self._asked and self._reader is not None:
                loop, news = self._reader
                loop.call_soon_threadsafe(news.set)

    async def _alone(self, key: Key) -> None:
        """Whatever is wrong with one object, or with an answer about it, the others are written."""
        try:
            await self._reconcile(key)
        except Exception as error:  # noqa: BLE001 - see above; logged once for each reason, as it may happen to all
            reason = f"{type(error).__name__}: {error}"[:_REASON_LIMIT]
            if reason not in self._told:
                self._told = {*self._told, reason} if len(self._told) < _REASONS else {reason}
                _log.exception("a status could not be written for an unforeseen reason", what=str(key))
            self._try_again(key)

    async def _reconcile(self, key: Key) -> None:
        """Compare an object with what is wanted of it, and patch it. A Job is read first, and then done with."""
        job = key.plural in JOBS
        with self._lock:
            wanted, seen = self._wanted.get(key), self._seen.get(key)
            served = JOBS[key.plural] if job else self._served.get((key.family, key.plural))
        if wanted is None or served is None:
            return
        try:
            if job:
                seen = seen_object(await self._read(served, key.namespace, key.name))
            if seen is not None and wanted.uid in ("", seen.uid):  # else: seeing the one that is meant comes back here
                await self._bring_about(key, served, wanted, seen)
        except (ApiError, UnreachableError) as error:
            if not job or self._failures.get(key, 0) + 1 < len(RETRY_SECONDS):
                self._failed(key, seen.uid if seen is not None else wanted.uid, error)
                return
            _log.warning("conditions could not be written", what=str(key), error=str(error))
        self._failures.pop(key, None)
        with self._lock:
            if job and self._wanted.get(key) is wanted:
                del self._wanted[key]

    async def _bring_about(self, key: Key, served: Served, wanted: GangStatus, seen: Seen) -> None:
        fields = self._missing(key, served, wanted, seen)
        earlier = self._written.get(key, _Written())
        again = wanted == earlier.status
        if not fields or (again and key in self._later):
            return
        body = {"metadata": {"uid": seen.uid, "resourceVersion": seen.version}, "status": fields}
        after = seen_object(await self._patch(served, key.namespace, key.name, body))
        if after.uid != seen.uid:
            raise UnreachableError("the answer to the patch is not this object")
        if key.plural in JOBS:
            return
        with self._lock:
            self._seen[key] = after
            count = earlier.restored if again and self._now() < earlier.row_ends else 0
            row_ends = self._now() + _pause(count) + RETRY_SECONDS[-1]
            self._written[key] = _Written(wanted, count + 1 if again else 0, row_ends)
        if again:  # the other one may be as sure of it as we are
            self._look_later(key, count)
        # What the server did not keep (an older CRD prunes fields it does not know) is not sent again and again.
        refused = set(self._missing(key, served, wanted, after)) & set(fields)
        if refused:
            self._refused_fields.setdefault((key.family, key.plural), set()).update(refused)
            kept = f"{key.plural}.{key.family}"
            _log.info("the API does not keep some status fields", api=kept, fields=sorted(refused))

    def _missing(self, key: Key, served: Served, wanted: GangStatus, seen: Seen) -> dict[str, Any]:
        fields = changed_fields(key.family, served.version, wanted.status, seen.status, seen.generation, self._now())
        refused = self._refused_fields.get((key.family, key.plural), ())
        return {name: value for name, value in fields.items() if name not in refused}

    def _failed(self, key: Key, uid: str, error: ApiError | UnreachableError) -> None:
        status = error.status if isinstance(error, ApiError) else 0
        if status == 404:
            self.lost(key, uid)
            return
        if status == 409 and key.plural not in JOBS:
            return  # the object has changed: its new state is on the way here
        log = _log.debug if status == 409 else _log.warning
        log("a status could not be written", what=str(key), error=str(error))
        self._try_again(key)

    def _try_again(self, key: Key) -> None:
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        self._look_later(key, count)

    def _look_later(self, key: Key, count: int) -> None:
        """Have a look at an object after a pause, the longer the more there were before."""
        if key in self._later:  # after the pause of an earlier status, or of an earlier attempt
            self._later[key].cancel()
        self._later[key] = asyncio.create_task(self._again(key, _pause(count)))

    async def _again(self, key: Key, delay: float) -> None:
        await self._sleep(delay)
        del self._later[key]
        self._ask(key)


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
