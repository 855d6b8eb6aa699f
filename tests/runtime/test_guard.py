"""Who may read metrics: by certificate and bearer token, judged by the API server."""

from __future__ import annotations

import base64
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yarl
from prometheus_client import CollectorRegistry

from gangsched.cluster.kube.access import Access
from gangsched.cluster.kube.client import UnreachableError
from gangsched.runtime.connecting import StartError, certificate_of, probe_host
from gangsched.runtime.guard import REMEMBERED, Certificate, Guard
from gangsched.runtime.health import HealthServer
from gangsched.runtime.http import TEXT, Answer
from gangsched.runtime.process import serves_page
from gangsched.runtime.settings import Configuration, Http
from tests.controlplane import certificates


class Server:
    """Stands in for an API server, with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[tuple[str, str, str]] = []
        self.down = False
        self.judges = {"good": Access.ALLOWED, "other": Access.FORBIDDEN}

    def ask(self, token: str, verb: str, path: str) -> Access:
        """Judge."""
        self.asked.append((token, verb, path))
        if self.down:
            raise UnreachableError("no connection")
        return self.judges.get(token, Access.UNKNOWN)


@pytest.fixture
def api() -> Server:
    """It knows the tokens good, which may, and other, which may not."""
    return Server()


def status(api: Server, header: str, guard: Guard | None = None) -> int:
    """What a request for /metrics with this header gets: 200 where it is let through."""
    refused = (guard or Guard(api.ask, clock=lambda: api.now)).refusal("get", "/metrics", header)
    return 200 if refused is None else refused[0]


def basic(text: str) -> str:
    """The header of a browser in which a name and a password were typed."""
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        ("Bearer good", 200),
        ("bearer  good ", 200),
        ("Bearer other", 403),
        ("Bearer made-up", 401),
        ("Bearer ", 401),
        ("Bearer", 401),
        ("Basic Z29vZDpnb29k", 401),
        ("", 401),
    ],
)
def test_a_token_is_judged_by_the_api_server(header: str, answer: int, api: Server) -> None:
    """Without a bearer token nothing is asked; one that is not known is 401, one that may not is 403."""
    assert status(api, header) == answer
    assert bool(api.asked) is (len(header.split()) == 2 and header.lower().startswith("bearer"))


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        ("Bearer good", 200),
        (basic("anybody:good"), 200),
        (basic(":good "), 200),
        (basic("anybody:other"), 403),
        (basic("anybody:made-up"), 401),
        (basic("anybody:"), 401),
        (basic("good"), 401),
        ("Basic not/base64!", 401),
        ("Basic w6k6w6k=", 401),
        ("Digest good", 401),
    ],
)
def test_a_browser_may_send_the_token_as_a_password(header: str, answer: int, api: Server) -> None:
    """Where that is allowed, which is not so for metrics; the name does not matter."""
    refused = Guard(api.ask, clock=lambda: api.now).refusal("get", "/ui", header, passwords=True)
    assert (200 if refused is None else refused[0]) == answer
    if header.startswith("Basic"):
        assert status(api, header) == 401


def test_an_answer_holds_for_ten_seconds(api: Server) -> None:
    """A scrape costs two requests at most, and a right that is taken away ends soon."""
    guard = Guard(api.ask, clock=lambda: api.now)
    assert [status(api, "Bearer good", guard) for _ in range(5)] == [200] * 5
    assert len(api.asked) == 1
    api.judges["good"] = Access.FORBIDDEN
    api.now += 11
    assert status(api, "Bearer good", guard) == 403
    assert guard.refusal("get", "/configz", "Bearer good") is not None
    assert {path for _, _, path in api.asked} == {"/metrics", "/configz"}


def test_nothing_is_served_while_the_api_server_does_not_answer(api: Server) -> None:
    """The answer is 503, and is not remembered."""
    guard = Guard(api.ask, clock=lambda: api.now)
    api.down = True
    assert status(api, "Bearer good", guard) == 503
    api.down = False
    assert status(api, "Bearer good", guard) == 200


def test_made_up_tokens_take_bounded_room(api: Server) -> None:
    """So many answers are remembered; the oldest goes."""
    guard = Guard(api.ask, clock=lambda: api.now)
    for number in range(REMEMBERED + 50):
        assert status(api, f"Bearer {number}", guard) == 401
    assert len(guard._known) == REMEMBERED


def test_made_up_tokens_do_not_fill_the_api_server(api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most four requests ask at once; another one that waits in vain gets 503."""
    monkeypatch.setattr("gangsched.runtime.guard._PATIENCE_SECONDS", 0.0)
    over, asking, lock = threading.Event(), threading.Semaphore(0), threading.Lock()
    most = [0, 0]

    def ask(token: str, verb: str, path: str) -> Access:
        with lock:
            most[0] += 1
            most[1] = max(most)
        asking.release()
        over.wait(30)
        with lock:
            most[0] -= 1
        return Access.UNKNOWN

    guard = Guard(ask)
    threads = [threading.Thread(target=guard.refusal, args=("get", "/metrics", f"Bearer {n}")) for n in range(4)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert asking.acquire(timeout=30)
    refused = guard.refusal("get", "/metrics", "Bearer more")
    over.set()
    for thread in threads:
        thread.join()
    assert refused is not None
    assert (refused[0], most[1]) == (HTTPStatus.SERVICE_UNAVAILABLE, 4)


@pytest.fixture
def files(tmp_path: Path) -> certificates.Certificates:
    """A certificate for loopback."""
    return certificates.create(tmp_path / "one")


@pytest.fixture
def secured(api: Server, files: certificates.Certificates) -> Iterator[HealthServer]:
    """A server with a certificate, that lets through whom the API server knows."""
    running = HealthServer(
        host="127.0.0.1",
        port=0,
        alive={},
        ready={},
        registry=CollectorRegistry(),
        configuration=b"{}",
        guard=Guard(api.ask, clock=lambda: api.now),
        certificate=Certificate(files.server, files.server_key),
    )
    running.start()
    yield running
    running.stop()


async def test_only_metrics_and_configuration_need_a_token(
    secured: HealthServer, files: certificates.Certificates
) -> None:
    """By TLS; probes and the names of the paths are for all, with HEAD as with GET."""
    context = ssl.create_default_context(cafile=str(files.ca))
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{secured.port}", connector=connector) as session:
        for path in ("/", "/healthz", "/livez", "/readyz"):
            async with session.get(path) as answer:
                assert answer.status == 200
        for path in ("/metrics", "/configz"):
            for token, expected in (("good", 200), ("other", 403), ("made-up", 401)):
                async with session.get(path, headers={"Authorization": f"Bearer {token}"}) as answer:
                    assert answer.status == expected
            async with session.head(path) as answer:
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


async def test_the_page_is_for_those_who_may_get_it(secured: HealthServer, files: certificates.Certificates) -> None:
    """All that is below /ui is asked about by its path and verb; a browser is asked for a password."""
    secured.page = lambda request: Answer(HTTPStatus.OK, TEXT, f"{request.verb} {request.path}".encode())
    context = ssl.create_default_context(cafile=str(files.ca))
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{secured.port}", connector=connector) as session:
        async with session.get("/ui") as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"].startswith("Basic ")
        for path in ("/ui", "/ui/plan"):
            for token, expected in (("good", 200), ("other", 403), ("made-up", 401)):
                async with session.post(path, headers={"Authorization": basic(f"x:{token}")}, data=b"a") as answer:
                    assert answer.status == expected
                    assert (expected != 200) or await answer.text() == f"post {path}"
        async with session.get("/uix", headers={"Authorization": "Bearer good"}) as answer:
            assert answer.status == 404


async def test_paths_that_are_nearly_guarded_show_nothing(
    secured: HealthServer, files: certificates.Certificates
) -> None:
    """A path is guarded and served by its exact text, so that no spelling of it is served without a token."""
    secured.page = lambda request: Answer(HTTPStatus.OK, TEXT, b"a secret")
    context = ssl.create_default_context(cafile=str(files.ca))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        for path in (
            "/metrics/",
            "//metrics",
            "/METRICS",
            "/%6detrics",
            "/healthz/../metrics",
            "/./ui",
            "/ui%2fplan",
            "//ui",
        ):
            url = yarl.URL(f"https://127.0.0.1:{secured.port}{path}", encoded=True)
            async with session.get(url) as answer:
                assert (answer.status, await answer.text()) == (404, "404: Not Found\n"), path
        async with session.get(f"https://127.0.0.1:{secured.port}/metrics?x=/healthz") as answer:
            assert answer.status == 401


def test_a_body_is_not_waited_for_from_those_who_may_not_send_it(
    secured: HealthServer, files: certificates.Certificates
) -> None:
    """The answer comes before any of the body does."""
    secured.page = lambda request: Answer(HTTPStatus.OK, TEXT, request.body(100))
    context = ssl.create_default_context(cafile=str(files.ca))
    with (
        socket.create_connection(("127.0.0.1", secured.port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(b"POST /ui/plan HTTP/1.1\r\nContent-Length: 100\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")


async def test_a_client_that_never_shakes_hands_holds_up_no_other(
    secured: HealthServer, files: certificates.Certificates
) -> None:
    """Handshakes are for the thread of each connection; plain HTTP gets no answer."""
    hanging = [socket.create_connection(("127.0.0.1", secured.port)) for _ in range(20)]
    context = ssl.create_default_context(cafile=str(files.ca))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        async with session.get(f"https://127.0.0.1:{secured.port}/healthz") as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{secured.port}/metrics", headers={"Authorization": "Bearer good"})
    for each in hanging:
        each.close()


def test_a_replaced_certificate_is_used(files: certificates.Certificates, tmp_path: Path) -> None:
    """After ten seconds; one that cannot be used leaves the last."""
    now = [0.0]
    used = Certificate(files.server, files.server_key, clock=lambda: now[0])
    first = used.context()
    other = certificates.create(tmp_path / "two")
    shutil.copy(other.server, files.server)
    now[0] += 11
    assert used.context() is first, "the key is that of another certificate"
    shutil.copy(other.server_key, files.server_key)
    now[0] += 11
    second = used.context()
    assert second is not first
    files.server.unlink()
    now[0] += 11
    assert used.context() is second


def test_a_certificate_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """The text names both files."""
    http = Http(tls_cert_file=str(tmp_path / "no.crt"), tls_key_file=str(tmp_path / "no.key"))
    with pytest.raises(StartError, match=r"http\.tlsCertFile .*no\.crt and http\.tlsKeyFile .*no\.key cannot be used"):
        certificate_of(msgspec.structs.replace(Configuration(), http=http))


@pytest.mark.parametrize(("in_a_pod", "host"), [(True, None), (False, "127.0.0.1")])
def test_where_the_port_is(in_a_pod: bool, host: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every address of a pod, and on loopback elsewhere; what is configured counts before both."""
    token = tmp_path / "token"
    if in_a_pod:
        token.touch()
    monkeypatch.setattr("gangsched.runtime.connecting._SERVICE_ACCOUNT", token)
    assert probe_host(Configuration()) == host
    http = Http(bind_address="10.1.2.3")
    assert probe_host(msgspec.structs.replace(Configuration(), http=http)) == "10.1.2.3"


@pytest.mark.parametrize(
    ("settings", "served"),
    [
        ({}, True),
        ({"bind_address": "10.1.2.3"}, False),
        ({"bind_address": "10.1.2.3", "authorize": True}, True),
        ({"bind_address": "10.1.2.3", "ui": "always"}, True),
        ({"ui": "never"}, False),
    ],
)
def test_where_the_page_is_served(settings: dict[str, Any], served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On loopback, where this test is, and where those who ask are known; elsewhere only by a setting."""
    monkeypatch.setattr("gangsched.runtime.connecting._SERVICE_ACCOUNT", Path("/nowhere"))
    assert serves_page(msgspec.structs.replace(Configuration(), http=Http(**settings))) is served
