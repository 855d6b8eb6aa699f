"""Which members of an owner's gang start it, and which of them leave one by one."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.model.dialects.operators import OPERATORS, RAY_GROUP, RAY_NODE_TYPE, REPLICA_TYPE
from gangsched.model.dialects.spark import APPLICATION, ROLE
from gangsched.model.records import Announced, Gang, Owner, Pod
from gangsched.model.shapes import pod_shape
from gangsched.model.wire import ObjectMeta, PodSpec, PodStatus
from tests.builders import PodBuilder, node, pod
from tests.core.harness import Cluster, nodes_of, placed, plan, victims

RAY, TORCH, SPARK = OPERATORS["RayCluster"], OPERATORS["PyTorchJob"], OPERATORS[APPLICATION]


def owner(kind: str, name: str, minimum: int, **roles: int) -> Gang:
    """What an object says that is declared a gang."""
    family = OPERATORS[kind].family
    counts = tuple((role.replace("_", "-"), count) for role, count in roles.items())
    uid = f"uid-{kind}-{name}"
    return Gang(family, "d", name, kind=kind, uid=uid, min_member=minimum, roles=counts, declared=True)


def of_ray(role: str, name: str, group: str = "") -> PodBuilder:
    """A pod of a Ray cluster."""
    labels = {RAY_NODE_TYPE: role} | ({RAY_GROUP: group} if group else {})
    return pod(name).cpu(1).owner("RayCluster", "ray").labels(labels)


def of_torch(role: str, name: str) -> PodBuilder:
    """A pod of a PyTorchJob."""
    return pod(name).cpu(1).owner("PyTorchJob", "train").labels({REPLICA_TYPE: role})


def test_one_group_of_workers_does_not_stand_for_another() -> None:
    """Each has a minimum of its own: with three of one and none of the other nothing starts."""
    ray = owner("RayCluster", "ray", 3, head=1, worker_a=1, worker_b=1)
    workers = [of_ray("worker", f"a-{i}", "a") for i in range(3)]
    big = of_ray("worker", "b-0", "b").cpu(9)
    found = plan(node("n1").cpu(5), ray, of_ray("head", "z-head"), *workers, big)["d/ray"]
    assert (found.outcome, placed(found)) == ("unschedulable", {})
    found = plan(node("n1").cpu(5), node("n2").cpu(9), ray, of_ray("head", "z-head"), *workers, big)["d/ray"]
    assert set(placed(found)) == {"z-head", "a-0", "a-1", "a-2", "b-0"}


def test_a_gang_that_lacks_its_head_waits_for_it() -> None:
    """There are as many members as it needs, but not of each role."""
    ray = owner("RayCluster", "ray", 2, head=1, worker=1)
    found = plan(node("n1").cpu(9), ray, of_ray("worker", "w-0"), of_ray("worker", "w-1"))["d/ray"]
    assert found.outcome == "gathering"
    assert "1 of the members with the role head missing" in found.message


@pytest.mark.parametrize("head", ["a-head", "z-head"])
def test_surplus_is_never_the_head(head: str) -> None:
    """Whatever its name: a Ray cluster is of no use without it. What is left of each group is its minimum."""
    ray = owner("RayCluster", "ray", 3, head=1, worker_a=1, worker_b=1)
    pods = [of_ray("head", head).on("n1"), *(of_ray("worker", f"m-{g}{i}", g).on("n1") for g in "ab" for i in range(2))]
    wanted = pod("new").cpu(2).priority(10)
    found = plan(node("n1").cpu(5), ray, *pods, wanted)["d/new"]
    assert victims(found) == ["m-a1", "m-b1"]
    found = plan(node("n1").cpu(5), ray, *pods, wanted.cpu(3))["d/new"]
    assert len(victims(found)) == 5


def test_surplus_is_never_the_master_nor_the_first_worker() -> None:
    """Where there is no master, the worker of index 0 leads."""
    train = owner("PyTorchJob", "train", 2, worker_0=1, worker=1)
    pods = [of_torch("worker", f"train-worker-{i}").on("n1") for i in range(3)]
    for size, left in ((1, ["train-worker-2"]), (2, [f"train-worker-{i}" for i in range(3)])):
        found = plan(node("n1").cpu(3), train, *pods, pod("new").cpu(size).priority(10))["d/new"]
        assert victims(found) == left


def test_what_came_after_the_start_is_no_surplus() -> None:
    """An MPIJob whose launcher waits for its workers needs both once it runs."""
    mpi = owner("MPIJob", "mpi", 2, worker=2)
    shape = pod_shape(ObjectMeta(), PodSpec(), PodStatus(), template=True)
    mpi = msgspec.structs.replace(mpi, announced=(Announced("launcher", 1, shape, kept=True),))
    pods = [pod(f"mpi-{role}").cpu(1).owner("MPIJob", "mpi").on("n1") for role in ("launcher", "worker-0", "worker-1")]
    found = plan(node("n1").cpu(3), mpi, *pods, pod("new").cpu(1).priority(10))["d/new"]
    assert len(victims(found)) == 3


def test_executors_are_in_the_gang_of_their_driver() -> None:
    """The driver owns them, and the application owns the driver; one of them may leave, the driver may not."""
    app = owner(APPLICATION, "pi", 1, driver=1)
    driver = pod("pi-driver").cpu(1).owner(APPLICATION, "pi").labels({ROLE: "driver"}).on("n1").obj()
    executors = [pod(f"pi-exec-{i}").cpu(1).labels({ROLE: "executor"}).on("n1").obj() for i in range(2)]
    owned: list[Pod] = [msgspec.structs.replace(e, owner=Owner("Pod", driver.name, driver.uid)) for e in executors]
    cluster = Cluster(node("n1").cpu(3), app, driver, *owned)
    cluster.run()
    assert {each.gang.family for each in cluster.core.world.pods.values()} == {SPARK.family}
    found = plan(node("n1").cpu(3), app, driver, *owned, pod("new").cpu(1).priority(10))["d/new"]
    assert victims(found) == ["pi-exec-0"]


def test_a_driver_waits_for_room_for_its_executors() -> None:
    """They are announced: the driver alone would hold a node for nothing."""
    shape = pod("e").cpu(1).obj().shape
    app = owner(APPLICATION, "pi", 1, driver=1)
    app = msgspec.structs.replace(app, announced=(Announced("executor", 2, shape),))
    driver = pod("pi-driver").cpu(1).owner(APPLICATION, "pi").labels({ROLE: "driver"})
    cluster = Cluster(node("n1").cpu(2), app, driver)
    assert nodes_of(cluster.run()) == {}
    cluster.show(node("n2").cpu(1))
    assert nodes_of(cluster.pass_time(60)) != {}
