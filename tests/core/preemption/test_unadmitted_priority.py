"""What nothing has admitted raises no priority: the class of a group, and the record of a suspension."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.core.events import Changed
from gangsched.core.options import Options
from gangsched.model.dialects import kai, upstream, volcano
from gangsched.model.pod_quotas import ResourceQuota
from gangsched.model.records import SINGLE, Gang, GangId, Job, PriorityClass
from gangsched.runtime.profiles import Profile
from gangsched.runtime.settings import Configuration
from tests.builders import OURS, PodBuilder, node, pod
from tests.core.harness import Built, Cluster, victims, world, writes
from tests.core.harness import plan as planned

URGENT = Changed(PriorityClass("urgent", 1_000_000))
LOW = Changed(PriorityClass("low", 5))


def group(family: str, name: str = "urgent") -> Gang:
    """A group of two that names a class."""
    return Gang(family, "d", "g", uid="u", min_member=2, priority_class=name)


def members(family: str, scheduler: str, priority: int = 0) -> list[PodBuilder]:
    """Its pods."""
    return [pod(f"p-{i}").cpu(1).gang("g", family).scheduler(scheduler).priority(priority) for i in range(2)]


def others() -> list[Built]:
    """Two pods of another tenant, which fill both nodes."""
    runs = [pod(f"prod-{i}").cpu(1).on(f"n{i}").priority(100_000) for i in range(2)]
    return [node("n0").cpu(1), node("n1").cpu(1), *runs]


@pytest.mark.parametrize("family", [volcano.FAMILY, kai.FAMILY])
@pytest.mark.parametrize(
    ("scheduler", "trusted", "evicts"),
    [(OURS, (), False), (OURS, (OURS,), True), ("volcano", None, True), ("volcano", (), False)],
)
def test_the_class_of_a_group(family: str, scheduler: str, trusted: tuple[str, ...] | None, *, evicts: bool) -> None:
    """It gives pods of priority 0 nothing, unless the group's scheduler name trusts it."""
    settings: dict[str, Any] = {"scheduler_names": (scheduler,)}
    settings |= {} if trusted is None else {"trusted_names": trusted}
    found = planned(*others(), URGENT, group(family), *members(family, scheduler), **settings)["d/g"]
    assert (found.priority, len(victims(found))) == ((1_000_000, 2) if evicts else (0, 0))


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("family", [upstream.FAMILY, "scheduling.sigs.k8s.io"])
def test_the_priority_of_a_group(family: str, *, trusted: bool) -> None:
    """A resolved priority of a group raises nothing either: quotas for classes restrict pods."""
    high = Gang(family, "d", "g", uid="u", min_member=2, priority=900_000)
    names = (OURS,) if trusted else ()
    found = planned(*others(), high, *members(family, OURS, 10), trusted_names=names)["d/g"]
    assert (found.priority, len(victims(found))) == ((900_000, 2) if trusted else (10, 0))


def test_a_lower_priority_of_a_group_counts() -> None:
    """As a preemptor a gang has the lower of both; as a victim the highest of its pods, or the group's if lower."""
    low = Gang(upstream.FAMILY, "d", "g", uid="u", min_member=2, priority=5)
    waiting = members(upstream.FAMILY, OURS, 200_000)
    found = planned(*others(), low, *waiting)["d/g"]
    assert (found.priority, victims(found)) == (5, [])
    mixed = [waiting[0], waiting[1].priority(7)]
    assert planned(*others(), msgspec.structs.replace(low, priority=50), *mixed)["d/g"].priority == 7


def test_a_lower_class_counts() -> None:
    """What a group says may make less of its pods: as a preemptor, and as a victim."""
    low = members(volcano.FAMILY, OURS, 200_000)
    assert victims(planned(*others(), LOW, group(volcano.FAMILY, "low"), *low)["d/g"]) == []
    runs = [each.on(f"n{i}") for i, each in enumerate(members(volcano.FAMILY, OURS, 200_000))]
    nodes = [node("n0").cpu(1), node("n1").cpu(1)]
    above = pod("above").cpu(1).priority(10)
    found = planned(*nodes, LOW, group(volcano.FAMILY, "low"), *runs, above)["d/above"]
    assert found.outcome == "unschedulable"  # a member of higher priority than the preemptor keeps the whole


def test_a_high_class_protects_nobody() -> None:
    """Pods of low priority that run are no less evictable for the group that they were put into."""
    runs = [each.on(f"n{i}") for i, each in enumerate(members(volcano.FAMILY, "default-scheduler"))]
    above = pod("above").cpu(1).priority(10)
    nodes = [node("n0").cpu(1), node("n1").cpu(1)]
    found = planned(*nodes, URGENT, group(volcano.FAMILY), *runs, above)["d/above"]
    assert set(victims(found)) == {"p-0", "p-1"}


def test_whom_profiles_trust() -> None:
    """The names of schedulers whose users had that power before, and those for which it is said."""
    names = ("volcano", "kai-scheduler", "py-gang-scheduler")
    by_default = Configuration(profiles=tuple(Profile(scheduler_name=name) for name in names)).core_options()
    assert by_default.trusted_names == Options().trusted_names == names[:2]
    said = [Profile(scheduler_name="volcano", trust_group_priority="never"), Profile(trust_group_priority="always")]
    assert Configuration(profiles=tuple(said)).core_options().trusted_names == ("py-gang-scheduler",)


def job(**fields: Any) -> Job:
    """A suspended Job of two pods with a high class, with the record that a scheduler of ours has suspended it."""
    template = pod("train").cpu(1).field(priority_class="urgent").obj()
    made = Job("d", "train", "uid-Job-train", parallelism=2, completions=2, template=template, version="1")
    return msgspec.structs.replace(made, suspended=True, suspended_by=OURS, **fields)


@pytest.mark.parametrize("evicted", [True, False])
def test_a_job_that_we_have_not_suspended(*, evicted: bool) -> None:
    """The annotation that says so, which its owner can write, evicts nobody; the condition in its status does."""
    cluster = Cluster(URGENT, *others(), job(evicted=evicted))
    cluster.run()
    assert {name for verb, name in writes(cluster.log) if verb == "Remove"} == (
        {"prod-0", "prod-1"} if evicted else set()
    )


@pytest.mark.parametrize("starvation", [1.0, 0.0])
@pytest.mark.parametrize("policy", ["backfill", "strict"])
@pytest.mark.parametrize("evicted", [True, False])
def test_a_job_that_we_have_not_suspended_keeps_no_room_from_others(
    policy: str, starvation: float, *, evicted: bool
) -> None:
    """However long it has waited, and in whatever order: a pod of lower priority than its class is bound beside it. One
    whose pods were admitted before has its turn, with the strict policy at once, or when it has starved.
    """
    old = pod("old").cpu(3).on("n0").priority(2_000_000)
    settings: dict[str, Any] = {"queue_policy": policy, "starvation_seconds": starvation}
    cluster = Cluster(URGENT, node("n0").cpu(4), old, job(evicted=evicted), **settings)
    cluster.run()
    cluster.pass_time(5)
    cluster.show(pod("gold").cpu(1).priority(5000))
    cluster.pass_time(30)
    has_turn = evicted and (policy == "strict" or starvation > 0)
    assert bool(cluster.pod("gold").node) is not has_turn


def only(pods: int, *classes: str) -> Changed:
    """A ResourceQuota that has so many pods of these classes left."""
    return Changed(ResourceQuota("d", "classes", (("In", classes),), (("pods", pods),)))


@pytest.mark.parametrize(
    ("quota", "evicts"),
    [(only(0, "urgent"), False), (only(1, "urgent"), False), (only(2, "urgent"), True), (only(0, "low"), True)],
)
def test_a_job_whose_pods_a_quota_for_its_class_would_refuse(quota: Changed, *, evicts: bool) -> None:
    """It has room for all of its pods in each ResourceQuota with their class, or no pod leaves for it."""
    cluster = Cluster(URGENT, *others(), quota, job(evicted=True))
    cluster.run()
    assert any(verb == "Remove" for verb, _ in writes(cluster.log)) == evicts


def test_it_is_asked_again_when_the_quota_changes() -> None:
    """As soon as the quota lets its pods pass, others may leave for them."""
    cluster = Cluster(URGENT, *others(), only(0, "urgent"), job(evicted=True))
    cluster.run()
    assert not any(verb == "Remove" for verb, _ in writes(cluster.log))
    cluster.show(only(2, "urgent"))
    cluster.pass_time(20)
    assert any(verb == "Remove" for verb, _ in writes(cluster.log))


def test_it_goes_on_where_there_is_room() -> None:
    """It waits in the queue like any other gang, and starts in free room."""
    cluster = Cluster(URGENT, node("n0").cpu(2), job())
    cluster.run()
    assert [verb for verb, _ in writes(cluster.log)] == ["ResumeJob"]


def test_a_pod_of_its_own_is_as_its_admission_says() -> None:
    """A pod without a group has no class but its own."""
    core = world(URGENT, node("n").cpu(1), pod("p").cpu(1).priority(7).field(priority_class="urgent"))
    assert core.world.membership.preemptor_priority((GangId(SINGLE, "d", "p", OURS),)) == 7
