"""An HTTP server that slow clients cannot exhaust.

One thread accepts connections and reads the heads of requests from all of them. It answers probes itself. Any other
request gets a thread of its own once its head is complete, and reads its body there. Each bound below holds for all
clients together.
"""

from __future__ import annotations

import contextlib
import errno
import resource
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection
from http import HTTPStatus
from types import TracebackType
from typing import Self

from gangsched import logs
from gangsched.messages import failures
from gangsched.runtime.guard import Certificate
from gangsched.runtime.http import Answer, Head, RefusedError, Request, parse_head, written

_log = logs.get(__name__)

#: Requests that are answered at once. Probes are not among them.
AT_ONCE = 64
#: Open connections: those of requests that are answered, and always some whose request is still read.
CONNECTIONS = AT_ONCE + 8
#: The seconds that a client has to send its request, from the moment it is accepted, and as many to receive the answer.
PATIENCE_SECONDS = 10.0
#: The size of the first line and the headers together.
MOST_HEAD = 32 * 1024
#: If all connections are in use, the oldest whose request is incomplete is closed for a new one, but not sooner than
#: this: a client that sends its request at once needs a few milliseconds.
_YOUNG_SECONDS = 0.02
#: The pause before the next connection is accepted when the process or the machine has no file left.
_PAUSE_SECONDS = 0.1
_NO_FILE_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
#: The soft limit of files that a process asks for.
_FILES = 65_536
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def raise_file_limit() -> None:
    """Raise the soft limit of open files as far as the hard one allows: a soft limit of 1,024 is common."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Client:
    """A connection whose request is not complete yet."""

    def __init__(self, connection: socket.socket, at: float) -> None:
        self.socket = connection
        self.at = at
        self.received = bytearray()
        self._shaken = not isinstance(connection, ssl.SSLSocket)

    def read(self) -> int:
        """Read what has come. Return the length of the head, 0 while it is incomplete. Raises OSError when the client
        is gone, and :class:`RefusedError` when its head is too long.
        """
        try:
            if isinstance(self.socket, ssl.SSLSocket) and not self._shaken:
                self.socket.do_handshake()
                self._shaken = True
            while True:
                if not (data := self.socket.recv(8192)):
                    raise ConnectionResetError
                searched = max(0, len(self.received) - 3)
                self.received += data
                if (end := self.received.find(b"\r\n\r\n", searched)) >= 0:
                    return end + 4
                if len(self.received) > MOST_HEAD:
                    raise RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0  # what a handshake sends always fits into the buffer of a new connection


class Server:
    """One port. ``host`` None listens on all addresses, port 0 takes a free one; with a ``certificate`` all is TLS.
    ``probes`` are the paths that are answered whatever else is asked: their answers take no time. Raises OSError.
    """

    def __init__(
        self,
        host: str | None,
        port: int,
        answer: Callable[[Request], Answer],
        certificate: Certificate | None = None,
        *,
        probes: Collection[str] = (),
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._answer = answer
        self._certificate = certificate
        self._probes = frozenset(probes)
        self._patience = patience
        self._clock = clock
        self._clients: dict[socket.socket, _Client] = {}  # the oldest first
        self._answering = 0
        self._lock = threading.Lock()
        self._accepts_at = 0.0
        self._listens = False
        self._without_files = False
        self._stops = False
        self._ended = threading.Event()
        self._ended.set()
        self._listener = _listen(host, port)
        self.server_address = self._listener.getsockname()
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.server_close()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        with self._lock:
            return len(self._clients) + self._answering

    def serve_forever(self) -> None:
        """Serve until :meth:`shutdown`."""
        self._ended.clear()
        try:
            while not self._stops:
                self._step()
        finally:
            self._ended.set()

    def shutdown(self) -> None:
        """End :meth:`serve_forever` in another thread, and wait for that."""
        self._stops = True
        self._wakes.send(b"x")
        self._ended.wait()

    def server_close(self) -> None:
        """Close the port."""
        for client in list(self._clients.values()):
            self._disconnect(client)
        self._selector.close()
        for each in (self._listener, self._woken, self._wakes):
            each.close()

    # -- the thread of the port ----------------------------------------------------------------------------

    def _step(self) -> None:
        now = self._clock()
        for client in list(self._clients.values()):
            if client.at + self._patience > now:
                break
            self._disconnect(client)
        self._listen_if(now >= self._accepts_at)
        oldest = next(iter(self._clients.values()), None)
        ends = [oldest.at + self._patience] if oldest is not None else []
        ends += [] if self._listens else [self._accepts_at]
        ready = self._selector.select(max(0.0, min(ends) - now) if ends else None)
        for key, _ in ready:
            if key.data is not None:
                self._read(key.data)
        if any(key.fileobj is self._listener for key, _ in ready):
            self._accept()

    def _listen_if(self, wanted: bool) -> None:
        if wanted and not self._listens:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif self._listens and not wanted:
            self._selector.unregister(self._listener)
        self._listens = wanted

    def _accept(self) -> None:
        """Accept what waits, as far as there is room."""
        while True:
            now = self._clock()
            if not self._make_room(now):
                return
            try:
                connection = self._accept_one()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _NO_FILE_LEFT:
                    continue  # a client that is gone already
                self._pause(error, now)
                return
            self._without_files = False
            with contextlib.suppress(OSError):
                connection.setblocking(False)
                client = _Client(self._wrapped(connection), now)
                self._clients[client.socket] = client
                self._selector.register(client.socket, selectors.EVENT_READ, client)
                self._read(client)

    def _accept_one(self) -> socket.socket:
        return self._listener.accept()[0]

    def _wrapped(self, connection: socket.socket) -> socket.socket:
        """Raises OSError, with the connection closed."""
        if self._certificate is None:
            return connection
        try:
            context = self._certificate.context()
            return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        except BaseException:
            connection.close()
            raise

    def _make_room(self, now: float) -> bool:
        """Return True if one more connection may be accepted, for which the oldest incomplete one may have to go."""
        if self.connections < CONNECTIONS:
            return True
        oldest = next(iter(self._clients.values()), None)
        if oldest is not None and now >= oldest.at + _YOUNG_SECONDS:
            self._disconnect(oldest)
            return True
        self._accepts_at = now + _YOUNG_SECONDS
        return False

    def _pause(self, error: OSError, now: float) -> None:
        if not self._without_files:
            self._without_files = True
            _log.warning("the port has no file left for connections", error=str(error))
        if (oldest := next(iter(self._clients.values()), None)) is not None:
            self._disconnect(oldest)
        self._accepts_at = now + _PAUSE_SECONDS

    def _forget(self, client: _Client) -> None:
        self._selector.unregister(client.socket)
        del self._clients[client.socket]

    def _disconnect(self, client: _Client) -> None:
        self._forget(client)
        _close(client.socket)

    def _read(self, client: _Client) -> None:
        """Go on with a request; a complete one is answered, here or in a thread of its own."""
        if client.socket not in self._clients:
            return
        try:
            if not (end := client.read()):
                return
            head = parse_head(bytes(client.received[:end]))
        except OSError:
            self._disconnect(client)
            return
        except RefusedError as refused:
            self._reply(client, refused.answer)
            return
        if head.path in self._probes and head.verb != "post":
            answer = self._answered(Request(*head, _no_body))
            self._reply(client, answer, with_body=head.verb != "head")
        elif self._answering >= AT_ONCE:
            self._reply(client, RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, failures.TOO_MANY_REQUESTS).answer)
        else:
            self._hand_over(client, head, bytes(client.received[end:]))

    def _reply(self, client: _Client, answer: Answer, *, with_body: bool = True) -> None:
        """Send a short answer. It fits into the buffer of a connection on which nothing was sent."""
        self._forget(client)
        with contextlib.suppress(OSError):
            client.socket.send(written(answer, with_body=with_body))
        _close(client.socket)

    def _hand_over(self, client: _Client, head: Head, rest: bytes) -> None:
        self._forget(client)
        with self._lock:
            self._answering += 1
        left = client.at + self._patience - self._clock()
        thread = threading.Thread(target=self._serve, args=(client.socket, head, rest, left), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the machine has no room for a thread
            self._leave(client.socket)

    # -- the thread of a request ---------------------------------------------------------------------------

    def _serve(self, connection: socket.socket, head: Head, rest: bytes, left: float) -> None:
        """Answer. ``rest`` of the body has come already, and the client has ``left`` seconds to send the others."""
        try:
            request = Request(*head, lambda most: self._body(connection, head, rest, left, most))
            text = written(self._answered(request), with_body=head.verb != "head")
            self._send(connection, text, self._patience)
        except OSError:
            pass  # a client that goes away in the middle
        finally:
            self._leave(connection)

    def _leave(self, connection: socket.socket) -> None:
        _close(connection)
        with self._lock:
            self._answering -= 1

    def _answered(self, request: Request) -> Answer:
        try:
            return self._answer(request)
        except RefusedError as refused:
            return refused.answer
        except Exception:  # noqa: BLE001 - neither the port nor other requests end with it
            _log.exception("a request could not be answered", path=request.path[:200])
            return RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR).answer

    def _body(self, connection: socket.socket, head: Head, rest: bytes, left: float, most: int) -> bytes:
        length = head.length(most)
        until = self._clock() + left
        found = bytearray(rest[:length])
        try:
            if len(found) < length and head.headers.get("Expect", "").lower() == "100-continue":
                self._send(connection, _CONTINUE, left)
            while len(found) < length:
                connection.settimeout(self._left(until))
                if not (data := connection.recv(min(65_536, length - len(found)))):
                    raise RefusedError(HTTPStatus.BAD_REQUEST)
                found += data
        except TimeoutError:
            raise RefusedError(HTTPStatus.REQUEST_TIMEOUT) from None
        except OSError:
            raise RefusedError(HTTPStatus.BAD_REQUEST) from None
        return bytes(found)

    def _left(self, until: float) -> float:
        """Return the seconds until then. Raises TimeoutError if there are none."""
        if (seconds := until - self._clock()) <= 0:
            raise TimeoutError
        return seconds

    def _send(self, connection: socket.socket, data: bytes, seconds: float) -> None:
        """Send all of it within so many seconds. Raises OSError."""
        until, rest = self._clock() + seconds, memoryview(data)
        while rest:
            connection.settimeout(self._left(until))
            rest = rest[connection.send(rest) :]


def _listen(host: str | None, port: int) -> socket.socket:
    """Open a port, for IPv4 too where all addresses are meant; without looking up a name, which may take seconds."""
    everywhere = host is None and socket.has_dualstack_ipv6()
    listener = socket.socket(socket.AF_INET6 if everywhere or ":" in (host or "") else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if everywhere:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host or "", port))
        listener.listen(1024)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    connection.close()


def _no_body(_: int) -> bytes:
    raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED)
