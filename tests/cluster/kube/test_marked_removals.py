"""Victims are removed by the API server only while they bear their mark, whoever has led meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from gangsched.cluster.kube.bodies import Request, bind_request
from gangsched.cluster.kube.client import ApiError
from gangsched.cluster.kube.pod_writes import UNMARKED, Bindings, Removals, SeenPod
from gangsched.cluster.kube.preconditions import MOST, Preconditions
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.writes import Kinds, kinds_of_writes
from gangsched.core.actions import Bind, Mark, PodRef, Remove, Report, Unmark
from gangsched.core.events import Changed, Gone, Outcome, WriteDone
from gangsched.model.records import Budget, Condition, Pod
from tests.builders import pod
from tests.cluster.kube.conftest import Reader, make_pod
from tests.cluster.kube.made import means
from tests.controlplane.client import Client, wait_until
from tests.faulty_proxy import Fault, FaultyProxy, Seen

Make = Callable[..., Awaitable[Reader]]
MakeNodes = Callable[..., Awaitable[list[str]]]
TEXT = "py-gang-scheduler: for a test"
EVICT = pytest.mark.parametrize("evict", [False, True])
REMOVALS = r"/pods/a(/eviction)?$"


def removals(proxy: FaultyProxy) -> list[Seen]:
    """The requests that would remove pod a."""
    return proxy.select(lambda s: s.method == "DELETE" or s.path.endswith("/eviction"))


def version_in(request: Seen) -> str:
    """The version that a removal is for."""
    body = json.loads(request.body)
    found: str = body.get("deleteOptions", body)["preconditions"]["resourceVersion"]
    return found


async def marked(
    make: Make, make_nodes: MakeNodes, admin: Client, namespace: str, **spec: Any
) -> tuple[Reader, PodRef]:
    """A leader that has marked the running pod a."""
    await make_nodes(1)
    pod = await make_pod(admin, namespace, "a", **spec)
    reader = await make()
    await reader.leading()
    await reader.do(Bind(1, pod, "node-0"))
    await reader.shown(Pod, lambda e: e.uid == pod.uid and e.phase == "Running")
    assert await reader.do(Mark(2, pod, TEXT)) == [WriteDone(2, Outcome.OK)]
    return reader, pod


async def take_back(admin: Client, namespace: str) -> None:
    """Somebody takes back the mark of pod a."""
    condition = {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler", "message": "stays"}
    change = {"status": {"conditions": [condition]}}
    await admin.patch("Pod", "a", change, namespace, how="strategic", subresource="status")


async def alive(admin: Client, namespace: str) -> bool:
    """Is pod a there, and not terminating?"""
    found = await admin.find("Pod", "a", namespace)
    return found is not None and "deletionTimestamp" not in found["metadata"]


@EVICT
async def test_a_removal_is_for_the_version_that_bears_the_mark(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str, proxy: FaultyProxy, *, evict: bool
) -> None:
    """It is known from the answer to the mark: nothing is read."""
    reader, pod = await marked(make_cluster, make_nodes, admin, namespace)
    version = (await admin.get("Pod", "a", namespace))["metadata"]["resourceVersion"]
    assert await reader.do(Remove(3, pod, evict, TEXT)) == [WriteDone(3, Outcome.OK)]
    [request] = removals(proxy)
    assert version_in(request) == version
    assert not proxy.seen("GET", "/pods/a$")
    assert not await alive(admin, namespace)


@EVICT
async def test_a_pod_that_has_changed_with_its_mark_is_removed(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str, proxy: FaultyProxy, *, evict: bool
) -> None:
    """The server refuses the old version; the mark still stands in the new one."""
    reader, pod = await marked(make_cluster, make_nodes, admin, namespace)
    await admin.patch("Pod", "a", {"metadata": {"labels": {"seen": "yes"}}}, namespace)
    assert await reader.do(Remove(3, pod, evict, TEXT)) == [WriteDone(3, Outcome.OK)]
    assert 1 <= len(removals(proxy)) <= 2  # one if the watch has told of it
    assert not await alive(admin, namespace)


async def test_the_watch_tells_the_newest_version(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """An eviction that the server refuses for its version has used the budget up: what changes is followed."""
    reader, pod = await marked(make_cluster, make_nodes, admin, namespace)
    await admin.patch("Pod", "a", {"metadata": {"labels": {"app": "x"}}}, namespace)
    await reader.shown(Pod, lambda e: e.labels.get("app") == "x")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}},
    }
    await admin.create(budget, namespace)
    await reader.shown(Budget, lambda e: e.allowed == 1)
    assert await reader.do(Remove(3, pod, True, TEXT)) == [WriteDone(3, Outcome.OK)]
    assert len(removals(proxy)) == 1


@EVICT
async def test_a_pod_whose_mark_was_taken_back_stays(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str, proxy: FaultyProxy, *, evict: bool
) -> None:
    """Whether by a user, a controller or the process that leads now: that is a conflict, and it is sent once."""
    reader, pod = await marked(make_cluster, make_nodes, admin, namespace)
    await take_back(admin, namespace)
    assert await reader.do(Remove(3, pod, evict, TEXT)) == [WriteDone(3, Outcome.CONFLICT, UNMARKED)]
    assert await reader.do(Remove(4, pod, evict, TEXT)) == [WriteDone(4, Outcome.CONFLICT, UNMARKED)]
    assert len(removals(proxy)) <= 1  # none if the watch has told of it
    assert await alive(admin, namespace)


@EVICT
async def test_a_removal_that_arrives_late_does_nothing(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str, proxy: FaultyProxy, *, evict: bool
) -> None:
    """It has left while the mark stood, and reaches the server when another process has taken it back."""
    reader, pod = await marked(make_cluster, make_nodes, admin, namespace)
    late = proxy.fail(Fault(path=REMOVALS, method="POST" if evict else "DELETE", delay_seconds=0.5))
    reader.cluster.submit([Remove(3, pod, evict, TEXT)])
    await wait_until(lambda: late.hits == 1)
    await take_back(admin, namespace)
    answer = await reader.until(WriteDone, lambda e: e.action_id == 3)
    assert answer == WriteDone(3, Outcome.CONFLICT, UNMARKED)
    assert await alive(admin, namespace)


@EVICT
async def test_a_lost_answer_to_a_removal_is_no_conflict(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str, proxy: FaultyProxy, *, evict: bool
) -> None:
    """The pod has another version by then, and terminates: it is what was wanted."""
    reader, pod = await marked(make_cluster, make_nodes, admin, namespace)
    await admin.patch("Pod", "a", {"metadata": {"finalizers": ["example.com/hold"]}}, namespace)
    proxy.fail(Fault(path=REMOVALS, method="POST" if evict else "DELETE", cut_after=True, times=2))
    assert await reader.do(Remove(3, pod, evict, TEXT)) == [WriteDone(3, Outcome.OK)]
    assert not await alive(admin, namespace)
    await admin.patch("Pod", "a", {"metadata": {"finalizers": None}}, namespace)


@EVICT
@pytest.mark.parametrize("lost", [True, False])
async def test_a_pod_that_is_gone_may_have_been_removed_by_an_attempt_without_an_answer(
    make_cluster: Make,
    make_nodes: MakeNodes,
    admin: Client,
    namespace: str,
    proxy: FaultyProxy,
    *,
    evict: bool,
    lost: bool,
) -> None:
    """Without such an attempt others have."""
    reader, pod = await marked(make_cluster, make_nodes, admin, namespace, terminationGracePeriodSeconds=0)
    if lost:
        proxy.fail(Fault(path=REMOVALS, method="POST" if evict else "DELETE", cut_after=True))
    else:
        await admin.delete("Pod", "a", namespace)
    [answer] = await reader.do(Remove(3, pod, evict, TEXT))
    assert answer.outcome is (Outcome.OK if lost else Outcome.GONE)
    assert await admin.find("Pod", "a", namespace) is None


async def test_a_process_that_has_not_written_the_mark_knows_it_too(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str, proxy: FaultyProxy
) -> None:
    """As after a restart."""
    _, pod = await marked(make_cluster, make_nodes, admin, namespace)
    after = await make_cluster()
    await after.leading()
    assert await after.do(Remove(3, pod, mark=TEXT)) == [WriteDone(3, Outcome.OK)]
    assert not proxy.seen("GET", "/pods/a$")  # it was in the list of all pods
    gone = PodRef(namespace, "a", "another")
    assert [a.outcome for a in await after.do(Remove(4, gone, mark=TEXT))] == [Outcome.GONE]


def seen(status: str, **metadata: Any) -> bytes:
    """A pod whose mark has this status."""
    condition = {"type": "DisruptionTarget", "status": status}
    return json.dumps({"metadata": {"uid": "u", **metadata}, "status": {"conditions": [condition]}}).encode()


def read(body: bytes) -> SeenPod:
    """The pod as an answer has it."""
    return msgspec.json.decode(body, type=SeenPod)


def books(most: int = MOST) -> tuple[Preconditions, Kinds]:
    """What is known of marks, and what writes it down."""
    preconditions = Preconditions(most)
    return preconditions, kinds_of_writes(means(preconditions))


REQUEST = Request("PATCH", "/", b"")


def test_what_is_known_of_a_mark_ends_with_it() -> None:
    """Nothing is kept of pods that are removed, or whose mark is taken back."""
    (preconditions, kinds), pod = books(), PodRef("ns", "a", "u")
    for over in (Unmark(2, pod, "stays"), Remove(3, pod, mark=TEXT)):
        kinds[Mark].succeeded(Mark(1, pod, TEXT), REQUEST, seen("True", resourceVersion="7"))
        assert preconditions.marked_version(pod) == "7"
        kinds[type(over)].succeeded(over, REQUEST, b"{}")
        assert (preconditions.marked_version(pod), len(preconditions._marked)) == ("", 0)


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"metadata": 3}', b"{}"])
def test_an_answer_without_a_version_is_no_version(answer: bytes) -> None:
    """The mark has been written all the same: the pod is read when it is to be removed."""
    (preconditions, kinds), pod = books(), PodRef("ns", "a", "u")
    kinds[Mark].succeeded(Mark(1, pod, TEXT), REQUEST, answer)
    assert preconditions.marked_version(pod) == ""


def shown(version: str, status: str = "True", **fields: Any) -> Changed:
    """The watch shows a pod with a mark."""
    condition = Condition(status, "PreemptionByScheduler", TEXT)
    changed = pod("a").uid("u").on("n").field(version=version, disruption=condition, **fields).obj()
    return Changed(changed)


def test_what_the_watch_shows_of_a_mark() -> None:
    """The newest version counts, in whatever order it is heard of."""
    (preconditions, kinds), victim = books(), PodRef("ns", "a", "u")
    preconditions.delivered([shown("5", "False"), shown("6")])
    assert preconditions.marked_version(victim) == "6"
    kinds[Mark].succeeded(Mark(1, victim, TEXT), REQUEST, seen("True", resourceVersion="9"))
    preconditions.delivered([shown("8", "False"), shown("9")])
    assert preconditions.marked_version(victim) == "9"
    preconditions.delivered([shown("10")])
    assert preconditions.marked_version(victim) == "10"
    preconditions.delivered([shown("11", "False")])
    assert (preconditions.marked_version(victim), len(preconditions._marked)) == ("", 0)


@pytest.mark.parametrize(
    "last", [Gone("Pod", "d", "a", "u"), shown("7", phase="Succeeded"), shown("7", deleting_since=1.0)], ids=repr
)
def test_nothing_is_known_of_a_pod_that_leaves(last: Changed | Gone) -> None:
    """What is kept is bounded by the pods that are there."""
    preconditions, _ = books()
    preconditions.delivered([shown("6"), last])
    assert len(preconditions._marked) == 0


def test_so_many_marks_are_known_at_most() -> None:
    """The oldest is forgotten; its pod is read."""
    preconditions, kinds = books(2)
    pods = [PodRef("ns", name, name) for name in "abc"]
    for each in pods:
        kinds[Mark].succeeded(Mark(1, each, TEXT), REQUEST, seen("True", resourceVersion="7"))
    assert [preconditions.marked_version(each) for each in pods] == ["", "7", "7"]


def test_an_answer_that_is_nested_deeply_has_a_version() -> None:
    """Whatever users have written into a pod, it comes back with the answer."""
    (preconditions, kinds), victim = books(), PodRef("ns", "a", "u")
    deep = b'{"metadata": {"managedFields": ' + b'{"f:x": ' * 5000 + b"1" + b"}" * 5000 + b', "resourceVersion": "7"}}'
    kinds[Mark].succeeded(Mark(1, victim, TEXT), REQUEST, deep)
    assert preconditions.marked_version(victim) == "7"


def test_what_a_pod_says_of_its_mark() -> None:
    """It may leave while its mark is True, in that version; it is leaving already; or it stays."""
    preconditions, pod = Preconditions(), PodRef("ns", "a", "u")
    removal = Remove(1, pod, mark=TEXT)
    look = partial(Removals(means(preconditions))._still_marked, removal, written_since=False)
    assert look(read(seen("True", resourceVersion="8"))) is None
    assert preconditions.marked_version(pod) == "8"
    assert look(read(seen("False", resourceVersion="9"))) == (
        Outcome.CONFLICT,
        UNMARKED,
    )
    assert preconditions.marked_version(pod) == ""
    leaving = read(seen("False", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert look(leaving) == (Outcome.OK, "")


def conflict() -> ApiError:
    """What the server answers to a removal in an older version."""
    return ApiError(409, "Conflict", "the ResourceVersion in the precondition does not match")


class Rewritten:
    """A client that reads a pod which bears its mark, in another version each time."""

    def __init__(self) -> None:
        self.version = 10
        self.bucket = TokenBucket(1000.0, 1000)

    async def attempt(self, method: str, path: str, **_: Any) -> bytes:
        """The pod."""
        assert (method, path) == ("GET", "/api/v1/namespaces/ns/pods/a")
        self.version += 1
        meta = {"uid": "u", "resourceVersion": str(self.version)}
        conditions = [{"type": "DisruptionTarget", "status": "True"}]
        return json.dumps({"metadata": meta, "status": {"conditions": conditions}}).encode()


@EVICT
async def test_a_victim_that_is_rewritten_all_the_time_is_removed_by_its_uid(*, evict: bool) -> None:
    """Whoever may annotate it cannot keep it: after three conflicts, the mark read each time, the UID is enough. An
    Event says so, once.
    """
    preconditions, events = Preconditions(MOST), list[Report]()
    removals = Removals(means(preconditions, Rewritten(), events.append))
    removal = Remove(1, PodRef("ns", "a", "u"), evict, TEXT)
    sent: list[dict[str, str]] = []
    for _ in range(5):
        request, verdict = await removals.prepared(removal)
        assert (request is not None, verdict) == (True, None)
        assert request is not None
        body = json.loads(request.body)
        sent.append(body.get("deleteOptions", body)["preconditions"])
        assert await removals.judge(removal, request, conflict()) == (None, None)
    assert [each.get("resourceVersion") for each in sent] == ["11", "12", "13", None, None]
    assert {each["uid"] for each in sent} == {"u"}
    assert [(each.regarding[3], each.kind, each.reason) for each in events] == [("a", "Warning", "VictimRewritten")]


async def test_the_owner_of_a_victim_cannot_keep_it_by_writing_to_it(
    make_cluster: Make, make_nodes: MakeNodes, admin: Client, namespace: str
) -> None:
    """It patches an annotation as fast as it can, and the pod is gone all the same, at the first removal asked for,
    with an Event that says so.
    """
    reader, pod = await marked(make_cluster, make_nodes, admin, namespace)
    over = asyncio.Event()

    async def told() -> bool:
        events = await admin.list("Event", namespace)
        return any(e["reason"] == "VictimRewritten" and e["involvedObject"]["name"] == "a" for e in events)

    async def write(who: int) -> None:
        number = 0
        while not over.is_set():
            number += 1
            change = {"metadata": {"annotations": {f"busy-{who}": str(number)}}}
            with contextlib.suppress(Exception):
                await admin.patch("Pod", "a", change, namespace)

    writers = [asyncio.create_task(write(who)) for who in range(8)]
    try:
        await asyncio.sleep(0.2)
        assert await reader.do(Remove(3, pod, False, TEXT)) == [WriteDone(3, Outcome.OK)]
        assert not await alive(admin, namespace)
        await wait_until(told, what="an Event on the victim")
    finally:
        over.set()
        await asyncio.gather(*writers)


def binding(request: Any) -> dict[str, str]:
    """What a binding says about its pod."""
    found: dict[str, str] = json.loads(request.body)["metadata"]
    return found


async def test_a_binding_is_for_the_newest_version_that_is_known() -> None:
    """From the watch; after a refusal from the pod itself; and for none when nothing is known."""
    (preconditions, _), ref = books(), PodRef("ns", "a", "u")
    bindings = Bindings(means(preconditions, Rewritten()))
    bind = Bind(1, ref, "n")
    request, _ = await bindings.prepared(bind)
    assert request is not None
    assert "resourceVersion" not in binding(request)
    preconditions.delivered([Changed(pod("a").uid("u").field(version="7").obj())])
    request, _ = await bindings.prepared(bind)
    assert request is not None
    assert binding(request)["resourceVersion"] == "7"
    assert await bindings.judge(bind, request, conflict()) == (None, None)
    request, _ = await bindings.prepared(bind)
    assert request is not None
    assert binding(request)["resourceVersion"] == "11"
    preconditions.delivered([Changed(pod("a").uid("u").on("n").field(version="12").obj())])
    assert len(preconditions._pending) == 0


async def test_a_binding_that_arrives_late_is_refused_if_the_pod_was_written_since(
    make_nodes: MakeNodes, admin: Client, namespace: str
) -> None:
    """The server compares the version, so that what an old leader sent changes nothing a new one has written."""
    await make_nodes(1)
    ref = await make_pod(admin, namespace, "a")
    old = (await admin.get("Pod", "a", namespace))["metadata"]["resourceVersion"]
    await admin.patch("Pod", "a", {"metadata": {"labels": {"led-by": "another"}}}, namespace)
    late = bind_request(Bind(1, ref, "node-0"), old)
    with pytest.raises(Exception, match=r"(?i)conflict|modified|precondition"):
        await admin.request(late.method, late.path, json.loads(late.body))
    assert "nodeName" not in (await admin.get("Pod", "a", namespace))["spec"]
