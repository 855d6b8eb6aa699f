"""Protection of the port: a certificate, and bearer tokens that the API server checks."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import ssl
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from gangsched import logs
from gangsched.cluster.kube.access import Access
from gangsched.cluster.kube.client import ApiError, UnreachableError
from gangsched.messages import failures

_log = logs.get(__name__)

#: For so long an answer of the API server holds, as in kube-scheduler; so many of them are remembered.
REMEMBERED_SECONDS, REMEMBERED = 10.0, 1000
#: So many requests ask the API server at once; the others wait for so long.
_AT_ONCE, _PATIENCE_SECONDS = 4, 2.0
#: A certificate that has been replaced is in use after this time.
_LOOK_SECONDS = 10.0

#: ``ask(token, verb, path)`` of an API server; raises ApiError, UnreachableError and TimeoutError.
Ask = Callable[[str, str, str], Access]


class Guard:
    """Decides about requests, from any thread. What is open to all is not asked about here."""

    def __init__(self, ask: Ask, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._known: dict[bytes, tuple[float, Access]] = {}
        self._problem = ""

    def refusal(
        self, verb: str, path: str, authorization: str, *, passwords: bool = False
    ) -> tuple[HTTPStatus, str] | None:
        """Return None if the sender of this header may read the path, else the answer. With ``passwords`` a token may
        come as a password too: that is what browsers can ask for.
        """
        token = token_in(authorization, passwords=passwords)
        if not token:
            return HTTPStatus.UNAUTHORIZED, failures.BEARER_OR_BASIC if passwords else failures.BEARER_MISSING
        key = hashlib.sha256(f"{verb} {path} {token}".encode()).digest()
        judged = self._remembered(key)
        if judged is None:
            if not self._slots.acquire(timeout=_PATIENCE_SECONDS):
                return HTTPStatus.SERVICE_UNAVAILABLE, failures.TOO_MANY_ASK
            try:
                judged = self._ask(token, verb, path)
            except (ApiError, UnreachableError, TimeoutError) as error:
                return self._unjudged(str(error) or failures.NO_ANSWER_IN_TIME)
            finally:
                self._slots.release()
            self._remember(key, judged)
            self._problem = ""
        if judged is Access.ALLOWED:
            return None
        if judged is Access.UNKNOWN:
            return HTTPStatus.UNAUTHORIZED, failures.BEARER_UNKNOWN
        return HTTPStatus.FORBIDDEN, failures.path_forbidden(verb=verb, path=path)

    def _unjudged(self, problem: str) -> tuple[HTTPStatus, str]:
        """Nothing is served to whom nothing is known of; the log has the reason, once."""
        if problem != self._problem:
            self._problem = problem
            _log.warning("the API server does not say who may read metrics", error=problem)
        return HTTPStatus.SERVICE_UNAVAILABLE, failures.NOT_JUDGED

    def _remembered(self, key: bytes) -> Access | None:
        with self._lock:
            until, judged = self._known.get(key, (0.0, None))
            return judged if until > self._clock() else None

    def _remember(self, key: bytes, judged: Access) -> None:
        with self._lock:
            self._known.pop(key, None)
            if len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[key] = self._clock() + REMEMBERED_SECONDS, judged


def token_in(authorization: str, *, passwords: bool) -> str:
    """Return the token of a header, with ``passwords`` also one that is sent as a password; empty without one."""
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() == "bearer":
        return token
    if scheme.lower() != "basic" or not passwords:
        return ""
    with contextlib.suppress(ValueError):  # what is no base64 or no text is no token
        return base64.b64decode(token, validate=True).decode("ascii").partition(":")[2].strip()
    return ""


class Certificate:
    """The certificate of the port with its key, read anew when the files change. Raises OSError when they are no pair
    that can be used (ssl.SSLError is one).
    """

    def __init__(self, certificate: Path, key: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = (certificate, key)
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = self._stamps()
        self._context = self._load()
        self._looked = clock()

    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        with self._lock:
            if self._clock() >= self._looked + _LOOK_SECONDS:
                self._looked = self._clock()
                self._renew()
            return self._context

    def _renew(self) -> None:
        try:
            seen = self._stamps()
            if seen != self._seen:
                self._seen = seen
                self._context = self._load()
                _log.info("the certificate of the port has been read anew")
        except OSError as error:
            _log.warning("the certificate of the port cannot be read; the last one is used", error=str(error))

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        found = (file.stat() for file in self._files)
        return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(*self._files)
        return context
