"""Whole pod specs as people write them."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

Object = dict[str, Any]

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"
OURS, OTHERS = "py-gang-scheduler", "default-scheduler"
APPS = ("web", "db", "cache", "api", "batch")
ZONES = ("z1", "z2", "z3")
#: By name the value; the first is the one that most pods have.
PRIORITIES = {"sbs-low": 0, "sbs-mid": 10, "sbs-high": 1000}
OVERHEAD = {"cpu": "300m", "memory": "100Mi"}


class Style(NamedTuple):
    """What kind of workload a pod is of: whether it serves, keeps state, computes or runs on every node."""

    serves: bool = False
    stateful: bool = False
    computes: bool = False
    everywhere: bool = False


class Made(NamedTuple):
    """The template of a pod: labels, annotations and spec."""

    labels: dict[str, str]
    annotations: dict[str, str]
    spec: Object


def often(rng: Random, share: float) -> bool:
    """True for this share of all calls."""
    return rng.random() < share


def template(rng: Random, app: str, style: Style) -> Made:
    """What a workload of this style writes for its pods."""
    labels = {"app": app, "rev": rng.choice(("1", "2"))}
    if often(rng, 0.3):
        labels["app.kubernetes.io/part-of"] = rng.choice(("shop", "ml"))
    spec: Object = {"containers": _containers(rng, style), "terminationGracePeriodSeconds": rng.choice((0, 5, 30))}
    _priority(rng, spec)
    _inits(rng, spec)
    _placement(rng, app, style, spec)
    if often(rng, 0.04):
        spec |= {"runtimeClassName": "sbs-heavy", "overhead": dict(OVERHEAD)}
    if style.computes:
        spec["restartPolicy"] = rng.choice(("Never", "OnFailure"))
    annotations = {"prometheus.io/scrape": "true"} if often(rng, 0.2) else {}
    if often(rng, 0.03):
        annotations["gangsched.dev/checkpoint-every"] = "10m"
    return Made(labels, annotations, spec)


def _containers(rng: Random, style: Style) -> list[Object]:
    main: Object = {"name": "main", "image": rng.choice(("registry.test/small:v1", "registry.test/big:v1"))}
    resources = _resources(rng, large=style.computes)
    if style.computes and often(rng, 0.25):
        amount = str(rng.choice((1, 1, 2)))
        resources.setdefault("requests", {})[GPU] = amount
        resources.setdefault("limits", {})[GPU] = amount
    if resources:
        main["resources"] = resources
    if often(rng, 0.35 if style.everywhere else 0.06):
        main["ports"] = _ports(rng)
    out = [main]
    if often(rng, 0.2):
        out.append({"name": "proxy", "image": "registry.test/small:v1", "resources": _resources(rng)})
    return out


def _resources(rng: Random, *, large: bool = False) -> Object:
    if often(rng, 0.08):
        return {}
    requests = {"cpu": rng.choice(("1", "2", "2500m", "3") if large else ("50m", "100m", "250m", "500m", "1"))}
    if often(rng, 0.85):
        requests["memory"] = rng.choice(("1Gi", "2Gi", "4Gi") if large else ("64Mi", "128Mi", "300M", "1Gi"))
    if often(rng, 0.12):
        return {"limits": requests}  # what is not requested is what is allowed
    out: Object = {"requests": requests}
    if often(rng, 0.4) and "memory" in requests:
        out["limits"] = {"memory": requests["memory"]}
    return out


def _ports(rng: Random) -> list[Object]:
    number = rng.choice((8080, 9090, 9100))
    out = [{"name": "a", "containerPort": number, "hostPort": number}]
    if often(rng, 0.3):
        out.append({"name": "b", "containerPort": number, "hostPort": number, "protocol": "UDP"})
    if often(rng, 0.15):
        out.append({"name": "c", "containerPort": number + 1, "hostPort": number + 1, "hostIP": "10.0.0.1"})
    return out


def _priority(rng: Random, spec: Object) -> None:
    name = rng.choices(list(PRIORITIES), (6, 3, 2))[0]
    spec |= {"priorityClassName": name, "priority": PRIORITIES[name]}


def _inits(rng: Random, spec: Object) -> None:
    inits = []
    if often(rng, 0.2):
        inits.append({"name": "migrate", "image": "registry.test/small:v1", "resources": _resources(rng)})
    if often(rng, 0.12):
        sidecar = {"name": "mesh", "image": "registry.test/small:v1", "restartPolicy": "Always"}
        inits.insert(rng.randint(0, len(inits)), {**sidecar, "resources": _resources(rng)})
    if inits:
        spec["initContainers"] = inits


def _placement(rng: Random, app: str, style: Style, spec: Object) -> None:
    if style.everywhere:
        spec["tolerations"] = [{"operator": "Exists", "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        return
    if often(rng, 0.45 if style.serves else 0.12):
        spec["topologySpreadConstraints"] = _spread(rng, app)
    affinity: Object = {}
    if often(rng, 0.35 if style.serves or style.stateful else 0.05):
        affinity["podAntiAffinity"] = _apart(rng, app)
    if often(rng, 0.1):
        affinity["podAffinity"] = _near(rng, app)
    if often(rng, 0.12):
        affinity["nodeAffinity"] = _node_affinity(rng)
    if affinity:
        spec["affinity"] = affinity
    if often(rng, 0.15):
        spec["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd"))} | (
            {ZONE: rng.choice(ZONES)} if often(rng, 0.2) else {}
        )
    if often(rng, 0.2):
        spec["tolerations"] = _tolerations(rng)


def _spread(rng: Random, app: str) -> list[Object]:
    """Zone and hostname with one selector is what the documentation shows."""
    selector = {"matchLabels": {"app": app}}
    keys = [ZONE, HOSTNAME] if often(rng, 0.6) else [rng.choice((ZONE, HOSTNAME))]
    out = []
    for key in keys:
        rule: Object = {"maxSkew": rng.choice((1, 1, 1, 2)), "topologyKey": key, "labelSelector": selector}
        rule["whenUnsatisfiable"] = rng.choice(("DoNotSchedule", "ScheduleAnyway"))
        if rule["whenUnsatisfiable"] == "DoNotSchedule" and often(rng, 0.15):
            rule["minDomains"] = rng.choice((2, 3))
        if often(rng, 0.1):
            rule["matchLabelKeys"] = ["rev"]
        if often(rng, 0.1):
            rule["nodeTaintsPolicy"] = "Honor"
        out.append(rule)
    return out


def _term(rng: Random, app: str, key: str = "") -> Object:
    term: Object = {"topologyKey": key or rng.choice((HOSTNAME, ZONE)), "labelSelector": {"matchLabels": {"app": app}}}
    luck = rng.random()
    if luck < 0.08:
        term["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "red"}}))
    elif luck < 0.14:
        term["namespaces"] = ["sbs-b"]
    elif luck < 0.2:
        term["labelSelector"] = {"matchExpressions": [{"key": "app", "operator": "In", "values": sorted({app, "db"})}]}
    elif luck < 0.24:
        term["labelSelector"] = {"matchExpressions": [{"key": "rev", "operator": "Exists"}]}
    return term


def _apart(rng: Random, app: str) -> Object:
    if often(rng, 0.55):
        terms = [{"weight": 100, "podAffinityTerm": _term(rng, app, HOSTNAME)}]
        if often(rng, 0.3):
            terms.append({"weight": 10, "podAffinityTerm": _term(rng, app, ZONE)})
        return {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    required = [_term(rng, app, HOSTNAME)]
    if often(rng, 0.25):
        required.append(_term(rng, app, ZONE))  # two terms that select the same pods
    return {"requiredDuringSchedulingIgnoredDuringExecution": required}


def _near(rng: Random, app: str) -> Object:
    other = rng.choice((app, "cache", "db"))
    if often(rng, 0.5):
        terms = [{"weight": rng.choice((1, 50)), "podAffinityTerm": _term(rng, other, ZONE)}]
        return {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [_term(rng, other, ZONE)]}


def _node_affinity(rng: Random) -> Object:
    where = {"key": ZONE, "operator": "In", "values": rng.sample(ZONES, 2)}
    disk = {"key": "disk", "operator": rng.choice(("Exists", "DoesNotExist"))}
    if often(rng, 0.5):
        terms = [{"matchExpressions": [where]}] + ([{"matchExpressions": [disk]}] if often(rng, 0.3) else [])
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    preferred = [{"weight": rng.choice((1, 50)), "preference": {"matchExpressions": [rng.choice((where, disk))]}}]
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}


def _tolerations(rng: Random) -> list[Object]:
    choices: list[Object] = [
        {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        {"operator": "Exists"},
    ]
    out = rng.sample(choices, rng.choice((1, 1, 2)))
    return out + out[:1] if often(rng, 0.1) else out  # charts add the same one twice
