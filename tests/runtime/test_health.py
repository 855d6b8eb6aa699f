"""Probes, scrapes, and the judgement behind them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from gangsched.core.events import Synced
from gangsched.runtime.health import DecisionPulse, HealthServer
from gangsched.runtime.http import TEXT, Answer


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Facts:
    """What the checks of the server under test say."""

    def __init__(self) -> None:
        self.alive: str | None = None
        self.ready: str | None = "the caches are not synced yet"


@pytest.fixture
def facts() -> Facts:
    """Alive, not ready."""
    return Facts()


@pytest.fixture
def server(facts: Facts) -> Iterator[HealthServer]:
    """A running server."""
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(3)
    running = HealthServer(
        host="127.0.0.1",
        port=0,
        alive={"decisions": lambda: facts.alive},
        ready={"caches": lambda: facts.ready},
        registry=registry,
        configuration=b'{"http": {"port": 1}}',
    )
    running.start()
    yield running
    running.stop()


async def get(server: HealthServer, path: str) -> tuple[int, str]:
    """Status and text of one request."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}{path}") as response:
        return response.status, await response.text()


async def test_ready_only_with_caches(server: HealthServer, facts: Facts) -> None:
    """A process whose caches are not listed is alive and not ready; afterwards it is both."""
    assert await get(server, "/healthz") == (200, "ok\n")
    assert await get(server, "/livez") == (200, "ok\n")
    assert await get(server, "/readyz") == (503, "caches: the caches are not synced yet\n")
    facts.ready = None
    assert await get(server, "/readyz") == (200, "ok\n")


async def test_what_is_dead_is_neither_alive_nor_ready(server: HealthServer, facts: Facts) -> None:
    """A failed liveness check says what is wrong, and fails readiness too."""
    facts.alive, facts.ready = "the decision thread has ended", None
    assert await get(server, "/healthz") == (503, "decisions: the decision thread has ended\n")
    assert await get(server, "/readyz") == (503, "decisions: the decision thread has ended\n")


async def test_metrics_and_configuration(server: HealthServer) -> None:
    """/metrics is Prometheus text, /configz JSON, / names all paths, and others do not exist."""
    paths = (await get(server, "/"))[1].split()
    assert paths == ["/configz", "/healthz", "/livez", "/metrics", "/readyz"]
    assert 404 not in [(await get(server, path))[0] for path in paths]
    status, text = await get(server, "/metrics")
    assert status == 200
    assert "things_total 3.0" in text
    assert json.loads((await get(server, "/configz"))[1]) == {"http": {"port": 1}}
    assert (await get(server, "/debug"))[0] == 404
    assert (await get(server, "/ui"))[0] == 404, "there is no page"
    server.page = lambda request: Answer(HTTPStatus.OK, TEXT, f"{request.path}?{request.query}".encode())
    assert (await get(server, "/ui/nodes?a=1"))[1] == "/ui/nodes?a=1"
    assert "/ui" in (await get(server, "/"))[1].split()
    url = f"http://127.0.0.1:{server.port}/metrics"
    async with aiohttp.ClientSession() as session, session.post(url, data=b"x" * 1000) as answer:
        assert answer.status == 405


async def test_answers_while_another_thread_computes(server: HealthServer) -> None:
    """A thread that computes without pause does not keep the probe from being answered."""
    stop = threading.Event()

    def compute() -> None:
        number = 0
        while not stop.is_set():
            number = (number * 31 + 7) % 1_000_003

    worker = threading.Thread(target=compute)
    worker.start()
    try:
        assert await get(server, "/healthz") == (200, "ok\n")
        assert worker.is_alive()
    finally:
        stop.set()
        worker.join()


def test_port_that_is_taken(facts: Facts) -> None:
    """A port that somebody else has is an OSError at the start, not a thread that dies unseen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = HealthServer(
            host="127.0.0.1",
            port=taken.getsockname()[1],
            alive={},
            ready={},
            registry=CollectorRegistry(),
            configuration=b"{}",
        )
        with pytest.raises(OSError, match="in use"):
            server.start()
        server.stop()


def test_decision_thread_that_is_stuck() -> None:
    """Waiting for ever is healthy; one step that takes a minute is not; and a dead thread never is."""
    clock = Clock()
    pulse = DecisionPulse(stuck_after_seconds=60.0, clock=clock)
    pulse.busy()
    clock.now += 59
    assert pulse.check() is None
    clock.now += 2
    assert pulse.check() == "the decision thread has been in one step for 61 s"
    pulse.deciding("ns/g")
    assert pulse.check() == "the decision thread has been deciding ns/g for 61 s"
    assert pulse.under_way() == ("ns/g", 0.0)
    pulse.decided([], [], 61.0, 0.0)
    assert pulse.check() is None
    pulse.idle()
    clock.now += 1000
    assert pulse.check() is None
    pulse.failed("KeyError('x')")
    assert pulse.check() == "the decision thread has ended: KeyError('x')"


def test_synced_is_seen_in_the_events() -> None:
    """The caches count as complete from the first Synced on."""
    pulse = DecisionPulse()
    pulse.handled([], [], 0.0, 0.0)
    assert pulse.check_synced() == "the caches are not synced yet"
    pulse.handled([Synced()], [], 0.0, 0.0)
    assert pulse.check_synced() is None
