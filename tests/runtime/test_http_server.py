"""The port: clients that send slowly, or nothing, or very many of which there are, and what it answers meanwhile."""

from __future__ import annotations

import contextlib
import errno
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest

from gangsched.messages import failures
from gangsched.runtime import http_server
from gangsched.runtime.http import TEXT, Answer, RefusedError, Request, parse_head
from gangsched.runtime.http_server import AT_ONCE, CONNECTIONS, MOST_HEAD, Server, raise_file_limit

PROBE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: Longer than any test: no client is closed because its time is over.
FOR_EVER = 1e6


class Site:
    """Answers /healthz; /wait when it is allowed to; and sends back what is posted to /echo."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Semaphore(0)

    def answer(self, request: Request) -> Answer:
        if request.path == "/fails":
            raise ValueError("on purpose")
        if request.path == "/wait":
            self.begun.release()
            assert self.go.wait(60)
        if request.path == "/echo":
            self.begun.release()
            assert self.go.wait(60)
            return Answer(HTTPStatus.OK, TEXT, request.body(1024))
        return Answer(HTTPStatus.OK, TEXT, b"x" * (5_000_000 if request.path == "/large" else 2))


@contextlib.contextmanager
def serving(**settings: Any) -> Iterator[tuple[Server, Site, Callable[[], socket.socket]]]:
    """A server, what it answers with, and a function that connects to it."""
    site, opened = Site(), contextlib.ExitStack()
    with Server("127.0.0.1", 0, site.answer, probes={"/healthz"}, **settings) as server, opened:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def connected() -> socket.socket:
            return opened.enter_context(socket.create_connection(server.server_address, timeout=60))

        try:
            yield server, site, connected
        finally:
            site.go.set()
            server.shutdown()
            thread.join()


def answer_to(connection: socket.socket, request: bytes = b"") -> tuple[int, bytes]:
    """Send a request; the status and the body of the answer. Status 0: the connection was closed without one."""
    received = bytearray()
    with contextlib.suppress(ConnectionError):
        connection.sendall(request)
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65_536):
            received += data
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]) if head else 0, body


def is_open(connection: socket.socket) -> bool:
    """Whether the server has not closed it yet."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        connection.settimeout(60)


@pytest.fixture
def _many_files() -> Iterator[None]:
    """This process may open some thousands of files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_file_limit()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_many_files")
def test_a_thousand_slow_clients_do_not_silence_probes() -> None:
    """/healthz answers beside 1,000 clients that never end their request; at most CONNECTIONS of all are open."""
    with serving(patience=FOR_EVER) as (server, _, connected):
        for number in range(1000):
            with contextlib.suppress(ConnectionError):
                connected().sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
            if number % 100 == 99:
                assert answer_to(connected(), PROBE) == (200, b"xx")
                assert server.connections <= CONNECTIONS


@pytest.mark.usefixtures("_many_files")
def test_half_open_connections_and_sixteen_scrapers_do_not_silence_probes() -> None:
    """500 connections never send a byte. Each scraper gets every answer meanwhile, and so does the kubelet."""
    scrape, statuses = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", []
    with serving(patience=FOR_EVER) as (server, _, connected):
        for _ in range(500):
            with contextlib.suppress(ConnectionError):
                connected()

        def scrapes() -> None:
            for _ in range(20):
                with socket.create_connection(server.server_address, timeout=60) as connection:
                    statuses.append(answer_to(connection, scrape)[0])

        scrapers = [threading.Thread(target=scrapes) for _ in range(16)]
        for each in scrapers:
            each.start()
        probes = {answer_to(connected(), PROBE) for _ in range(20)}
        for each in scrapers:
            each.join()
        assert probes == {(200, b"xx")}
        assert statuses == [200] * 320
        assert server.connections <= CONNECTIONS


def test_up_to_the_bound_no_client_is_closed() -> None:
    """CONNECTIONS slow clients stay; for one more the oldest is closed."""
    with serving(patience=FOR_EVER) as (server, _, connected):
        slow = [connected() for _ in range(CONNECTIONS)]
        for each in slow:
            each.sendall(b"GET ")
        for _ in range(3000):
            if server.connections == CONNECTIONS:
                break
            threading.Event().wait(0.01)
        assert all(map(is_open, slow))
        assert answer_to(connected(), PROBE)[0] == 200
        assert answer_to(slow[0]) == (0, b"")
        assert all(map(is_open, slow[1:]))


@pytest.mark.parametrize("begin", [b"", b"GET /healthz HTTP/1.1\r\nX: "])
def test_a_request_has_one_deadline_from_the_accept(begin: bytes) -> None:
    """A client that goes on sending byte by byte is closed, as one that sends nothing is."""
    with serving(patience=0.3) as (_, _, connected):
        connection = connected()
        connection.sendall(begin)
        for _ in range(3000):
            if begin:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(b"a")
            if not is_open(connection):
                break
            threading.Event().wait(0.02)
        else:
            pytest.fail("it may send for ever")


def test_a_body_has_the_rest_of_the_deadline() -> None:
    """A client whose body does not come is told so, and its request ends."""
    with serving(patience=0.3) as (_, site, connected):
        site.go.set()
        assert answer_to(connected(), b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nab")[0] == 408


def test_a_body_is_read_when_its_turn_comes() -> None:
    """A client that asks whether to send its body hears so only when the body is wanted."""
    with serving(patience=FOR_EVER) as (_, site, connected):
        connection = connected()
        connection.sendall(b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert site.begun.acquire(timeout=60)
        assert is_open(connection)
        site.go.set()
        assert connection.recv(100).startswith(b"HTTP/1.1 100 Continue")
        assert answer_to(connection, b"hello") == (200, b"hello")


def test_requests_at_once_are_bounded_and_probes_are_not_among_them() -> None:
    """AT_ONCE requests are answered at a time; the next one is refused, and a probe is answered."""
    with serving(patience=FOR_EVER) as (_, site, connected):
        waiting = [connected() for _ in range(AT_ONCE)]
        for each in waiting:
            each.sendall(b"GET /wait HTTP/1.1\r\n\r\n")
        for _ in waiting:
            assert site.begun.acquire(timeout=60)
        assert answer_to(connected(), b"GET /wait HTTP/1.1\r\n\r\n") == (
            503,
            f"{failures.TOO_MANY_REQUESTS}\n".encode(),
        )
        assert answer_to(connected(), PROBE) == (200, b"xx")
        site.go.set()
        assert {answer_to(each) for each in waiting} == {(200, b"xx")}


def test_a_client_that_does_not_read_its_answer_is_closed() -> None:
    """It has as long to receive as it has to send."""
    with serving(patience=0.3) as (server, _, connected):
        connected().sendall(b"GET /large HTTP/1.1\r\n\r\n")
        for _ in range(3000):
            if not server.connections:
                break
            threading.Event().wait(0.02)
        assert not server.connections


def test_no_file_left_is_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without a free file closes the oldest slow client, and accepts again when there is one."""
    failing = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENFILE, "Too many open files in system")]
    found: list[str] = []
    monkeypatch.setattr(http_server._log, "warning", lambda text, **_: found.append(text))
    with serving(patience=FOR_EVER) as (server, _, connected):
        slow = connected()
        slow.sendall(b"GET ")
        while not server.connections:
            threading.Event().wait(0.01)

        accept = server._accept_one

        def accepted() -> socket.socket:
            if failing:
                raise failing.pop(0)
            return accept()

        monkeypatch.setattr(server, "_accept_one", accepted)
        assert answer_to(connected(), PROBE) == (200, b"xx")
        assert not failing
        assert answer_to(slow) == (0, b"")
    assert found == ["the port has no file left for connections"]


def test_an_error_in_an_answer_ends_neither_the_port_nor_other_requests() -> None:
    """It is status 500."""
    with serving() as (_, _, connected):
        assert answer_to(connected(), b"GET /fails HTTP/1.1\r\n\r\n")[0] == 500
        assert answer_to(connected(), PROBE)[0] == 200


GET, POST = b"GET /healthz HTTP/1.1\r\n", b"POST /echo HTTP/1.1\r\n"
LONG = GET + b"a: " + b"b" * MOST_HEAD
STATUS = {
    "nothing": (b"\r\n\r\n", 400),
    "two words": (b"GET /healthz\r\n\r\n", 400),
    "another protocol": (b"PRI * HTTP/2.0\r\n\r\n", 400),
    "another verb": (b"DELETE /healthz HTTP/1.1\r\n\r\n", 501),
    "99 headers": (GET + b"a: b\r\n" * 99 + b"\r\n", 200),
    "101 headers": (GET + b"a: b\r\n" * 101 + b"\r\n", 431),
    "longest head": (LONG[: MOST_HEAD - 4] + b"\r\n\r\n", 200),
    "head too long": (LONG[: MOST_HEAD + 1], 431),
    "no length": (POST + b"\r\n", 411),
    "negative length": (POST + b"Content-Length: -1\r\n\r\n", 411),
    "longest body": (POST + b"Content-Length: 1024\r\n\r\n" + b"a" * 1024, 200),
    "body too long": (POST + b"Content-Length: 1025\r\n\r\n", 413),
    "huge length": (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
}


@pytest.mark.parametrize(("request_", "status"), STATUS.values(), ids=STATUS)
def test_what_is_no_request_has_a_status(request_: bytes, status: int) -> None:
    """Each bound of a request has an answer on either side of it, and the port goes on."""
    with serving() as (_, site, connected):
        site.go.set()
        assert answer_to(connected(), request_)[0] == status
        assert answer_to(connected(), PROBE)[0] == 200


def test_heads_are_parsed_into_verb_path_query_and_headers() -> None:
    """Names of headers are of any case."""
    head = parse_head(b"GET /a?b=c HTTP/1.1\r\nX-A: 1\r\n\r\n")
    assert head[:3] == ("get", "/a", "b=c")
    assert head.headers.get("x-a") == "1"
    with pytest.raises(RefusedError):
        parse_head(b"GET /a b HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(("soft", "hard", "then"), [(256, 4096, 4096), (256, 100_000, 65_536), (4096, 4096, None)])
def test_the_limit_of_files_is_raised_as_far_as_it_goes(
    soft: int, hard: int, then: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hard limit stays, and a soft limit that is high enough too."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: found.append(limits))
    raise_file_limit()
    assert found == ([(then, hard)] if then else [])
