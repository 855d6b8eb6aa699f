"""The adapter on a real API server, behind a proxy that can be told to fail, and what came out of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gangsched.cluster.kube.adapter import KubeCluster
from gangsched.cluster.kube.connection import load_connection
from gangsched.cluster.port import Cluster
from gangsched.core.actions import Action, PodRef
from gangsched.core.events import Changed, Event, Gone, LeadershipChanged, WriteDone
from tests.controlplane import plane
from tests.controlplane.client import Client
from tests.controlplane.jobsets import DEFINITION, serve_jobsets
from tests.controlplane.plane import ControlPlane
from tests.faulty_proxy import FaultyProxy

#: The type checker's word that the adapter is what the decision loop expects.
_PORT: type[Cluster] = KubeCluster

E = TypeVar("E", bound=Event)
R = TypeVar("R")
LIMIT_SECONDS = 30.0


class Reader:
    """The decision thread's side of an adapter, with everything that came out of it."""

    def __init__(self, cluster: KubeCluster) -> None:
        self.cluster = cluster
        self.events: list[Event] = []
        self._next_id = 0

    def next_id(self) -> int:
        """A fresh action id."""
        self._next_id += 1
        return self._next_id

    async def until(self, kind: type[E], condition: Callable[[E], Any] = lambda _: True, since: int = 0) -> E:
        """The first event of a kind, from index `since` on, that fulfils a condition; waits for it."""
        deadline = time.monotonic() + LIMIT_SECONDS
        at = since
        while True:
            for event in self.events[at:]:
                if isinstance(event, kind) and condition(event):
                    return event
            at = len(self.events)
            if time.monotonic() > deadline or (self.cluster.stopped and not len(self.cluster._inbox)):
                story = "\n".join(f"  {each}"[:300] for each in self.events[-15:])
                raise AssertionError(f"no such {kind.__name__}; {self.cluster.health()}; the last events:\n{story}")
            _, new = await asyncio.to_thread(self.cluster.wait, self.cluster.now() + 1.0)
            self.events += new

    async def shown(self, kind: type[R], condition: Callable[[R], Any] = lambda _: True, since: int = 0) -> R:
        """The first object of a kind that is created or changed and fulfils a condition; waits for it."""

        def matches(event: Changed) -> bool:
            return isinstance(event.record, kind) and bool(condition(event.record))

        found = (await self.until(Changed, matches, since)).record
        assert isinstance(found, kind)
        return found

    async def gone(self, kind: str) -> tuple[str, str]:
        """Namespace and name of the first object of a kind that is gone; waits for it."""
        found = await self.until(Gone, lambda e: e.kind == kind)
        return found.namespace, found.name

    async def leading(self) -> None:
        """Wait until it leads."""
        await self.until(LeadershipChanged, lambda e: e.leading)

    async def do(self, *actions: Action) -> list[WriteDone]:
        """Submit actions with ids and wait for their answers, in the order of the actions."""
        since = len(self.events)
        self.cluster.submit(actions)
        return [
            await self.until(WriteDone, lambda e, i=action.id: e.action_id == i, since)  # type: ignore[misc,union-attr]
            for action in actions
        ]

    def fetch(self) -> list[Event]:
        """Everything so far."""
        self.events += self.cluster.poll()[1]
        return self.events


@pytest.fixture(autouse=True)
def no_public_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """To load those of the machine, which nothing here is signed by, takes longer than most of these tests."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, os.devnull)


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultyProxy]:
    """A proxy in front of the shared control plane that passes everything until told otherwise."""
    with FaultyProxy(control_plane.server, control_plane.ca_file) as running:
        yield running


@pytest.fixture
def proxied_kubeconfig(control_plane: ControlPlane, scheduler_kubeconfig: Path, proxy: FaultyProxy) -> Path:
    """A kubeconfig of the scheduler's user (with the rights of manifests/) through the proxy."""
    return control_plane.kubeconfig(plane.SCHEDULER_USER, proxy.url)


@pytest.fixture
def make_cluster(proxied_kubeconfig: Path) -> Iterator[Callable[..., Awaitable[Reader]]]:
    """A function that starts an adapter, with the parameters of KubeCluster; stopped after the test."""
    started: list[KubeCluster] = []

    async def make(**parameters: Any) -> Reader:
        parameters = {"lease": None, "discovery_seconds": 0.3, **parameters}
        cluster = KubeCluster(await load_connection(proxied_kubeconfig), **parameters)
        started.append(cluster)
        cluster.start()
        return Reader(cluster)

    yield make
    for each in started:
        each.stop()


def pod_body(name: str, **spec: Any) -> dict[str, Any]:
    """A small pod for our scheduler."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "py-gang-scheduler", "containers": [container], **spec},
    }


async def make_pod(admin: Client, namespace: str, name: str, **spec: Any) -> PodRef:
    """Create a small pod for our scheduler; which one it is."""
    created = await admin.create(pod_body(name, **spec), namespace)
    return PodRef(namespace, name, created["metadata"]["uid"])


@pytest.fixture
async def jobsets(admin: Client) -> AsyncIterator[None]:
    """The kind is served; nobody acts on its objects."""
    await serve_jobsets(admin)
    yield
    await admin.delete("CustomResourceDefinition", DEFINITION["metadata"]["name"])
