"""Random crowded clusters in which a pod has to preempt: our plan is never more harmful than kube-scheduler's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from gangsched.core.decision import PREEMPT
from gangsched.core.preemption.harm import Budgets, Harm, Loss, harm
from gangsched.core.world.world import World
from tests.controlplane.client import Object, wait_until
from tests.sidebyside import our_side
from tests.sidebyside.checker import violations
from tests.sidebyside.generate import HOSTNAME, ZONE, Case
from tests.sidebyside.kube_side import PREEMPTING, KubeSide

#: The clock of a case starts here; pods have been running for up to an hour.
NOW = 1_700_000_000
SPACE = "sbs-a"
QUIET_SECONDS = 3.0


@dataclass
class Outcomes:
    """What a run has found. ``better`` are cases with less harm than kube-scheduler did, ``worse`` those with more,
    ``only_theirs`` where it found victims and we did not, ``illegal`` placements that the checker refuses.
    """

    cases: int = 0
    preempted: int = 0
    same: int = 0
    better: int = 0
    only_ours: int = 0
    worse: list[str] = field(default_factory=list)
    only_theirs: list[str] = field(default_factory=list)
    illegal: list[str] = field(default_factory=list)


def generate(seed: int, number: int) -> Case:
    """A crowded cluster and the pod that needs room."""
    rng = Random(f"preemption/{seed}/{number}")
    case = Case(number)
    names = [f"e{number}-n{i}" for i in range(rng.randint(1, 4))]
    for i, name in enumerate(names):
        room = {"cpu": "4", "memory": "8Gi", "pods": str(rng.choice((3, 5, 10)))}
        metadata = {"name": name, "labels": {HOSTNAME: name, ZONE: f"z{i % 2}"}}
        case.objects.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {},
                             "status": {"capacity": room, "allocatable": room}})  # fmt: skip
    for i in range(rng.randint(0, 2)):
        metadata = {"name": f"budget{i}", "namespace": SPACE}
        spec = {"selector": {"matchLabels": {"app": rng.choice(("web", "db"))}}, "minAvailable": 0}
        case.objects.append(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        )
        allowed = {"disruptionsAllowed": rng.randint(0, 2), "currentHealthy": 9, "desiredHealthy": 0, "expectedPods": 9}
        case.statuses.append(("PodDisruptionBudget", SPACE, f"budget{i}", allowed))
    for name in names:
        _fill(rng, case, name)
    case.pods.append(_preemptor(rng))
    return case


def _fill(rng: Random, case: Case, node: str) -> None:
    free, has_port = 4000, False
    while free > 0 and rng.random() < 0.95:
        cpu = min(free, rng.choice((500, 1000, 1000, 2000, 4000)))
        free -= cpu
        name = f"r{len(case.objects)}"
        pod = _pod(rng, name, f"{cpu}m", rng.choice(("sbs-low", "sbs-low", "sbs-mid", "sbs-high")))
        pod["spec"]["nodeName"] = node
        # Two pods of a node never hold one port, and kube-scheduler takes it for free as soon as either leaves.
        if pod["spec"]["containers"][0].get("ports"):
            if has_port:
                del pod["spec"]["containers"][0]["ports"]
            has_port = True
        started = datetime.fromtimestamp(NOW - rng.choice((60, 60, 600, 3600)), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case.statuses.append(("Pod", SPACE, name, {"phase": "Running", "startTime": started}))
        case.objects.append(pod)


def _pod(rng: Random, name: str, cpu: str, priority: str) -> Object:
    container: Object = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}
    if rng.random() < 0.15:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    spec: Object = {"containers": [container], "priorityClassName": priority, "terminationGracePeriodSeconds": 0}
    if rng.random() < 0.15:
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": rng.choice(("web", "db"))}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"app": rng.choice(("web", "db", "cache"))}
    metadata = {"name": name, "namespace": SPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _preemptor(rng: Random) -> Object:
    pod = _pod(rng, "preemptor", rng.choice(("1", "2", "3", "4")), rng.choice(("sbs-mid", "sbs-high", "sbs-high")))
    if rng.random() < 0.2:
        pod["spec"]["topologySpreadConstraints"] = [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {"matchLabels": {"app": pod["metadata"]["labels"]["app"]}}}
        ]  # fmt: skip
    pod["spec"]["schedulerName"] = PREEMPTING
    return pod


async def preemptions(
    kube: KubeSide, seed: int, count: int, *, first: int = 0, tell: Callable[[str], None] = lambda _: None
) -> Outcomes:
    """Compare ``count`` cases."""
    found = Outcomes()
    for number in range(first, first + count):
        case = generate(seed, number)
        await kube.load(case)
        try:
            await _one(kube, case, found, tell)
        finally:
            await kube.clear(case)
    return found


async def _one(kube: KubeSide, case: Case, found: Outcomes, tell: Callable[[str], None]) -> None:
    (pod,) = case.pods
    name = (SPACE, pod["metadata"]["name"])
    await _settled(kube, case)
    listed = await our_side.read(kube.client, name)
    listed.add(await kube.client.create(pod))
    before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in listed.cluster()["Pod"]}
    where = f"preemption case {case.number}"
    gone = await _victims(kube, set(before), where)
    side = listed.ours(PREEMPTING)
    verdict = side.preemption(*name, now=NOW)
    ours = {v.uid for v in verdict.victims}
    theirs = {before[victim] for victim in gone}
    found.cases += 1
    if verdict.placements:
        left = [p for p in listed.cluster()["Pod"] if p["metadata"]["uid"] not in ours]
        broken = violations(listed.pod(), verdict.placements[0].node, {**listed.cluster(), "Pod": left})
        if broken:
            found.illegal.append(f"{where}: {broken}")
    if theirs:
        found.preempted += 1
    if bool(theirs) != (verdict.outcome == PREEMPT):
        if theirs and verdict.outcome != PREEMPT:
            found.only_theirs.append(f"{where}: kube-scheduler evicts {sorted(gone)}, we say {verdict.message!r}")
            tell(found.only_theirs[-1])
        elif not theirs:
            found.only_ours += 1
        return
    costs, cost = _harm(side.core.world, theirs), _harm(side.core.world, ours)
    found.same += cost == costs
    found.better += cost < costs
    if cost > costs:
        found.worse.append(f"{where}: {cost} is more than {costs}")
        tell(found.worse[-1])


async def _settled(kube: KubeSide, case: Case) -> None:
    """kube-scheduler has seen the case: a pod that fits nowhere is told about as many nodes as there are."""
    nodes = sum(o["kind"] == "Node" for o in case.objects)
    probe: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "sbs-b"},
        "spec": {
            "containers": [{"name": "main", "image": "x"}],
            "nodeSelector": {"sbs.test/no-such": "label"},
            "terminationGracePeriodSeconds": 0,
            "schedulerName": PREEMPTING,
        },
    }

    async def seen() -> bool:
        _, answer = await kube.ask(probe)
        await kube.withdraw(probe)
        return answer.message.startswith(f"0/{nodes} ")

    await wait_until(seen, 20.0, f"kube-scheduler sees the {nodes} nodes of case {case.number}")


async def _victims(kube: KubeSide, before: set[str], where: str) -> set[str]:
    """Names of the pods that have gone when kube-scheduler has come to an end with the preemptor.

    Usually that is when it binds it. But it does not always wake up a preemptor whose victims have gone (when it waits
    for the port of one and the last to go is another), so quiet after a nomination is an end too.
    """
    here = before
    changed = time.monotonic()

    async def settled() -> bool:
        nonlocal here, changed
        pods = {p["metadata"]["name"]: p for p in await kube.client.list("Pod", SPACE)}
        if before & set(pods) != here:
            here, changed = before & set(pods), time.monotonic()
        pod = pods["preemptor"]
        if pod["spec"].get("nodeName"):
            return True
        status = pod.get("status", {})
        if status.get("nominatedNodeName"):
            return here != before and time.monotonic() - changed > QUIET_SECONDS
        said = [c.get("message", "") for c in status.get("conditions") or () if c["type"] == "PodScheduled"]
        return any(" preemption: " in text for text in said)

    await wait_until(settled, 20.0, f"kube-scheduler has decided about the preemptor of {where}", interval=0.02)
    return before - here


def _harm(world: World, victims: set[str]) -> Harm:
    """By our order of harm; pods without a group only."""
    pods = [world.pods[uid] for uid in sorted(victims)]
    snapshot = world.snapshot
    cluster = dict(zip(snapshot.resources, snapshot.allocatable.sum(axis=1).tolist(), strict=True))
    return harm([Loss(p, p.priority) for p in pods], [], Budgets(world.budgets.values(), ()), cluster, float(NOW))
