"""The adapter in a storm of seeded faults: the core ends up knowing the cluster, and its writes are done once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gangsched.cluster.kube.adapter import DEAD_AFTER_SECONDS, Health, KubeCluster
from gangsched.cluster.kube.connection import load_connection
from gangsched.cluster.kube.writer import WriteSettings
from gangsched.core.actions import Bind, PodRef
from gangsched.core.events import Changed, Event, Gone, Outcome, WriteDone
from gangsched.model.records import Pod
from tests.cluster.kube.conftest import Reader, make_pod
from tests.cluster.kube.kubeconfigs import write as write_kubeconfig
from tests.controlplane.client import Client, wait_until
from tests.faulty_proxy import Fault, FaultyProxy

Make = Callable[..., Awaitable[Reader]]
EXPIRED = b'{"kind":"Status","message":"too old","reason":"Expired","code":410}'


def random_fault(chance: random.Random) -> Fault:
    """Something that happens to watches and lists of pods."""
    kinds: list[Callable[[], Fault]] = [
        lambda: Fault(watch=True, cut_before=True),
        lambda: Fault(watch=True, cut_after_lines=chance.randint(0, 4)),
        lambda: Fault(watch=True, status=410, body=EXPIRED),
        lambda: Fault(watch=True, status=200, body=b'{"type":"ERROR","object":' + EXPIRED + b"}\n"),
        lambda: Fault(watch=True, status=200, body=b"<html>surprise</html>\n"),
        lambda: Fault(watch=True, status=429, headers={"Retry-After": "0"}),
        lambda: Fault(watch=False, method="GET", status=500, times=chance.randint(1, 3)),
        lambda: Fault(watch=False, method="GET", cut_after=True),
        lambda: Fault(watch=False, method="GET", delay_seconds=0.1),
    ]
    fault = chance.choice(kinds)()
    fault.path = "/api/v1/pods$"
    return fault


def replay(events: list[Event], namespace: str) -> dict[str, tuple[str, str]]:
    """What a core would know of a namespace's pods: name -> (uid, value of label x); checks the stream on the way."""
    known: dict[str, tuple[str, str]] = {}
    for event in events:
        if isinstance(event, Changed) and isinstance(event.record, Pod) and event.record.namespace == namespace:
            before = known.get(event.record.name)
            assert before is None or before[0] == event.record.uid, "a new pod came before the end of the old one"
            known[event.record.name] = (event.record.uid, event.record.labels.get("x", ""))
        elif isinstance(event, Gone) and event.kind == "Pod" and event.namespace == namespace:
            assert known[event.name][0] == event.uid, "a pod ended that was not there"
            del known[event.name]
    return known


@pytest.mark.parametrize("seed", range(3))
async def test_mirror_survives_faults(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy, seed: int
) -> None:
    """Whatever happens to watches and lists, the stream is consistent and ends in what the cluster holds."""
    chance = random.Random(seed)
    reader = await make_cluster()
    await reader.leading()
    alive: list[str] = []
    for step in range(60):
        if chance.random() < 0.25:
            proxy.fail(random_fault(chance))
        if chance.random() < 0.2:
            proxy.cut("/api/v1/pods$")
        roll = chance.random()
        if roll < 0.5 or not alive:
            name = chance.choice([f"p{i}" for i in range(8) if f"p{i}" not in alive] or [f"q{step}"])
            await make_pod(admin, namespace, name)
            alive.append(name)
        elif roll < 0.75:
            name = chance.choice(alive)
            await admin.patch("Pod", name, {"metadata": {"labels": {"x": str(step)}}}, namespace)
        else:
            name = alive.pop(chance.randrange(len(alive)))
            await admin.delete("Pod", name, namespace, grace_seconds=0)
    proxy.heal()
    actual = {
        each["metadata"]["name"]: (each["metadata"]["uid"], each["metadata"].get("labels", {}).get("x", ""))
        for each in await admin.list("Pod", namespace)
    }
    await wait_until(lambda: replay(reader.fetch(), namespace) == actual, what=f"the mirror shows {actual}")


@pytest.mark.parametrize("seed", range(2))
async def test_writes_survive_faults(
    make_cluster: Make,
    make_nodes: Callable[..., Awaitable[list[str]]],
    admin: Client,
    namespace: str,
    proxy: FaultyProxy,
    seed: int,
) -> None:
    """Each binding is answered exactly once, and `ok` only if the pod is where it should be."""
    chance = random.Random(seed)
    nodes = await make_nodes(2)
    pods = [await make_pod(admin, namespace, f"p{i}") for i in range(30)]
    pods += [PodRef(namespace, f"missing{i}", "u") for i in range(3)]
    faults: list[dict[str, Any]] = [
        {"cut_before": True},
        {"cut_after": True},
        {"status": 503},
        {"status": 429, "headers": {"Retry-After": "0"}},
        {"delay_seconds": 0.6},
    ]
    for pod in pods:
        for _ in range(chance.randint(0, 2)):
            proxy.fail(Fault(path=f"/pods/{pod.name}/binding$", **chance.choice(faults)))
    reader = await make_cluster(writes=WriteSettings(timeout_seconds=0.5))
    await reader.leading()
    wanted = {pod.name: chance.choice(nodes) for pod in pods}
    answers = await reader.do(*(Bind(i, pod, wanted[pod.name]) for i, pod in enumerate(pods)))
    assert [answer.outcome for answer in answers] == [Outcome.OK] * 30 + [Outcome.GONE] * 3
    assert sum(isinstance(e, WriteDone) for e in reader.fetch()) == len(pods)
    actual = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in await admin.list("Pod", namespace)}
    assert actual == {name: node for name, node in wanted.items() if not name.startswith("missing")}


async def test_unreachable_server_is_shown_and_stop_is_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server the adapter goes on trying, says so, and can be stopped."""
    monkeypatch.setattr("gangsched.cluster.kube.client.READ_RETRY_SECONDS", 0.0)
    cluster = KubeCluster(await load_connection(write_kubeconfig(tmp_path / "config")), lease=None)
    cluster.start()
    await wait_until(lambda: any(problem.startswith("pods: ") for problem in cluster.health().problems))
    health = cluster.health()
    assert (health.dead, health.synced, health.leading, cluster.stopped) == ("", False, False, False)
    await asyncio.to_thread(cluster.stop)
    assert cluster.stopped
    assert cluster.wait(None)[1] == []


async def test_failure_of_the_io_thread_ends_the_decision_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect in the I/O thread must not leave the decision thread waiting for ever."""

    async def broken(_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("gangsched.cluster.kube.reflector.Caches.run", broken)
    cluster = KubeCluster(await load_connection(write_kubeconfig(tmp_path / "config")), lease=None)
    cluster.start()
    events = await asyncio.to_thread(lambda: cluster.wait(None)[1])
    assert events == []
    assert cluster.stopped
    assert "boom" in cluster.health().failure
    assert "boom" in cluster.health().dead
    cluster.stop()


def test_io_loop_that_does_not_tick_is_dead() -> None:
    """Without a tick for ten seconds the I/O loop counts as dead; a failure says what it is."""
    health = Health(
        synced=True, leading=True, lease_holder="", tick_age_seconds=DEAD_AFTER_SECONDS - 0.1, caches=(), failure=""
    )
    assert health.dead == ""
    assert health._replace(tick_age_seconds=DEAD_AFTER_SECONDS).dead == "the I/O loop has not moved for 10 s"
    assert health._replace(failure="OSError: no").dead == "OSError: no"


async def test_loop_that_is_busy_measures_its_lag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer that cannot fire in time says by how much it was late."""
    monkeypatch.setattr("gangsched.cluster.kube.adapter.TICK_SECONDS", 0.01)
    lags: list[float] = []

    def observe(name: str, value: float, labels: Mapping[str, str]) -> None:
        if name == "io_loop_lag_seconds":
            lags.append(value)
            if len(lags) == 1:  # the loop stands still while it waits for the next tick
                asyncio.get_running_loop().call_soon(time.sleep, 0.2)

    cluster = KubeCluster(await load_connection(write_kubeconfig(tmp_path / "config")), lease=None, observe=observe)
    cluster.start()
    await wait_until(lambda: len(lags) > 1)
    await asyncio.to_thread(cluster.stop)
    assert lags[1] >= 0.1
