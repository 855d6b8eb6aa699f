"""The API server as the benchmark uses it: very many small requests at once, and the watch that is the ruler."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from tests.bench.live.cells import GROUP_API, NAMESPACE, Object
from tests.controlplane.plane import TOKENS, ControlPlane

#: Requests in flight while loading.
LOADERS = 32
PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Workload": f"/apis/{GROUP_API}/namespaces/{NAMESPACE}/workloads",
    "PodGroup": f"/apis/{GROUP_API}/namespaces/{NAMESPACE}/podgroups",
}
_REQUESTS = re.compile(r"^apiserver_request_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


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

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._server,
            headers={"Authorization": f"Bearer {TOKENS['admin'][0]}"},
            connector=aiohttp.TCPConnector(ssl=self._context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
            read_bufsize=2**20,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

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

    async def stream(self, path: str, params: dict[str, str]) -> AsyncIterator[bytes]:
        """The lines of a watch, until the server ends it."""
        assert self._session is not None
        async with self._session.get(path, params=params) as response:
            left = b""
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
                await self.request("POST", PATHS[each["kind"]], each)
                count += 1

        await asyncio.gather(*(work() for _ in range(LOADERS)))
        return count

    async def calls(self) -> dict[str, int]:
        """Requests served so far, by ``verb resource/subresource``."""
        text = (await self.request("GET", "/metrics")).decode()
        out: dict[str, int] = {}
        for labels, value in _REQUESTS.findall(text):
            told = dict(_LABEL.findall(labels))
            if told.get("verb") in ("WATCH", "CONNECT"):
                continue
            where = told.get("resource", "") + (f"/{told['subresource']}" if told.get("subresource") else "")
            out[f"{told.get('verb')} {where}"] = out.get(f"{told.get('verb')} {where}", 0) + int(float(value))
        return out


class Ruler:
    """When pods were bound and removed, as the API server's watch tells it; seconds on the monotonic clock."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.bound: dict[str, float] = {}
        self.removed: dict[str, float] = {}
        self.created: dict[str, float] = {}
        self.cuts = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        head = json.loads(await self._api.request("GET", PATHS["Pod"], params={"limit": "1"}))
        self._version = head["metadata"]["resourceVersion"]
        self._task = asyncio.create_task(self._watch())
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

    async def _watch(self) -> None:
        while True:
            async for line in self._lines():
                self._take(line)
            self.cuts += 1

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
        self._changed.set()
