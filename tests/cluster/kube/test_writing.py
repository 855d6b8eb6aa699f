"""What the adapter writes to a real API server, and what it answers when that fails."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gangsched.cluster.kube.client import ApiError
from gangsched.cluster.kube.client import Client as ApiClient
from gangsched.cluster.kube.connection import load_connection
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.statuses import Statuses
from gangsched.cluster.kube.writer import WriteSettings
from gangsched.core.actions import (
    AskRemoval,
    Bind,
    JobStatus,
    Mark,
    Nominate,
    PodRef,
    Remove,
    Report,
    SetCondition,
    Unmark,
    WithdrawNomination,
)
from gangsched.core.events import Gone, Outcome, WriteDone
from gangsched.core.lifecycle.report import pod_reference
from gangsched.model.records import Pod
from tests.cluster.kube.conftest import Reader, make_pod
from tests.cluster.kube.made import request_of
from tests.controlplane.client import Client, wait_until
from tests.faulty_proxy import Fault, FaultyProxy

Make = Callable[..., Awaitable[Reader]]
MakeNodes = Callable[..., Awaitable[list[str]]]
BINDING = "/binding$"


def conditions(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The conditions of a pod by type."""
    return {each["type"]: each for each in pod["status"].get("conditions", [])}


def other(pod: PodRef) -> PodRef:
    """Another pod of the same name, which does not exist."""
    return PodRef(pod.namespace, pod.name, "00000000-0000-0000-0000-000000000000")


async def test_bind_is_safe_to_repeat(make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str) -> None:
    """Binding twice to the same node is ok both times; to another node it is a conflict."""
    await make_nodes(2)
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster()
    await reader.leading()
    assert await reader.do(Bind(1, pod, "node-0")) == [WriteDone(1, Outcome.OK)]
    assert await reader.do(Bind(2, pod, "node-0")) == [WriteDone(2, Outcome.OK)]
    [answer] = await reader.do(Bind(3, pod, "node-1"))
    assert answer.outcome == Outcome.CONFLICT
    assert "node-0" in answer.message
    assert (await admin.get("Pod", "a", namespace))["spec"]["nodeName"] == "node-0"


async def test_a_binding_is_not_sent_when_another_has_become_known(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """What a decision has not been told of the node that it chose keeps its binding back; told of it, it is sent."""
    await make_nodes(2)
    pods = [await make_pod(admin, namespace, name) for name in ("a", "b")]
    reader = await make_cluster()
    await reader.leading()
    for pod in pods:
        await reader.shown(Pod, lambda e, pod=pod: e.uid == pod.uid)  # type: ignore[misc]
    await make_pod(admin, namespace, "theirs", nodeName="node-0", schedulerName="another")
    await wait_until(lambda: len(reader.cluster._inbox) > 0)
    reader.cluster.submit([Bind(1, pods[0], "node-0"), Bind(2, pods[1], "node-1")])
    answer = await reader.until(WriteDone, lambda e: e.action_id == 1)
    assert (answer.outcome, answer.message) == (
        Outcome.OUTDATED,
        f"{namespace}/theirs has been bound to node-0 since this was decided",
    )
    assert (await reader.until(WriteDone, lambda e: e.action_id == 2)).outcome == Outcome.OK
    assert len(proxy.seen("POST", BINDING)) == 1
    assert await reader.do(Bind(3, pods[0], "node-0")) == [WriteDone(3, Outcome.OK)]


async def test_our_own_bindings_keep_none_back(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str
) -> None:
    """They come back by the watch too, before or after their answers, and nobody need have been told."""
    await make_nodes(1)
    pods = [await make_pod(admin, namespace, f"p{number}") for number in range(20)]
    reader = await make_cluster()
    await reader.leading()
    known = reader.cluster._known_events
    reader.cluster.submit([Bind(number, pod, "node-0") for number, pod in enumerate(pods[:10])])
    await wait_until(lambda: len(reader.cluster._inbox) >= 20)
    assert reader.cluster._known_events == known
    assert [a.outcome for a in await reader.do(*(Bind(10 + n, pod, "node-0") for n, pod in enumerate(pods[10:])))] == [
        Outcome.OK
    ] * 10


@pytest.mark.parametrize("exists", [True, False])
async def test_every_write_means_one_pod(make_cluster: Make, admin: Client, namespace: str, *, exists: bool) -> None:
    """A write whose UID is not the pod's, or whose pod does not exist, is answered `gone` and changes nothing.

    Not so an eviction that means another pod: the API server tries it for longer than we wait, and it may take effect.
    """
    pod = await make_pod(admin, namespace, "a") if exists else PodRef(namespace, "a", "u")
    before = await admin.find("Pod", "a", namespace)
    wrong = other(pod)
    reader = await make_cluster()
    await reader.leading()
    writes = (
        Bind(1, wrong, "node-0"),
        Nominate(2, wrong, "node-0", "plan", "m"),
        WithdrawNomination(3, wrong, "Over", "m"),
        Mark(4, wrong, "m"),
        Unmark(5, wrong, "m"),
        Remove(6, wrong),
        AskRemoval(8, wrong),
        Remove(7, wrong, evict=True),
    )
    answers = [answer for write in writes for answer in await reader.do(write)]
    assert [answer.outcome for answer in answers] == [Outcome.GONE] * 7 + [Outcome.OK if exists else Outcome.GONE]
    assert await admin.find("Pod", "a", namespace) == before


async def test_status_writes(make_cluster: Make, admin: Client, namespace: str) -> None:
    """Nominate, mark, their reverse and PodScheduled are merged into the conditions that a pod has."""
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster()
    await reader.leading()
    owners = '{"owners":[],"version":1}'
    [one, two] = await reader.do(
        Nominate(1, pod, "node-0", "p1", "plan p1"), Mark(2, pod, "s: preempting", owners=owners)
    )
    assert (one.outcome, two.outcome) == (Outcome.OK, Outcome.OK)
    reader.cluster.submit([SetCondition(pod, "Unschedulable", "0/1 nodes")])
    changed = await reader.shown(Pod, lambda e: e.uid == pod.uid and e.scheduled_condition)
    record = changed
    assert record.nominated_node == "node-0"
    assert record.intent is not None
    assert (record.intent.status, record.intent.message) == ("True", "plan p1")
    assert record.disruption is not None
    assert (record.disruption.status, record.disruption.reason) == ("True", "PreemptionByScheduler")
    assert record.evicted_for is not None
    assert (record.evicted_for.status, record.evicted_for.message) == ("True", owners)
    assert record.scheduled_condition is not None
    assert (record.scheduled_condition.reason, record.scheduled_condition.status) == ("Unschedulable", "False")

    await reader.do(WithdrawNomination(3, pod, "Timeout", "over"), Unmark(4, pod, "spared"))
    after = await admin.get("Pod", "a", namespace)
    assert "nominatedNodeName" not in after["status"]
    found = conditions(after)
    assert found["gangsched.dev/Nominated"]["status"] == "False"
    assert found["gangsched.dev/Nominated"]["reason"] == "Timeout"
    assert found["DisruptionTarget"]["status"] == found["gangsched.dev/EvictedFor"]["status"] == "False"
    assert all(each["lastTransitionTime"] for each in found.values())


async def test_remove_keeps_the_grace_period(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str
) -> None:
    """A removed pod gets its own grace period; removing it again is ok."""
    await make_nodes(1)
    finalizers = ["example.com/hold"]
    pod = await make_pod(admin, namespace, "a", terminationGracePeriodSeconds=2)
    await admin.patch("Pod", "a", {"metadata": {"finalizers": finalizers}}, namespace)
    reader = await make_cluster()
    await reader.leading()
    await reader.do(Bind(1, pod, "node-0"))
    answers = await reader.do(Remove(2, pod))
    answers += await reader.do(Remove(3, pod))
    assert [answer.outcome for answer in answers] == [Outcome.OK, Outcome.OK]
    metadata = (await admin.get("Pod", "a", namespace))["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 2
    await admin.patch("Pod", "a", {"metadata": {"finalizers": None}}, namespace)
    await reader.until(Gone, lambda e: e.uid == pod.uid)


async def test_eviction_is_blocked_by_a_budget(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str
) -> None:
    """An eviction that a budget forbids is `blocked`; one that is allowed leaves our mark on the pod."""
    await make_nodes(1)
    hold = {"metadata": {"labels": {"app": "x"}, "finalizers": ["example.com/hold"]}}
    pod = await make_pod(admin, namespace, "a")
    await admin.patch("Pod", "a", hold, namespace)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    await admin.create(budget, namespace)
    reader = await make_cluster()
    await reader.leading()
    await reader.do(Bind(1, pod, "node-0"))
    await reader.shown(Pod, lambda e: e.uid == pod.uid and e.phase == "Running")
    await reader.do(Mark(4, pod, "ours"))
    before = await admin.get("Pod", "a", namespace)
    [asked] = await reader.do(AskRemoval(5, pod, evict=True))
    [answer] = await reader.do(Remove(2, pod, evict=True, mark="ours"))
    assert asked.outcome == answer.outcome == Outcome.BLOCKED
    assert "budget" in answer.message
    await admin.delete("PodDisruptionBudget", "b", namespace)
    answers = [answer for evict in (True, False) for answer in await reader.do(AskRemoval(6, pod, evict))]
    assert [answer.outcome for answer in answers] == [Outcome.OK, Outcome.OK]
    assert await admin.get("Pod", "a", namespace) == before, "a question has changed the pod"
    [answer] = await reader.do(Remove(3, pod, evict=True, mark="ours"))
    assert answer.outcome == Outcome.OK
    mark = conditions(await admin.get("Pod", "a", namespace))["DisruptionTarget"]
    assert (mark["reason"], mark["message"]) == ("PreemptionByScheduler", "ours")


async def test_lost_answers_and_overload_are_retried(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """A binding whose answer is lost, one that is refused for overload and one that never arrives end up ok."""
    await make_nodes(1)
    pods = [await make_pod(admin, namespace, name) for name in ("lost", "busy", "late")]
    faults = [
        proxy.fail(Fault(path="/pods/lost/binding$", cut_after=True)),
        proxy.fail(Fault(path="/pods/busy/binding$", status=429, headers={"Retry-After": "0"}, times=2)),
        proxy.fail(Fault(path="/pods/late/binding$", cut_before=True)),
    ]
    reader = await make_cluster()
    await reader.leading()
    answers = await reader.do(*(Bind(i, pod, "node-0") for i, pod in enumerate(pods)))
    assert answers == [WriteDone(0, Outcome.OK), WriteDone(1, Outcome.OK), WriteDone(2, Outcome.OK)]
    assert [fault.hits for fault in faults] == [1, 2, 1]


async def test_given_up_after_the_deadline(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """A write that the server keeps refusing for overload is answered `transient` in the end."""
    pod = await make_pod(admin, namespace, "a")
    proxy.fail(Fault(path=BINDING, status=503, times=None))
    reader = await make_cluster(writes=WriteSettings(total_seconds=0.5))
    await reader.leading()
    [answer] = await reader.do(Bind(1, pod, "node-0"))
    assert answer.outcome == Outcome.TRANSIENT
    assert "503" in answer.message


async def test_deadline_goes_to_the_server(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """Every write asks the server to give up when we do."""
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster(writes=WriteSettings(timeout_seconds=1.5))
    await reader.leading()
    await reader.do(Mark(1, pod, "m"), Bind(2, pod, "node-0"), Remove(3, pod))
    writes = proxy.select(lambda s: s.method != "GET" and "/authorization.k8s.io/" not in s.path)
    assert {write.method for write in writes} == {"PATCH", "POST", "DELETE"}
    assert all(750 < int(write.query["timeout"].removesuffix("ms")) <= 1500 for write in writes)


async def test_refused_writes(make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy) -> None:
    """What the server will never accept is `refused` at once, with its words."""
    pod = await make_pod(admin, namespace, "a")
    status = b'{"kind":"Status","message":"pods is forbidden","reason":"Forbidden","code":403}'
    faults = [
        proxy.fail(Fault(path=BINDING, times=None, status=403, body=status)),
        proxy.fail(Fault(path="/status$", times=None, status=422, body=b"admission says no")),
    ]
    reader = await make_cluster()
    await reader.leading()
    answers = await reader.do(Bind(1, pod, "node-0"), Mark(2, pod, "m"))
    assert answers == [
        WriteDone(1, Outcome.REFUSED, "pods is forbidden"),
        WriteDone(2, Outcome.REFUSED, "admission says no"),
    ]
    assert [fault.hits for fault in faults] == [1, 1]


async def test_events_are_readable_and_signed(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """A Report becomes an events.k8s.io/v1 Event in the pod's namespace, once, even if its first answer is lost."""
    pod = await make_pod(admin, namespace, "a")
    lost = proxy.fail(Fault(path="/events$", method="POST", cut_after=True))
    reader = await make_cluster(controller="py-gang-scheduler")
    await reader.leading()
    long_note = "ä" * 2000
    reader.cluster.submit(
        [Report(pod_reference(pod), "Warning", "FailedScheduling", "Scheduling", long_note, pod_reference(other(pod)))]
    )

    async def ours() -> list[dict[str, Any]]:
        events = await admin.list("events.k8s.io/v1/Event", namespace)
        return [each for each in events if each.get("reportingController") == "py-gang-scheduler"]

    [event] = await wait_until(ours)
    assert lost.hits == 1
    assert (event["reason"], event["type"], event["regarding"]["uid"]) == ("FailedScheduling", "Warning", pod.uid)
    assert event["note"].startswith("ää")
    await wait_until(lambda: len(proxy.seen("POST", "/events$")) == 2)
    assert len(await ours()) == 1


async def test_dry_run_writes_nothing(make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy) -> None:
    """In a dry run nothing is written or answered, and the decision loop can be ended after one pass."""
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster(dry_run=True)
    await reader.leading()
    reader.cluster.submit([Bind(1, pod, "node-0"), SetCondition(pod, "r", "m")])
    reader.cluster.finish()
    assert reader.cluster.stopped
    reader.cluster.stop()
    assert not proxy.select(lambda s: s.method != "GET")
    assert not any(isinstance(e, WriteDone) for e in reader.fetch())


async def test_stop_finishes_what_was_submitted(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """Writes that were submitted before stop are carried out, slow ones too."""
    await make_nodes(1)
    pods = [await make_pod(admin, namespace, f"p{i}") for i in range(5)]
    proxy.fail(Fault(path=BINDING, times=2, delay_seconds=0.3))
    reader = await make_cluster()
    await reader.leading()
    reader.cluster.submit([Bind(i, pod, "node-0") for i, pod in enumerate(pods)])
    reader.cluster.stop()
    bound = [each["spec"].get("nodeName") for each in await admin.list("Pod", namespace)]
    assert bound == ["node-0"] * 5


async def test_the_status_of_a_job_is_what_is_wanted_when_its_turn_comes(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """Two statuses that wait are one read and one patch, which names the object and the version that was read."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    job = await admin.create({**body, "spec": {"suspend": True, "template": template}}, namespace)
    reader = await make_cluster(statuses=Statuses())
    await reader.leading()

    def status(reason: str) -> JobStatus:
        told = (("QuotaReserved", str(reason != "Pending"), reason, "why"),)
        return JobStatus("batch", namespace, "j", job["metadata"]["uid"], {"conditions": told}, "jobs")

    reader.cluster.submit([status("Pending"), status("QuotaReserved")])

    def reserved(job: dict[str, Any]) -> bool:
        return any(each["type"] == "QuotaReserved" for each in job.get("status", {}).get("conditions", ()))

    after = await admin.wait_for("Job", "j", reserved, namespace)
    [condition] = [each for each in after["status"]["conditions"] if each["type"] == "QuotaReserved"]
    assert condition["reason"] == "QuotaReserved"
    [patch] = proxy.seen("PATCH", "/jobs/j/status$")
    assert json.loads(patch.body)["metadata"].keys() == {"uid", "resourceVersion"}
    assert len(proxy.seen("GET", "/jobs/j$")) == 1


async def test_bodies_are_what_the_api_documents(
    make_cluster: Make, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """Bindings carry the UID, patches carry it as a precondition, deletions as one of their options."""
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster()
    await reader.leading()
    await reader.do(Mark(1, pod, "m"), Bind(2, pod, "node-0"), Remove(3, pod))
    [patch] = proxy.seen("PATCH", "/pods/a/status$")
    binds = proxy.seen("POST", BINDING)  # the second where the mark came first: it made another version of the pod
    [delete] = proxy.seen("DELETE", "/pods/a$")
    assert json.loads(patch.body)["metadata"] == {"uid": pod.uid}
    assert {json.loads(bind.body)["metadata"]["uid"] for bind in binds} == {pod.uid}
    assert json.loads(delete.body)["preconditions"] == {"uid": pod.uid}
    assert "gracePeriodSeconds" not in json.loads(delete.body)


async def test_no_more_of_a_pod_comes_back_than_its_metadata(
    proxied_kubeconfig: Path, make_nodes: MakeNodes, admin: Client, namespace: str
) -> None:
    """Nobody reads the pod that answers a write; what the server says against a write is still read."""
    await make_nodes(1)
    pod = await make_pod(admin, namespace, "a")
    client = ApiClient(await load_connection(proxied_kubeconfig), TokenBucket(100.0, 100))
    client.open()

    async def send(action: Nominate | Mark | Remove) -> Any:
        method, path, body, content_type, accept = request_of(action)
        return json.loads(await client.attempt(method, path, body=body, content_type=content_type, accept=accept))

    try:
        with pytest.raises(ApiError) as refused:
            await send(Mark(1, other(pod), "for a test"))
        assert (refused.value.status, refused.value.reason) in {(409, "Conflict"), (422, "Invalid")}
        for action in (Nominate(2, pod, "node-0", "p-1", "for a test"), Mark(3, pod, "for a test"), Remove(4, pod)):
            answer = await send(action)
            assert answer["kind"] == "PartialObjectMetadata"
            assert answer["metadata"]["uid"] == pod.uid
    finally:
        await client.close()
