"""Builders for quota: queues, cohorts and workloads in one line each. Amounts of ``cpu`` are cores, others units.

And a cluster whose one node has room for everything, so that of quota and nodes only quota decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Gone
from gangsched.core.quota.flavors import Assignment, Mode
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.workloads import PodSet, Workload
from gangsched.model.constraints import LabelSelector, PodShape
from gangsched.model.queues import (
    QUEUE_LABEL,
    ClusterQueue,
    Cohort,
    FlavorQuota,
    Fungibility,
    Limits,
    LocalQueue,
    QueueObject,
    QueuePreemption,
    ResourceFlavor,
    ResourceGroup,
)
from gangsched.model.records import Namespace
from tests.builders import PodBuilder, node, pod
from tests.core.harness import Cluster, verdict


def units(resource: str, amount: float) -> int:
    """Base units."""
    return round(amount * 1000) if resource == "cpu" else int(amount)


def own(nominal: float, borrowing: float | None = None, lending: float | None = None) -> tuple[float, ...]:
    """Limits of one resource."""
    return (nominal, -1 if borrowing is None else borrowing, -1 if lending is None else lending)


def flavor(name: str = "default", **resources: Any) -> FlavorQuota:
    """Quota in one flavor: ``cpu=5`` or ``cpu=own(5, borrowing=2)``; ``gpu`` is nvidia.com/gpu."""
    out = []
    for short, given in resources.items():
        resource = "nvidia.com/gpu" if short == "gpu" else short
        nominal, borrowing, lending = given if isinstance(given, tuple) else own(given)
        out.append(
            (
                resource,
                Limits(
                    units(resource, nominal),
                    None if borrowing < 0 else units(resource, borrowing),
                    None if lending < 0 else units(resource, lending),
                ),
            )
        )
    return FlavorQuota(name, tuple(out))


def group(*flavors: FlavorQuota) -> ResourceGroup:
    """A resource group of these flavors."""
    return ResourceGroup(tuple(r for r, _ in flavors[0].resources), flavors)


def groups(given: tuple[ResourceGroup, ...], resources: Mapping[str, Any]) -> tuple[ResourceGroup, ...]:
    """Groups as given, or one with the flavor ``default``."""
    return given or ((group(flavor(**resources)),) if resources else ())


def queue(  # noqa: PLR0913
    name: str,
    cohort: str = "",
    *given: ResourceGroup,
    within: str = "Never",
    reclaim: str = "Never",
    borrow: str = "Never",
    threshold: int | None = None,
    fungibility: Fungibility | None = None,
    strategy: str = "BestEffortFIFO",
    weight: float = 1.0,
    **resources: Any,
) -> ClusterQueue:
    """A ClusterQueue that every namespace may use."""
    return ClusterQueue(
        name=name,
        cohort=cohort,
        groups=groups(given, resources),
        namespaces=LabelSelector(),
        preemption=QueuePreemption(within, reclaim, borrow, threshold),
        fungibility=fungibility or Fungibility(),
        strategy=strategy,
        weight=weight,
    )


def cohort(name: str, parent: str = "", *given: ResourceGroup, weight: float = 1.0, **resources: Any) -> Cohort:
    """A Cohort."""
    return Cohort(name, parent, groups(given, resources), weight)


def workload(
    name: str, queue: str, *, priority: int = 0, queued: float = 0.0, count: int = 1, **requests: Any
) -> Workload:
    """A workload of one pod set."""
    asked = {"nvidia.com/gpu" if r == "gpu" else r: amount for r, amount in requests.items()}
    shape = PodShape(requests=tuple(sorted((r, units(r, a)) for r, a in asked.items())))
    return Workload("d", name, name, queue, (PodSet("main", count, shape),), priority, queued)


def pods_of(asks: Workload) -> list[PodBuilder]:
    """The pods that a workload is: one, or a gang."""
    shapes = [s.shape for s in asks.pod_sets for _ in range(s.count)]
    out = []
    for i, shape in enumerate(shapes):
        made = pod(asks.name if len(shapes) == 1 else f"{asks.name}-{i}").requests(**dict(shape.requests))
        made.labels({QUEUE_LABEL: asks.queue}).priority(asks.priority).created(asks.queued)
        out.append(made.light_gang(asks.name, len(shapes)) if len(shapes) > 1 else made)
    return out


def flavor_names(*objects: QueueObject) -> list[str]:
    """Flavors for which these objects have quota."""
    specs = [each for each in objects if isinstance(each, ClusterQueue | Cohort)]
    return sorted({f.flavor for spec in specs for g in spec.groups for f in g.flavors})


def has_room(quota: Quota, asks: Workload, assignment: Assignment, gone: Iterable[str] = ()) -> bool:
    """Is there quota in these flavors once these (UIDs of holders) are gone? Not for a workload without flavors."""
    leaving = [holder for holder in quota.holders if holder.admission.workload.uid in set(gone)]
    with quota.holders.without(leaving):
        node, amounts = quota.tree.queues[asks.queue], quota.tree.indexed(assignment.usage)
        return assignment.mode != Mode.NO_FIT and all(units <= max(0, node.available(cell)) for cell, units in amounts)


class World:
    """The scheduler's core, and a cluster around it; every admission is later than the one before.

    Each ClusterQueue has a LocalQueue of the same name, and each flavor that quota is for exists.
    """

    def __init__(self, *objects: QueueObject, fair: bool = False) -> None:
        self.cluster = Cluster(Changed(Namespace("d")), fair_sharing=fair)
        self.cluster.now = 1000.0
        self._labels: dict[str, str] = {}
        self._known: set[str] = set()
        self.put(*objects)

    def put(self, *objects: QueueObject) -> None:
        """Objects are created or changed."""
        made: list[QueueObject] = [*objects]
        self._known.update(each.name for each in objects if isinstance(each, ResourceFlavor))
        made += [ResourceFlavor(name) for name in flavor_names(*objects) if name not in self._known]
        self._known.update(flavor_names(*objects))
        made += [LocalQueue("d", each.name, each.name) for each in objects if isinstance(each, ClusterQueue)]
        for each in made:
            if isinstance(each, ResourceFlavor):
                self._labels.update(each.labels)
        plenty = dict.fromkeys(("cpu", "memory", "nvidia.com/gpu", "pods", "a", "b"), 2**50)
        self.cluster.handle(node("n").room(**plenty).label(**self._labels), *map(Changed, made))

    def drop(self, kind: str, name: str) -> None:
        """An object is gone."""
        self.cluster.handle(Gone(kind, "", name))

    @property
    def quota(self) -> Quota:
        """What the core knows of quota."""
        managed = self.cluster.core.world.managed
        managed.update_holdings()
        return managed.quota

    def runs(
        self,
        name: str,
        queue: str,
        *,
        priority: int = 0,
        queued: float | None = None,
        flavor: str = "default",
        leaving: bool = False,
        **requests: Any,
    ) -> Workload:
        """An admitted workload of one pod, whatever quota says; one that is ``leaving`` has been told to go."""
        self.cluster.now += 1
        since = self.cluster.now
        made = workload(name, queue, priority=priority, queued=since if queued is None else queued, **requests)
        self.admit(made, dict.fromkeys(dict(made.pod_sets[0].shape.requests), flavor), since, leaving)
        return made

    def admit(self, made: Workload, flavors: Mapping[str, str], since: float, leaving: bool = False) -> None:
        """The one pod of a workload runs since then, each resource in a flavor."""
        [running] = pods_of(made)
        self.cluster.core.world.managed.choose({running.obj().uid: tuple(sorted(flavors.items()))}, since)
        running.on("n", started=since)
        self.cluster.handle(running.terminating(since + 1e6) if leaving else running)

    # -- what is decided -----------------------------------------------------------------------------------

    def assign(self, asks: Workload) -> Assignment:
        """Flavors of a workload, as the decision asks for them."""
        return self.quota.assign(asks)

    def decide(self, asks: Workload) -> Decision:
        """The decision about a workload, were it the only one that waits; nothing comes of it."""
        members = [each.obj() for each in pods_of(asks)]
        self.cluster.handle(*members)
        found = verdict(self.cluster.core, [members[0].gang], self.cluster.now).decisions[0]
        for each in members:
            self.cluster.delete(each.name)
        self.cluster.handle()
        return found

    def victims(self, asks: Workload) -> dict[str, str]:
        """Reasons by name of those who would have to go for it."""
        return reasons(self.decide(asks))

    def turns(self, *asks: Workload) -> list[tuple[str, str, list[str]]]:
        """These come, and what is decided happens, until nothing is left to do: for each decision in order the name,
        the outcome, and the victims, who stay for as long as nobody lets them :meth:`Cluster.leave`.
        """
        self.cluster.show(*(each for made in asks for each in pods_of(made)))
        return self.rest()

    def rest(self) -> list[tuple[str, str, list[str]]]:
        """What is decided until nothing is left to do."""
        before = len(self.cluster.decisions)
        self.cluster.run()
        return what(self.cluster.decisions[before:])

    def ends(self, *names: str) -> None:
        """Pods are gone."""
        for name in names:
            self.cluster.delete(name)

    def running(self) -> set[str]:
        """Pods on the node that nobody has told to leave."""
        return {p.name for p in self.cluster.pods.values() if p.node and p.live}

    def usage(self) -> dict[tuple[str, str, str], float]:
        """What is used by node, flavor and resource; cores for cpu."""
        tree = self.quota.tree
        return {
            (n.name, f, r): n.usage[i] / (1000 if r == "cpu" else 1)
            for n in (*tree.queues.values(), *tree.cohorts.values())
            for (f, r), i in tree.cells.items()
            if n.usage[i]
        }


def cluster_of(quota: Quota) -> World:
    """A cluster with the queues of a quota, in which the workloads that hold it run."""
    made = World(*quota.flavors.values(), *quota.cohorts.values(), *quota.queues.values(), fair=quota.fair_sharing)
    for admission in quota.admissions.values():
        flavors = {resource: flavor for (flavor, resource), _ in admission.usage}
        made.admit(admission.workload, flavors, admission.since, admission.evicted)
    return made


def reasons(decision: Decision) -> dict[str, str]:
    """Why each of the victims may be taken."""
    return {v.unit.name.removeprefix("d/"): v.reason for v in decision.victims}


def exceeds(decision: Decision) -> bool:
    """Is it refused because it asks for more than it can ever have?"""
    return decision.outcome == "unschedulable" and "> maximum capacity" in decision.message


def what(decisions: Sequence[Decision]) -> list[tuple[str, str, list[str]]]:
    """Name, outcome and victims."""
    return [(d.gang.name, d.outcome, sorted(reasons(d))) for d in decisions]
