"""The HTTP server for probes, scrapes and the curious, and what it judges by.

It has threads of its own, so that it answers while the decision thread plans; the interpreter switches threads every
few milliseconds.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gangsched.core.actions import Action
from gangsched.core.decision import Decision
from gangsched.core.events import Event, Synced
from gangsched.messages import failures
from gangsched.runtime.guard import Certificate, Guard
from gangsched.runtime.loop import Observer

#: A check returns None when all is well, else what is wrong.
Check = Callable[[], str | None]


class DecisionPulse(Observer):
    """Knows whether the decision loop moves, and whether the caches have been synced."""

    def __init__(self, *, stuck_after_seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stuck_after_seconds = stuck_after_seconds
        self._clock = clock
        self._busy_since: float | None = None
        self._deciding: tuple[str, float] | None = None
        self._failure: str | None = None
        self.synced = False

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        if not self.synced and any(isinstance(event, Synced) for event in events):
            self.synced = True
        self.busy()

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self.busy()

    def deciding(self, gang: str) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._deciding = gang, self._clock()

    def busy(self) -> None:
        """The loop has begun its next step."""
        self._deciding = None
        self._busy_since = self._clock()

    def idle(self) -> None:
        """The loop waits for something to happen, which may take for ever."""
        self._busy_since = None

    def failed(self, reason: str) -> None:
        """The loop has ended without a request to stop."""
        self._failure = reason

    def under_way(self) -> tuple[str, float] | None:
        """The gang that is being decided, and for how many seconds; from any thread."""
        current = self._deciding
        return (current[0], self._clock() - current[1]) if current is not None else None

    def check(self) -> str | None:
        """None, or why no decisions are made."""
        if self._failure is not None:
            return failures.thread_ended(failure=self._failure)
        since = self._busy_since
        if since is not None and (seconds := self._clock() - since) > self._stuck_after_seconds:
            current = self._deciding
            if current is not None:
                return failures.decision_stands(seconds=seconds, gang=current[0])
            return failures.thread_stands(seconds=seconds)
        return None

    def check_synced(self) -> str | None:
        """None, or that caches are not complete."""
        return None if self.synced else failures.NOT_SYNCED


class HealthServer:
    """Serves /healthz (also as /livez), /readyz, /metrics and /configz in threads of its own, and their names at /.

    ``alive`` and ``ready`` map names of checks to checks; a readiness probe runs both. ``configuration`` is sent as it
    is (JSON). ``host`` None listens on all addresses, port 0 takes a free one; ``port`` tells which. The standard
    library's server is enough for probes and takes no time to import. ``pages`` has further texts by path. With a
    ``certificate`` all of it is TLS; with a ``guard`` all but probes is for those whom it lets through.
    """

    def __init__(
        self,
        *,
        host: str | None,
        port: int,
        alive: Mapping[str, Check],
        ready: Mapping[str, Check],
        registry: CollectorRegistry,
        configuration: bytes,
        guard: Guard | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self.port = port
        self.pages: dict[str, Callable[[], str]] = {}
        self._guard = guard
        self._certificate = certificate
        self._host = host
        self._alive = dict(alive)
        self._ready = {**self._alive, **ready}
        self._registry = registry
        self._configuration = configuration
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Return when the port is open. Raises OSError when it cannot be opened."""
        self._server = _Server(self._host, self.port, self._answer, self._certificate)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="health", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the port and end the threads. May be called again."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
        if self._thread is not None:
            self._thread.join()

    def _answer(self, verb: str, path: str, authorization: str) -> _Answer:
        if self._guard is not None and (path in _GUARDED or path in self.pages):
            refused = self._guard.refusal(verb, path, authorization)
            if refused is not None:
                return _Answer(refused[0], _TEXT, f"{refused[1]}\n".encode())
        match path:
            case "/":
                return _Answer(HTTPStatus.OK, _TEXT, "".join(f"{each}\n" for each in (*_PATHS, *self.pages)).encode())
            case "/healthz" | "/livez":
                return _judgement(self._alive)
            case "/readyz":
                return _judgement(self._ready)
            case "/metrics":
                return _Answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry))
            case "/configz":
                return _Answer(HTTPStatus.OK, "application/json; charset=utf-8", self._configuration)
        if path in self.pages:
            return _Answer(HTTPStatus.OK, _TEXT, self.pages[path]().encode())
        return _Answer(HTTPStatus.NOT_FOUND, _TEXT, b"404: Not Found\n")


_TEXT = "text/plain; charset=utf-8"
_PATHS = ("/configz", "/healthz", "/livez", "/metrics", "/readyz")
#: What names pods, gangs and nodes.
_GUARDED = frozenset({"/configz", "/metrics"})
#: Whoever sends no complete request within this time is not served.
_PATIENCE_SECONDS = 10.0


class _Answer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


class _Server(ThreadingHTTPServer):
    """One port; ``answer`` makes the answer for a verb, a path and the header Authorization."""

    daemon_threads = True

    def __init__(
        self, host: str | None, port: int, answer: Callable[[str, str, str], _Answer], certificate: Certificate | None
    ) -> None:
        self.answer = answer
        self._certificate = certificate
        everywhere = host is None and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if everywhere or ":" in (host or "") else socket.AF_INET
        self._everywhere = everywhere
        super().__init__((host or "", port), _Handler)

    def server_bind(self) -> None:
        """Bind, for IPv4 too where all addresses are meant; without looking up a name, which may take seconds."""
        if self._everywhere:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection. Its handshake is for the thread that serves it: no other one waits for that."""
        request, address = super().get_request()
        if self._certificate is None:
            return request, address
        try:
            context = self._certificate.context()
            return context.wrap_socket(request, server_side=True, do_handshake_on_connect=False), address
        except BaseException:
            request.close()
            raise

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is no trouble of ours."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE_SECONDS
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Shake hands first, where the port has a certificate."""
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(_PATIENCE_SECONDS)
            self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:
        """Answer."""
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        """Answer without the body."""
        self._send(with_body=False)

    def _send(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        answer = self.server.answer(self.command.lower(), path, self.headers.get("Authorization", ""))
        self.send_response(answer.status)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is the base class's
        """Probes are not worth a line."""


def _judgement(checks: Mapping[str, Check]) -> _Answer:
    problems = {name: problem for name, check in checks.items() if (problem := check()) is not None}
    if not problems:
        return _Answer(HTTPStatus.OK, _TEXT, b"ok\n")
    text = "".join(f"{name}: {problem}\n" for name, problem in problems.items())
    return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, text.encode())
