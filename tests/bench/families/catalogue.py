"""The families by name, and the cluster of a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.bench.families import coupled, domains, limits, plain, tight
from tests.bench.families.known import Cluster
from tests.bench.families.plain import Unsuitable
from tests.bench.families.site import FULL, Site, Size

Family = Callable[[Site], Cluster]

FAMILIES: dict[str, Family] = {
    family.__name__.replace("_", "-"): family
    for family in (
        plain.mpi,
        plain.riding_along,
        plain.three_kinds,
        plain.many_kinds,
        plain.whole_nodes,
        plain.small_members,
        plain.several_priorities,
        plain.uneven_pods,
        plain.young_pods,
        domains.zone_affinity,
        plain.one_per_node,
        domains.one_per_zone,
        domains.zone_spread,
        domains.topology,
        domains.workers_in_a_rack,
        coupled.budgets,
        coupled.gangs_beside_singles,
        coupled.elastic_gangs,
        coupled.whole_gangs,
        plain.host_ports,
        limits.volumes,
        limits.quota,
        plain.work_lost,
        tight.tight,
    )
}


def cluster(family: str, seed: int, size: Size = FULL) -> Cluster:
    """The cluster of a seed, the same for the same seed."""
    for attempt in range(200):
        try:
            return FAMILIES[family](Site(random.Random(f"{family}/{seed}/{attempt}"), size))
        except Unsuitable:
            continue
    raise ValueError(f"no cluster for seed {seed} of {family}")
