"""The HTTP server for probes, scrapes and the curious, and what it judges by.

It has threads of its own, so that it answers while the decision thread plans; the interpreter switches threads every
few milliseconds. Probes are answered however many other connections there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gangsched.core.actions import Action
from gangsched.core.decision import Decision
from gangsched.core.events import Event, Synced
from gangsched.messages import failures
from gangsched.runtime.guard import Certificate, Guard
from gangsched.runtime.http import TEXT, Answer, Request
from gangsched.runtime.http_server import Server
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
    is (JSON). ``host`` None listens on all addresses, port 0 takes a free one; ``port`` tells which. ``pages`` has
    further texts by path. With a ``certificate`` all of it is TLS; with a ``guard`` all but probes is for those whom it
    lets through. If :attr:`page` is set, it answers requests below /ui.
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
        self.page: Callable[[Request], Answer] | None = None
        self._guard = guard
        self._certificate = certificate
        self._host = host
        self._alive = dict(alive)
        self._ready = {**self._alive, **ready}
        self._registry = registry
        self._configuration = configuration
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Return when the port is open. Raises OSError when it cannot be opened."""
        self._server = Server(self._host, self.port, self._answer, self._certificate, probes=_PROBES)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the port and end the threads. May be called again."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
        if self._thread is not None:
            self._thread.join()

    def _answer(self, request: Request) -> Answer:
        verb, path = request.verb, request.path
        shown = self.page if path == PAGE or path.startswith(f"{PAGE}/") else None
        if self._guard is not None and (path in _GUARDED or path in self.pages or shown is not None):
            authorization = request.headers.get("Authorization", "")
            refused = self._guard.refusal(verb, path, authorization, passwords=shown is not None)
            if refused is not None:
                schemes = {"WWW-Authenticate": failures.CHALLENGE if shown is not None else "Bearer"}
                asked = schemes if refused[0] == HTTPStatus.UNAUTHORIZED else {}
                return Answer(refused[0], TEXT, f"{refused[1]}\n".encode(), asked)
        if shown is not None:
            return shown(request)
        if verb == "post":
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b"405: Method Not Allowed\n", {"Allow": "GET, HEAD"})
        match path:
            case "/":
                return Answer(HTTPStatus.OK, TEXT, "".join(f"{each}\n" for each in self._paths()).encode())
            case "/healthz" | "/livez":
                return _judgement(self._alive)
            case "/readyz":
                return _judgement(self._ready)
            case "/metrics":
                return Answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry))
            case "/configz":
                return Answer(HTTPStatus.OK, "application/json; charset=utf-8", self._configuration)
        if path in self.pages:
            return Answer(HTTPStatus.OK, TEXT, self.pages[path]().encode())
        return Answer(HTTPStatus.NOT_FOUND, TEXT, b"404: Not Found\n")

    def _paths(self) -> Sequence[str]:
        return [*_PATHS, *self.pages, *([PAGE] if self.page is not None else ())]


_PATHS = ("/configz", "/healthz", "/livez", "/metrics", "/readyz")
#: Paths that are always answered.
_PROBES = frozenset({"/healthz", "/livez", "/readyz"})
#: Paths whose answers contain names of pods, gangs and nodes.
_GUARDED = frozenset({"/configz", "/metrics"})
#: Where the page is.
PAGE = "/ui"


def _judgement(checks: Mapping[str, Check]) -> Answer:
    problems = {name: problem for name, check in checks.items() if (problem := check()) is not None}
    if not problems:
        return Answer(HTTPStatus.OK, TEXT, b"ok\n")
    text = "".join(f"{name}: {problem}\n" for name, problem in problems.items())
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE, TEXT, text.encode())
