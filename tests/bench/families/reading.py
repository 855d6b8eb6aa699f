"""What a plan does to a cluster, read from the records: its harm, and what is against the rules in it.

Made for 100,000 pods, and for what occurs in the families: single pods, gangs and GangGroups in the mode ``elastic``.
Of the product only :func:`~gangsched.core.preemption.harm.harm` and the budgets are used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from gangsched.core.decision import Placement, Victim
from gangsched.core.events import Changed
from gangsched.core.preemption.harm import Budgets, Harm, Loss, harm
from gangsched.model.constraints import PodTerm
from gangsched.model.records import SINGLE, GangId, Node, Pod
from gangsched.model.volumes import CSINode, PersistentVolume, StorageObject
from tests.bench.families.known import Cluster, requests_of
from tests.oracle.case import NOW, OURS, ZONE
from tests.oracle.generate import PREEMPTOR_PRIORITY
from tests.oracle.problem import admits, selects


class Reading:
    """A cluster, and what plans do to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes = {n.name: n for n in cluster.nodes}
        self.running = {p.uid: p for p in cluster.pods if p.node and p.deleting_since is None}
        self.members = [p for p in cluster.pods if not p.node]
        self.minimum = {(g.family, g.namespace, g.name): g.min_member for g in cluster.gangs}
        self.bound: dict[GangId, list[Pod]] = defaultdict(list)
        for pod in self.running.values():
            self.bound[pod.gang].append(pod)
        #: The gangs of the GangGroup of a gang that is in one.
        self.group: dict[GangId, tuple[GangId, ...]] = {}
        for spec in cluster.gangs:
            if spec.group:
                names = [key.split("/") for key in spec.group]
                gangs = tuple(GangId(spec.family, namespace, name, OURS) for namespace, name in names)
                self.group.update(dict.fromkeys(gangs, gangs))
        self.budgets = Budgets(cluster.budgets, self.running.values())
        #: How many volumes nodes can attach, and the zones of disks, by claim.
        self.attachable: dict[str, int] = {}
        self.disks: dict[str, str] = {}
        for event in cluster.more:
            record = event.record if isinstance(event, Changed) and isinstance(event.record, StorageObject) else None
            if isinstance(record, CSINode):
                self.attachable[record.name] = record.limits[0][1]
            elif isinstance(record, PersistentVolume) and record.claim is not None and record.node_terms:
                self.disks[record.claim.name] = record.node_terms[0].expressions[0].values[0]
        self.total: dict[str, float] = {}
        for node in cluster.nodes:
            for name, amount in node.allocatable:
                self.total[name] = self.total.get(name, 0.0) + amount

    # -- victims -------------------------------------------------------------------------------------------

    def units(self, victims: Iterable[str]) -> tuple[list[list[str]], list[str]]:
        """The victims (UIDs) as what goes together, and what is wrong with them, in words."""
        wrong = []
        allowed = []
        for uid in victims:
            pod = self.running.get(uid)
            if pod is None:
                wrong.append(f"{uid} is no running pod")
            elif not self.evictable(pod):
                wrong.append(f"{pod.key} may not be evicted")
            else:
                allowed.append(uid)
        units: list[list[str]] = []
        for gangs, pods in self._by_group(allowed).items():
            if self._is_whole(gangs, pods):
                units.append([p.uid for p in pods])
                continue
            units += [[p.uid] for p in pods]
            for gang, count in Counter(p.gang for p in pods).items():
                if count > self.surplus(gang):
                    wrong.append(f"{count} of {len(self.bound[gang])} members of {gang.key} leave")
        return units, wrong

    def evictable(self, pod: Pod) -> bool:
        """May the pod be a victim?"""
        young = pod.started > NOW - self.cluster.options.minimum_run_time_seconds
        return pod.priority < PREEMPTOR_PRIORITY and not pod.static and not young

    def _by_group(self, victims: Iterable[str]) -> dict[tuple[GangId, ...], list[Pod]]:
        """Victims (UIDs) by the gangs that leave together: one, or those of a GangGroup."""
        out: dict[tuple[GangId, ...], list[Pod]] = defaultdict(list)
        for uid in victims:
            pod = self.running[uid]
            out[self.group.get(pod.gang, (pod.gang,))].append(pod)
        return out

    def surplus(self, gang: GangId) -> int:
        """How many bound members the gang can spare; of a pod without a group the pod itself."""
        if gang.family == SINGLE:
            return 1
        return max(0, len(self.bound[gang]) - self.minimum[(gang.family, gang.namespace, gang.name)])

    def _is_whole(self, gangs: Sequence[GangId], pods: Sequence[Pod]) -> bool:
        if gangs[0].family == SINGLE or len(pods) < sum(len(self.bound[g]) for g in gangs):
            return False
        return any(len(self.bound[g]) > self.surplus(g) for g in gangs)

    def harm(self, victims: Iterable[str]) -> Harm:
        """The harm of these victims (UIDs). A gang is interrupted if it loses more than it can spare."""
        losses, interrupted = [], []
        for gangs, pods in self._by_group(victims).items():
            if self._is_whole(gangs, pods):
                level = max(p.priority for p in pods)
                interrupted += [level] * len(gangs)
                losses += [Loss(p, level) for p in pods]
                continue
            losses += [Loss(p, p.priority) for p in pods]
            for gang, count in Counter(p.gang for p in pods).items():
                if count > self.surplus(gang):
                    interrupted.append(max(p.priority for p in pods if p.gang == gang))
        return harm(losses, interrupted, self.budgets, self.total, NOW)

    def beyond(self, victims: Iterable[Victim]) -> bool:
        """Are exactly those victims marked that are beyond a budget?"""
        given = list(victims)
        counted = self.budgets.beyond([self.running[v.uid] for v in given if v.uid in self.running])
        return {v.uid for v in given if v.over_budget} == counted

    # -- places --------------------------------------------------------------------------------------------

    def misplaced(self, victims: Iterable[str], placements: Sequence[Placement]) -> str:
        """What is wrong with the places when these victims are gone, in words: not all members have one, no room, a
        rule is broken.
        """
        if {p.uid for p in placements} != {m.uid for m in self.members}:
            return f"{len(placements)} of {len(self.members)} members have a place"
        gone = set(victims)
        by_uid = {m.uid: m for m in self.members}
        placed = [(by_uid[p.uid], self.nodes[p.node]) for p in placements]
        used = {node.name for _, node in placed}
        here: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.running.values():
            if pod.node in used and pod.uid not in gone:
                here[pod.node].append(pod)
        for member, node in placed:
            if not admits(node, member) or not node.ready:
                return f"{member.key} may not run on {node.name}"
            here[node.name].append(member)
        for name in used:
            if full := self.crowded(name, here[name]):
                return full
        for member, node in placed:
            home = self.disks.get(member.volumes.claims[0], "") if member.volumes is not None else ""
            if home and node.labels.get(ZONE) != home:
                return f"the disk of {member.key} is not in the zone of {node.name}"
        return self._rules(placed)

    def crowded(self, name: str, pods: Iterable[Pod]) -> str:
        """What a node has too little of for all of these pods, in words; empty if there is enough of everything."""
        here = list(pods)
        left = dict(self.nodes[name].allocatable)
        for pod in here:
            for resource, amount in requests_of(pod.shape).items():
                left[resource] = left.get(resource, 0) - amount
        if short := next((r for r, n in left.items() if n < 0), ""):
            return f"{name} has not that much {short}"
        ports = Counter((p.protocol, p.port) for pod in here for p in pod.shape.host_ports)
        if any(n > 1 for n in ports.values()):
            return f"two pods want the same port of {name}"
        if sum(p.volumes is not None for p in here) > self.attachable.get(name, len(here)):
            return f"{name} cannot attach that many volumes"
        return ""

    def _rules(self, placed: Sequence[tuple[Pod, Node]]) -> str:
        """What members ask of one another. No running pod has a label that their terms select."""
        for member, node in placed:
            for term in member.shape.affinity:
                if any(_apart(term, node, n) for m, n in placed if selects(term, m)):
                    return f"{member.key} is apart from others"
        first = placed[0][0]
        for term in first.shape.anti_affinity:
            domains = Counter(n.labels.get(term.topology_key) for m, n in placed if selects(term, m))
            if any(n > 1 for n in domains.values()):
                return f"two members share a {term.topology_key}"
        for constraint in first.shape.spread:
            key = constraint.topology_key
            counts = Counter(n.labels.get(key) for _, n in placed)
            all_there = {n.labels.get(key) for n in self.cluster.nodes}
            if max(counts.values()) - min(counts[d] for d in all_there) > constraint.max_skew:
                return f"members are spread unevenly: {dict(counts)}"
        for gang in self.cluster.gangs:
            for key, required in gang.topology:
                if required and gang.name == "want" and len({n.labels.get(key) for _, n in placed}) > 1:
                    return f"members are in several domains of {key}"
        return ""


def _apart(term: PodTerm, one: Node, other: Node) -> bool:
    return one.labels.get(term.topology_key) != other.labels.get(term.topology_key)
