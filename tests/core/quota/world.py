"""Builders for quota: queues, cohorts and workloads in one line each. Amounts of ``cpu`` are cores, others units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangsched.core.quota.cycle import Cycle, Outcome
from gangsched.core.quota.flavors import Assignment
from gangsched.core.quota.quota import FairSharing, Quota
from gangsched.core.quota.workloads import Admission, PodSet, Workload
from gangsched.model.queues import (
    ClusterQueue,
    Cohort,
    FlavorQuota,
    Fungibility,
    Limits,
    QueuePreemption,
    ResourceFlavor,
    ResourceGroup,
)
from gangsched.model.records import LabelSelector, PodShape


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


def queue(
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
    return Workload("ns", name, name, queue, (PodSet("main", count, shape),), priority, queued)


class World:
    """A quota with shorthands; every admission is later than the one before."""

    def __init__(self, *objects: ClusterQueue | Cohort | ResourceFlavor, fair: FairSharing | None = None) -> None:
        self.quota = Quota(fair)
        self.now = 1000.0
        for thing in objects:
            self.quota.put(thing)
        specs: list[ClusterQueue | Cohort] = [*self.quota.queues.values(), *self.quota.cohorts.values()]
        for name in sorted({f.flavor for spec in specs for g in spec.groups for f in g.flavors}):
            if name not in self.quota.flavors:
                self.quota.put(ResourceFlavor(name))

    def runs(
        self,
        name: str,
        queue: str,
        *,
        priority: int = 0,
        queued: float | None = None,
        flavor: str = "default",
        **requests: Any,
    ) -> Workload:
        """An admitted workload, whatever quota says."""
        self.now += 1
        made = workload(name, queue, priority=priority, queued=self.now if queued is None else queued, **requests)
        usage = tuple(((flavor, r), n) for r, n in made.pod_sets[0].requests({}).items())
        self.quota.admit(Admission(made, usage, self.now))
        return made

    def victims(self, asks: Workload) -> dict[str, str]:
        """Reasons by name of those who have to go for it."""
        return {v.workload.name: v.reason for v in self.quota.victims(asks, self.quota.assign(asks))}

    def assign(self, asks: Workload) -> Assignment:
        """Flavors of a workload."""
        return self.quota.assign(asks)

    def cycle(self, *heads: Workload) -> list[Outcome]:
        """What becomes of these heads in one cycle, in the order in which they were looked at."""
        cycle = Cycle(self.quota)
        out = list(cycle.outcomes(heads))
        cycle.close()
        return out

    def usage(self) -> dict[tuple[str, str, str], float]:
        """What is used by node, flavor and resource; cores for cpu."""
        tree = self.quota.tree
        return {
            (n.name, f, r): n.usage[i] / (1000 if r == "cpu" else 1)
            for n in (*tree.queues.values(), *tree.cohorts.values())
            for (f, r), i in tree.cells.items()
            if n.usage[i]
        }
