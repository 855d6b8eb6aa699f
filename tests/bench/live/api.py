"""The API server as the benchmark uses it: very many small requests at once, and the watch that is the ruler."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
import msgspec

from gangsched.cluster.kube.session import Session
from tests.bench.live.cells import GROUP_API, NAMESPACE, Object
from tests.controlplane.plane import TOKENS, ControlPlane

#: Requests in flight while loading.
LOADERS = 32
REQUEST_SECONDS = 60.0
PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Workload": f"/apis/{GROUP_API}/namespaces/{NAMESPACE}/workloads",
    "PodGroup": f"/apis/{GROUP_API}/namespaces/{NAMESPACE}/podgroups",
}
_AUTHORIZATION = {"Authorization": f"Bearer {TOKENS['admin'][0]}"}
#: A watch is counted by the first when it has ended, and by the second as long as it is open.
_REQUESTS = re.compile(r"^(?:apiserver_request_total|apiserver_longrunning_requests)\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')

#: What only the API server asks itself for, which its counts do not tell apart: its documentation of custom resources,
#: the limits of a namespace when a pod is created, the Workload when a PodGroup is.
SERVERS_OWN = frozenset({"GET /openapi/v3", "LIST limitranges", "GET workloads"})
#: It renews a Lease of its own every so often.
SERVERS_LEASE_SECONDS = 10.0


class Calls(NamedTuple):
    """Requests served up to a moment (monotonic), by ``verb resource/subresource``; watches count as they open."""

    at: float
    by_kind: dict[str, int]

    def since(self, before: Calls) -> dict[str, int]:
        """What has come since then, the most frequent first, without what the API server asks itself for."""
        own = {"PUT leases": round((self.at - before.at) / SERVERS_LEASE_SECONDS)}
        found = {k: n - before.by_kind.get(k, 0) - own.get(k, 0) for k, n in self.by_kind.items()}
        kept = ((k, n) for k, n in found.items() if n > 0 and k not in SERVERS_OWN)
        return dict(sorted(kept, key=lambda each: -each[1]))


class _Meta(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Frame(msgspec.Struct):
    type: str
    object: _Pod


_frame = msgspec.json.Decoder(_Frame)


class Api:
    """A session of the administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self._context = ssl.create_default_context(cafile=str(plane.ca_file))
        self._server = plane.server
        self._session: aiohttp.ClientSession | None = None
        self._requests: Session | None = None

    async def __aenter__(self) -> Self:
        self._requests = Session(self._server, self._context, None, "bench", None)
        self._session = aiohttp.ClientSession(
            self._server,
            headers=_AUTHORIZATION,
            connector=aiohttp.TCPConnector(ssl=self._context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
            read_bufsize=2**20,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        assert self._requests is not None
        await self._session.close()
        await self._requests.aclose()

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> bytes:
        """One request; RuntimeError with the server's words when it fails."""
        assert self._session is not None
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": more.pop("content_type", "application/json")}
        async with self._session.request(method, path, data=data, headers=headers, **more) as response:
            text = await response.read()
            if response.status >= 400:
                raise RuntimeError(f"{method} {path}: {response.status} {text[:500].decode(errors='replace')}")
            return text

    async def write(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> None:
        """One small request, with as little work for this process as possible: it shares the machine.

        RuntimeError with the server's words when it fails, OSError without an answer.
        """
        data = b"" if body is None else msgspec.json.encode(body)
        headers = {**_AUTHORIZATION, "Content-Type": content_type}
        assert self._requests is not None
        found = await self._requests.request(method, path, headers, data, time.monotonic() + REQUEST_SECONDS)
        if found.status >= 400:
            raise RuntimeError(f"{method} {path}: {found.status} {found.body[:500].decode(errors='replace')}")

    async def remove(self, each: Object) -> None:
        """Delete an object, and let go of a group, as the controller manager would: it has a finalizer."""
        path = f"{PATHS[each['kind']]}/{each['metadata']['name']}"
        await self.write("DELETE", path)
        if each["kind"] == "PodGroup":
            await self.write("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")

    async def stream(self, path: str, params: dict[str, str]) -> AsyncIterator[bytes]:
        """The lines of a watch, until the server ends it; an empty one when it is open."""
        assert self._session is not None
        async with self._session.get(path, params=params) as response:
            left = b""
            yield b""
            async for chunk in response.content.iter_any():
                *lines, left = (left + chunk).split(b"\n")
                for line in lines:
                    yield line

    async def create(self, objects: Iterable[Object]) -> int:
        """Create all, many at once; returns how many."""
        left = iter(objects)
        count = 0

        async def work() -> None:
            nonlocal count
            for each in left:
                await self.write("POST", PATHS[each["kind"]], each)
                count += 1

        await asyncio.gather(*(work() for _ in range(LOADERS)))
        return count

    async def calls(self) -> Calls:
        """Requests served so far."""
        text = (await self.request("GET", "/metrics")).decode()
        return Calls(time.monotonic(), counted(text))


def counted(metrics: str) -> dict[str, int]:
    """Requests by ``verb resource/subresource``, from the API server's page of metrics."""
    out: dict[str, int] = {}
    for labels, value in _REQUESTS.findall(metrics):
        told = dict(_LABEL.findall(labels))
        if told.get("verb") != "CONNECT":
            where = told.get("resource", "") + (f"/{told['subresource']}" if told.get("subresource") else "")
            out[f"{told.get('verb')} {where}"] = out.get(f"{told.get('verb')} {where}", 0) + int(float(value))
    return out


class _Waiting:
    """Somebody waits for pods; woken once, however many others wait for others."""

    def __init__(self, left: set[str]) -> None:
        self.done = asyncio.Event()
        self._left = left

    def arrived(self, name: str) -> None:
        self._left.discard(name)
        if not self._left:
            self.done.set()


class Ruler:
    """When pods were bound and removed, as the API server's watch tells it; seconds on the monotonic clock."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.bound: dict[str, float] = {}
        self.removed: dict[str, float] = {}
        self.created: dict[str, float] = {}
        self.cuts = 0
        self._open = asyncio.Event()
        self._changed = asyncio.Event()
        self._waiting: dict[str, _Waiting] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        head = json.loads(await self._api.request("GET", PATHS["Pod"], params={"limit": "1"}))
        self._version = head["metadata"]["resourceVersion"]
        self._task = asyncio.create_task(self._watch())
        await self._open.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, enough: Callable[[], bool], deadline: float) -> bool:
        """Wait until it is so; False when the deadline (monotonic) comes first or the watch has failed."""
        assert self._task is not None
        while not enough():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self._task.done():
                self._task.result()
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), min(left, 1.0))
            except TimeoutError:
                continue
        return True

    async def until_bound(self, names: Iterable[str], seconds: float) -> bool:
        """Wait until all of these are bound; False when that takes longer, or the watch has failed."""
        left = {name for name in names if name not in self.bound}
        if not left:
            return True
        waiting = _Waiting(left)
        self._waiting.update(dict.fromkeys(left, waiting))
        try:
            async with asyncio.timeout(seconds):
                await waiting.done.wait()
        except TimeoutError:
            return False
        return True

    async def _watch(self) -> None:
        try:
            while True:
                async for line in self._lines():
                    if line:
                        self._take(line)
                    else:
                        self._open.set()
                self.cuts += 1
        finally:
            self._open.set()  # nobody waits for a watch that has failed

    async def _lines(self) -> AsyncIterator[bytes]:
        params = {"watch": "1", "resourceVersion": self._version, "allowWatchBookmarks": "true"}
        async for line in self._api.stream(PATHS["Pod"], params):
            yield line

    def _take(self, line: bytes) -> None:
        now = time.monotonic()
        frame = _frame.decode(line)
        pod = frame.object
        self._version = pod.metadata.resource_version or self._version
        if frame.type == "ERROR":
            raise RuntimeError(f"the ruler's watch failed: {line[:300]!r}")
        if frame.type == "BOOKMARK":
            return
        name = pod.metadata.name
        if frame.type == "DELETED":
            self.removed[name] = now
        elif pod.metadata.labels and pod.metadata.labels.get("bench") == "pending":
            if frame.type == "ADDED":
                self.created[name] = now
            if pod.spec.node and name not in self.bound:
                self.bound[name] = now
                waiting = self._waiting.pop(name, None)
                if waiting is not None:
                    waiting.arrived(name)
        self._changed.set()
