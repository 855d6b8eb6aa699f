"""One writer at a time: adapters that share a lease, and a holder that cannot reach the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from gangsched.cluster.kube.lease import LeaseSettings, unique_identity
from gangsched.cluster.kube.writer import WriteSettings
from gangsched.core.actions import Bind
from gangsched.core.events import LeadershipChanged, Outcome, Synced, WriteDone, records
from gangsched.model.records import Pod
from tests.cluster.kube.conftest import Reader, make_pod
from tests.controlplane.client import Client, wait_until
from tests.faulty_proxy import Fault, FaultyProxy

Make = Callable[..., Awaitable[Reader]]
SPACE, NAME = "gangsched-system", "py-gang-scheduler"
LEASES = "/leases"


@pytest.fixture
async def lease(admin: Client) -> Callable[..., LeaseSettings]:
    """A function that makes the settings of one candidate; the lease itself does not exist yet."""
    if await admin.find("Lease", NAME, SPACE):
        await admin.delete("Lease", NAME, SPACE)

    def make(**changes: float) -> LeaseSettings:
        times: dict[str, Any] = {
            "duration_seconds": 3.0,
            "renew_deadline_seconds": 2.0,
            "retry_period_seconds": 0.2,
            **changes,
        }
        return LeaseSettings(namespace=SPACE, name=NAME, identity=unique_identity(), takeover_wait_seconds=0.3, **times)

    return make


async def record(admin: Client) -> dict[str, Any]:
    """The spec of the lease."""
    spec: dict[str, Any] = (await admin.get("Lease", NAME, SPACE))["spec"]
    return spec


async def test_first_comes_first(make_cluster: Make, admin: Client, lease: Callable[..., LeaseSettings]) -> None:
    """The first adapter creates the lease and leads, after Synced; the second stays a candidate with full caches."""
    one = await make_cluster(lease=(settings := lease()))
    await one.leading()
    kinds = [type(e) for e in one.events if isinstance(e, Synced | LeadershipChanged)]
    assert kinds == [Synced, LeadershipChanged]
    assert (await record(admin))["holderIdentity"] == settings.identity
    two = await make_cluster(lease=lease())
    await two.until(Synced)
    assert not two.cluster.health().leading
    assert two.cluster.health().synced


async def test_released_lease_is_taken_at_once(
    make_cluster: Make, admin: Client, namespace: str, lease: Callable[..., LeaseSettings], proxy: FaultyProxy
) -> None:
    """A clean stop releases the lease; the next leader knows what the last one wrote, although its watch is dead."""
    pod = await make_pod(admin, namespace, "a")
    one = await make_cluster(lease=lease())
    await one.leading()
    await wait_until(lambda: any(each.watch for each in proxy.seen("GET", "/api/v1/pods$")))
    proxy.fail(Fault(path="/api/v1/pods$", watch=True, stall_after_lines=0))
    two = await make_cluster(lease=lease(duration_seconds=600.0))
    await two.until(Synced)
    await one.do(Bind(1, pod, "node-0"))
    one.cluster.stop()
    await two.leading()  # long before ten minutes have passed
    leads_at = next(i for i, e in enumerate(two.events) if isinstance(e, LeadershipChanged))
    known = [e for e in records(two.events[:leads_at], Pod) if e.uid == pod.uid]
    assert known[-1].node == "node-0"
    assert (await record(admin))["leaseTransitions"] == 1


async def test_holder_that_vanished_is_followed_after_the_duration(
    make_cluster: Make, admin: Client, lease: Callable[..., LeaseSettings]
) -> None:
    """A lease that nobody renews is taken over once it has not changed for its duration, and not before it is."""
    metadata = {"name": NAME, "namespace": SPACE}
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 2, "leaseTransitions": 4}
    await admin.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    reader = await make_cluster(lease=(settings := lease()))
    await reader.leading()
    after = await record(admin)
    assert (after["holderIdentity"], after["leaseTransitions"]) == (settings.identity, 5)


async def test_new_leader_renews_while_it_waits_for_the_last_writes(
    make_cluster: Make, admin: Client, lease: Callable[..., LeaseSettings]
) -> None:
    """A take-over that has to wait for longer than the renew deadline does not lose the lease again meanwhile."""
    metadata = {"name": NAME, "namespace": SPACE}
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "leaseTransitions": 4}
    await admin.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    settings = msgspec.structs.replace(lease(renew_deadline_seconds=0.8), takeover_wait_seconds=1.5)
    reader = await make_cluster(lease=settings)
    await reader.leading()
    after = await record(admin)
    assert after["leaseTransitions"] == 5
    assert _seconds(after["renewTime"]) - _seconds(after["acquireTime"]) >= 1.0


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


async def test_what_was_decided_in_an_earlier_term_is_not_written(
    make_cluster: Make, admin: Client, namespace: str, lease: Callable[..., LeaseSettings], proxy: FaultyProxy
) -> None:
    """A decision that outlives a loss of the lease is answered without a write, although we lead again."""
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster(lease=lease())
    await reader.leading()
    proxy.fail(Fault(path=LEASES, times=None, cut_before=True))
    await wait_until(lambda: not reader.cluster.health().leading)
    proxy.heal()
    await wait_until(lambda: reader.cluster.health().leading)
    [answer] = await reader.do(Bind(1, pod, "node-0"))  # nothing has been read since the first term
    assert answer == WriteDone(1, Outcome.TRANSIENT, "not the leader (any more)")
    assert not proxy.seen("POST", "/binding$")
    assert (await reader.do(Bind(2, pod, "node-0"))) == [WriteDone(2, Outcome.OK)]


async def test_writes_that_wait_are_given_up_with_the_lead(
    make_cluster: Make, admin: Client, namespace: str, lease: Callable[..., LeaseSettings], proxy: FaultyProxy
) -> None:
    """A write that was asked to come back later is not sent in a later term."""
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster(lease=lease())
    await reader.leading()
    busy = proxy.fail(Fault(path="/binding$", status=429, headers={"Retry-After": "4"}))
    reader.cluster.submit([Bind(1, pod, "node-0")])
    await wait_until(lambda: busy.hits == 1)
    proxy.fail(Fault(path=LEASES, times=None, cut_before=True))
    await reader.until(LeadershipChanged, lambda e: not e.leading)
    answer = await reader.until(WriteDone)
    assert (answer.action_id, answer.outcome) == (1, Outcome.TRANSIENT)
    proxy.heal()
    await reader.until(LeadershipChanged, lambda e: e.leading, len(reader.events))
    assert (await reader.do(Bind(2, pod, "node-0"))) == [WriteDone(2, Outcome.OK)]
    assert len(proxy.seen("POST", "/binding$")) == 2


async def test_holder_without_connection_stops_and_comes_back(
    make_cluster: Make, admin: Client, namespace: str, lease: Callable[..., LeaseSettings], proxy: FaultyProxy
) -> None:
    """A leader that cannot renew stops leading and writes nothing more; it leads again when the server answers."""
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster(lease=lease())
    await reader.leading()
    proxy.fail(Fault(path=LEASES, times=None, cut_before=True))
    await reader.until(LeadershipChanged, lambda e: not e.leading)
    assert not reader.cluster.health().leading
    [answer] = await reader.do(Bind(1, pod, "node-0"))
    assert answer == WriteDone(1, Outcome.TRANSIENT, "not the leader (any more)")
    assert not proxy.seen("POST", "/binding$")
    since = len(reader.events)
    proxy.heal()
    await reader.until(LeadershipChanged, lambda e: e.leading, since)
    assert (await reader.do(Bind(2, pod, "node-0"))) == [WriteDone(2, Outcome.OK)]


async def test_writes_end_before_the_lease_can_pass(
    make_cluster: Make, admin: Client, namespace: str, lease: Callable[..., LeaseSettings], proxy: FaultyProxy
) -> None:
    """However long a write may take by its own settings, its deadline lies before the leader's."""
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster(lease=lease(), writes=WriteSettings(timeout_seconds=60.0))
    await reader.leading()
    await reader.do(Bind(1, pod, "node-0"))
    [write] = proxy.seen("POST", "/binding$")
    assert 0 < int(write.query["timeout"].removesuffix("ms")) <= 2000


async def test_hanging_renewal_does_not_outlive_the_deadline(
    make_cluster: Make, lease: Callable[..., LeaseSettings], proxy: FaultyProxy
) -> None:
    """A renewal that gets no answer at all ends leadership as well."""
    reader = await make_cluster(lease=lease())
    await reader.leading()
    proxy.fail(Fault(path=LEASES, times=None, delay_seconds=600.0))
    await reader.until(LeadershipChanged, lambda e: not e.leading)


async def test_lease_is_released_although_the_answer_to_its_renewal_was_lost(
    make_cluster: Make, admin: Client, lease: Callable[..., LeaseSettings], proxy: FaultyProxy
) -> None:
    """A stop in the middle of a renewal that the server has stored gives the lease back all the same."""
    reader = await make_cluster(lease=lease())
    await reader.leading()
    lost = proxy.fail(Fault(path=LEASES, method="PUT", cut_after=True))
    await wait_until(lambda: lost.hits == 1)
    await asyncio.to_thread(reader.cluster.stop)
    assert not (await record(admin))["holderIdentity"]


async def test_lease_is_kept_while_a_write_may_be_on_its_way(
    make_cluster: Make, admin: Client, namespace: str, lease: Callable[..., LeaseSettings], proxy: FaultyProxy
) -> None:
    """A stop that has to give up a write does not release the lease: the next leader waits until it expires."""
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster(lease=(settings := lease()), drain_seconds=0.1)
    await reader.leading()
    hanging = proxy.fail(Fault(path="/binding$", times=None, delay_seconds=600.0))
    reader.cluster.submit([Bind(1, pod, "node-0")])
    await wait_until(lambda: hanging.hits == 1)
    await asyncio.to_thread(reader.cluster.stop)
    assert (await record(admin))["holderIdentity"] == settings.identity


async def test_stolen_lease_ends_leadership(
    make_cluster: Make, admin: Client, lease: Callable[..., LeaseSettings]
) -> None:
    """When somebody else is found in the lease, leadership ends at once and their lease is left alone."""
    reader = await make_cluster(lease=lease())
    await reader.leading()
    theirs = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 600}}
    await admin.patch("Lease", NAME, theirs, SPACE)
    await reader.until(LeadershipChanged, lambda e: not e.leading)
    reader.cluster.stop()
    assert (await record(admin))["holderIdentity"] == "thief"
