"""Objects that cannot be understood, from the frames of a watch to what is decided."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from gangsched.cluster.kinds import CORE_KINDS, SERVED_KINDS
from gangsched.cluster.kube.client import Client, ListMeta, Page
from gangsched.cluster.kube.reflector import Reflector
from gangsched.core.actions import Remove, ResumeJob
from gangsched.core.events import Changed, Event, Gone, KindRead, ObjectRefused, Record, record_of, records
from gangsched.model.constraints import LabelSelector, Requirement
from gangsched.model.convert import Converter
from gangsched.model.jobsets import JobSet
from gangsched.model.records import Budget, Owner, Pod
from tests.builders import OURS, gang, node, pod
from tests.core.harness import Cluster, nodes_of, reports, texts
from tests.core.queues import big, objects
from tests.core.quota.world import queue
from tests.core.stories import names

RESOURCES = [*CORE_KINDS, *SERVED_KINDS]


class Server:
    """Lists nothing, and then tells what happens, once."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self._objects = objects
        self.told = asyncio.Event()

    async def list_pages(self, *_: Any) -> AsyncGenerator[Page, None]:
        """An empty list."""
        yield Page(ListMeta(resource_version="1"), b'{"items": []}')

    async def watch_lines(self, *_: Any, **__: Any) -> AsyncGenerator[list[bytes], None]:
        """All changes, and silence."""
        yield [json.dumps({"type": "MODIFIED", "object": each}).encode() for each in self._objects]
        self.told.set()
        await asyncio.sleep(3600)


async def events_of(name: str, *objects: dict[str, Any]) -> list[Event]:
    """What is made of these states of objects of one resource."""
    out: list[Event] = []
    server = Server(*objects)
    resource = next(each for each in RESOURCES if each.resource == name)
    task = asyncio.create_task(Reflector(resource, cast("Client", server), Converter(), out.extend).run())
    await server.told.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [event for event in out if not isinstance(event, KindRead)]


def seen(kind: str, name: str, version: int, spec: Any, **status: Any) -> dict[str, Any]:
    """An object as the server shows it."""
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta | ({} if kind == "Node" else {"namespace": "d"}), "spec": spec, "status": status}


def runs(version: int, cpu: Any, **spec: Any) -> dict[str, Any]:
    """A pod on n1."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return seen("Pod", "runs", version, {"nodeName": "n1", "containers": containers, **spec}, phase="Running")


@pytest.mark.parametrize("first", [[], [runs(2, "1")]], ids=["at first sight", "later"])
@pytest.mark.parametrize(
    ("state", "left"),
    [
        (runs(3, "3", preemptionPolicy="Sometimes"), {"small"}),
        (runs(3, "1e30"), set()),
        (runs(3, {}), set()),
    ],
    ids=["readable requests", "absurd requests", "wrong types"],
)
async def test_a_bound_pod_takes_room(first: list[dict[str, Any]], state: dict[str, Any], left: set[str]) -> None:
    """What can be read of its requests, else its whole node, at first sight or later, and it is told once."""
    events = await events_of("pods", *first, state, state)
    cluster = Cluster(node("n1"), pod("big").cpu(2), pod("small").cpu(1), *events)
    cluster.run()
    assert nodes_of(cluster.log).keys() == left
    assert sum(isinstance(event, ObjectRefused) for event in events) == 1
    assert len(reports(cluster.log, "InvalidObject")) == 1


async def test_a_pod_that_is_bound_while_it_cannot_be_read_takes_room() -> None:
    """Each state counts, though only the first is told."""
    waiting = runs(2, "1e30") | {"status": {"phase": "Pending"}}
    waiting["spec"] = waiting["spec"] | {"nodeName": ""}
    events = await events_of("pods", waiting, runs(3, "1e30"), runs(4, "1"))
    assert [e.node for e in records(events, Pod)] == ["", "n1", "n1"]
    assert sum(isinstance(event, ObjectRefused) for event in events) == 1
    cluster = Cluster(node("n1"), pod("big").cpu(3), *events)
    cluster.run()
    assert nodes_of(cluster.log) == {"big": "n1"}


async def test_a_pod_of_ours_that_cannot_be_read_any_more_waits() -> None:
    """It is not placed by what was known before; it says why, and goes on when it is mended."""
    spec = {"schedulerName": OURS, "containers": []}
    events = await events_of(
        "pods",
        seen("Pod", "p", 2, spec),
        seen("Pod", "p", 3, spec | {"tolerations": [{"operator": "Is"}]}),
    )
    cluster = Cluster(node("n1"), *events)
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert [reason for reason, _ in texts(cluster.log, "p")] == ["InvalidObject"]
    assert len(reports(cluster.log, "InvalidObject")) == 1
    cluster.show(*await events_of("pods", seen("Pod", "p", 4, spec)))
    cluster.run()
    assert nodes_of(cluster.log) == {"p": "n1"}


@pytest.mark.parametrize("cpu", ["lots", {}])
async def test_a_node_that_shrinks_out_of_sight_takes_no_new_pods(cpu: Any) -> None:
    """Its old size does not count for new pods when the new one cannot be read."""
    events = await events_of(
        "nodes",
        seen("Node", "n1", 2, {}, allocatable={"cpu": "8", "pods": "9"}),
        seen("Node", "n1", 3, {}, allocatable={"cpu": cpu, "pods": "9"}),
    )
    cluster = Cluster(*events, pod("p").cpu(1))
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert len(reports(cluster.log, "InvalidObject")) == 1


@pytest.mark.parametrize("family", ["scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io"])
async def test_a_group_that_cannot_be_read_any_more_holds_its_gang(family: str) -> None:
    """Whichever API it is of, its gang does not go on by what was known before."""
    policy: dict[str, Any] = {"minMember": -1, "schedulingPolicy": {"gang": {"minCount": -1}}}
    events = await events_of(f"podgroups.{family}", seen("PodGroup", "g", 3, policy))
    cluster = Cluster(node("n1"), gang("g").family(family).min(1), *events, pod("m").cpu(1).gang("g", family))
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert "was refused" in texts(cluster.log, "m")[-1][1]
    cluster.show(Gone("PodGroup", "d", "g", group=family), gang("g").family(family).min(1))
    cluster.run()
    assert nodes_of(cluster.log) == {"m": "n1"}


BUDGET = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
WRONG_BUDGETS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "selector": ({"selector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}}, {}),
    "number": ({"minAvailable": "some"}, {}),
    "wrong types": ({"selector": []}, {}),
    "wrong types of status": ({}, {"disruptionsAllowed": "many"}),
}


@pytest.mark.parametrize("first", [False, True], ids=["at first sight", "later"])
@pytest.mark.parametrize("wrong", WRONG_BUDGETS)
async def test_a_budget_that_cannot_be_read_allows_nothing(wrong: str, *, first: bool) -> None:
    """Whatever it allowed before; until it is mended, and it is told once."""
    spec, status = WRONG_BUDGETS[wrong]
    good = seen("PodDisruptionBudget", "b", 2, BUDGET, disruptionsAllowed=1)
    bad = seen("PodDisruptionBudget", "b", 3, BUDGET | spec, **({"disruptionsAllowed": 1} | status))
    events = await events_of("poddisruptionbudgets", *[good] * first, bad, bad)
    runs = pod("runs").cpu(4).priority(1).label(app="x").on("n1")
    cluster = Cluster(node("n1"), runs, pod("new").cpu(4).priority(5), *events, strict_budgets=True)
    cluster.pass_time(60)
    assert names(cluster, Remove) == set()
    [told] = reports(cluster.log, "InvalidObject")
    assert told.regarding[:4] == ("policy/v1", "PodDisruptionBudget", "d", "b")
    cluster.show(*await events_of("poddisruptionbudgets", good))
    cluster.pass_time(60)
    assert names(cluster, Remove) == {"runs"}


async def test_a_budget_protects_only_what_it_selects() -> None:
    """As long as that can be read."""
    wrong = seen("PodDisruptionBudget", "b", 2, BUDGET | {"maxUnavailable": "all"})
    events = await events_of("poddisruptionbudgets", wrong)
    assert [e.selector for e in records(events, Budget)] == [LabelSelector((Requirement("app", "In", ("x",)),))]


@pytest.mark.parametrize("what", ["minimum-run-time", "preemption-delay"])
async def test_a_class_of_unreadable_patience_is_as_patient_as_can_be(what: str) -> None:
    """Nobody of it is evicted, and nobody is evicted for it, until it is mended; the other annotation counts."""
    meta = {"name": "c", "uid": "uid-c", "resourceVersion": "2"}
    notes = {f"gangsched.dev/{each}": "0s" for each in ("minimum-run-time", "preemption-delay")}
    good = {"metadata": meta | {"annotations": notes}, "value": 5}
    bad = {"metadata": meta | {"annotations": notes | {f"gangsched.dev/{what}": "soon"}}, "value": 5}
    events = await events_of("priorityclasses", bad, bad)
    runs = pod("runs").cpu(4).priority(1).field(priority_class="c").on("n1")
    waits = pod("new").cpu(4).priority(5).field(priority_class="c")
    cluster = Cluster(node("n1"), runs, waits, *events)
    cluster.pass_time(86400)
    assert names(cluster, Remove) == set()
    assert len(reports(cluster.log, "InvalidObject")) == 1
    cluster.show(*await events_of("priorityclasses", good))
    cluster.pass_time(60)
    assert names(cluster, Remove) == {"runs"}


#: What its users may write into a Job and what its template may have.
WRONG_JOBS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "annotation": ({"gangsched.dev/added-by-flavor": "nothing"}, {}),
    "template": ({}, {"tolerations": [{"operator": "Is"}]}),
}


def suspended_job(version: int, notes: dict[str, Any], spec: dict[str, Any], **counts: Any) -> dict[str, Any]:
    """A Job of two pods with a queue that waits for its start."""
    template = {"spec": {"schedulerName": OURS, "containers": [{"name": "c"}], **spec}}
    made = seen(
        "Job", "j", version, {"parallelism": 2, "completions": 2, "suspend": True, "template": template} | counts
    )
    labels = {"kueue.x-k8s.io/queue-name": "q-a"}
    return made | {"metadata": made["metadata"] | {"labels": labels, "annotations": notes}}


@pytest.mark.parametrize("first", [False, True], ids=["at first sight", "later"])
@pytest.mark.parametrize("wrong", WRONG_JOBS)
async def test_a_job_that_cannot_be_read_does_not_go_on(wrong: str, *, first: bool) -> None:
    """Not even by what was known before; it is told once, and goes on when it is mended."""
    good, bad = suspended_job(2, {}, {}), suspended_job(3, *WRONG_JOBS[wrong])
    events = await events_of("jobs", *[good] * first, bad, bad)
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), *events)
    cluster.pass_time(60)
    assert [a for a in cluster.log if isinstance(a, ResumeJob)] == []
    [told] = reports(cluster.log, "InvalidObject")
    assert told.regarding[:4] == ("batch/v1", "Job", "d", "j")
    cluster.show(*await events_of("jobs", good))
    cluster.run()
    assert [a.job.name for a in cluster.log if isinstance(a, ResumeJob)] == ["j"]


async def test_pods_of_a_job_that_cannot_be_read_start_as_one_gang_with_its_quota() -> None:
    """How many they are, and in which queue, is known all the same."""
    wrong = suspended_job(2, *WRONG_JOBS["annotation"], suspend=False)
    members = [pod(f"j-{n}").cpu(1).owner("Job", "j").field(owner=Owner("Job", "j", "uid-j")) for n in (1, 2)]
    cluster = Cluster(big(), *objects(queue("a", cpu=1)), *await events_of("jobs", wrong), *members)
    cluster.pass_time(60)
    assert nodes_of(cluster.log) == {}
    cluster.show(Changed(queue("a", cpu=2)))
    cluster.pass_time(60)
    assert nodes_of(cluster.log).keys() == {"j-1", "j-2"}


@pytest.mark.parametrize("wrong", WRONG_JOBS)
async def test_a_jobset_that_cannot_be_read_keeps_its_size_and_does_not_go_on(wrong: str) -> None:
    """How many pods it runs is known, and what they are is not."""
    notes, spec = WRONG_JOBS[wrong]
    template = suspended_job(2, {}, spec)["spec"]
    parts = [{"name": name, "replicas": 2, "template": {"spec": template}} for name in ("x", "y")]
    made = seen("JobSet", "s", 2, {"replicatedJobs": parts, "suspend": True})
    made = made | {"metadata": made["metadata"] | {"annotations": notes}}
    events = await events_of("jobsets.jobset.x-k8s.io", made, made)
    [first, second] = list(records(events, JobSet))
    assert first == second
    assert (first.wanted, first.template, first.suspended) == (8, None, True)
    assert sum(isinstance(e, ObjectRefused) for e in events) == 1


async def test_what_is_not_counted_stays_as_it_was() -> None:
    """A Job, JobSet or class whose counts are of another type is told of, and nothing else is said."""
    for name, spec in (("jobs", {"parallelism": "two"}), ("jobsets.jobset.x-k8s.io", {"replicatedJobs": 2})):
        events = await events_of(name, seen("Job", "j", 2, spec))
        assert [type(e) for e in events] == [ObjectRefused]
    wrong = {"metadata": {"name": "c", "uid": "u", "resourceVersion": "2"}, "value": "high"}
    assert [type(e) for e in await events_of("priorityclasses", wrong)] == [ObjectRefused]
    twice = [{"name": "x", "template": {}}] * 2
    found = await events_of("jobsets.jobset.x-k8s.io", seen("JobSet", "s", 2, {"replicatedJobs": twice}))
    assert [type(e) for e in found] == [ObjectRefused]


@pytest.mark.parametrize("resource", [each.resource for each in RESOURCES if not each.metadata_only])
async def test_of_each_kind_an_object_without_readable_metadata_is_told(resource: str) -> None:
    """Nothing of it is forgotten, and only what would be less safe by what was known before is shown as well."""
    wrong = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "2", "labels": "none"}}
    events = await events_of(resource, wrong, wrong)
    shown: dict[str, type[Record]] = {"pods": Pod, "poddisruptionbudgets": Budget}
    told = [type(record_of(e) or e) for e in events]
    assert told == [ObjectRefused, *[each for name, each in shown.items() if name == resource] * 2]
