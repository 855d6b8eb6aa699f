"""What a candidate concludes from a lease record, by its own clock only."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from gangsched.cluster.kube.client import Client
from gangsched.cluster.kube.lease import Elector, Lease, LeaseSettings, LeaseSpec, Watcher, unique_identity


def spec(holder: str | None, renewed: str = "t0", duration: int | None = 15) -> LeaseSpec:
    """A record."""
    return LeaseSpec(holder_identity=holder, renew_time=renewed, lease_duration_seconds=duration)


@pytest.mark.parametrize("holder", [None, ""])
def test_released_is_free(holder: str | None) -> None:
    """A lease without a holder is free at once."""
    assert Watcher("me", 15.0).look(spec(holder), 0.0) == "free"


def test_ours() -> None:
    """Our own identity in the record is ours, however old it is."""
    watcher = Watcher("me", 15.0)
    assert watcher.look(spec("me"), 0.0) == "ours"
    assert watcher.look(spec("me"), 1e6) == "ours"


def test_expires_after_it_was_last_seen_to_change() -> None:
    """Only a record that stays the same for its duration, seen from here, is expired; its own times do not count."""
    watcher = Watcher("me", 15.0)
    assert watcher.look(spec("other", "1970-01-01T00:00:00.000000Z"), 100.0) == "held"
    assert watcher.look(spec("other", "1970-01-01T00:00:00.000000Z"), 114.9) == "held"
    assert watcher.look(spec("other", "1970-01-01T00:00:01.000000Z"), 115.1) == "held"
    assert watcher.look(spec("other", "1970-01-01T00:00:01.000000Z"), 130.0) == "held"
    assert watcher.look(spec("other", "1970-01-01T00:00:01.000000Z"), 130.1) == "expired"


@pytest.mark.parametrize(
    ("duration", "at", "standing"), [(60, 50.0, "held"), (None, 15.0, "expired"), (5, 5.0, "expired")]
)
def test_duration_is_the_holders(duration: int | None, at: float, standing: str) -> None:
    """How long to wait is what the holder has promised; ours stands in where it says nothing."""
    watcher = Watcher("me", 15.0)
    watcher.look(spec("other", duration=duration), 0.0)
    assert watcher.look(spec("other", duration=duration), at) == standing


def test_update_keeps_what_we_do_not_know() -> None:
    """Labels, finalizers and fields of newer versions survive our update."""
    body = {
        "metadata": {"finalizers": ["x"], "resourceVersion": "3"},
        "spec": {"strategy": "Oldest", "leaseTransitions": 1},
    }
    after = json.loads(Lease(body).with_spec(holderIdentity="me"))
    assert after["metadata"] == body["metadata"]
    assert after["spec"] == {"strategy": "Oldest", "leaseTransitions": 1, "holderIdentity": "me"}


@pytest.mark.parametrize(("duration", "deadline", "period"), [(10.0, 10.0, 2.0), (15.0, 2.0, 2.0), (15.0, 10.0, 0.0)])
def test_times_that_cannot_work_are_refused(duration: float, deadline: float, period: float) -> None:
    """The holder must notice that it is late before others may take over."""
    with pytest.raises(ValueError, match="must exceed"):
        LeaseSettings(
            namespace="ns",
            name="n",
            identity="me",
            duration_seconds=duration,
            renew_deadline_seconds=deadline,
            retry_period_seconds=period,
        )


class OneLease:
    """As much of a client as an elector needs: one lease, and a clock that only sleeping moves."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.lease: dict[str, Any] = {"metadata": {"name": "n"}, "spec": spec}
        self.time = 1000.0
        self.taken_at = self.renewed_at = self.leads_since = 0.0

    def clock(self) -> float:
        """The time."""
        return self.time

    async def attempt(self, method: str, _path: str, *, body: bytes | None, **_: Any) -> bytes:
        """GET and PUT of the lease."""
        if method == "PUT":
            assert body is not None
            self.lease = json.loads(body)
            self.taken_at, self.renewed_at = self.taken_at or self.time, self.time
        return json.dumps(self.lease).encode()


@pytest.mark.parametrize(
    ("spec", "waits"),
    [
        ({"holderIdentity": "dead", "leaseDurationSeconds": 15}, True),
        ({"holderIdentity": "", "leaseDurationSeconds": 1}, False),
        ({}, False),
    ],
)
async def test_only_a_vanished_holder_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], *, waits: bool
) -> None:
    """After an expired lease the last write of its holder may still be on its way; after a released one it is not."""
    server = OneLease(spec)
    started = asyncio.Event()

    async def on_started() -> None:
        started.set()

    pause = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if elector.may_write_until > float("-inf"):
            server.leads_since = server.leads_since or server.time
        server.time += seconds
        await pause(0)

    monkeypatch.setattr("gangsched.cluster.kube.lease.asyncio.sleep", sleep)
    elector = Elector(
        cast("Client", server),
        LeaseSettings(namespace="ns", name="n", identity="me", takeover_wait_seconds=1.75),
        on_started=on_started,
        on_stopped=lambda: None,
        clock=server.clock,
    )
    assert elector.may_write_until == float("-inf")
    began = server.time
    task = asyncio.create_task(elector.run())
    async with asyncio.timeout(10.0):
        await started.wait()
    assert server.lease["spec"]["holderIdentity"] == "me"
    waited = server.leads_since - server.taken_at
    assert waited == pytest.approx(1.75 if waits else 0.0)
    assert (server.taken_at - began >= 15.0) is waits
    assert elector.may_write_until <= server.renewed_at + 10.0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert elector.may_write_until == float("-inf")


def test_identities_differ() -> None:
    """Two processes on one host are two candidates."""
    assert unique_identity() != unique_identity()
