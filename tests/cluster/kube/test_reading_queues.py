"""Queue objects on a real API server: read in either version, and left alone where Kueue runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gangsched.core.events import Changed, KindRead, ObjectRefused, Reading, Synced, records
from gangsched.model.dialects import kai
from gangsched.model.queues import QUEUE_LABEL, ClusterQueue, KueueWorkload, LocalQueue, QueueObject, queue_api
from gangsched.model.records import Owner
from tests.cluster.kube.conftest import Reader, pod_body
from tests.cluster.kube.kueue import GROUP, WORKLOADS, serve
from tests.controlplane.client import ApiError, Client, Object, load, wait_until_not_served
from tests.controlplane.rbac import MANIFESTS
from tests.faulty_proxy import Fault, FaultyProxy

Make = Callable[..., Awaitable[Reader]]
DEFINITIONS = load(MANIFESTS / "kueue" / "crds.yaml")


@pytest.fixture
async def queue_kinds(admin: Client) -> None:
    """The definitions of manifests/kueue are installed."""
    await serve(admin, *DEFINITIONS)


@pytest.fixture
async def kueue(admin: Client, queue_kinds: None) -> AsyncIterator[None]:
    """Kueue's kind is served too."""
    await serve(admin, WORKLOADS)
    yield
    await admin.delete("CustomResourceDefinition", WORKLOADS["metadata"]["name"])


def cluster_queue(name: str, version: str, **spec: Any) -> Object:
    """A ClusterQueue with 4 cores."""
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": 4}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    spec = {"resourceGroups": groups, **spec}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def of(reader: Reader, kind: type[Any]) -> set[str]:
    """Names of the queue objects of a kind that were read."""
    changed = (e.record for e in reader.events if isinstance(e, Changed) and isinstance(e.record, QueueObject))
    return {r.name for r in changed if isinstance(r, kind)}


async def test_both_versions_are_read(make_cluster: Make, admin: Client, namespace: str, queue_kinds: None) -> None:
    """Objects of either version come before Synced, changes are watched, and what is deleted is gone."""
    await admin.create(cluster_queue("old", "v1beta1", cohort="co"))
    await admin.create(cluster_queue("new", "v1beta2", cohortName="co"))
    meta = {"name": "q", "namespace": namespace}
    local = {"apiVersion": f"{GROUP}/v1beta1", "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": "old"}}
    await admin.create(local, namespace)
    reader = await make_cluster()
    await reader.until(Synced)
    assert (of(reader, ClusterQueue), of(reader, LocalQueue)) == ({"old", "new"}, {"q"})
    assert {queue.cohort for queue in records(reader.events, ClusterQueue)} == {"co"}
    await admin.patch(f"{GROUP}/v1beta2/ClusterQueue", "old", {"spec": {"stopPolicy": "Hold"}})
    await reader.shown(ClusterQueue, lambda queue: queue.stop == "Hold")
    await admin.delete(f"{GROUP}/v1beta2/LocalQueue", "q", namespace)
    assert await reader.gone("LocalQueue") == (namespace, "q")


async def test_what_contradicts_itself_is_refused(make_cluster: Make, admin: Client, queue_kinds: None) -> None:
    """A ClusterQueue that the API server lets pass and nobody can act by is reported, with the field."""
    body = cluster_queue("both", "v1beta2")
    groups = body["spec"]["resourceGroups"]
    memory = {"name": "default", "resources": [{"name": "memory", "nominalQuota": 1}]}
    groups.append({"coveredResources": ["memory"], "flavors": [memory]})
    await admin.create(body)
    reader = await make_cluster()
    refused = await reader.until(ObjectRefused)
    assert (refused.kind.partition(".")[0], refused.name, refused.field) == (
        "ClusterQueue",
        "both",
        "spec.resourceGroups[1].flavors[0].name",
    )


async def test_queues_that_may_not_be_read(make_cluster: Make, proxy: FaultyProxy, queue_kinds: None) -> None:
    """Without the right to read queues, everything else goes on."""
    proxy.fail(Fault(path="/clusterqueues$", status=403, times=None))
    reader = await make_cluster()
    await reader.leading()


@pytest.mark.parametrize(("mode", "read"), [("auto", set()), ("own", {"cq"}), ("off", set())])
async def test_where_kueue_runs(make_cluster: Make, admin: Client, kueue: None, mode: str, read: set[str]) -> None:
    """Kueue's queues are Kueue's, unless we are told to admit by them ourselves."""
    await admin.create(cluster_queue("cq", "v1beta2"))
    reader = await make_cluster(quota_mode=mode)
    await reader.until(Synced)
    assert of(reader, ClusterQueue) == read


@pytest.mark.parametrize(
    ("mode", "reading"), [("auto", Reading.ABSENT), ("own", Reading.ABSENT), ("off", Reading.CLOSED)]
)
async def test_queues_of_a_group_api_that_are_not_served(make_cluster: Make, mode: str, reading: Reading) -> None:
    """Groups that name one wait, unless queues are to mean nothing."""
    reader = await make_cluster(quota_mode=mode)
    await reader.until(Synced)
    told = [e.reading for e in reader.events if isinstance(e, KindRead) and e.kind == queue_api(kai.FAMILY)]
    assert told == [reading]


@pytest.mark.parametrize(("mode", "read"), [("auto", False), ("own", True)])
async def test_what_kueue_admits_itself(
    make_cluster: Make, admin: Client, namespace: str, kueue: None, mode: str, *, read: bool
) -> None:
    """Where we admit beside Kueue, we know the owners of its Workloads before we decide, and hear when one is gone."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/app:1"}]}}
    body = {"metadata": {"name": "train"}, "spec": {"suspend": True, "template": template}}
    job = await admin.create({"apiVersion": "batch/v1", "kind": "Job", **body}, namespace)
    uid = job["metadata"]["uid"]  # without its owner the garbage collector would take it away
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    meta = {"name": "job-train", "namespace": namespace, "ownerReferences": [owner]}
    kind = f"{GROUP}/v1beta2/Workload"
    await admin.create({"apiVersion": f"{GROUP}/v1beta2", "kind": "Workload", "metadata": meta}, namespace)
    reader = await make_cluster(quota_mode=mode)
    await reader.until(Synced)
    found = list(records(reader.events, KueueWorkload))
    assert found == ([KueueWorkload(namespace, "job-train", (Owner("Job", "train", uid),))] if read else [])
    if read:
        await admin.delete(kind, "job-train", namespace)
        assert await reader.gone("Workload") == (namespace, "job-train")


async def test_an_api_that_a_pod_names_is_looked_for_at_once(make_cluster: Make, admin: Client, namespace: str) -> None:
    """Definitions that are installed before or just after the first pod with a queue are found within seconds, though
    it is an hour to the next regular look.
    """
    for each in DEFINITIONS:
        with contextlib.suppress(ApiError):
            await admin.delete("CustomResourceDefinition", each["metadata"]["name"])
    await wait_until_not_served(admin, f"{GROUP}/v1beta2/ClusterQueue")
    reader = await make_cluster(discovery_seconds=3600.0)
    await reader.until(Synced)
    told = [e for e in reader.events if isinstance(e, KindRead) and e.kind == f"ClusterQueue.{GROUP}"]
    assert [e.reading for e in told] == [Reading.ABSENT]
    await serve(admin, *DEFINITIONS)
    body = pod_body("a")
    body["metadata"]["labels"] = {QUEUE_LABEL: "q"}
    await admin.create(body, namespace)
    await reader.until(KindRead, lambda e: e == KindRead(f"ClusterQueue.{GROUP}", Reading.READ))
