"""A small HTTP server with a thread for each request: what is asked, what is answered, and the port itself.

The standard library's server is enough for probes and a page, and takes no time to import.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, NamedTuple

from gangsched.messages import failures
from gangsched.runtime.config import is_loopback
from gangsched.runtime.guard import Certificate

TEXT = "text/plain; charset=utf-8"
#: Whoever sends no complete request within this time is not served.
_PATIENCE_SECONDS = 10.0


class Answer(NamedTuple):
    """What is sent back."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


class RefusedError(Exception):
    """The request gets this status and text."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status

    @property
    def answer(self) -> Answer:
        """What is sent."""
        return Answer(self.status, TEXT, f"{self}\n".encode())


class Request(NamedTuple):
    """What is asked: ``verb`` is in lower case, ``query`` what stands behind the question mark. ``body(most)`` reads
    what was sent, and raises :class:`RefusedError` where that is more than so many bytes.
    """

    verb: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Callable[[int], bytes]


def hosts_of(host: str | None) -> frozenset[str] | None:
    """The names that a browser may use for what listens on this address: another one may have come to mean it. None:
    any, since it is not for this machine only.
    """
    return frozenset({"127.0.0.1", "localhost", "[::1]", host or ""}) if is_loopback(host or "") else None


class Server(ThreadingHTTPServer):
    """One port. ``host`` None listens on all addresses, port 0 takes a free one; with a ``certificate`` all is TLS."""

    daemon_threads = True

    def __init__(
        self,
        host: str | None,
        port: int,
        answer: Callable[[Request], Answer],
        certificate: Certificate | None = None,
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
    server: Server
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

    def do_POST(self) -> None:
        """Answer. What was sent is read by whoever wants it; it stays unread otherwise, and the connection ends."""
        self.close_connection = True
        self._send(with_body=True)

    def _body(self, most: int) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, failures.UNKNOWN_LENGTH)
        if int(length) > most:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, failures.too_much_sent(most=most // 1024))
        return self.rfile.read(int(length))

    def _send(self, *, with_body: bool) -> None:
        path, _, query = self.path.partition("?")
        request = Request(self.command.lower(), path, query, self.headers, self._body)  # type: ignore[arg-type]
        try:
            answer = self.server.answer(request)
        except RefusedError as refused:
            answer = refused.answer
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is the base class's
        """Requests are not worth a line."""
