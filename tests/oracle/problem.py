"""What a cluster asks of a planner, read from the records alone: nothing here is shared with the planner but harm().

The rules are those of the design: who may be a victim, what goes together, what a set of victims costs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from gangsched.core.preemption.harm import Budgets, Harm, Loss, harm
from gangsched.model.constraints import PodTerm, Taint, Toleration
from gangsched.model.records import SINGLE, Gang, GangId, Node, Pod
from gangsched.model.selectors import any_node_term_matches, selector_matches
from tests.oracle.case import NOW, OURS, Case


class Part(msgspec.Struct):
    """One gang of a unit: its bound live pods, those that may go singly and how many, its minimum."""

    gang: GangId
    bound: list[Pod]
    single: list[Pod]
    limit: int
    minimum: int
    counts: bool


class Unit(msgspec.Struct):
    """What goes together: ``whole`` is empty where nothing goes as a whole (or may not)."""

    parts: list[Part]
    whole: list[Pod]
    priority: int


class Want(msgspec.Struct):
    """Pending members of one gang, ``required`` of which must get a node."""

    gang: GangId
    members: list[Pod]
    required: int


class Problem(msgspec.Struct):
    """The question. ``present`` are the pods that take room now and do not leave by themselves; ``leaving`` are
    those that are terminating. With ``most`` there are no more victims than that (0: any number).
    """

    nodes: dict[str, Node]
    wants: list[Want]
    present: list[Pod]
    leaving: list[Pod]
    units: list[Unit]
    budgets: Budgets
    cluster: dict[str, float]
    priority: int
    may_preempt: bool
    most: int
    by_work: bool

    def candidates(self) -> list[Pod]:
        """Every pod that some set of victims may hold, by namespace/name."""
        found = {p.uid: p for u in self.units for p in (*u.whole, *(s for part in u.parts for s in part.single))}
        return sorted(found.values(), key=lambda p: p.key)

    def harm(self, taken: Collection[str]) -> Harm:
        """The harm of evicting the pods with these UIDs. ValueError when the rules do not allow the set."""
        losses: list[Loss] = []
        interrupted: list[int] = []
        known: set[str] = set()
        for unit in self.units:
            mine = [p for part in unit.parts for p in part.bound if p.uid in taken]
            known.update(p.uid for p in mine)
            if unit.whole and len(mine) == len(unit.whole) and not _only_surplus(unit, taken):
                losses += [Loss(p, unit.priority) for p in mine]
                interrupted += [unit.priority] * len(unit.parts)
                continue
            for part in unit.parts:
                gone = [p for p in part.bound if p.uid in taken]
                _check_singles(part, gone)
                losses += [Loss(p, p.priority) for p in gone]
                if part.counts and gone and len(part.bound) - len(gone) < part.minimum:
                    interrupted.append(max(p.priority for p in gone))
        if set(taken) - known:
            raise ValueError(f"not candidates: {sorted(set(taken) - known)}")
        return harm(losses, interrupted, self.budgets, self.cluster, NOW, by_work=self.by_work)


def _only_surplus(unit: Unit, taken: Collection[str]) -> bool:
    return all(sum(p.uid in taken for p in part.bound) <= part.limit for part in unit.parts)


def _check_singles(part: Part, gone: list[Pod]) -> None:
    allowed = {p.uid for p in part.single}
    wrong = [p.key for p in gone if p.uid not in allowed]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} of {part.gang.key} may not be taken singly")
    if len(gone) > part.limit:
        raise ValueError(f"{len(gone)} pods of {part.gang.key} taken singly, {part.limit} allowed")


def read(case: Case) -> Problem:
    """The problem that a case poses for its first pending gang or GangGroup."""
    return _Reader(case).problem()


class _Reader:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.options = case.options
        self.nodes = {n.name: n for n in case.nodes}
        self.on_nodes = [p for p in case.pods if p.node in self.nodes and p.phase not in ("Succeeded", "Failed")]
        self.live = [p for p in self.on_nodes if p.deleting_since is None]
        self.specs = {(g.family, g.namespace, g.name): g for g in case.gangs}

    def problem(self) -> Problem:
        own = self._preemptor()
        wants = [self._want(g) for g in own]
        wants = [w for w in wants if w.required]
        priority = min(self._preemptor_priority(g) for g in own)
        usable = {n for n in self.nodes if any(admits(self.nodes[n], m) for w in wants for m in w.members)}
        total: dict[str, float] = {}
        for node in self.case.nodes:
            for name, amount in node.allocatable:
                total[name] = total.get(name, 0.0) + amount
        return Problem(
            nodes=self.nodes,
            wants=wants,
            present=self.live,
            leaving=[p for p in self.on_nodes if p.deleting_since is not None],
            units=self._units(set(own), priority, usable),
            budgets=Budgets(self.case.budgets, self.live),
            cluster=total,
            priority=priority,
            may_preempt=self._policy(own),
            most=self.options.max_victims,
            by_work=self.options.harm_by_work,
        )

    # -- the preemptor -------------------------------------------------------------------------------------

    def _preemptor(self) -> list[GangId]:
        pending = {p.gang for p in self.case.pods if not p.node and p.scheduler == OURS and not p.gates}
        groups = {tuple(self._gangs_with(g)) for g in pending}
        return list(min(groups, key=lambda g: (-min(map(self._preemptor_priority, g)), g)))

    def _gangs_with(self, gang: GangId) -> list[GangId]:
        spec = self.specs.get((gang.family, gang.namespace, gang.name))
        if spec is None or not spec.group:
            return [gang]
        return [GangId(gang.family, *key.split("/"), gang.scheduler) for key in spec.group]  # type: ignore[call-arg]

    def _want(self, gang: GangId) -> Want:
        members = sorted((p for p in self.case.pods if p.gang == gang), key=lambda p: p.name)
        have = sum(p.phase == "Succeeded" or (p in self.live) for p in members)
        pending = [p for p in members if not p.node and not p.finished and not p.gates and p.deleting_since is None]
        return Want(gang, pending, max(0, self._minimum(gang) - have))

    def _minimum(self, gang: GangId) -> int:
        return 1 if gang.family == SINGLE else self.specs[(gang.family, gang.namespace, gang.name)].min_member

    def _preemptor_priority(self, gang: GangId) -> int:
        spec = self.specs.get((gang.family, gang.namespace, gang.name))
        lowest = min(p.priority for p in self.case.pods if p.gang == gang and p.live)
        return lowest if spec is None or spec.priority is None else min(lowest, spec.priority)

    def _policy(self, own: list[GangId]) -> bool:
        specs = [self.specs.get((g.family, g.namespace, g.name)) for g in own]
        said = [s.preemption_policy for s in specs if s] + [
            p.preemption_policy for p in self.case.pods if p.gang in own and p.live
        ]
        return "Never" not in said

    # -- victims -------------------------------------------------------------------------------------------

    def _units(self, own: set[GangId], priority: int, usable: set[str]) -> list[Unit]:
        seen: set[GangId] = set()
        out: list[Unit] = []
        for gang in sorted({p.gang for p in self.live}):
            if gang in seen:
                continue
            group = self._gangs_with(gang)
            seen.update(group)
            if not own.intersection(group):
                unit = self._unit(group, priority, usable)
                if unit.whole or any(part.single for part in unit.parts):
                    out.append(unit)
        return out

    def _unit(self, group: list[GangId], priority: int, usable: set[str]) -> Unit:
        parts: list[Part] = []
        whole_modes = False
        everyone: list[Pod] = []
        for gang in group:
            bound = sorted((p for p in self.live if p.gang == gang), key=lambda p: p.key)
            everyone += bound
            takeable = [p for p in bound if self._takeable(p, priority, usable)]
            spec = self.specs.get((gang.family, gang.namespace, gang.name))
            minimum = spec.min_member if spec else len(bound)
            mode = self._mode(gang, spec)
            if mode in ("atomic", "elastic"):
                whole_modes = True
            limit = {"off": len(bound), "minimal": len(bound), "atomic": 0}.get(mode, max(0, len(bound) - minimum))
            counts = mode != "off" and gang.family != SINGLE
            parts.append(Part(gang, bound, takeable if limit else [], limit, minimum, counts))
        level = self._victim_priority(group)
        whole = everyone if whole_modes and self._whole_allowed(everyone, level, priority) else []
        # A unit all of whose pods are out of reach stays as it is: pods elsewhere go only as part of one in reach.
        if not any(self._takeable(p, priority, usable) for p in everyone):
            whole = []
        return Unit(parts, whole, level)

    def _mode(self, gang: GangId, spec: Gang | None) -> str:
        if gang.family == SINGLE:
            return "off"
        if spec is not None and spec.disruption == "gang":
            return "atomic"
        if spec is not None and spec.disruption == "pod" and self.options.pod_disruption_mode == "honor":
            return "off" if self.options.gang_mode == "off" else "minimal"
        return self.options.gang_mode

    def _victim_priority(self, group: list[GangId]) -> int:
        out = []
        for gang in group:
            spec = self.specs.get((gang.family, gang.namespace, gang.name))
            mine = [p.priority for p in self.live if p.gang == gang]
            if spec is not None and spec.priority is not None:
                out += [min(max(mine), spec.priority)] if mine else []
            else:
                out += mine
        return max(out)

    def _takeable(self, pod: Pod, priority: int, usable: set[str]) -> bool:
        node = self.nodes[pod.node]
        return (
            pod.priority < priority
            and not self._protected(pod)
            and node.ready
            and not node.deleting
            and pod.node in usable
        )

    def _whole_allowed(self, pods: list[Pod], level: int, priority: int) -> bool:
        return level < priority and all(p.priority < priority and not self._protected(p) for p in pods)

    def _protected(self, pod: Pod) -> bool:
        if pod.static or pod.labels.get("scheduling.koordinator.sh/disable-preemptible") == "true":
            return True
        if pod.hints.get("volcano.sh/preemptable") == "false":
            return True
        return pod.owner is not None and pod.owner.kind == "DaemonSet" and not self.options.evict_daemonset_pods


# -- rules of places ---------------------------------------------------------------------------------------------


def admits(node: Node, pod: Pod) -> bool:
    """May the pod run on the node as far as the node alone is concerned (other pods and room aside)?"""
    if node.deleting or (pod.shape.node_name and pod.shape.node_name != node.name):
        return False
    taints = list(node.taints)
    if node.unschedulable:
        taints.append(Taint("node.kubernetes.io/unschedulable"))
    if any(t.effect != "PreferNoSchedule" and not _tolerated(t, pod.shape.tolerations) for t in taints):
        return False
    if any(node.labels.get(k) != v for k, v in pod.shape.node_selector):
        return False
    terms = pod.shape.node_terms
    return terms is None or any_node_term_matches(terms, node.name, node.labels)


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(
        t.effect in ("", taint.effect)
        and ((t.operator == "Exists" and t.key in ("", taint.key)) or (t.key == taint.key and t.value == taint.value))
        for t in tolerations
    )


def selects(term: PodTerm, pod: Pod) -> bool:
    """Does a pod (anti-)affinity term select this pod?"""
    return pod.namespace in term.namespaces and selector_matches(term.selector, pod.labels)


def domain(node: Node, key: str) -> tuple[str, str] | None:
    """The topology domain of a node; None where it does not have the label."""
    value = node.labels.get(key)
    return None if value is None else (key, value)


def amounts(pod: Pod) -> dict[str, int]:
    """What the pod takes of a node, its slot included."""
    return {**dict(pod.shape.requests), "pods": 1}
