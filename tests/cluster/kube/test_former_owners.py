"""Leases of the schedulers whose names are served here: who is alive, who is gone, and what says nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gangsched.cluster.kube.client import ApiError, UnreachableError
from gangsched.cluster.kube.lease import FormerOwners
from gangsched.core.events import Event, NameLeased
from tests.controlplane.client import wait_until

LEASE = "volcano-system/volcano"


class Answers:
    """Answers each request with the next of these: the `spec` of a Lease, or an error. The last one is repeated."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def done(self) -> bool:
        """Have all been given, and taken in?"""
        return self.asked > len(self._answers)

    async def attempt(self, method: str, path: str, **_: Any) -> bytes:
        """One answer."""
        assert (method, path.rpartition("/")[2]) == ("GET", "volcano")
        found = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        if isinstance(found, Exception):
            raise found
        return msgspec.json.encode({"spec": found})


def held(number: int, seconds: int = 60) -> dict[str, Any]:
    """A Lease that has been renewed so often."""
    return {"holderIdentity": "vc-0", "leaseDurationSeconds": seconds, "renewTime": f"2026-01-01T00:00:{number:02}Z"}


async def reported(
    *answers: dict[str, Any] | Exception, clock: Callable[[], float] = time.monotonic
) -> tuple[list[str], bool]:
    """The owners that are reported until all answers have been given, and whether all was looked at."""
    events: list[Event] = []
    client = Answers(*answers)
    owners = FormerOwners(client, {"volcano": (LEASE,)}, events.extend, 0.001, clock)  # type: ignore[arg-type]
    task = asyncio.create_task(owners.run())
    await wait_until(client.done, what="all answers have been given")
    task.cancel()
    return [event.owner for event in events if isinstance(event, NameLeased)], owners.looked.is_set()


async def test_a_lease_that_is_renewed_is_held() -> None:
    """It is reported once, with its holder."""
    assert await reported(held(1), held(2), held(3)) == ([f"Lease {LEASE} is held by vc-0"], True)


async def test_a_lease_that_is_not_there_or_released_is_free() -> None:
    """Neither is held by anybody."""
    assert await reported(ApiError(404, "NotFound", "not found")) == ([""], True)
    assert await reported({"holderIdentity": ""}) == ([""], True)


async def test_a_lease_that_is_no_longer_renewed_is_free() -> None:
    """Once it has not changed for its duration, by our own clock."""
    now = iter(range(100))
    found, _ = await reported(*[held(1, seconds=3)] * 5, clock=lambda: float(next(now)))
    assert [bool(owner) for owner in found] == [True, False]


async def test_a_lease_that_may_not_be_read_may_be_held() -> None:
    """The name is left alone, and the reason is reported."""
    (owner,), looked = await reported(ApiError(403, "Forbidden", "not allowed"))
    assert "cannot be read" in owner
    assert looked


@pytest.mark.parametrize("error", [UnreachableError("no answer"), ApiError(503, "ServiceUnavailable", "overloaded")])
async def test_without_an_answer_the_last_one_stands(error: Exception) -> None:
    """A network that fails for a moment takes no name away, and gives none; at first nothing is known."""
    assert await reported(ApiError(404, "NotFound", "not found"), error, error) == ([""], True)
    assert await reported(error, error) == ([], False)
