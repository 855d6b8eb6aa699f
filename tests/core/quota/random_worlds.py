"""Random quotas from a seed: small trees of cohorts, tight limits, all policies, and little room left."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from gangsched.core.quota.quota import Quota
from gangsched.core.quota.workloads import Admission, PodSet, Workload
from gangsched.model.constraints import LabelSelector, PodShape
from gangsched.model.queues import (
    ANY,
    BORROWING_FIRST,
    LOWER,
    LOWER_OR_NEWER,
    MAY_STOP,
    NEVER,
    PREEMPTION_FIRST,
    TRY_NEXT,
    ClusterQueue,
    Cohort,
    FlavorQuota,
    Fungibility,
    Limits,
    QueuePreemption,
    ResourceFlavor,
    ResourceGroup,
)
from tests.core.quota.world import has_room

RESOURCES = ("a", "b")
FLAVORS = ("x", "y")

#: A seed for the functions below: hypothesis replays and reports it.
SEEDS = st.integers(0, 2**32 - 1)


def limits(chance: Random, bounded: bool) -> Limits:
    """Nominal quota and, where there is a parent, limits now and then."""
    nominal = chance.choice((0, 0, 2, 3, 4, 6))
    if not bounded:
        return Limits(nominal)
    return Limits(
        nominal,
        chance.randint(0, 6) if chance.random() < 0.25 else None,
        chance.randint(0, nominal) if chance.random() < 0.25 else None,
    )


def groups(chance: Random, bounded: bool) -> tuple[ResourceGroup, ...]:
    """One group of both resources, in one or two flavors."""
    flavors = FLAVORS[: chance.choice((1, 1, 2))]
    quotas = tuple(FlavorQuota(f, tuple((r, limits(chance, bounded)) for r in RESOURCES)) for f in flavors)
    return (ResourceGroup(RESOURCES, quotas),)


def policies(chance: Random) -> QueuePreemption:
    """Every valid combination, those that preempt more often."""
    reclaim = chance.choice((NEVER, LOWER, ANY, ANY))
    borrow = NEVER if reclaim == NEVER else chance.choice((NEVER, LOWER))
    threshold = chance.choice((None, 0, 1, 2)) if borrow != NEVER else None
    return QueuePreemption(chance.choice((NEVER, LOWER, LOWER_OR_NEWER)), reclaim, borrow, threshold)


def fungibility(chance: Random) -> Fungibility:
    """When to look further."""
    return Fungibility(
        chance.choice((MAY_STOP, TRY_NEXT)),
        chance.choice((MAY_STOP, TRY_NEXT)),
        chance.choice((BORROWING_FIRST, PREEMPTION_FIRST)),
    )


def asks(chance: Random, uid: str, queue: str, most: int = 5) -> Workload:
    """A workload that asks for one or both resources."""
    wanted = chance.choice((("a",), ("a",), ("b",), RESOURCES))
    shape = PodShape(requests=tuple((r, chance.randint(1, most)) for r in wanted))
    pods = (PodSet("main", 1, shape),)
    return Workload("d", uid, uid, queue, pods, chance.randint(0, 3), float(chance.randint(0, 3)))


def objects(chance: Random, fair: bool = False) -> Quota:
    """Queues in a tree of cohorts; nothing is admitted."""
    quota = Quota(fair)
    for flavor in FLAVORS:
        quota.put(ResourceFlavor(flavor))
    weights = (0.0, 0.5, 1.0, 1.0, 2.0) if fair else (1.0,)
    count = chance.randint(1, 3)
    for i in range(count):
        parent = f"c{chance.randrange(i)}" if i and chance.random() < 0.7 else ""
        own = groups(chance, bool(parent)) if chance.random() < 0.3 else ()
        if parent or own:
            quota.put(Cohort(f"c{i}", parent, own, chance.choice(weights)))
    for i in range(chance.randint(2, 4)):
        above = f"c{chance.randrange(count)}" if chance.random() < 0.9 else ""
        quota.put(
            ClusterQueue(
                name=f"q{i}",
                cohort=above,
                groups=groups(chance, bool(above)),
                namespaces=LabelSelector(),
                preemption=policies(chance),
                fungibility=fungibility(chance),
                weight=chance.choice(weights),
            )
        )
    return quota


def fill(chance: Random, quota: Quota) -> Quota:
    """Admit what fits of many small workloads; now and then one that does not: quota may have been taken away."""
    for i in range(chance.randint(4, 16)):
        made = asks(chance, f"w{i}", chance.choice(sorted(quota.queues)), 3)
        assignment = quota.assign(made)
        usage = assignment.usage
        if not usage or not has_room(quota, made, assignment):
            if chance.random() < 0.95:
                continue
            name = chance.choice([f.flavor for f in quota.queues[made.queue].groups[0].flavors])
            usage = tuple(((name, r), n) for r, n in made.pod_sets[0].requests({}).items())
        quota.admit(Admission(made, usage, float(chance.randint(0, 3)), chance.random() < 0.1))
    return quota


def world(seed: int, fair: bool = False) -> tuple[Quota, Workload]:
    """A nearly full quota, and a workload that asks."""
    chance = Random(seed)
    quota = fill(chance, objects(chance, fair))
    return quota, asks(chance, "asks", chance.choice(sorted(quota.queues)))
