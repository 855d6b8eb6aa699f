"""Kubernetes' own group API on a real API server, by what each version of it has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gangsched.model.dialects import upstream
from tests.controlplane.cleanup import wipe
from tests.controlplane.client import ApiError, Client, Object, wait_until
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.controlplane.versions import GROUP, GROUP_APIS, chosen, group_api
from tests.e2e.jobs import job, template
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import Start, condition, events

pytestmark = pytest.mark.controlplane

GROUPS, WORKLOADS = f"{GROUP}/v1beta1/PodGroup", f"{GROUP}/v1beta1/Workload"
INITIALLY = upstream.CONDITION_1_37 if group_api().api_version != f"{GROUP}/v1alpha2" else upstream.CONDITION

fixed_minimum = pytest.mark.skipif(not group_api().minimum_changes, reason="minCount cannot change in this version")

MakeNodes = Callable[..., Awaitable[list[str]]]


def group(name: str, minimum: int, **spec: Any) -> Object:
    """A PodGroup."""
    policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**policy, **spec},
    }


def members(
    of: str, count: int, *, cpu: str = "3", priority_class: str = "", on: list[str] | None = None
) -> list[Object]:
    """Pods of a group, which run on these nodes or wait for the scheduler."""
    pods = []
    for n in range(count):
        pod = {"apiVersion": "v1", "kind": "Pod", **template(cpu)}
        pod["metadata"] |= {"name": f"{of}-{n}", "namespace": "default"}
        pod["spec"] |= {"schedulingGroup": {"podGroupName": of}, "terminationGracePeriodSeconds": 0}
        if priority_class:
            pod["spec"]["priorityClassName"] = priority_class
        if on is not None:
            pod["spec"]["nodeName"] = on[n]
        pods.append(pod)
    return pods


def priority_class(name: str, value: int, **more: Any) -> Object:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    } | more


async def run(admin: Client, prefix: str, count: int) -> None:
    """So many pods whose names begin so run."""

    async def enough() -> bool:
        return sum(p["status"].get("phase") == "Running" for p in await pods(admin, prefix)) == count

    await wait_until(enough, timeout=60.0, what=f"{count} pods {prefix}* run")


async def pods(admin: Client, prefix: str) -> list[Object]:
    """The pods whose names begin so."""
    return [p for p in await admin.list("Pod") if p["metadata"]["name"].startswith(prefix)]


async def waits(admin: Client, name: str, client_namespace: str = "default") -> None:
    """The PodGroup says that it is unschedulable."""

    def told(found: Object) -> bool:
        return condition(found, INITIALLY).get("reason") == "Unschedulable"

    await admin.wait_for(GROUPS, name, told, client_namespace)


async def test_versions_and_gates_are_those_of_the_version(admin: Client) -> None:
    """The server serves the versions of the table and no other, and has every gate of the table switched on."""
    found = await admin.request("GET", f"/apis/{GROUP}")
    assert {each["version"] for each in found["versions"]} == {"v1", *group_api().served}
    metrics: str = (await admin.request("GET", "/metrics"))["message"]
    on = {line.split('name="')[1].partition('"')[0] for line in metrics.splitlines() if enabled(line)}
    assert set(group_api().gates) <= on
    older = {gate for minor, api in GROUP_APIS.items() if minor < int(chosen()[0].split(".")[1]) for gate in api.gates}
    assert not (older - set(group_api().gates)) & on


def enabled(line: str) -> bool:
    """Whether a line of the metrics says of a feature gate that it is on."""
    return line.startswith("kubernetes_feature_enabled{") and line.endswith(" 1")


@pytest.mark.parametrize(("mode", "leave"), [("single", 1), ("all", 3)])
async def test_a_victim_group_leaves_as_its_mode_says(
    admin: Client, start_scheduler: Start, make_nodes: MakeNodes, mode: str, leave: int
) -> None:
    """One place is needed of a gang that can spare a pod: that one goes, or with the mode `all` the whole gang."""
    nodes = await make_nodes(3)
    await admin.apply([priority_class("low", 1), priority_class("high", 1000)])
    await admin.apply(group("old", 2, disruptionMode={mode: {}}, priorityClassName="low"))
    await admin.apply(members("old", 3, priority_class="low", on=nodes))
    await run(admin, "old-", 3)
    await admin.apply(group("new", 1, priorityClassName="high"))
    async with start_scheduler():
        await admin.apply(members("new", 1, priority_class="high"))
        await run(admin, "new-", 1)
        assert len(await pods(admin, "old-")) == 3 - leave


async def test_the_minimum_of_a_waiting_group_may_change(
    admin: Client, start_scheduler: Start, make_nodes: MakeNodes
) -> None:
    """Three wait where two fit; when the minimum becomes two, two start. 1.36 does not let it be changed."""
    await make_nodes(2)
    await admin.apply(group("gang", 3))
    async with start_scheduler():
        await admin.apply(members("gang", 3))
        await waits(admin, "gang")
        lower = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        if not group_api().minimum_changes:
            with pytest.raises(ApiError) as refused:
                await admin.patch(GROUPS, "gang", lower)
            assert refused.value.status == 422
            return
        await admin.patch(GROUPS, "gang", lower)
        await run(admin, "gang-", 2)


@fixed_minimum
async def test_a_minimum_that_grows_evicts_no_member(
    admin: Client, start_scheduler: Start, make_nodes: MakeNodes
) -> None:
    """Two of two run; the minimum becomes three: both run on, and a third member starts when there is room for it."""
    await make_nodes(2)
    await admin.apply(group("gang", 2))
    async with start_scheduler(), admin.record("Pod") as recorder:
        await admin.apply(members("gang", 2))
        await run(admin, "gang-", 2)
        await admin.patch(GROUPS, "gang", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
        await admin.apply(members("gang", 3)[2:])
        await admin.wait_for("Pod", "gang-2", lambda p: condition(p, "PodScheduled").get("status") == "False")
        await make_nodes(1, prefix="later")
        await run(admin, "gang-", 3)
    assert not [c.name for c in recorder.changes if c.terminating]


async def test_a_group_may_say_that_it_evicts_nobody(
    admin: Client, start_scheduler: Start, make_nodes: MakeNodes
) -> None:
    """The group has the policy Never, its pods have not: the gang waits. In 1.36 a group has no policy, and the gang
    evicts. (1.37 refuses a group that does not repeat the policy Never of its class.)
    """
    nodes = await make_nodes(1)
    quiet = priority_class("quiet", 1000, preemptionPolicy="Never")
    await admin.apply([priority_class("low", 1), priority_class("high", 1000), quiet])
    await admin.apply([group("old", 1, priorityClassName="low"), *members("old", 1, priority_class="low", on=nodes)])
    await run(admin, "old-", 1)
    policy = {"preemptionPolicy": "Never"} if group_api().says_whether_it_preempts else {}
    await admin.apply(group("new", 1, priorityClassName="quiet", **policy))
    async with start_scheduler():
        await admin.apply(members("new", 1, priority_class="high"))
        if not group_api().says_whether_it_preempts:
            await run(admin, "new-", 1)
            return
        await waits(admin, "new")
        assert [p["status"]["phase"] for p in await pods(admin, "old-")] == ["Running"]
        assert not await events(admin, "Preempted")


async def test_a_group_names_its_workload(admin: Client, start_scheduler: Start, make_nodes: MakeNodes) -> None:
    """A group that was made from a template of a Workload starts as any other."""
    await make_nodes(2)
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    workload = {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"podGroupTemplates": [{"name": "workers", **policy}]},
    }
    await admin.apply(workload)
    await admin.apply(group("gang", 2, workloadRef={"workloadName": "train", "templateName": "workers"}))
    async with start_scheduler():
        await admin.apply(members("gang", 2))
        await run(admin, "gang-", 2)


# --------------------------------------------------------------------------------- groups that the Job controller makes


@pytest.fixture(scope="module")
def plane_of_jobs(make_control_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """A control plane whose Job controller makes Workloads and PodGroups."""
    return make_control_plane(gates=("WorkloadWithJob",))


@pytest.fixture
async def of_jobs(plane_of_jobs: ControlPlane) -> AsyncIterator[Client]:
    """Its admin; afterwards it is emptied."""
    async with Client(plane_of_jobs.admin_kubeconfig) as client:
        await apply_manifests_crds(client)
        await apply_manifests_rbac(client, SCHEDULER_USER)
        yield client
        await wipe(client, plane_of_jobs.stored)


def indexed(name: str, size: int, priority: str = "", **scheduling: Any) -> Object:
    """A Job of so many pods at once, each of which needs a node, that asks to start whole."""
    made = job(name, parallelism=size, completions=size, completionMode="Indexed", template=template("3"))
    made["spec"]["scheduling"] = {"schedulingPolicy": {"gang": {}}, **scheduling}
    if priority:
        made["spec"]["template"]["spec"]["priorityClassName"] = priority
    return made


async def nodes(admin: Client, *names: str) -> None:
    """Nodes with room for one pod of a Job each."""
    room = {"cpu": "4", "memory": "16Gi", "pods": "50"}
    for name in names:
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        status = {"capacity": room, "allocatable": room}
        await admin.create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})


async def group_of_job(admin: Client, name: str) -> Object:
    """The PodGroup that the Job controller has made of a Job."""

    async def found() -> Object | None:
        return next((g for g in await admin.list(GROUPS) if controller(g) == ("Job", name)), None)

    made: Object = await wait_until(found, what=f"a PodGroup of Job {name}")
    return made


def controller(thing: Object) -> tuple[str, str] | None:
    """Kind and name of an object's controller."""
    owners = thing["metadata"].get("ownerReferences", ())
    return next(((o["kind"], o["name"]) for o in owners if o.get("controller")), None)


def all_true(group: Object) -> bool:
    """Whether all conditions of a group hold."""
    return {c["status"] for c in group["status"]["conditions"]} == {"True"}


async def test_the_group_of_a_job_starts_whole(plane_of_jobs: ControlPlane, of_jobs: Client, tmp_path: Path) -> None:
    """The Job controller makes a Workload and a PodGroup, its pods name that, and they wait until all have a place."""
    await nodes(of_jobs, "node-1", "node-2")
    async with running_scheduler(plane_of_jobs.scheduler_kubeconfig, tmp_path):
        await of_jobs.create(indexed("train", 3))
        made = await group_of_job(of_jobs, "train")
        assert made["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
        assert [controller(w) for w in await of_jobs.list(WORKLOADS)] == [("Job", "train")]
        await waits(of_jobs, made["metadata"]["name"])
        waiting = await pods(of_jobs, "train-")
        assert {p["spec"]["schedulingGroup"]["podGroupName"] for p in waiting} == {made["metadata"]["name"]}
        assert not [p for p in waiting if p["spec"].get("nodeName")]
        await nodes(of_jobs, "node-3")
        await of_jobs.wait_for("Job", "train", lambda j: j.get("status", {}).get("ready", 0) == 3, timeout=60)
        await of_jobs.wait_for(GROUPS, made["metadata"]["name"], all_true, timeout=60)


@fixed_minimum
async def test_a_job_that_shrinks_may_start(plane_of_jobs: ControlPlane, of_jobs: Client, tmp_path: Path) -> None:
    """Three wait where two fit; the Job is scaled to two, its controller lowers the minimum, and both start."""
    await nodes(of_jobs, "node-1", "node-2")
    async with running_scheduler(plane_of_jobs.scheduler_kubeconfig, tmp_path):
        await of_jobs.create(indexed("train", 3))
        await waits(of_jobs, (await group_of_job(of_jobs, "train"))["metadata"]["name"])
        await of_jobs.patch("Job", "train", {"spec": {"parallelism": 2, "completions": 2}})
        await of_jobs.wait_for("Job", "train", lambda j: j.get("status", {}).get("ready", 0) == 2, timeout=60)
        assert (await group_of_job(of_jobs, "train"))["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}


@pytest.mark.skipif(not group_api().jobs_have_classes, reason="in this version such a group has no class")
async def test_the_group_of_a_job_is_evicted_whole_and_comes_back(
    plane_of_jobs: ControlPlane, of_jobs: Client, tmp_path: Path
) -> None:
    """A more urgent Job needs one of its three nodes: all of its pods leave, the urgent one runs, and when that is gone
    they run again in the same group.
    """
    await of_jobs.apply([priority_class("low", 1), priority_class("high", 1000)])
    await nodes(of_jobs, "node-1", "node-2", "node-3")
    async with running_scheduler(plane_of_jobs.scheduler_kubeconfig, tmp_path):
        await of_jobs.create(indexed("train", 3, "low", disruptionMode={"all": {}}))
        await of_jobs.wait_for("Job", "train", lambda j: j.get("status", {}).get("ready", 0) == 3, timeout=60)
        before = await group_of_job(of_jobs, "train")
        await of_jobs.create(indexed("urgent", 2, "high"))
        await of_jobs.wait_for("Job", "urgent", lambda j: j.get("status", {}).get("ready", 0) == 2, timeout=60)
        assert not [p for p in await pods(of_jobs, "train-") if p["spec"].get("nodeName")]
        await of_jobs.delete("Job", "urgent")
        await of_jobs.wait_for("Job", "train", lambda j: j.get("status", {}).get("ready", 0) == 3, timeout=60)
        after = await group_of_job(of_jobs, "train")
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
