"""Is a placement legal? Plain manifests in, sentences out; shares no code with the scheduler.

Written against the Kubernetes documentation (concepts/scheduling-eviction, concepts/storage, concepts/workloads/pods),
one pod and one node at a time, in the slowest and plainest way that works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain

from tests.controlplane.client import Object
from tests.sidebyside.checker_volumes import volume_violations

#: Objects by kind, as the API server lists them.
Cluster = Mapping[str, Sequence[Object]]

_SUFFIXES = {
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**n) for n, letter in enumerate("kMGT", 1)},
    **{f"{letter}i": Fraction(1024**n) for n, letter in enumerate("KMGT", 1)},
}


def amount(text: object) -> Fraction:
    """A quantity as an exact number."""
    raw = str(text)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if raw.endswith(suffix):
            return Fraction(raw[: -len(suffix)]) * _SUFFIXES[suffix]
    return Fraction(raw)


def violations(pod: Object, node_name: str, cluster: Cluster) -> list[str]:
    """Rules that are broken when ``pod`` goes to the node. The cluster does not hold the pod yet."""
    node = next((n for n in cluster["Node"] if n["metadata"]["name"] == node_name), None)
    if node is None:
        return [f"there is no node {node_name}"]
    spec = pod["spec"]
    out = []
    if node["metadata"].get("deletionTimestamp"):
        out.append("the node is being deleted")
    if spec.get("schedulingGates"):
        out.append("the pod has scheduling gates")
    if spec.get("resourceClaims"):
        out.append("the pod has resource claims, which nobody has allocated")
    if node["spec"].get("unschedulable") and not _tolerated(spec, {"key": "node.kubernetes.io/unschedulable",
                                                                   "effect": "NoSchedule"}):  # fmt: skip
        out.append("the node is cordoned")
    out += [f"taint {t['key']} is not tolerated" for t in node["spec"].get("taints") or ()
            if t["effect"] != "PreferNoSchedule" and not _tolerated(spec, t)]  # fmt: skip
    if not _node_selected(spec, node):
        out.append("the node is not selected by nodeSelector or node affinity")
    actions = {r["action"] for c in spec["containers"] for r in c.get("restartPolicyRules") or ()}
    declared = node["status"].get("declaredFeatures") or ()
    if "RestartAllContainers" in actions and "RestartAllContainersOnContainerExits" not in declared:
        out.append("the node does not declare a feature that the pod needs")
    there = [p for p in cluster["Pod"] if p["spec"].get("nodeName") == node_name and not _finished(p)]
    out += [
        f"port {port} is taken"
        for port in _ports(spec)
        if any(_clash(port, o) for p in there for o in _ports(p["spec"]))
    ]
    out += _resource_violations(pod, node, there)
    out += _affinity_violations(pod, node, cluster)
    out += _spread_violations(pod, node, cluster)
    out += volume_violations(pod, node, cluster)
    return out


def gang_violations(placements: Mapping[str, str], members: Iterable[Object], cluster: Cluster) -> list[str]:
    """The same for pods (``namespace/name`` -> node) that are placed together: they must be placeable one by one, in
    some order. Otherwise, what is wrong with those that are left when most have been placed.
    """
    waiting = [m for m in members if _key(m) in placements]
    least: list[Object] = waiting
    problems: list[str] = []

    def placeable(left: list[Object], pods: list[Object]) -> bool:
        nonlocal least, problems
        found = {_key(pod): violations(pod, placements[_key(pod)], {**cluster, "Pod": pods}) for pod in left}
        if not problems or len(left) < len(least):
            least, problems = left, [f"{key}: {text}" for key, texts in found.items() for text in texts]
        for pod in left:
            if not found[_key(pod)]:
                bound = {**pod, "spec": {**pod["spec"], "nodeName": placements[_key(pod)]}}
                if placeable([other for other in left if other is not pod], [*pods, bound]):
                    return True
        return not left

    return [] if placeable(waiting, list(cluster["Pod"])) else problems


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _finished(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


# ------------------------------------------------------------------------------------------------------------- taints


def _tolerated(spec: Object, taint: Object) -> bool:
    for each in spec.get("tolerations") or ():
        if each.get("effect") and each["effect"] != taint["effect"]:
            continue
        operator = each.get("operator") or "Equal"
        if not each.get("key"):
            if operator == "Exists":
                return True
            continue
        if each["key"] != taint["key"]:
            continue
        have, want = taint.get("value", ""), each.get("value", "")
        if operator == "Exists" or (operator == "Equal" and have == want):
            return True
        number = have.lstrip("-").isdigit()
        if number and ((operator == "Gt" and int(have) > int(want)) or (operator == "Lt" and int(have) < int(want))):
            return True
    return False


# ---------------------------------------------------------------------------------------------------------- selection


def expression_holds(expression: Object, labels: Mapping[str, str]) -> bool:
    """One requirement of a label or node selector."""
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    number = labels.get(key, "")
    if not number.lstrip("-").isdigit():
        return False
    return int(number) > int(values[0]) if operator == "Gt" else int(number) < int(values[0])


def node_term_holds(term: Object, node: Object) -> bool:
    """One term of a node selector: everything in it; nothing is selected by an empty one."""
    labels, name = node["metadata"].get("labels") or {}, {"metadata.name": node["metadata"]["name"]}
    wanted = [(e, labels) for e in term.get("matchExpressions") or ()] + [
        (f, name) for f in term.get("matchFields") or ()
    ]
    return bool(wanted) and all(expression_holds(expression, of) for expression, of in wanted)


def _node_selected(spec: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    required = (spec.get("affinity", {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return required is None or any(node_term_holds(t, node) for t in required["nodeSelectorTerms"])


def _selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """A label selector; a missing one selects nothing, an empty one everything."""
    if selector is None:
        return False
    pairs = all(labels.get(k) == v for k, v in (selector.get("matchLabels") or {}).items())
    return pairs and all(expression_holds(e, labels) for e in selector.get("matchExpressions") or ())


# --------------------------------------------------------------------------------------------------- ports, resources


def _ports(spec: Object) -> set[tuple[str, str, int]]:
    """Host ports of everything that runs for as long as the pod does."""
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    return {
        (p.get("hostIP") or "0.0.0.0", p.get("protocol") or "TCP", p["hostPort"])
        for c in (*spec["containers"], *sidecars)
        for p in c.get("ports") or ()
        if p.get("hostPort")
    }


def _clash(a: tuple[str, str, int], b: tuple[str, str, int]) -> bool:
    return a[1:] == b[1:] and (a[0] == b[0] or "0.0.0.0" in (a[0], b[0]))


def _asked(container: Object, pod: Object, statuses: Mapping[str, Object]) -> dict[str, Fraction]:
    """What one container counts for; during an in-place resize, the most of what is asked for, given and in force."""
    resources = container.get("resources") or {}
    wish = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    asked = {name: amount(value) for name, value in wish.items()}
    status = statuses.get(container["name"])
    if status is None or status.get("resources") is None:
        return asked
    refused = any(c["type"] == "PodResizePending" and c.get("reason") == "Infeasible"
                  for c in pod["status"].get("conditions") or ())  # fmt: skip
    given = (status["resources"].get("requests"), status.get("allocatedResources"))
    parts = [{name: amount(value) for name, value in (each or {}).items()} for each in given]
    parts += [] if refused else [asked]
    return {name: max(part.get(name, Fraction(0)) for part in parts) for part in parts for name in part}


def requests(pod: Object) -> dict[str, Fraction]:
    """What a pod takes of a node: containers and sidecars together, or the hungriest moment of starting up."""
    spec, status = pod["spec"], pod.get("status") or {}
    statuses = {s["name"]: s for s in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ()))}
    moments: list[dict[str, Fraction]] = []
    sidecars: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars = _added(sidecars, _asked(container, pod, statuses))
            moments.append(sidecars)
        else:
            moments.append(_added(sidecars, _asked(container, pod, {})))
    running = sidecars
    for container in spec["containers"]:
        running = _added(running, _asked(container, pod, statuses))
    moments.append(running)
    total = {name: max(m.get(name, Fraction(0)) for m in moments) for m in moments for name in m}
    for name, value in ((spec.get("resources") or {}).get("requests") or {}).items():
        total[name] = amount(value)
    return _added(total, {name: amount(value) for name, value in (spec.get("overhead") or {}).items()})


def _added(a: Mapping[str, Fraction], b: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {name: a.get(name, Fraction(0)) + b.get(name, Fraction(0)) for name in {**a, **b}}


def _resource_violations(pod: Object, node: Object, there: Sequence[Object]) -> list[str]:
    room = {name: amount(value) for name, value in node["status"]["allocatable"].items()}
    out = []
    if len(there) + 1 > room.get("pods", 0):
        out.append("the node has too many pods")
    taken: dict[str, Fraction] = {}
    for other in there:
        taken = _added(taken, requests(other))
    for name, wanted in requests(pod).items():
        if wanted > 0 and wanted > room.get(name, Fraction(0)) - taken.get(name, Fraction(0)):
            out.append(f"not enough {name}")
    return out


# -------------------------------------------------------------------------------------------------------- other pods


def _terms(pod: Object, kind: str) -> list[Object]:
    parts = pod["spec"].get("affinity", {}).get(kind) or {}
    return parts.get("requiredDuringSchedulingIgnoredDuringExecution") or []


def _term_selects(term: Object, owner: Object, other: Object, cluster: Cluster) -> bool:
    """Does a pod affinity term of ``owner`` speak of ``other``?"""
    space = other["metadata"]["namespace"]
    named, chosen = term.get("namespaces") or [], term.get("namespaceSelector")
    if chosen is not None:
        labels = next(
            (n["metadata"].get("labels") or {} for n in cluster["Namespace"] if n["metadata"]["name"] == space), {}
        )
        inside = space in named or _selects(chosen, labels)
    else:
        inside = space in (named or [owner["metadata"]["namespace"]])
    return inside and _selects(term.get("labelSelector"), other["metadata"].get("labels") or {})


def _domain(node: Object | None, key: str) -> str | None:
    return None if node is None else (node["metadata"].get("labels") or {}).get(key)


def _affinity_violations(pod: Object, node: Object, cluster: Cluster) -> list[str]:
    nodes = {n["metadata"]["name"]: n for n in cluster["Node"]}
    others = [p for p in cluster["Pod"] if p["spec"].get("nodeName") in nodes and not _finished(p)]
    out = [
        f"anti-affinity of {_key(owner)} keeps it apart from {_key(target)}"
        for other in others
        for owner, target in ((pod, other), (other, pod))
        for term in _terms(owner, "podAntiAffinity")
        if (where := _domain(node, term["topologyKey"])) is not None
        and where == _domain(nodes[other["spec"]["nodeName"]], term["topologyKey"])
        and _term_selects(term, owner, target, cluster)
    ]
    terms = _terms(pod, "podAffinity")
    if not terms:
        return out
    if any(_domain(node, t["topologyKey"]) is None for t in terms):
        return [*out, "the node has no topology label that the affinity asks for"]
    company = [o for o in others if all(_term_selects(t, pod, o, cluster) for t in terms)]
    near = all(
        any(_domain(nodes[o["spec"]["nodeName"]], t["topologyKey"]) == _domain(node, t["topologyKey"]) for o in company)
        for t in terms
    )
    # Company counts only on nodes that have the label; a pod that selects itself may be the first of its kind.
    anywhere = any(_domain(nodes[o["spec"]["nodeName"]], t["topologyKey"]) is not None for o in company for t in terms)
    first = not anywhere and all(_term_selects(t, pod, pod, cluster) for t in terms)
    return out if near or first else [*out, "no pod that the affinity asks for is near"]


def _spread_violations(pod: Object, node: Object, cluster: Cluster) -> list[str]:
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    rules = [c for c in spec.get("topologySpreadConstraints") or () if c["whenUnsatisfiable"] == "DoNotSchedule"]
    nodes = {n["metadata"]["name"]: n for n in cluster["Node"]}
    out = []
    for rule in rules:
        key = rule["topologyKey"]
        if _domain(node, key) is None:
            out.append(f"the node has no label {key} to spread over")
            continue
        selector = rule.get("labelSelector")
        counted = {
            name: n for name, n in nodes.items()
            if all(_domain(n, r["topologyKey"]) is not None for r in rules)
            and (rule.get("nodeAffinityPolicy") == "Ignore" or _node_selected(spec, n))
            and (rule.get("nodeTaintsPolicy") != "Honor" or _all_tolerated(spec, n))
        }  # fmt: skip
        domains: dict[str, int] = {str(_domain(n, key)): 0 for n in counted.values()}
        for other in cluster["Pod"]:
            host = counted.get(other["spec"].get("nodeName", ""))
            alive = not _finished(other) and not other["metadata"].get("deletionTimestamp")
            same_space = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
            if host is not None and alive and same_space and _counts(selector, other["metadata"].get("labels") or {}):
                domains[str(_domain(host, key))] += 1
        least = min(domains.values(), default=0) if len(domains) >= (rule.get("minDomains") or 1) else 0
        here = domains.get(str(_domain(node, key)), 0) + (1 if _selects(selector, labels) else 0)
        if here - least > rule["maxSkew"]:
            out.append(f"spread over {key} would be uneven by {here - least}")
    return out


def _all_tolerated(spec: Object, node: Object) -> bool:
    taints = chain(node["spec"].get("taints") or ())
    return all(t["effect"] == "PreferNoSchedule" or _tolerated(spec, t) for t in taints)


def _counts(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Pods that a spread constraint counts: kube-scheduler takes an empty selector for "no pods" here."""
    return bool(selector and (selector.get("matchLabels") or selector.get("matchExpressions"))) and _selects(
        selector, labels
    )
