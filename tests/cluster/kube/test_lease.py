"""What a candidate concludes from a lease record, by its own clock only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.lease import NAMES, Elector, Lease, LeaseSettings, LeaseSpec, Watcher, unique_identity
from gangsched.cluster.kube.quarantine_record import ANNOTATION, QuarantineRecord
from gangsched.core.events import Event, FormerNames, Quarantined


def spec(holder: str | None, renewed: str = "t0", duration: int | None = 15) -> LeaseSpec:
    """A record."""
    return LeaseSpec(holder_identity=holder, renew_time=renewed, lease_duration_seconds=duration)


@pytest.mark.parametrize("holder", [None, ""])
def test_released_is_free(holder: str | None) -> None:
    """A lease without a holder is free at once."""
    assert Watcher("me", 15.0).observe(spec(holder), 0.0) == "free"


def test_ours() -> None:
    """Our own identity in the record is ours, however old it is."""
    watcher = Watcher("me", 15.0)
    assert watcher.observe(spec("me"), 0.0) == "ours"
    assert watcher.observe(spec("me"), 1e6) == "ours"


def test_expires_after_it_was_last_seen_to_change() -> None:
    """Only a record that stays the same for its duration, seen from here, is expired; its own times do not count."""
    watcher = Watcher("me", 15.0)
    assert watcher.observe(spec("other", "1970-01-01T00:00:00.000000Z"), 100.0) == "held"
    assert watcher.observe(spec("other", "1970-01-01T00:00:00.000000Z"), 114.9) == "held"
    assert watcher.observe(spec("other", "1970-01-01T00:00:01.000000Z"), 115.1) == "held"
    assert watcher.observe(spec("other", "1970-01-01T00:00:01.000000Z"), 130.0) == "held"
    assert watcher.observe(spec("other", "1970-01-01T00:00:01.000000Z"), 130.1) == "expired"


@pytest.mark.parametrize(
    ("duration", "at", "standing"), [(60, 50.0, "held"), (None, 15.0, "expired"), (5, 5.0, "expired")]
)
def test_duration_is_the_holders(duration: int | None, at: float, standing: str) -> None:
    """How long to wait is what the holder has promised; ours stands in where it says nothing."""
    watcher = Watcher("me", 15.0)
    watcher.observe(spec("other", duration=duration), 0.0)
    assert watcher.observe(spec("other", duration=duration), at) == standing


def test_an_absent_lease_is_free_only_after_it_was_given_back() -> None:
    """A process that has never seen it cannot know who held it a moment ago."""
    watcher = Watcher("me", 15.0)
    assert watcher.absent(0.0) == "absent"
    watcher.observe(spec("other"), 1.0)
    watcher.observe(spec(""), 2.0)
    assert watcher.absent(3.0) == "free"
    watcher.observe(spec("me"), 4.0)
    assert watcher.absent(5.0) == "ours"


def test_an_absent_lease_is_held_by_who_was_seen_to_hold_it() -> None:
    """For its duration after it was found to be gone, and again when it comes back as it was."""
    watcher = Watcher("me", 15.0)
    watcher.observe(spec("other", duration=20), 0.0)
    assert watcher.absent(19.0) == "held"
    assert watcher.absent(38.9) == "held"
    assert watcher.absent(39.0) == "expired"
    assert watcher.observe(spec("other", duration=20), 40.0) == "held"
    assert watcher.observe(spec("other", duration=20), 60.0) == "expired"


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
    """As much of a client as an elector needs: one lease or none, and a clock that only the elector's sleep moves.

    ``taken`` says when it was written with another holder than before.
    """

    def __init__(self, spec: dict[str, Any] | None) -> None:
        self.time = 1000.0
        self.version = 0
        self.lease: dict[str, Any] | None = None
        self.taken: list[float] = []
        self.losing = False
        if spec is not None:
            self.store({"metadata": {"name": "n"}, "spec": spec})

    def clock(self) -> float:
        """The time."""
        return self.time

    def store(self, lease: dict[str, Any]) -> None:
        """Write it, whoever does."""
        self.version += 1
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}}

    def hand_to(self, holder: str) -> None:
        """Somebody else writes the holder."""
        self.store({"metadata": {"name": "n"}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}})

    async def attempt(self, method: str, _path: str, *, body: bytes | None, **_: Any) -> bytes:
        """GET, PUT and POST of the lease; with ``losing`` the answer to the next write does not arrive."""
        if method != "POST" and self.lease is None:
            raise ApiError(404, "NotFound", "no such lease")
        if method != "GET":
            assert body is not None
            new = json.loads(body)
            before = self.lease and self.lease["metadata"]["resourceVersion"]
            if before != new["metadata"].get("resourceVersion"):
                raise ApiError(409, "Conflict", "somebody was faster")
            if not self.lease or self.lease["spec"].get("holderIdentity") != new["spec"]["holderIdentity"]:
                self.taken.append(self.time)
            self.store(new)
            if self.losing:
                self.losing = False
                raise UnreachableError("the answer was lost")
        return json.dumps(self.lease).encode()


async def _nothing() -> None:
    """What a leader does."""


async def _answer(first: bool) -> bool:
    """Whether no leader has left a record."""
    return first


class Election:
    """One elector, a server of its own, and when it began and ceased to lead."""

    def __init__(self, server: OneLease, is_first: bool | None = None, **settings: Any) -> None:
        self.server = server
        self.terms: list[float] = []
        self.ends: list[float] = []
        wanted: dict[str, Any] = {"takeover_wait_seconds": 1.75, **settings}
        self.elector = Elector(
            cast("Client", server),
            LeaseSettings(namespace="ns", name="n", identity="me", **wanted),
            on_started=_nothing,
            on_stopped=lambda: self.ends.append(server.time),
            clock=server.clock,
        )
        if is_first is not None:
            self.elector.is_first = lambda: _answer(is_first)
        self._later: list[tuple[float, Callable[[], object]]] = []

    def at(self, seconds: float, do: Callable[[], object]) -> None:
        """Do something so long after the beginning, but before what the elector does then."""
        self._later.append((self.server.time + seconds, do))

    async def run(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        """Let so much time pass."""
        server, end, pause = self.server, self.server.time + seconds, asyncio.sleep
        over = asyncio.Event()

        async def sleep(seconds: float) -> None:
            if len(self.terms) == len(self.ends) and self.elector.may_write_until > float("-inf"):
                self.terms.append(server.time)
            server.time += seconds
            for moment, do in [x for x in self._later if x[0] <= server.time]:
                self._later.remove((moment, do))
                do()
            if server.time >= end:
                over.set()
                await asyncio.Event().wait()
            await pause(0)

        with monkeypatch.context() as patched:
            patched.setattr("gangsched.cluster.kube.lease.asyncio.sleep", sleep)
            task = asyncio.create_task(self.elector.run())
            done = asyncio.create_task(over.wait())
            await asyncio.wait([task, done], timeout=10.0, return_when=asyncio.FIRST_COMPLETED)
            assert done.done(), "the elector has failed or hangs"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert self.elector.may_write_until == float("-inf")


@pytest.mark.parametrize(
    ("spec", "waits"),
    [
        ({"holderIdentity": "dead", "leaseDurationSeconds": 15}, 1.75),
        ({"holderIdentity": "", "leaseDurationSeconds": 1}, 0.0),
        ({}, 0.0),
        (None, 1.75 + 2.4),
    ],
    ids=["expired", "released", "empty", "absent"],
)
async def test_only_a_vanished_holder_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any] | None, waits: float
) -> None:
    """After an expired lease the last write of its holder may still be on its way; after a released one it is not.
    The holder of one that was deleted looks for it within its retry period.
    """
    server = OneLease(spec)
    election, began = Election(server), server.time
    assert election.elector.may_write_until == float("-inf")
    await election.run(monkeypatch, 25.0)
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] == "me"
    [taken], [leads] = server.taken, election.terms
    assert leads - taken == pytest.approx(waits)
    assert (taken - began >= 15.0) is (waits == 1.75)


@pytest.mark.parametrize(("first", "waits"), [(True, 0.0), (False, 1.75 + 2.4)])
async def test_the_first_process_of_an_installation_does_not_wait(
    monkeypatch: pytest.MonkeyPatch, *, first: bool, waits: float
) -> None:
    """Where a leader has left records, the Lease was deleted, and its holder may still write."""
    server = OneLease(None)
    election = Election(server, first)
    await election.run(monkeypatch, 25.0)
    [taken], [leads] = server.taken, election.terms
    assert leads - taken == pytest.approx(waits)


async def test_a_vanished_holder_is_waited_for_though_it_left_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expired lease shows an earlier process by itself."""
    server = OneLease({"holderIdentity": "dead", "leaseDurationSeconds": 15})
    election = Election(server, is_first=True)
    await election.run(monkeypatch, 25.0)
    [taken], [leads] = server.taken, election.terms
    assert leads - taken == pytest.approx(1.75)


async def test_a_takeover_whose_answer_was_lost_waits_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is found to be ours then, and the last write of the holder that vanished may still be on its way."""
    server = OneLease({"holderIdentity": "dead", "leaseDurationSeconds": 15})
    server.losing = True
    election = Election(server, takeover_wait_seconds=5.0)
    await election.run(monkeypatch, 30.0)
    [taken], [leads] = server.taken, election.terms
    assert leads - taken == pytest.approx(5.0)


async def test_a_deleted_lease_is_not_free_for_who_has_seen_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder may have renewed it in the moment before, so it counts as held for its duration from then on."""
    server = OneLease({"holderIdentity": "other", "leaseDurationSeconds": 15})
    election, began = Election(server), server.time
    election.at(5.0, lambda: setattr(server, "lease", None))
    await election.run(monkeypatch, 40.0)
    [taken], [leads] = server.taken, election.terms
    assert 5.0 + 15.0 <= taken - began < 5.0 + 15.0 + 2 * 2.4
    assert leads - taken == pytest.approx(1.75)


async def test_a_leader_makes_its_deleted_lease_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leads on: its deadline has not passed, and whoever has seen it hold the lease waits for longer."""
    server = OneLease(None)
    election = Election(server)
    election.at(5.0, lambda: setattr(server, "lease", None))
    await election.run(monkeypatch, 20.0)
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] == "me"
    assert len(server.taken) == 2
    assert len(election.terms) == 1
    assert election.ends == [server.time]  # of the test


@pytest.mark.parametrize("holder", ["", "other"], ids=["released again", "held"])
async def test_a_leader_stops_at_once_when_another_has_held_its_lease(
    monkeypatch: pytest.MonkeyPatch, holder: str
) -> None:
    """What it has read is old then, even where the lease is free again: that is a new term."""
    server = OneLease(None)
    election = Election(server)
    election.at(5.0, lambda: server.hand_to(holder))
    await election.run(monkeypatch, 12.0)
    first = election.ends[0]
    assert 5.0 <= first - 1000.0 <= 7.0
    assert len(election.terms) == (1 if holder else 2)


async def test_a_leader_stops_at_once_when_another_makes_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at a lease that is gone and the making of another one somebody was faster."""
    server = OneLease(None)
    election, attempt = Election(server), server.attempt

    async def raced(method: str, path: str, **more: Any) -> bytes:
        if method == "POST" and election.terms:
            server.hand_to("other")
        return await attempt(method, path, **more)

    monkeypatch.setattr(server, "attempt", raced)
    election.at(5.0, lambda: setattr(server, "lease", None))
    await election.run(monkeypatch, 8.0)
    [end] = election.ends
    assert 5.0 <= end - 1000.0 <= 7.0


async def test_a_renewal_that_is_stored_late_does_not_end_a_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was given up, and arrives between a look at the lease and its renewal, is ours as well."""
    server = OneLease(None)
    election, attempt = Election(server), server.attempt
    stored: list[float] = []

    async def overtaken(method: str, path: str, **more: Any) -> bytes:
        if method == "PUT" and server.time > 1004.0 and len(stored) < 2:
            server.hand_to("me")
            stored.append(server.time)
        return await attempt(method, path, **more)

    monkeypatch.setattr(server, "attempt", overtaken)
    await election.run(monkeypatch, 12.0)
    assert len(stored) == 2
    assert len(election.terms) == 1


@pytest.mark.parametrize(("seconds", "told"), [(2.4, 3), (15.0, 15), (0.5, 1)])
async def test_others_are_told_no_less_than_our_duration(
    monkeypatch: pytest.MonkeyPatch, seconds: float, told: int
) -> None:
    """The record has whole seconds: with fewer than ours, others would come before we stop."""
    server = OneLease(None)
    await Election(
        server, duration_seconds=seconds, renew_deadline_seconds=seconds * 0.9, retry_period_seconds=0.1
    ).run(monkeypatch, 1.0)
    assert server.lease is not None
    assert server.lease["spec"]["leaseDurationSeconds"] == told


def test_identities_differ() -> None:
    """Two processes on one host are two candidates."""
    assert unique_identity() != unique_identity()


async def test_the_next_leader_is_told_over_which_gang_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record stays in the Lease until the gang has been decided, and the core knows it before it leads."""
    said = '{"d/g":{"times":1,"at":99.0}}'
    server = OneLease({"holderIdentity": "dead", "leaseDurationSeconds": 15})
    assert server.lease is not None
    server.lease["metadata"]["annotations"] = {ANNOTATION: said}
    election, told, mine = Election(server), list[Event](), QuarantineRecord(server.clock, lambda: 100.0)
    election.elector._record, election.elector._deliver = mine, told.extend
    election.at(30.0, lambda: mine.begin("d/g"))
    election.at(36.0, mine.end)
    seen: list[object] = []
    for seconds in (10.0, 25.0, 45.0):
        election.at(seconds, lambda: seen.append(Lease(server.lease or {}).annotations.get(ANNOTATION)))
    await election.run(monkeypatch, 50.0)
    assert told == [Quarantined("", "", "d/g", "", 1, 99.0)]
    assert seen == [said, said, None]


async def test_a_leader_with_other_scheduler_names_is_told_the_former_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of the earlier leader are in the Lease until this one writes its own."""
    server = OneLease({"holderIdentity": "", "leaseDurationSeconds": 1})
    assert server.lease is not None
    server.lease["metadata"]["annotations"] = {NAMES: "old,mine"}
    election, told = Election(server, names=("mine", "new")), list[Event]()
    election.elector._deliver = told.extend
    await election.run(monkeypatch, 10.0)
    assert told == [FormerNames(("old",))]
    assert Lease(server.lease or {}).annotations[NAMES] == "mine,new"
