"""A small asyncio client for tests: any kind by discovery, plain dicts in and out, every wait bounded."""

from __future__ import annotations

import asyncio
import inspect
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

from tests.controlplane import versions

Object = dict[str, Any]

FIELD_MANAGER = "tests"
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Eight times as fast where PyYAML has it."""
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 0.25
"""Seconds between two looks at what is waited for."""
LIMIT_SECONDS = 30.0
"""How long waits last unless told otherwise: far longer than anything should take, so that only a hang reaches it."""


class ApiError(Exception):
    """An answer of the API server that is not a success."""

    def __init__(self, status: int, body: Object, request: str) -> None:
        self.status = status
        self.body = body
        self.reason = body.get("reason", "")
        super().__init__(f"{request}: {status} {self.reason}: {body.get('message', body)}")


@dataclass(frozen=True)
class Resource:
    """What discovery says about a kind."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]

    def path(self, name: str | None = None, namespace: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of a subresource of it."""
        parts = ["/api" if "/" not in self.api_version else "/apis", self.api_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/".join(parts)


async def wait_until(
    predicate: Callable[[], Any], timeout: float = LIMIT_SECONDS, what: str = "", interval: float | None = None
) -> Any:
    """Poll a function, plain or async, until it returns something true, and return that; AssertionError in the end.

    Without an interval it is polled more rarely the longer it takes: a wait gets a tenth longer at most, and twenty
    questions a second cost the API server more than what is waited for.
    """
    began = time.monotonic()
    deadline = began + timeout
    while True:
        result = predicate()
        value = await result if inspect.isawaitable(result) else result
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:.0f} s: {what or inspect.getsource(predicate).strip()}")
        rarer = min(max(SHORTEST_PAUSE, (time.monotonic() - began) / 10), LONGEST_PAUSE)
        await asyncio.sleep(rarer if interval is None else interval)


def load(source: str | Path | Object | Iterable[Object]) -> list[Object]:
    """Objects of a file, of a folder (its YAML files in order of name), of YAML text, or as they are."""
    if isinstance(source, dict):
        return [source]
    if isinstance(source, Path) and source.is_dir():
        return [each for path in sorted(source.glob("*.yaml")) for each in load(path)]
    if isinstance(source, str | Path):
        text = source.read_text() if isinstance(source, Path) else source
        return [document for document in yaml.load_all(text, LOADER) if document]
    return list(source)


class Client:
    """A connection to one API server as one user; use it with `async with`.

    A kind is named as `Pod`, or in full as `scheduling.k8s.io/v1beta1/PodGroup` where two groups have it. Objects of
    the group API go out in the version that the server has.
    """

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server: str = cluster["server"]
        self._ca = cluster.get("certificate-authority")
        self._headers = {"Authorization": f"Bearer {user['token']}"}
        self._session: aiohttp.ClientSession | None = None
        self._resources: dict[str, Resource] = {}

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=self._ca) if self._ca else False
        self._session = aiohttp.ClientSession(
            self.server,
            headers=self._headers,
            connector=aiohttp.TCPConnector(ssl=context, limit=64),
            timeout=aiohttp.ClientTimeout(total=60),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    # ------------------------------------------------------------------------------------------------------- requests

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Object:
        """One request; ApiError unless it succeeds."""
        assert self._session is not None, "use the client with `async with`"
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": accept}
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            async with self._session.request(method, path, data=data, params=params, headers=headers) as response:
                text = await response.text()
                try:
                    answer = json.loads(text)
                except ValueError:
                    answer = {"message": text}
                # The server says so while it opens the storage of a CRD that was installed again.
                if response.status == 429 and "initializing" in str(answer) and time.monotonic() < deadline:
                    await asyncio.sleep(0.1)
                    continue
                if response.status >= 400:
                    raise ApiError(response.status, answer, f"{method} {path}")
                return answer

    async def resources(self, *, refresh: bool = False) -> list[Resource]:
        """Every kind that the server has, the preferred version of each group first."""
        if refresh or not self._resources:
            found: dict[str, Resource] = {}
            for root in ("/api", "/apis"):
                for group in (await self.request("GET", root, accept=DISCOVERY))["items"]:
                    group_name = group["metadata"].get("name", "")
                    for version in group["versions"]:
                        api_version = f"{group_name}/{version['version']}" if group_name else version["version"]
                        for each in version.get("resources", []):
                            kind = each.get("responseKind", {}).get("kind")
                            if not kind:
                                continue
                            resource = Resource(
                                api_version,
                                kind,
                                each["resource"],
                                each["scope"] == "Namespaced",
                                frozenset(each["verbs"]),
                            )
                            found.setdefault(f"{api_version}/{kind}", resource)
                            found.setdefault(kind, resource)
            self._resources = found
        return [resource for name, resource in self._resources.items() if "/" in name]

    async def resource(self, kind: str) -> Resource:
        """What discovery says about one kind; asks again when it does not know it (a CRD may be new)."""
        await self.resources()
        if kind not in self._resources:
            await self.resources(refresh=True)
        for known in (kind, *versions.other_names(kind)):
            if known in self._resources:
                return self._resources[known]
        raise LookupError(f"the server has no kind {kind}")

    async def _as_served(self, thing: Object) -> tuple[Resource, Object]:
        """The kind of an object, and the object in the version that the server has of it."""
        resource = await self.resource(f"{thing['apiVersion']}/{thing['kind']}")
        return resource, versions.translated(thing, resource.api_version)

    # -------------------------------------------------------------------------------------------------------- objects

    async def apply(self, source: str | Path | Object | Iterable[Object], namespace: str | None = None) -> list[Object]:
        """Server-side apply of everything in a file, folder, YAML text, dict or list of dicts.

        `namespace` is for namespaced objects that name none. An object with `generateName` is created.
        """
        return [await self._apply(thing, namespace) for thing in load(source)]

    async def _apply(self, thing: Object, namespace: str | None) -> Object:
        metadata = thing["metadata"]
        if "name" not in metadata:
            return await self.create(thing, namespace)
        resource, thing = await self._as_served(thing)
        path = resource.path(metadata["name"], metadata.get("namespace") or namespace or "default")
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        content_type = PATCH_TYPES["apply"]
        answer = await self.request("PATCH", path, thing, params=params, content_type=content_type)
        if resource.kind == "CustomResourceDefinition" and "deletionTimestamp" in answer["metadata"]:
            # An earlier test has deleted it: it goes, and the kind with it, whatever is applied in the meantime.
            await self.wait_gone(resource.kind, metadata["name"])
            answer = await self.request("PATCH", path, thing, params=params, content_type=content_type)
        return answer

    async def create(self, thing: Object, namespace: str | None = None) -> Object:
        """POST one object."""
        resource, thing = await self._as_served(thing)
        where = thing["metadata"].get("namespace") or namespace or "default"
        return await self.request("POST", resource.path(namespace=where), thing)

    async def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        """One object."""
        return await self.request("GET", (await self.resource(kind)).path(name, namespace))

    async def find(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        """One object, or None if there is none of that name."""
        try:
            return await self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self, kind: str, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None
    ) -> list[Object]:
        """Objects of one namespace, or of all."""
        return (await self.list_raw(kind, namespace, labels=labels, fields=fields))["items"]

    async def list_raw(
        self, kind: str, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None
    ) -> Object:
        """The list object itself, with its resourceVersion."""
        given = {"labelSelector": labels, "fieldSelector": fields}
        params = {name: value for name, value in given.items() if value is not None}
        return await self.request("GET", (await self.resource(kind)).path(namespace=namespace), params=params)

    async def patch(
        self,
        kind: str,
        name: str,
        body: Any,
        namespace: str = "default",
        *,
        how: str = "merge",
        subresource: str | None = None,
    ) -> Object:
        """PATCH one object or a subresource; `how` is merge, strategic, json or apply."""
        path = (await self.resource(kind)).path(name, namespace, subresource)
        params = {"fieldManager": FIELD_MANAGER, "force": "true"} if how == "apply" else {"fieldManager": FIELD_MANAGER}
        return await self.request("PATCH", path, body, params=params, content_type=PATCH_TYPES[how])

    async def delete(
        self,
        kind: str,
        name: str,
        namespace: str = "default",
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
    ) -> Object:
        """DELETE one object, with the grace period of the object unless told otherwise."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        return await self.request("DELETE", (await self.resource(kind)).path(name, namespace), body)

    async def bind(self, pod: str, node: str, namespace: str = "default") -> None:
        """Bind a pod as a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        await self.request("POST", (await self.resource("Pod")).path(pod, namespace, "binding"), body)

    # ------------------------------------------------------------------------------------------------- waits, watches

    async def wait_for(
        self,
        kind: str,
        name: str,
        condition: Callable[[Object], Any],
        namespace: str = "default",
        *,
        timeout: float = LIMIT_SECONDS,
    ) -> Object:
        """Wait until one object exists and fulfils a condition; the object."""
        last: Object | None = None

        async def check() -> bool:
            nonlocal last
            last = await self.find(kind, name, namespace)
            return last is not None and bool(condition(last))

        try:
            await wait_until(check, timeout)
        except AssertionError:
            raise AssertionError(f"{kind} {namespace}/{name} not as wanted within {timeout:.0f} s:\n{last}") from None
        assert last is not None
        return last

    async def wait_gone(
        self, kind: str, name: str, namespace: str = "default", *, timeout: float = LIMIT_SECONDS
    ) -> None:
        """Wait until there is no object of that name."""

        async def gone() -> bool:
            return await self.find(kind, name, namespace) is None

        await wait_until(gone, timeout, f"{kind} {namespace}/{name} is gone")

    async def watch(
        self, kind: str, namespace: str | None = None, *, resource_version: str | None = None
    ) -> AsyncIterator[tuple[str, Object]]:
        """Changes from a resourceVersion on (from now without one), as (ADDED | MODIFIED | DELETED, object), for ever.

        The API server may end a watch whenever it likes; this one goes on where it ended.
        """
        assert self._session is not None
        path = (await self.resource(kind)).path(namespace=namespace)
        if resource_version is None:
            resource_version = (await self.list_raw(kind, namespace))["metadata"]["resourceVersion"]
        forever = aiohttp.ClientTimeout(total=None)
        while True:
            params = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
            try:
                async with self._session.get(path, params=params, timeout=forever, read_bufsize=2**20) as response:
                    if response.status >= 400:
                        raise ApiError(response.status, await response.json(), f"watch {path}")
                    buffer = bytearray()
                    async for chunk in response.content.iter_any():
                        buffer += chunk
                        *lines, rest = buffer.split(b"\n")
                        buffer = bytearray(rest)
                        for line in lines:
                            event = json.loads(line)
                            thing = event["object"]
                            if event["type"] == "ERROR":
                                raise ApiError(thing.get("code", 500), thing, f"watch {path}")
                            resource_version = thing["metadata"]["resourceVersion"]
                            if event["type"] != "BOOKMARK":
                                yield event["type"], thing
            except aiohttp.ClientPayloadError:
                continue

    @asynccontextmanager
    async def record(self, kind: str = "Pod", namespace: str | None = None) -> AsyncIterator[Recorder]:
        """Record every change of a kind while the block runs; objects that exist when it starts are not reported."""
        start = (await self.list_raw(kind, namespace))["metadata"]["resourceVersion"]
        recorder = Recorder()

        async def read() -> None:
            async for change, thing in self.watch(kind, namespace, resource_version=start):
                recorder.add(Change(time.monotonic(), change, thing))

        task = asyncio.create_task(read())
        recorder.task = task
        try:
            yield recorder
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@dataclass(frozen=True)
class Change:
    """One event of a watch."""

    at: float
    """time.monotonic() when it was read."""
    type: str
    """ADDED, MODIFIED or DELETED."""
    object: Object

    @property
    def name(self) -> str:
        """The name of the object, without its namespace."""
        return self.object["metadata"]["name"]

    @property
    def phase(self) -> str | None:
        """`status.phase`."""
        return self.object.get("status", {}).get("phase")

    @property
    def node(self) -> str | None:
        """Where a pod is bound."""
        return self.object.get("spec", {}).get("nodeName")

    @property
    def terminating(self) -> bool:
        """Whether deletion was asked for."""
        return "deletionTimestamp" in self.object["metadata"]


class Recorder:
    """Changes in the order of the watch, which is the order in which the API server made them (for one kind)."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def add(self, change: Change) -> None:
        """Append one change and wake whoever waits."""
        self.changes.append(change)
        self._news.set()

    def of(self, name: str) -> list[Change]:
        """The changes of one object."""
        return [change for change in self.changes if change.name == name]

    async def wait(self, condition: Callable[[Change], Any], timeout: float = LIMIT_SECONDS) -> Change:
        """The first recorded change that fulfils a condition, now or within the timeout."""
        seen = 0
        try:
            async with asyncio.timeout(timeout):
                while True:
                    self._news.clear()
                    for change in self.changes[seen:]:
                        if condition(change):
                            return change
                    seen = len(self.changes)
                    if self.task is not None and self.task.done():
                        self.task.result()  # raises what ended the watch
                    news = asyncio.create_task(self._news.wait())
                    tasks = {news} if self.task is None else {news, self.task}
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    news.cancel()
        except TimeoutError:
            story = "\n".join(f"  {each.type} {each.name} {each.phase} {each.node}" for each in self.changes[-30:])
            raise AssertionError(f"no such change within {timeout:.0f} s; the last ones:\n{story}") from None


async def wait_until_served(admin: Client, *kinds: str) -> None:
    """Poll until all of these kinds (``group/version/Kind``) can be listed. A definition is established before
    discovery shows its kind, and that comes before its storage answers.
    """

    async def served() -> bool:
        await admin.resources(refresh=True)
        try:
            for kind in kinds:
                await admin.list(kind)
        except (LookupError, ApiError):
            return False
        return True

    await wait_until(served, what=f"{', '.join(kinds)} are served")


async def wait_until_not_served(admin: Client, kind: str) -> None:
    """Poll until discovery does not show this kind (``group/version/Kind``) any more, which a deleted definition does
    for some seconds.
    """

    async def hidden() -> bool:
        await admin.resources(refresh=True)
        try:
            await admin.list(kind)
        except (LookupError, ApiError):
            return True
        return False

    await wait_until(hidden, what=f"{kind} is not served")
