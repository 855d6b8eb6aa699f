"""Bad weather between the scheduler and its API server: which requests fail, and how, by a seeded draw."""

from __future__ import annotations

import json
import random
from collections import Counter

from tests.faulty_proxy import Fault, Seen

JSON = {"Content-Type": "application/json"}


def status(code: int, reason: str, message: str) -> bytes:
    """The body of an API server's error."""
    return json.dumps(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}
    ).encode()


def failure(code: int, reason: str, **headers: str) -> Fault:
    """The server answers with an error."""
    return Fault(status=code, body=status(code, reason, "bad weather"), headers={**JSON, **headers})


class Storm:
    """Everything at once, a little of each: latency, resets, errors, cut and expired watches.

    ``share`` is the part of requests that something happens to; ``counts`` says what did happen how often.
    """

    def __init__(self, seed: int, share: float = 0.12, slow_seconds: float = 0.03) -> None:
        self._chance = random.Random(seed)
        self._share = share
        self._slow = slow_seconds
        self.counts: Counter[str] = Counter()

    def __call__(self, request: Seen) -> Fault | None:
        """What happens to one request."""
        chance = self._chance
        if request.watch:
            return self._watch()
        fault = Fault()
        if chance.random() < self._share:
            name, fault = self._broken(write=request.method != "GET")
            self.counts[name] += 1
        fault.delay_seconds = chance.uniform(0.0, 2 * self._slow)
        return fault

    def _broken(self, *, write: bool) -> tuple[str, Fault]:
        makers = [
            ("reset before", lambda: Fault(cut_before=True)),
            ("reset after", lambda: Fault(cut_after=True)),
            ("429", lambda: failure(429, "TooManyRequests", **{"Retry-After": "1"})),
            ("500", lambda: failure(500, "InternalError")),
            ("503", lambda: failure(503, "ServiceUnavailable")),
        ]
        if write:
            makers.append(("409", lambda: failure(409, "Conflict")))
        name, make = self._chance.choice(makers)
        return name, make()

    def _watch(self) -> Fault | None:
        drawn = self._chance.random()
        if drawn < 0.15:
            self.counts["410"] += 1
            return failure(410, "Expired")
        if drawn < 0.7:
            self.counts["watch cut"] += 1
            return Fault(cut_after_lines=self._chance.randint(1, 300))
        return None


def busy(request: Seen) -> Fault | None:
    """A server that is too busy for writes to pods; it asks for patience."""
    if request.method != "GET" and "/pods/" in request.path:
        return failure(429, "TooManyRequests", **{"Retry-After": "1"})
    return None


def slow(request: Seen) -> Fault | None:
    """A server that takes 300 ms for everything."""
    return None if request.watch else Fault(delay_seconds=0.3)
