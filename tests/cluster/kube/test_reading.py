"""What the adapter reads from a real API server, also when the connection misbehaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gangsched.cluster.kinds import CORE_KINDS
from gangsched.cluster.kube.client import Client as ApiClient
from gangsched.cluster.kube.connection import load_connection
from gangsched.cluster.kube.reflector import Reflector
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.core.events import Changed, Event, Gone, KindRead, ObjectRefused, Reading, Synced, records
from gangsched.model.convert import Converter
from gangsched.model.records import Gang, Job, Namespace, Node, Pod, PriorityClass
from tests.cluster.kube.conftest import Reader, make_pod, pod_body
from tests.cluster.kube.deep import stored
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.kinds import definition, served
from tests.faulty_proxy import Fault, FaultyProxy

Make = Callable[..., Awaitable[Reader]]
PODS_PATH = "/api/v1/pods$"

PRIORITY_CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 7,
}


async def test_first_lists_come_before_synced(
    make_cluster: Make, make_nodes: Callable[..., Awaitable[list[str]]], admin: Client, namespace: str
) -> None:
    """Nodes, namespaces, priority classes, jobs and pods that exist are all delivered before Synced."""
    await make_nodes(1)
    await admin.create(PRIORITY_CLASS)
    await make_pod(admin, namespace, "before")
    template = {"spec": {"restartPolicy": "Never", **pod_body("x")["spec"]}}
    spec = {"suspend": True, "parallelism": 2, "template": template}
    await admin.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}, namespace)
    reader = await make_cluster()
    await reader.until(Synced)
    before = reader.events[: next(i for i, e in enumerate(reader.events) if isinstance(e, Synced))]
    assert any(e.name == "node-0" for e in records(before, Node))
    assert any(e.name == namespace for e in records(before, Namespace))
    assert any(e.value == 7 for e in records(before, PriorityClass))
    assert any(e.parallelism == 2 and e.suspended for e in records(before, Job))
    assert any(e.name == "before" for e in records(before, Pod))


async def test_changes_are_watched(make_cluster: Make, admin: Client, namespace: str) -> None:
    """A pod that is created, changed and deleted is delivered as such, with its UID."""
    reader = await make_cluster()
    await reader.until(Synced)
    pod = await make_pod(admin, namespace, "a")
    await reader.shown(Pod, lambda e: e.uid == pod.uid)
    await admin.patch("Pod", "a", {"metadata": {"labels": {"x": "y"}}}, namespace)
    await reader.shown(Pod, lambda e: e.uid == pod.uid and e.labels.get("x") == "y")
    await admin.delete("Pod", "a", namespace, grace_seconds=0)
    assert await reader.until(Gone, lambda e: e.kind == "Pod") == Gone("Pod", namespace, "a", pod.uid)


async def test_pods_that_are_too_deep_are_read_like_all_others(
    make_cluster: Make, admin: Client, namespace: str, control_plane: ControlPlane
) -> None:
    """What any user can create is listed and watched with the room that it takes, and everything goes on."""
    path, admins = f"/api/v1/namespaces/{namespace}/pods", control_plane.admin_kubeconfig
    async with stored(admins, path, pod_body("listed")) as listed:
        reader = await make_cluster()
        await reader.until(Synced)
        async with stored(admins, path, pod_body("watched")) as watched:
            for uid in (listed, watched):
                found = await reader.shown(Pod, lambda e, uid=uid: e.uid == uid)  # type: ignore[misc]
                assert dict(found.shape.requests)["cpu"] == 100
            await reader.shown(Pod, lambda e: e.uid == watched)
        await reader.until(Gone, lambda e: e.uid == watched)
    pod = await make_pod(admin, namespace, "after")
    await reader.shown(Pod, lambda e: e.uid == pod.uid)
    assert not any(isinstance(e, ObjectRefused) for e in reader.events)


async def test_finished_pod_is_delivered(make_cluster: Make, admin: Client, namespace: str) -> None:
    """A pod that succeeds is delivered with its phase: it counts towards its gang, and takes no room any more."""
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster()
    await reader.until(Synced)
    await admin.patch("Pod", "a", {"status": {"phase": "Succeeded"}}, namespace, subresource="status")
    done = await reader.shown(Pod, lambda e: e.uid == pod.uid and e.phase == "Succeeded")
    assert done.finished


async def test_difference_after_a_broken_watch(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """What was deleted, and made again under the same name, while the watch was down and expired is delivered."""
    kept = await make_pod(admin, namespace, "kept")
    old = await make_pod(admin, namespace, "again")
    lost = await make_pod(admin, namespace, "lost")
    reader = await make_cluster()
    await reader.shown(Pod, lambda e: e.uid == kept.uid)
    await reader.until(Synced)

    # No watch gets through, and the first one that does is told that its version is too old.
    await wait_until(lambda: any(each.watch for each in proxy.seen("GET", PODS_PATH)))
    down = proxy.fail(Fault(path=PODS_PATH, watch=True, times=None, cut_before=True))
    assert proxy.cut(PODS_PATH) == 1
    await admin.delete("Pod", "lost", namespace, grace_seconds=0)
    await admin.delete("Pod", "again", namespace, grace_seconds=0)
    new = await make_pod(admin, namespace, "again")
    await wait_until(lambda: down.hits > 0)
    since = len(reader.fetch())
    proxy.heal()
    status = b'{"kind":"Status","status":"Failure","message":"too old resource version","reason":"Expired","code":410}'
    expired = proxy.fail(Fault(path=PODS_PATH, watch=True, status=410, body=status))

    await reader.shown(Pod, lambda e: e.uid == new.uid, since)
    await reader.until(Gone, lambda e: e.uid == lost.uid, since)
    assert expired.hits == 1
    news = [e for e in reader.events[since:] if isinstance(e, Changed | Gone)]
    gone_at = news.index(Gone("Pod", namespace, "again", old.uid))
    born_at = next(
        i
        for i, e in enumerate(news)
        if isinstance(e, Changed) and isinstance(e.record, Pod) and e.record.uid == new.uid
    )
    assert gone_at < born_at
    assert not any(e.uid == kept.uid for e in records(news, Pod))


async def test_error_frame_expires_the_version(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """A watch that is accepted and then brings an ERROR frame of code 410 leads to a new list."""
    reader = await make_cluster()
    await reader.until(Synced)
    await wait_until(lambda: any(each.watch for each in proxy.seen("GET", PODS_PATH)))
    frame = b'{"type":"ERROR","object":{"kind":"Status","message":"too old","reason":"Expired","code":410}}\n'
    expired = proxy.fail(Fault(path=PODS_PATH, watch=True, status=200, body=frame))
    lists = len(proxy.select(lambda s: s.path == "/api/v1/pods" and not s.watch))
    proxy.cut(PODS_PATH)
    await wait_until(lambda: expired.hits == 1)
    await wait_until(lambda: len(proxy.select(lambda s: s.path == "/api/v1/pods" and not s.watch)) > lists)
    pod = await make_pod(admin, namespace, "after")
    await reader.shown(Pod, lambda e: e.uid == pod.uid)


async def test_watch_resumes_where_it_was_cut(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """A watch cut in the middle of a burst resumes: nothing is listed again, and every pod arrives."""
    proxy.fail(Fault(path=PODS_PATH, watch=True, times=3, cut_after_lines=2))
    reader = await make_cluster()
    await reader.until(Synced)
    pods = [await make_pod(admin, namespace, f"p{i}") for i in range(12)]
    for pod in pods:
        await reader.shown(Pod, lambda e, uid=pod.uid: e.uid == uid)  # type: ignore[misc]
    assert len(proxy.select(lambda s: s.path == "/api/v1/pods" and not s.watch)) == 1
    assert len(proxy.select(lambda s: s.path == "/api/v1/pods" and s.watch)) >= 4


async def test_silent_watch_is_given_up(
    proxied_kubeconfig: Path, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """A connection that is open but dead is noticed by its silence, and nothing is lost."""
    stalled = proxy.fail(Fault(path=PODS_PATH, watch=True, stall_after_lines=0))
    events: list[Event] = []
    client = ApiClient(await load_connection(proxied_kubeconfig), TokenBucket(100.0, 100))
    client.open()
    pods = next(each for each in CORE_KINDS if each.plural == "pods")
    reflector = Reflector(pods, client, Converter(), events.extend, silence_seconds=0.5)
    running = asyncio.create_task(reflector.run())
    try:
        await wait_until(lambda: stalled.hits == 1)
        pod = await make_pod(admin, namespace, "unheard")
        await wait_until(lambda: any(e.uid == pod.uid for e in records(events, Pod)))
        assert len(proxy.select(lambda s: s.path == "/api/v1/pods" and not s.watch)) == 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


async def test_optional_group_that_may_not_be_read(make_cluster: Make, proxy: FaultyProxy) -> None:
    """A gang API that is forbidden to us does not hold up the first decision, but it is shown."""
    proxy.fail(Fault(path=r"/scheduling\.k8s\.io/\w+/podgroups$", status=403, times=None))
    reader = await make_cluster()
    await reader.leading()
    cluster = reader.cluster
    await wait_until(lambda: [p.split(":")[0] for p in cluster.health().problems] == ["podgroups.scheduling.k8s.io"])


async def test_refresh_delivers_the_difference_only(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """A fresh list on demand delivers what the watch has not, and nothing twice."""
    old = await make_pod(admin, namespace, "old")
    reader = await make_cluster()
    await reader.until(Synced)
    cluster = reader.cluster
    await wait_until(lambda: any(each.watch for each in proxy.seen("GET", PODS_PATH)))
    proxy.fail(Fault(path=PODS_PATH, watch=True, times=None, cut_before=True))
    proxy.cut(PODS_PATH)
    new = await make_pod(admin, namespace, "new")
    assert cluster._loop is not None
    assert cluster._caches is not None
    done = asyncio.run_coroutine_threadsafe(cluster._caches.refresh(), cluster._loop)
    await asyncio.wait_for(asyncio.wrap_future(done), 30.0)
    changed = [e.uid for e in records(reader.fetch(), Pod)]
    assert changed.count(old.uid) == 1
    assert changed.count(new.uid) == 1


async def test_lists_are_paged(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy, monkeypatch: Any
) -> None:
    """A list of several pages is put together from all of them."""
    monkeypatch.setattr("gangsched.cluster.kube.client.PAGE_OBJECTS", 3)
    uids = {(await make_pod(admin, namespace, f"p{i}")).uid for i in range(8)}
    reader = await make_cluster()
    await reader.until(Synced)
    assert uids <= {e.uid for e in records(reader.events, Pod)}
    assert len(proxy.select(lambda s: s.path == "/api/v1/pods" and not s.watch)) >= 3


async def test_overloaded_server_is_asked_again(make_cluster: Make, proxy: FaultyProxy) -> None:
    """429 with Retry-After and 503 on the first lists delay Synced; they do not prevent it."""
    faults = [
        proxy.fail(Fault(path=PODS_PATH, status=429, headers={"Retry-After": "0"})),
        proxy.fail(Fault(path="/nodes$", status=503, times=2)),
        proxy.fail(Fault(path="/namespaces$", cut_before=True)),
        proxy.fail(Fault(path="/apis$", status=500)),
    ]
    reader = await make_cluster()
    await reader.until(Synced)
    assert [fault.hits for fault in faults] == [1, 2, 1, 1]


async def test_crd_installed_later(make_cluster: Make, admin: Client, namespace: str, crds: list[str]) -> None:
    """PodGroups are watched soon after their CRD is installed, and gone when it is removed."""
    for name in crds:
        await admin.delete("CustomResourceDefinition", name)
    await wait_until(lambda: _absent(admin, "scheduling.sigs.k8s.io/v1alpha1/PodGroup"))
    reader = await make_cluster()
    await reader.until(Synced)
    from tests.controlplane.rbac import apply_manifests_crds

    await apply_manifests_crds(admin)
    await admin.create(sigs_group("g", minMember=3), namespace)
    found = await reader.shown(Gang, lambda e: e.name == "g")
    assert (found.family, found.min_member) == ("scheduling.sigs.k8s.io", 3)
    await admin.delete("scheduling.sigs.k8s.io/v1alpha1/PodGroup", "g", namespace)
    await reader.until(Gone, lambda e: (e.kind, e.name) == ("PodGroup", "g"))


async def _absent(admin: Client, kind: str) -> bool:
    await admin.resources(refresh=True)
    try:
        await admin.resource(kind)
    except LookupError:
        return True
    return False


def sigs_group(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A PodGroup of scheduling.sigs.k8s.io."""
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


async def test_upstream_groups(make_cluster: Make, admin: Client, namespace: str) -> None:
    """PodGroups of the upstream API are read in the version that this server has."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": "PodGroup"},
    }
    await admin.create(group, namespace)
    reader = await make_cluster()
    found = await reader.shown(Gang, lambda e: e.name == "g")
    assert (found.family, found.min_member, found.disruption) == ("scheduling.k8s.io", 4, "gang")


async def test_refused_object_does_not_stop_the_others(
    make_cluster: Make, admin: Client, namespace: str, crds: list[str]
) -> None:
    """An object that cannot be understood is refused once, named by its field; the next ones arrive."""
    bad = {"gang.scheduling.koordinator.sh/groups": "not json"}
    await admin.create(sigs_group("bad", bad, minMember=2), namespace)
    reader = await make_cluster()
    await reader.until(Synced)
    refused = await reader.until(ObjectRefused)
    assert (refused.kind, refused.namespace, refused.name) == ("PodGroup.scheduling.sigs.k8s.io", namespace, "bad")
    assert "groups" in refused.field
    await admin.patch(
        "scheduling.sigs.k8s.io/v1alpha1/PodGroup", "bad", {"metadata": {"labels": {"a": "b"}}}, namespace
    )
    await admin.create(sigs_group("good", minMember=2), namespace)
    await reader.shown(Gang, lambda e: e.name == "good")
    assert sum(isinstance(e, ObjectRefused) for e in reader.fetch()) == 1
    repaired = {"metadata": {"annotations": {"gang.scheduling.koordinator.sh/groups": None}}}
    await admin.patch("scheduling.sigs.k8s.io/v1alpha1/PodGroup", "bad", repaired, namespace)
    await reader.shown(Gang, lambda e: e.name == "bad")


async def test_what_is_known_of_each_kind(make_cluster: Make, admin: Client, crds: list[str]) -> None:
    """Before Synced it is told of each kind whether all its objects are known, or its API is not served; of one that
    is served later, once its objects have been read.
    """
    torch = definition("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
    reader = await make_cluster()
    await reader.until(Synced)
    told = {e.kind: e.reading for e in reader.events if isinstance(e, KindRead)}
    assert [told[kind] for kind in ("Job.batch", "ReplicaSet.apps", "PodGroup.scheduling.sigs.k8s.io")] == [
        Reading.READ
    ] * 3
    assert told["PyTorchJob.kubeflow.org"] is Reading.ABSENT
    async with served(admin, torch):
        await reader.until(KindRead, lambda e: e == KindRead("PyTorchJob.kubeflow.org", Reading.READ))
    absent = KindRead("PyTorchJob.kubeflow.org", Reading.ABSENT)
    await reader.until(KindRead, lambda e: e == absent, reader.events.index(absent) + 1)
