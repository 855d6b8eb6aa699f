"""Gangs in random clusters: what our core places is legal one by one, and what it does not place cannot be placed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from random import Random

from tests.controlplane.client import Object
from tests.sidebyside.checker import Cluster, gang_violations, violations
from tests.sidebyside.generate import Case
from tests.sidebyside.our_side import Listed

#: schedulerName of gang members: nobody serves it, so that they stay pending while the core is asked.
SCHEDULER = "sbs-gangs"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: Placements that are tried before a search gives up without an answer.
MOST_TRIES = 3000


def members(case: Case, seed: int) -> list[Object]:
    """Members of one gang, made from the pods of a case: two to four like one of them, perhaps one like another."""
    rng = Random(f"gang/{seed}/{case.number}")
    kinds = [rng.choice(case.pods)] * rng.randint(2, 4)
    if rng.random() < 0.5:
        kinds.append(rng.choice(case.pods))
    out = []
    for i, kind in enumerate(kinds):
        pod = copy.deepcopy(kind)
        notes = {"gang.scheduling.koordinator.sh/name": "gang",
                 "gang.scheduling.koordinator.sh/min-available": str(len(kinds))}  # fmt: skip
        pod["metadata"] |= {"name": f"m{i}", "namespace": kinds[0]["metadata"]["namespace"], "annotations": notes}
        pod["spec"]["schedulerName"] = SCHEDULER
        # The members of a gang have one priority, or its lowest counts; that is not what this is about.
        pod["spec"]["priorityClassName"] = "sbs-mid"
        out.append(pod)
    return out


def judge(listed: Listed, stored: Sequence[Object]) -> tuple[str, list[str]]:
    """``bound`` or ``unschedulable``, and what is wrong with that."""
    found = listed.ours(SCHEDULER).gang(listed.pending)
    cluster = listed.cluster()
    if found:
        return "bound", gang_violations(found, stored, cluster)
    way = _some_way(list(stored), cluster, {}, [MOST_TRIES])
    return "unschedulable", [f"the gang can be placed: {way}"] if way else []


def _some_way(left: list[Object], cluster: Cluster, placed: dict[str, str], tries: list[int]) -> dict[str, str] | None:
    """Places for all members, one after another in some order; None when there are none or the tries are used up."""
    if not left:
        return placed
    names = [n["metadata"]["name"] for n in cluster["Node"]]
    for i, pod in enumerate(left):
        if any(_alike(pod, earlier) for earlier in left[:i]):
            continue
        for name in names:
            tries[0] -= 1
            if tries[0] < 0:
                return None
            if violations(pod, name, cluster):
                continue
            bound = {**pod, "spec": {**pod["spec"], "nodeName": name}}
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            more = {**_selected(bound, cluster), "Pod": [*cluster["Pod"], bound]}
            way = _some_way([*left[:i], *left[i + 1 :]], more, {**placed, key: name}, tries)
            if way is not None:
                return way
    return None


def _selected(pod: Object, cluster: Cluster) -> dict[str, Sequence[Object]]:
    """The cluster once the volumes are being made that a placed pod waits for: others with its claims go there too."""
    space, node = pod["metadata"]["namespace"], pod["spec"]["nodeName"]
    mounted = {(v.get("persistentVolumeClaim") or {}).get("claimName") for v in pod["spec"].get("volumes") or ()}
    made = {each["metadata"]["name"] for each in cluster["StorageClass"] if "no-provisioner" not in each["provisioner"]}
    claims = []
    for claim in cluster["PersistentVolumeClaim"]:
        meta, spec = claim["metadata"], claim["spec"]
        waits = not spec.get("volumeName") and spec.get("storageClassName") in made
        if waits and meta["namespace"] == space and meta["name"] in mounted:
            notes = {**(meta.get("annotations") or {}), SELECTED_NODE: node}
            claim = {**claim, "metadata": {**meta, "annotations": notes}}
        claims.append(claim)
    return {**cluster, "PersistentVolumeClaim": claims}


def _alike(a: Object, b: Object) -> bool:
    return a["spec"] == b["spec"] and a["metadata"].get("labels") == b["metadata"].get("labels")
