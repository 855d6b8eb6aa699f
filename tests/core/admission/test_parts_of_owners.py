"""Gangs of StatefulSets, of RayJobs (their cluster, and what submits their work), and of TrainJobs (their JobSet)."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.events import Changed, Gone
from gangsched.model.constraints import LabelSelector
from gangsched.model.dialects.operators import OPERATORS, RAY_NODE_TYPE
from gangsched.model.dialects.owners import GANG, GROUP_INDEX, NAME, SIZE
from gangsched.model.dialects.roles import SUBMITTER
from gangsched.model.records import SINGLE, Announced, Gang, Job, Namespace, Owner, PodSelector
from tests.builders import PodBuilder, node, pod
from tests.core.harness import Built, Cluster, nodes_of
from tests.core.jobsets import JOBS, MEMBERS, jobs, jobset, waiting

STATEFUL, RAY_JOB, RAY_CLUSTER = OPERATORS["StatefulSet"], OPERATORS["RayJob"], OPERATORS["RayCluster"]
RAY_JOB_OWNER = Owner("RayJob", "ray", "uid-RayJob-ray")


def stateful(members: int = 2, **fields: object) -> Changed:
    """A StatefulSet that creates so many pods at once."""
    made = Gang(STATEFUL.family, "d", "db", kind="StatefulSet", uid="uid-StatefulSet-db", min_member=members)
    gang = msgspec.structs.replace(made, **fields)
    return Changed(PodSelector("StatefulSet", "d", "db", LabelSelector(), gang))


def replica(index: int) -> PodBuilder:
    """A pod of it."""
    return pod(f"db-{index}").cpu(1).owner("StatefulSet", "db")


@pytest.mark.parametrize(
    ("seen", "together"),
    [
        ([stateful()], False),
        ([stateful(declared=True)], True),
        ([stateful(), Changed(Namespace("d", {GANG: "true"}))], False),
        ([stateful(declared=False)], False),
    ],
)
def test_only_its_annotation_makes_a_stateful_set_a_gang(seen: list[Built], *, together: bool) -> None:
    """Its namespace does not: most StatefulSets are of use with fewer pods than they should have."""
    cluster = Cluster(node("n1").cpu(1), *seen, replica(0), replica(1))
    assert nodes_of(cluster.run()) == ({} if together else {"db-0": "n1"})
    cluster.show(node("n2").cpu(1))
    assert len(nodes_of(cluster.pass_time(60))) == (2 if together else 1)


def test_the_pods_say_it_where_their_template_does() -> None:
    """The StatefulSet says how many."""
    pods = [replica(i).hint(GANG, "true") for i in range(2)]
    assert nodes_of(Cluster(node("n1").cpu(1), stateful(), *pods).run()) == {}


def test_a_stateful_set_that_is_gone_holds_nobody() -> None:
    """Nor does one that says nothing more; a change of its status changes nothing."""
    cluster = Cluster(node("n1").cpu(1), stateful(declared=True), replica(0), replica(1))
    cluster.run()
    cluster.show(stateful(declared=True))
    assert nodes_of(cluster.pass_time(60)) == {}
    cluster.show(Gone("StatefulSet", "d", "db", group="apps"))
    assert nodes_of(cluster.run()) == {"db-0": "n1"}


def test_one_after_another() -> None:
    """The first pod of a StatefulSet that creates each when the one before is ready starts when all have room."""
    announced = (Announced("replica", 2, replica(0).obj().shape),)
    ordered = stateful(1, declared=True, announced=announced)
    cluster = Cluster(node("n1").cpu(1), ordered, replica(0))
    assert nodes_of(cluster.run()) == {}
    cluster.show(node("n2").cpu(1))
    assert len(nodes_of(cluster.run())) == 1
    cluster.show(pod("other").cpu(1), replica(1))
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"db-0", "db-1"}


def test_pods_wait_for_their_stateful_set() -> None:
    """For some seconds, as for a Job; those of a LeaderWorkerSet do not: their labels say in which group they are."""
    leader = pod("serve-0").cpu(1).owner("StatefulSet", "serve").hint(SIZE, "1")
    cluster = Cluster(node("n1").cpu(2), owner_wait_seconds=5.0)
    cluster.run()
    cluster.show(replica(0), leader.labels({NAME: "serve", GROUP_INDEX: "0"}))
    assert nodes_of(cluster.pass_time(4)) == {"serve-0": "n1"}
    cluster.show(stateful(declared=True))
    assert nodes_of(cluster.pass_time(4)) == {}
    cluster.show(replica(1), node("n2").cpu(1))
    assert set(nodes_of(cluster.run())) == {"db-0", "db-1"}


def ray_job(**fields: object) -> Gang:
    """A RayJob whose cluster is a head and a worker, and whose work is submitted by a pod when they run."""
    announced = (Announced(SUBMITTER, 1, pod("any").cpu(1).obj().shape),)
    made = Gang(RAY_JOB.family, "d", "ray", kind="RayJob", uid=RAY_JOB_OWNER.uid, min_member=2, announced=announced)
    return msgspec.structs.replace(made, **fields)


def ray_cluster(**fields: object) -> Gang:
    """Its cluster."""
    made = Gang(RAY_CLUSTER.family, "d", "ray-x", kind="RayCluster", min_member=2, owner=RAY_JOB_OWNER)
    return msgspec.structs.replace(made, **fields)


def of_cluster(role: str) -> PodBuilder:
    """A pod of it."""
    return pod(f"ray-x-{role}").cpu(1).owner("RayCluster", "ray-x").labels({RAY_NODE_TYPE: role})


def submitter() -> list[Built]:
    """The Job that submits the work, and its pod."""
    made = Job("d", "ray", "uid-Job-ray", parallelism=1, completions=1, owner=RAY_JOB_OWNER, version="1")
    return [made, pod("ray-submit").cpu(1).owner("Job", "ray")]


def test_what_submits_the_work_of_a_ray_job_has_room() -> None:
    """It is created when the cluster is ready: the cluster does not wait for it, but for its room, and this is held."""
    pods = [of_cluster("head"), of_cluster("worker")]
    cluster = Cluster(node("n1").cpu(2), ray_job(declared=True), ray_cluster(), *pods)
    assert nodes_of(cluster.run()) == {}
    cluster.show(node("n2").cpu(1))
    assert set(nodes_of(cluster.run())) == {"ray-x-head", "ray-x-worker"}
    cluster.show(pod("other").cpu(1))
    assert nodes_of(cluster.run()) == {}
    cluster.show(*submitter())
    assert set(nodes_of(cluster.run())) == {"ray-submit"}
    [gang] = {each.gang for each in cluster.core.world.pods.values() if each.name != "other"}
    assert (gang.family, gang.name) == (RAY_JOB.family, "ray")


@pytest.mark.parametrize("kinds", [(), ("RayCluster",), ("RayJob",)])
def test_a_cluster_of_a_ray_job_by_the_setting(kinds: tuple[str, ...]) -> None:
    """That for clusters counts for those of RayJobs too."""
    pods = [of_cluster("head"), of_cluster("worker")]
    cluster = Cluster(node("n1").cpu(1), ray_job(), ray_cluster(), *pods, gang_owners=kinds)
    assert len(nodes_of(cluster.run())) == (0 if kinds == ("RayCluster",) else 1)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_a_ray_job_its_cluster_and_its_pods_in_any_order(order: tuple[int, ...]) -> None:
    """All are one gang as soon as all are seen, whatever the pods were taken for before."""
    pods = [of_cluster("head"), of_cluster("worker"), *submitter()]
    parts: list[list[Built]] = [[ray_job(declared=True)], [ray_cluster()], pods]
    cluster = Cluster()
    for part in order:
        cluster.show(*parts[part])
        cluster.run()
    assert {each.gang[:3] for each in cluster.core.world.pods.values()} == {(RAY_JOB.family, "d", "ray")}
    cluster.show(Gone("PodGroup", "d", "ray", group=RAY_JOB.family))
    cluster.run()
    assert {each.gang.family for each in cluster.core.world.pods.values()} == {SINGLE}


def test_pods_wait_for_the_ray_job_of_their_cluster() -> None:
    """They would otherwise start without room for what submits their work."""
    cluster = Cluster(node("n1").cpu(2), owner_wait_seconds=5.0, gang_owners=("RayCluster",))
    cluster.run()
    cluster.show(ray_cluster(), of_cluster("head"), of_cluster("worker"))
    assert nodes_of(cluster.pass_time(4)) == {}
    cluster.show(ray_job())
    assert nodes_of(cluster.pass_time(60)) == {}
    cluster.show(node("n2").cpu(1))
    assert len(nodes_of(cluster.run())) == 2


TRAIN_JOB = OPERATORS["TrainJob"]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("says", "jobset_says", "together"),
    [(True, None, True), (None, None, False), (False, None, False), (True, False, False), (False, True, True)],
)
def test_a_train_job_declares_its_jobset(
    *, first: bool, says: bool | None, jobset_says: bool | None, together: bool
) -> None:
    """A TrainJob runs as a JobSet, whose own annotation overrides that of the TrainJob. Either may be seen first."""
    said = Gang(TRAIN_JOB.family, "d", "train", kind="TrainJob", declared=says)
    owned = jobset(gang=jobset_says, owner=Owner("TrainJob", "train", "u"))
    objects: list[Built] = [owned, *jobs(), *waiting()]
    cluster = Cluster(node("n1").cpu(JOBS * MEMBERS - 1), *([said] if first else []), *objects)
    if not first:
        cluster = Cluster(*objects)
        cluster.run()
        cluster.show(said, node("n1").cpu(JOBS * MEMBERS - 1))
    assert len(nodes_of(cluster.run())) == (0 if together else JOBS * MEMBERS - 1)
