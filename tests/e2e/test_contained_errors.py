"""An error of the scheduler over one pod, on a real API server: it keeps its Lease, and other pods are bound."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.controlplane.client import LIMIT_SECONDS, Client, Object, wait_until
from tests.e2e.handover import ELECTION
from tests.e2e.scheduler import READY_SECONDS, start_process
from tests.e2e.stories import condition

pytestmark = pytest.mark.controlplane

#: Imported by Python at its start: each event about the pod of this name raises.
BROKEN = """
import gangsched.core.world.world as world

right = world.World.set_pod


def set_pod(self, pod):
    if pod.name == "evil":
        raise KeyError(pod.name)
    return right(self, pod)


world.World.set_pod = set_pod
"""


def pod(name: str, namespace: str) -> Object:
    """A pod for the scheduler."""
    container = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"schedulerName": "py-gang-scheduler", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def is_bound(admin: Client, name: str, namespace: str) -> bool:
    """Return whether a pod has a node."""
    return bool((await admin.get("Pod", name, namespace))["spec"].get("nodeName"))


async def test_an_error_over_one_pod_stops_neither_the_process_nor_other_pods(
    admin: Client,
    crds: list[str],
    namespace: str,
    make_nodes: Callable[..., Awaitable[list[str]]],
    scheduler_kubeconfig: Path,
    tmp_path: Path,
) -> None:
    """The owner reads why in an Event and in the condition, metrics count it, and the next process knows it: it
    binds the pod when that is edited.
    """
    await make_nodes(1)
    (tmp_path / "sitecustomize.py").write_text(BROKEN)
    scheduler = await start_process(scheduler_kubeconfig, tmp_path, tree=tmp_path, leaderElection=ELECTION)
    try:
        await wait_until(scheduler.ready, READY_SECONDS, what="the scheduler is ready")
        await admin.create(pod("evil", namespace))
        await admin.create(pod("good", namespace))

        await wait_until(lambda: is_bound(admin, "good", namespace), LIMIT_SECONDS, what="the other pod is bound")

        async def said() -> bool:
            found = condition(await admin.get("Pod", "evil", namespace), "PodScheduled")
            return bool(found) and "the scheduler failed in set_pod" in found.get("message", "")

        await wait_until(said, LIMIT_SECONDS, what="the condition of the pod says why")
        assert not await is_bound(admin, "evil", namespace)

        async def kept() -> bool:
            leases = await admin.list("Lease", "gangsched-system")
            notes = [lease["metadata"].get("annotations", {}).get("gangsched.dev/quarantined", "") for lease in leases]
            return any(f"Pod {namespace}/evil" in note for note in notes)

        await wait_until(kept, LIMIT_SECONDS, what="the Lease has it")
        text = await scheduler.metrics()
        assert 'gangsched_core_rebuilt_total{where="event"} 1.0' in text
        assert "gangsched_quarantined_objects 1.0" in text

        async def reported() -> bool:
            events = await admin.list("Event", namespace)
            return any(e["reason"] == "SchedulerError" and e["involvedObject"]["name"] == "evil" for e in events)

        await wait_until(reported, LIMIT_SECONDS, what="an Event says why")
        assert scheduler.process.returncode is None
        await scheduler.stop()
        (tmp_path / "sitecustomize.py").write_text("")
        scheduler = await start_process(scheduler_kubeconfig, tmp_path, tree=tmp_path, leaderElection=ELECTION)
        await wait_until(scheduler.ready, READY_SECONDS, what="the next scheduler is ready")
        await admin.create(pod("next", namespace))
        await wait_until(
            lambda: is_bound(admin, "next", namespace), LIMIT_SECONDS, what="a pod is bound by the next one"
        )
        assert not await is_bound(admin, "evil", namespace)
        assert "gangsched_quarantined_objects 1.0" in await scheduler.metrics()
        await admin.patch("Pod", "evil", {"metadata": {"labels": {"edited": "yes"}}}, namespace)
        await wait_until(
            lambda: is_bound(admin, "evil", namespace), LIMIT_SECONDS, what="it is tried when it is edited"
        )
    except BaseException as error:
        error.add_note(f"end of the scheduler's log:\n{scheduler.log.read_text()[-6000:]}")
        raise
    finally:
        await scheduler.stop()


async def test_a_single_pass_finishes_and_ends_with_1(
    admin: Client,
    crds: list[str],
    namespace: str,
    make_nodes: Callable[..., Awaitable[list[str]]],
    scheduler_kubeconfig: Path,
    tmp_path: Path,
) -> None:
    """`run --once` binds the other pod, and prints a line about the one that it has failed over."""
    await make_nodes(1)
    (tmp_path / "sitecustomize.py").write_text(BROKEN)
    await admin.create(pod("evil", namespace))
    await admin.create(pod("good", namespace))
    scheduler = await start_process(scheduler_kubeconfig, tmp_path, "--once", tree=tmp_path, leaderElection=ELECTION)
    assert await scheduler.process.wait() == 1
    log = scheduler.log.read_text()
    assert f"gangsched: Pod {namespace}/evil: the scheduler failed in set_pod" in log
    assert await is_bound(admin, "good", namespace)
