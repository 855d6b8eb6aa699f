"""Resources, mirrored: LIST once, WATCH from there, and when that breaks, find out what was missed.

The core sees a stream of changes without gaps and duplicates. After every re-list, the difference to the delivered
state follows, including deletions. An object that was deleted and created again under the same name is first gone and
then new.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from gangsched import logs
from gangsched.cluster.kinds import CORE_KINDS, SERVED_KINDS, Kind, Undecodable
from gangsched.cluster.kube import discovery
from gangsched.cluster.kube.client import (
    JSON,
    METADATA,
    METADATA_LIST,
    WATCH_SILENCE_SECONDS,
    ApiError,
    Client,
    Observe,
    SilentError,
    UnreachableError,
    ignore,
)
from gangsched.cluster.kube.decode import BOOKMARK, DELETED, ObjectDecoder
from gangsched.cluster.kube.kind_of_write import EVICTIONS_REST_ON
from gangsched.cluster.kube.retry import Backoff, end
from gangsched.core.events import Changed, Event, KindRead, ObjectRefused, Reading
from gangsched.core.state.ownership import full_name
from gangsched.core.world.obstacles import CLUSTER_QUEUES
from gangsched.messages import notes
from gangsched.model.constraints import NO_LABELS
from gangsched.model.convert import Converter
from gangsched.model.dialects import BY_FAMILY, group_api, needs_object
from gangsched.model.dialects.objects import OWNER_GROUPS
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import JobSet
from gangsched.model.queues import queue_api, queue_labels
from gangsched.model.records import Gang, Job, Pod

_log = logs.get(__name__)

#: A watch that ends sooner than this without an event did no good: the next one waits a little.
USEFUL_WATCH_SECONDS = 5.0
#: How often the server says that an idle watch is up to date.
BOOKMARK_SECONDS = 60.0
#: While objects name an API that is not served, discovery is repeated this often, for so long after the last of them.
LOOK_AGAIN_SECONDS, HURRY_SECONDS = 2.0, 60.0
#: Without the right to read, or without the API, there is no hurry to ask again.
MAX_DELAY_SECONDS = 30.0
#: A server that cannot be reached is asked again this soon: it may be back, and pods wait for what it has to say. It
#: costs a server that is away nothing.
UNREACHABLE_SECONDS = 2.0

Key = tuple[str, str]


class Seen(NamedTuple):
    """The last delivered state of a name."""

    uid: str
    version: str


class Delivered:
    """All that has been delivered: the newest state of each name, and what was refused why."""

    def __init__(self) -> None:
        self.seen: dict[Key, Seen] = {}
        self.refused: dict[Key, tuple[str, str]] = {}


class _CutStreamError(Exception):
    """The watch brought something that is not a frame; the next one starts after the last good one."""


class Reflector:
    """Delivers everything that happens to one resource; run :meth:`run` as a task.

    ``deliver`` gets batches of events, on the event loop. ``listed`` is set once the first list is complete, for
    an optional resource also when it cannot be read. ``problem`` is the current trouble in words, or empty.
    With a ``fallback`` namespace, what may not be read in the whole cluster is read there, and nothing is required.
    """

    def __init__(
        self,
        kind: Kind,
        client: Client,
        converter: Converter,
        deliver: Callable[[list[Event]], None],
        *,
        observe: Observe = ignore,
        silence_seconds: float = WATCH_SILENCE_SECONDS,
        fallback: str = "",
    ) -> None:
        self.kind = kind
        self._fallback = fallback
        self.listed = asyncio.Event()
        self.problem = ""
        self.heard_at = time.monotonic()
        self._client = client
        self._converter = converter
        self._deliver = deliver
        self._observe = observe
        self._silence_seconds = silence_seconds
        self._decoder = ObjectDecoder(kind.type)
        self.delivered = Delivered()
        self._version = ""
        self._watch: asyncio.Task[None] | None = None
        self._refreshes: list[asyncio.Future[None]] = []
        self._hurry = asyncio.Event()
        self._labels = {"resource": kind.resource}
        self._reading = Reading.UNKNOWN

    # ----------------------------------------------------------------------------------------------------- control

    async def run(self) -> None:
        """Mirror until cancelled. Never ends by itself and never raises for trouble with the server."""
        backoff, unreachable = Backoff(max_seconds=MAX_DELAY_SECONDS), Backoff(max_seconds=UNREACHABLE_SECONDS)
        while True:
            try:
                if not self._version or self._refreshes:
                    await self._list()
                    backoff.reset()
                    unreachable.reset()
                if await self._watch_once():
                    backoff.reset()
                    unreachable.reset()
                    continue
                delay = unreachable.next_seconds()
            except ApiError as error:
                if error.status == 403 and self._fallback and self.kind.namespaced and not self.kind.within:
                    self.switch_version(msgspec.structs.replace(self.kind, within=self._fallback))
                    continue
                if _version_is_useless(error):
                    self._version = ""
                    self._ended("expired")
                delay = self._trouble(error, backoff, error.retry_after_seconds)
                if (self.kind.optional or self._fallback) and error.status in (403, 404, 405):
                    self.stop_delivering()
            except UnreachableError as error:
                delay = self._trouble(error, unreachable, None)
            except msgspec.DecodeError as error:
                delay = self._trouble(error, backoff, None)
            self._hurry.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._hurry.wait()

    async def refresh(self) -> None:
        """Deliver the difference to a list that is read from the store after this call; returns when that is done."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refreshes.append(done)
        self._hurry.set()
        if self._watch is not None:
            self._watch.cancel()
        await done

    def stop_delivering(self, reading: Reading = Reading.CLOSED) -> None:
        """Forget all that was delivered, because the resource is not served, or not for us. No caller waits for it."""
        self._version = ""
        batch: list[Event] = []
        for key in list(self.delivered.seen):
            self._forget(key, batch)
        self._send(batch)
        self._is_read(reading)
        self.listed.set()
        waiting, self._refreshes = self._refreshes, []
        _resolve(waiting)

    def _is_read(self, reading: Reading) -> None:
        """Say how much is known from now on; what has been read was delivered before."""
        if self._reading is not reading:
            self._reading = reading
            self._deliver([KindRead(self.kind.full_name, reading)])

    def switch_version(self, kind: Kind) -> None:
        """Read the same API in another version from now on. :meth:`run` has been ended and is to be run again."""
        self.kind = kind
        self._version = ""

    def _trouble(self, error: Exception, backoff: Backoff, retry_after: float | None) -> float:
        text = str(error)
        if text != self.problem:
            _log.warning("cannot read", resource=self.kind.resource, path=self.kind.path, error=text)
        self.problem = text
        return backoff.next_seconds(retry_after)

    # -------------------------------------------------------------------------------------------------------- list

    async def _list(self) -> None:
        """One consistent list, the difference delivered page by page, what it does not have delivered as gone."""
        waiting, self._refreshes = self._refreshes, []
        try:
            started = time.monotonic()
            present: set[Key] = set()
            version = ""
            kind, of_list = f"{self.kind.name}List", JSON
            if self.kind.metadata_only:
                kind, of_list = "PartialObjectMetadataList", METADATA_LIST
            listing = self._client.list_pages(self.kind.path, {}, kind, of_list)
            async with aclosing(listing) as pages:
                async for page in pages:
                    version = version or page.meta.resource_version
                    batch: list[Event] = []
                    for item in self._decoder.page(page.body):
                        meta = item.metadata
                        key = (meta.namespace, meta.name)
                        present.add(key)
                        if self.delivered.seen.get(key) != (meta.uid, meta.resource_version):
                            self._deliver_object(item, batch)
                    self._send(batch)
                    await asyncio.sleep(0)  # watches, writes and the lease go on between pages
            batch = []
            for key in [k for k in self.delivered.seen if k not in present]:
                self._forget(key, batch)
            self._send(batch)
        except BaseException:
            self._refreshes = waiting + self._refreshes
            raise
        self._version = version
        self.problem = ""
        self.heard_at = time.monotonic()
        self._is_read(Reading.READ)
        self._observe("list_seconds", self.heard_at - started, self._labels)
        self.listed.set()
        _resolve(waiting)

    # ------------------------------------------------------------------------------------------------------- watch

    async def _watch_once(self) -> bool:
        """Watch until it ends; True when the next one may start at once."""
        if self._refreshes:
            return True
        started, before = time.monotonic(), self._version
        self._watch = asyncio.create_task(self._watch_lines(), name=f"watch {self.kind.resource}")
        try:
            await self._watch
            self._ended("closed")
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                self._watch.cancel()
                raise
            return True  # refresh() has cancelled the watch, not us
        except _CutStreamError as error:
            self._ended("garbled")
            _log.warning("watch brought something unreadable", resource=self.kind.resource, error=str(error))
        except SilentError as error:
            # Sooner than the server's bookmarks come: nothing is wrong with a watch that has nothing to say.
            idle = self._silence_seconds < BOOKMARK_SECONDS
            self._ended("renewed" if idle else "silent")
            if not idle:
                _log.debug("watch was silent", resource=self.kind.resource, error=str(error))
        except UnreachableError as error:
            # Cut by a server that finds us slow, by a proxy, by silence: nothing is lost, the version stands.
            self._ended("broken")
            _log.debug("watch broke", resource=self.kind.resource, error=str(error))
        finally:
            self._watch = None
        return self._version != before or time.monotonic() - started >= USEFUL_WATCH_SECONDS

    async def _watch_lines(self) -> None:
        lines = self._client.watch_lines(
            self.kind.path,
            {},
            self._version,
            silence_seconds=self._silence_seconds,
            accept=METADATA if self.kind.metadata_only else JSON,
        )
        async with aclosing(lines):
            async for batch_of_lines in lines:
                self.heard_at = time.monotonic()
                self.problem = ""
                batch: list[Event] = []
                try:
                    for line in batch_of_lines:
                        self._frame(line, batch)
                finally:
                    # Events before a bad frame are valid, and the version already counts them as delivered.
                    self._send(batch)

    def _frame(self, line: bytes, batch: list[Event]) -> None:
        try:
            frame = self._decoder.frame(line)
        except msgspec.DecodeError as error:
            raise _CutStreamError(str(error)) from None
        meta = frame.object.metadata
        if frame.type == DELETED:
            seen = self.delivered.seen.get((meta.namespace, meta.name))
            if seen is not None and seen.uid == meta.uid:
                self._forget((meta.namespace, meta.name), batch)
        elif frame.type != BOOKMARK:
            self._deliver_object(frame.object, batch)
        if meta.resource_version:
            self._version = meta.resource_version

    def _ended(self, reason: str) -> None:
        self._observe("watch_ended", 1, {"resource": self.kind.resource, "reason": reason})

    # ------------------------------------------------------------------------------------------------- differences

    def _deliver_object(self, item: Any, batch: list[Event]) -> None:
        """Deliver the new state of one object, and the end of another incarnation that had its name."""
        meta = item.metadata
        key = (meta.namespace, meta.name)
        if not meta.name:
            _log.error(
                "object without a readable name", resource=self.kind.resource, error=getattr(item, "message", "")
            )
            return
        seen = self.delivered.seen.get(key)
        if seen is not None and seen.uid != meta.uid:
            self._forget(key, batch)
        self.delivered.seen[key] = Seen(meta.uid, meta.resource_version)
        if isinstance(item, Undecodable):
            self._refuse(item, FieldError("", item.message), batch)
            return
        try:
            batch.append(Changed(self.kind.record(self._converter, item)))
        except FieldError as error:
            self._refuse(item, error, batch)
        except Exception as error:  # noqa: BLE001 - no single object may end the stream of all others
            _log.exception("object could not be read", resource=self.kind.resource, object="/".join(key))
            self._refuse(item, FieldError("", f"{type(error).__name__}: {error}"), batch)
        else:
            self.delivered.refused.pop(key, None)

    def _refuse(self, item: Any, error: FieldError, batch: list[Event]) -> None:
        """Tell of an object that cannot be understood, once for each reason, and what it is counted as, every time."""
        meta = item.metadata
        key, told = (meta.namespace, meta.name), (meta.uid, str(error))
        if self.delivered.refused.get(key) != told:
            self.delivered.refused[key] = told
            self._observe("objects_refused", 1, self._labels)
            labels = meta.labels or NO_LABELS
            batch.append(ObjectRefused(self.kind.full_name, *key, meta.uid, error.field, error.message, labels))
        if self.kind.refused is not None:
            try:
                counted = self.kind.refused(self._converter, item, error)
                batch += [Changed(counted)] if counted is not None else []
            except Exception:  # noqa: BLE001 - it has been logged; the stream of all others goes on
                _log.exception("object could not be counted", resource=self.kind.resource, object="/".join(key))

    def _forget(self, key: Key, batch: list[Event]) -> None:
        seen = self.delivered.seen.pop(key)
        self.delivered.refused.pop(key, None)
        batch.append(self.kind.deletion(key[0], key[1], seen.uid))

    def _send(self, batch: list[Event]) -> None:
        if batch:
            self._observe("watch_events", len(batch), self._labels)
            self._deliver(batch)


def _version_is_useless(error: ApiError) -> bool:
    """Too old (410), or newer than the store is (its data was restored from a backup): only a list helps."""
    return error.status == 410 or "too large resource version" in error.message.lower()


def _resolve(waiting: list[asyncio.Future[None]]) -> None:
    for done in waiting:
        if not done.done():
            done.set_result(None)


#: Kinds that take longest before the first decision are requested first.
_LARGE = ("Node", "Pod")


#: The kinds on which evictions depend, and bindings, too, except budgets. A watch of it that is silent for the first of
#: these seconds is begun anew, which tells at once what it has missed. Nothing is written by what is older than the
#: second.
FRESH = EVICTIONS_REST_ON
FRESH_SILENCE_SECONDS, STALE_SECONDS = 30.0, 60.0


class CacheHealth(NamedTuple):
    """State of one resource. ``silent_seconds`` is how long nothing has been heard, bookmarks included; ``within`` is
    the only namespace of which it is read, empty for all.
    """

    resource: str
    listed: bool
    silent_seconds: float
    problem: str
    within: str = ""


def _needed(event: Event) -> Iterator[str]:
    """The kinds, by their full names, without which a new state of an object cannot be understood."""
    record = event.record if isinstance(event, Changed) else None
    if isinstance(record, Pod) and not record.node:
        if record.owner is not None and record.owner.kind in OWNER_GROUPS:
            yield full_name(record.owner.kind)
        if record.gang.family in BY_FAMILY and needs_object(record):
            yield group_api(record.gang.family)
        if queue_labels(record.labels).local_queue:
            yield CLUSTER_QUEUES
    elif isinstance(record, Job | JobSet):
        if record.owner is not None and record.owner.kind in OWNER_GROUPS:
            yield full_name(record.owner.kind)
        if record.queue.local_queue:
            yield CLUSTER_QUEUES
    elif isinstance(record, Gang) and record.queue_name:
        yield queue_api(record.family)


class Caches:
    """Runs the reflectors as children of :meth:`run`; everything they find goes to ``deliver``."""

    def __init__(
        self,
        client: Client,
        deliver: Callable[[list[Event]], None],
        *,
        observe: Observe = ignore,
        discovery_seconds: float = discovery.PERIOD_SECONDS,
        quota_mode: str = discovery.AUTO,
        fallback: str = "",
        readable_only: bool = False,
    ) -> None:
        self._client = client
        self._fallback = fallback
        self._deliver = deliver
        self._observe = observe
        self._discovery_seconds = discovery_seconds
        self._quota_mode = quota_mode
        self._readable_only = readable_only
        self._forbidden: frozenset[str] = frozenset()
        self._converter = Converter()
        self._reflectors: dict[str, Reflector] = {}
        self._was_stale = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._known = asyncio.Event()
        self._unserved: dict[str, Reading] = {}
        self._named_at = -math.inf

    async def run(self) -> None:
        """Mirror until cancelled; raises when a reflector ends, which none ever should."""
        try:
            for kind in sorted(CORE_KINDS, key=lambda each: each.name not in _LARGE):
                self._mirror(kind)
            discover = asyncio.create_task(self._discover(), name="discovery")
            self._tasks["discovery"] = discover
            while True:
                done, _ = await asyncio.wait(self._tasks.values(), timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if task in self._tasks.values() and not task.cancelled():
                        task.result()
                        raise RuntimeError(f"{task.get_name()} has ended")
        finally:
            await end(self._tasks.values())

    async def synced(self) -> None:
        """Return once it is known which gang APIs are served and every resource has been listed."""
        await self._known.wait()
        while waiting := [each for each in self._reflectors.values() if not each.listed.is_set()]:
            await waiting[0].listed.wait()  # or until another has taken its place

    async def refresh(self) -> None:
        """Bring every cache up to what the store holds now, by lists that begin after this call."""
        await asyncio.gather(*(reflector.refresh() for reflector in list(self._reflectors.values())))

    def health(self) -> list[CacheHealth]:
        """State of every resource, by name."""
        now = time.monotonic()
        return [
            CacheHealth(
                name, reflector.listed.is_set(), now - reflector.heard_at, reflector.problem, reflector.kind.within
            )
            for name, reflector in sorted(self._reflectors.items())
        ]

    def ages(self) -> dict[str, float]:
        """For how many seconds nothing has been heard of what evictions rest on, by resource."""
        now = time.monotonic()
        found = (each for each in self._reflectors.values() if each.kind.name in FRESH)
        return {each.kind.resource: now - each.heard_at for each in found}

    def version_of(self, resource: str) -> str:
        """Return the version in which a resource is watched; "v1" if it is not."""
        found = self._reflectors.get(resource)
        return found.kind.versions[0] if found is not None else "v1"

    def measured(self) -> Mapping[str, Any]:
        """The ages as the leader publishes them."""
        return {"cacheAges": {resource: round(age, 1) for resource, age in self.ages().items()}}

    def stale(self, kinds: Collection[str] = FRESH) -> str:
        """Return why nothing is to be written that rests on these kinds, in words; empty if they are known well enough.

        A change of the answer about all of :data:`FRESH` is logged.
        """
        ages = self.ages()
        resources = {kind.resource for kind in CORE_KINDS if kind.name in kinds}
        old = {resource: age for resource, age in ages.items() if age > STALE_SECONDS}
        if kinds == FRESH and bool(old) != self._was_stale:
            self._was_stale = bool(old)
            if old:
                _log.warning("nothing is heard of what is watched: no pod is bound or evicted", resources=sorted(old))
            else:
                _log.warning("what is watched is heard of again: pods are bound and evicted again")
        concerned = {resource: age for resource, age in old.items() if resource in resources}
        if not concerned:
            return ""
        resource, age = max(concerned.items(), key=lambda each: each[1])
        return notes.stale(resource=resource, seconds=int(age), most=int(STALE_SECONDS))

    # --------------------------------------------------------------------------------------------------- gang APIs

    async def _discover(self) -> None:
        """Find out which gang APIs are served, now and then again: a CRD may be installed while we run."""
        backoff = Backoff(max_seconds=10.0)
        while True:
            try:
                found = await discovery.survey(self._client, self._quota_mode)
                if self._readable_only:
                    found = await discovery.allowed(self._client, found)
            except (ApiError, UnreachableError) as error:
                _log.warning("cannot find out which gang and queue APIs are served", error=str(error))
                await asyncio.sleep(backoff.next_seconds())
                continue
            backoff.reset()
            if found.forbidden and found.forbidden != self._forbidden:
                _log.warning("APIs are served that may not be read: gangs of these wait", apis=sorted(found.forbidden))
            self._forbidden = found.forbidden
            for kind in SERVED_KINDS:
                served = found.served.get(kind.resource)
                await self._serve(kind, served.version if served else None, found.closed)
            self._known.set()
            await self._until_next(time.monotonic())

    async def _until_next(self, last: float) -> None:
        """Wait until it is time to look again: soon after an object has named an API that is not served."""
        while (now := time.monotonic()) < last + self._discovery_seconds:
            if now >= last + LOOK_AGAIN_SECONDS and now < self._named_at + HURRY_SECONDS:
                return
            await asyncio.sleep(min(LOOK_AGAIN_SECONDS, last + self._discovery_seconds - now))

    def _deliver_events(self, events: list[Event]) -> None:
        """Deliver, and look for APIs at once where what is delivered needs one that is not served."""
        if any(self._unserved.get(kind) is Reading.ABSENT for event in events for kind in _needed(event)):
            self._named_at = time.monotonic()
        self._deliver(events)

    async def _serve(self, kind: Kind, version: str | None, closed: Container[str]) -> None:
        """Watch this version of an API (None: it is not served, or is ``closed`` to us) and no other."""
        name = kind.resource
        known = self._reflectors.get(name)
        if known is not None and known.kind.versions[0] == version:
            return
        if name in self._tasks:
            await end([self._tasks.pop(name)])
        if version is not None:
            _log.info("API found", api=f"{name}/{version}")
            self._unserved.pop(kind.full_name, None)
            self._mirror(kind.at(version))
            return
        reading = Reading.CLOSED if name in closed else Reading.ABSENT
        if known is not None:
            del self._reflectors[name]
            known.stop_delivering(reading)
            _log.info("API is no longer served", api=name)
        elif self._unserved.get(kind.full_name) is not reading:
            self._deliver([KindRead(kind.full_name, reading)])
        self._unserved[kind.full_name] = reading

    def _mirror(self, kind: Kind) -> None:
        reflector = self._reflectors.get(kind.resource)
        if reflector is None:
            silence = FRESH_SILENCE_SECONDS if kind.name in FRESH else WATCH_SILENCE_SECONDS
            reflector = Reflector(
                kind,
                self._client,
                self._converter,
                self._deliver_events,
                observe=self._observe,
                silence_seconds=silence,
                fallback=self._fallback,
            )
            self._reflectors[kind.resource] = reflector
        reflector.switch_version(kind)
        self._tasks[kind.resource] = asyncio.create_task(reflector.run(), name=f"reflector {kind.resource}")
