"""Jobs whose flavor is for tainted nodes, on a real API server: they get its labels and tolerations when they start."""

from __future__ import annotations

import pytest

from tests.controlplane.client import Client, Object, load, wait_until
from tests.controlplane.jobsets import KIND, NAME
from tests.e2e.jobs import SCHEDULER, URGENT, finished, job, template
from tests.e2e.jobsets import jobset
from tests.e2e.queues import install_queues
from tests.e2e.stories import Start, events

pytestmark = pytest.mark.controlplane

MEMBERS = 4
ADDED = "gangsched.dev/added-by-flavor"

POOLS = (
    URGENT
    + """
apiVersion: v1
kind: Node
metadata: {name: spot-1, labels: {kubernetes.io/hostname: spot-1, pool: spot}}
spec: {taints: [{key: pool, value: spot, effect: NoExecute}]}
status: {capacity: {cpu: "4", memory: 16Gi, pods: "50"}, allocatable: {cpu: "4", memory: 16Gi, pods: "50"}}
---
apiVersion: v1
kind: Node
metadata: {name: steady-1, labels: {kubernetes.io/hostname: steady-1, pool: steady}}
status: {capacity: {cpu: "4", memory: 16Gi, pods: "50"}, allocatable: {cpu: "4", memory: 16Gi, pods: "50"}}
"""
)

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: spot}
spec:
  nodeLabels: {pool: spot}
  nodeTaints: [{key: pool, value: spot, effect: NoExecute}]
  tolerations: [{key: pool, operator: Equal, value: spot, effect: NoExecute}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: steady}
spec:
  nodeLabels: {pool: steady}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: pools}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
    - coveredResources: [cpu]
      flavors:
        - name: spot
          resources: [{name: cpu, nominalQuota: 4}]
        - name: steady
          resources: [{name: cpu, nominalQuota: 0}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: pools, namespace: default}
spec: {clusterQueue: pools}
"""


def queued(name: str, priority: str = "") -> Object:
    """A Job as it is written for a queue: suspended; it names neither a pool nor its taint."""
    found = job(name, parallelism=MEMBERS, completions=MEMBERS, suspend=True, template=template("1"))
    found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "pools"}
    if priority:
        found["spec"]["template"]["spec"]["priorityClassName"] = priority
    return found


async def runs(admin: Client, name: str, node: str, label: str = "job-name") -> list[Object]:
    """The pods of the Job (or of what the label is for), once all run on this node."""

    async def there() -> list[Object]:
        pods = await admin.list("Pod", labels=f"{label}={name}")
        live = [p for p in pods if p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]]
        return live if len(live) == len(pods) == MEMBERS else []

    pods: list[Object] = await wait_until(there, timeout=60, what=f"{name} runs")
    assert {p["spec"]["nodeName"] for p in pods} == {node}
    return pods


async def give_steady(admin: Client) -> None:
    """From now on the queue has quota in the other pool too."""
    more = load(QUEUES)[2]
    more["spec"]["resourceGroups"][0]["flavors"][1]["resources"][0]["nominalQuota"] = MEMBERS
    await admin.apply(more)


def directives(spec: Object) -> tuple[Object, set[str]]:
    """The node selector, and the keys that are tolerated beside what admission adds to every pod."""
    keys = {t["key"] for t in spec.get("tolerations", ()) if not t["key"].startswith("node.kubernetes.io/")}
    return spec.get("nodeSelector", {}), keys


async def test_a_job_runs_in_its_flavor_and_comes_back_in_another(admin: Client, start_scheduler: Start) -> None:
    """On nodes with a taint that removes pods without the toleration; preempted there, it goes on in the other pool,
    and completes.
    """
    await admin.apply(load(POOLS))
    await install_queues(admin, "flavored")
    await admin.apply(load(QUEUES))
    async with start_scheduler():
        await admin.apply(queued("train"))
        first = await runs(admin, "train", "spot-1")
        started = await admin.get("Job", "train")
        await admin.apply(queued("vip", "urgent"))
        await runs(admin, "vip", "spot-1")
        lost = await admin.get("Job", "train")
        await give_steady(admin)
        second = await runs(admin, "train", "steady-1")
        back = await admin.get("Job", "train")
        for pod in await admin.list("Pod", labels="job-name=train"):
            note = {"metadata": {"annotations": {"sim.gangsched.dev/run-for": "1s"}}}
            await admin.patch("Pod", pod["metadata"]["name"], note)
        done = await admin.wait_for("Job", "train", finished, timeout=60)
        resumed = [e["note"] for e in await events(admin, "Resumed") if e["reportingController"] == SCHEDULER]
    assert [directives(p["spec"]) for p in first] == [({"pool": "spot"}, {"pool"})] * MEMBERS
    assert directives(started["spec"]["template"]["spec"]) == ({"pool": "spot"}, {"pool"})
    assert ADDED in started["metadata"]["annotations"]
    assert lost["spec"]["suspend"] is True
    assert [directives(p["spec"]) for p in second] == [({"pool": "steady"}, set())] * MEMBERS
    assert directives(back["spec"]["template"]["spec"]) == ({"pool": "steady"}, set())
    assert (done["status"]["succeeded"], done["status"].get("failed", 0)) == (MEMBERS, 0)
    assert resumed.count(f"There is room for its {MEMBERS} pods again: its suspension has ended") == 3
    assert not any("template" in note for note in resumed)


async def test_the_jobs_of_a_jobset_follow_its_flavor(admin: Client, start_scheduler: Start, jobsets: None) -> None:
    """Its templates are written to, and its controller passes that on to its Job."""
    await admin.apply(load(POOLS))
    await install_queues(admin, "coloured")
    await admin.apply(load(QUEUES))
    made = jobset("set", "pools", suspend=True)
    made["spec"]["replicatedJobs"][0]["replicas"] = 1
    async with start_scheduler():
        await admin.apply(made)
        first = await runs(admin, "set", "spot-1", NAME)
        await admin.apply(queued("vip", "urgent"))
        await runs(admin, "vip", "spot-1")
        await give_steady(admin)
        second = await runs(admin, "set", "steady-1", NAME)
        back = await admin.get(KIND, "set")
    assert [directives(p["spec"]) for p in first] == [({"pool": "spot"}, {"pool"})] * MEMBERS
    assert [directives(p["spec"]) for p in second] == [({"pool": "steady"}, set())] * MEMBERS
    written = back["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert directives(written) == ({"pool": "steady"}, set())
