"""Pods that name no group and start together all the same, because of what owns them."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.actions import GangStatus
from gangsched.core.events import Changed, Gone
from gangsched.model.dialects.kueue import FAMILY, GROUP_LABEL, TOTAL
from gangsched.model.dialects.operators import OPERATORS
from gangsched.model.dialects.owners import GANG, GROUP_INDEX, NAME, SIZE, WORKER_INDEX
from gangsched.model.jobsets import RESTART_ATTEMPT
from gangsched.model.records import QUEUED_JOB, Announced, Gang, Job, Namespace, Owner, Pod
from tests.builders import PodBuilder, node, pod
from tests.core.harness import Built, Cluster, nodes_of, plan, reports
from tests.core.jobsets import JOBS, MEMBERS, jobs, jobset, running, waiting
from tests.core.queues import job as queued_job
from tests.core.queues import objects
from tests.core.quota.world import queue


def member(index: int, owner: str = "train") -> PodBuilder:
    """A pod of the Job."""
    return pod(f"{owner}-{index}").cpu(1).owner("Job", owner)


def job(size: int = 2, **fields: object) -> Job:
    """A Job of so many pods."""
    template = member(0).obj()
    made = Job("d", "train", "uid-Job-train", parallelism=size, completions=size, template=template, version="1")
    return msgspec.structs.replace(made, **fields)


def declared(value: str = "true", name: str = "d") -> Changed:
    """A namespace whose label says this."""
    return Changed(Namespace(name, {GANG: value}))


def saying(value: str) -> Pod:
    """What the pods of the Job say."""
    return member(0).hint(GANG, value).obj()


@pytest.mark.parametrize(
    ("how", "seen", "kinds", "together"),
    [
        ("nothing", [job()], (), False),
        ("the Job", [job(gang=True)], (), True),
        ("its template", [job(template=saying("true"))], (), True),
        ("the namespace", [declared(), job()], (), True),
        ("another namespace", [declared(name="e"), job()], (), False),
        ("another word", [declared("yes"), job()], (), False),
        ("the setting", [job()], ("Job",), True),
        ("a setting for others", [job()], ("JobSet", "LeaderWorkerSet"), False),
        ("the Job overrides the setting", [job(gang=False)], ("Job",), False),
        ("its template overrides the namespace", [declared(), job(template=saying("false"))], (), False),
        ("the Job overrides its template", [job(gang=True, template=saying("false"))], (), True),
    ],
)
def test_what_makes_a_job_a_gang(how: str, seen: list[Built], kinds: tuple[str, ...], *, together: bool) -> None:
    """Where one of two pods fits, a gang does not start, and two pods do as far as there is room."""
    cluster = Cluster(node("n1").cpu(1), *seen, member(0), member(1), gang_owners=kinds)
    assert nodes_of(cluster.run()) == ({} if together else {"train-0": "n1"}), how
    cluster.show(node("n2").cpu(1))
    assert len(nodes_of(cluster.pass_time(60))) == (2 if together else 1)


@pytest.mark.parametrize("first", ["the Job", "its pods"])
@pytest.mark.parametrize(("declared", "bound"), [(True, 2), (False, 0)])
def test_pods_that_others_would_put_into_a_group_need_none_where_their_owner_is_a_gang(
    declared: bool, bound: int, first: str
) -> None:
    """Without that they wait for a group."""
    pods = [member(i).field(ungrouped="Volcano's controller") for i in (0, 1)]
    seen: list[Built] = [job(gang=declared or None, template=pods[0].obj()), *pods]
    cluster = Cluster(node("n1").cpu(2), *(seen if first == "the Job" else seen[::-1]))
    assert len(nodes_of(cluster.run())) == bound


def test_pods_wait_for_a_group_again_when_their_owner_is_no_gang_any_more() -> None:
    """They do not start one by one."""
    pods = [member(i).field(ungrouped="Volcano's controller") for i in (0, 1)]
    cluster = Cluster(node("n1").cpu(1), job(gang=True, template=pods[0].obj()), *pods)
    assert nodes_of(cluster.run()) == {}
    cluster.show(job(template=pods[0].obj()))
    assert nodes_of(cluster.pass_time(60)) == {}


def test_the_pods_come_one_by_one() -> None:
    """The first waits for the second, as in a group."""
    cluster = Cluster(node("n1").cpu(2), job(gang=True), member(0))
    assert nodes_of(cluster.run()) == {}
    cluster.show(member(1))
    assert nodes_of(cluster.run()) == {"train-0": "n1", "train-1": "n1"}


def test_as_many_as_run_at_once() -> None:
    """Of four completions two at a time start together; when one has succeeded the next joins by itself."""
    cluster = Cluster(node("n1").cpu(2), job(gang=True, parallelism=2, completions=4), member(0), member(1))
    assert len(nodes_of(cluster.run())) == 2
    cluster.change("train-0", phase="Succeeded")
    cluster.show(job(gang=True, parallelism=2, completions=4, succeeded=1, version="2"), member(2))
    assert nodes_of(cluster.run()) == {"train-2": "n1"}


def test_a_group_of_its_own_counts_instead() -> None:
    """Pods that name a PodGroup are in that one, whatever their Job says."""
    pods = [member(i).light_gang("mine", 1) for i in range(2)]
    cluster = Cluster(node("n1").cpu(1), job(gang=True), *pods)
    assert nodes_of(cluster.run()) == {"train-0": "n1"}


def test_a_job_that_comes_after_its_pods() -> None:
    """Nobody knows what a pod is before its Job is seen, so it waits for that for some seconds, and no longer."""
    cluster = Cluster(node("n1").cpu(1), owner_wait_seconds=5.0)
    cluster.run()
    cluster.show(member(0))
    assert nodes_of(cluster.pass_time(4)) == {}
    cluster.show(job(gang=True))
    assert nodes_of(cluster.pass_time(60)) == {}
    cluster.show(member(1), node("n2").cpu(1))
    assert len(nodes_of(cluster.pass_time(60))) == 2
    orphan = Cluster(node("n1").cpu(1), owner_wait_seconds=5.0)
    orphan.run()
    orphan.show(member(0))
    assert nodes_of(orphan.pass_time(4)) == {}
    assert nodes_of(orphan.pass_time(2)) == {"train-0": "n1"}


def test_what_is_declared_changes() -> None:
    """Waiting pods follow the namespace, the Job, and its end."""
    cluster = Cluster(node("n1").cpu(1), declared(), job(), member(0), member(1))
    assert nodes_of(cluster.run()) == {}
    cluster.show(Changed(Namespace("d", {})))
    assert nodes_of(cluster.run()) == {"train-0": "n1"}
    cluster = Cluster(node("n1").cpu(1), job(gang=True), member(0), member(1))
    assert nodes_of(cluster.run()) == {}
    cluster.show(job(version="2"))
    assert nodes_of(cluster.run()) == {"train-0": "n1"}
    cluster = Cluster(node("n1").cpu(1), job(gang=True), member(0), member(1))
    cluster.run()
    cluster.show(Gone("Job", "d", "train"))
    assert nodes_of(cluster.run()) == {"train-0": "n1"}


def test_pods_of_operators_follow_the_namespace_too() -> None:
    """A RayCluster is a gang as long as the label of its namespace says so."""
    family = OPERATORS["RayCluster"].family
    ray = Changed(Gang(family, "d", "ray", kind="RayCluster", uid="uid-RayCluster-ray", min_member=2))
    pods = [pod(f"ray-{i}").cpu(1).owner("RayCluster", "ray") for i in range(2)]
    cluster = Cluster(node("n1").cpu(1), declared(), ray, *pods)
    assert nodes_of(cluster.run()) == {}
    cluster.show(Changed(Namespace("d", {})))
    assert nodes_of(cluster.run()) == {"ray-0": "n1"}


def test_pods_whose_job_is_gone_are_no_members_of_its_jobset() -> None:
    """A running process sees them as one that starts now does: the Job said whose they are."""
    cluster = Cluster(node("n1").cpu(4), node("n2").cpu(4), jobset(gang=True), *jobs(), *running())
    cluster.run()
    assert {p.gang.name for p in cluster.core.world.pods.values()} == {"train"}
    cluster.show(Gone("Job", "d", "train-w-1"))
    cluster.run()
    alone = {p.name for p in cluster.core.world.pods.values() if p.gang.name != "train"}
    assert alone == {p.name for p in running() if p.name.startswith("train-w-1")}


def test_a_namespace_that_is_gone_declares_nothing() -> None:
    """One of the same name does not inherit what the one before said."""
    cluster = Cluster(node("n1").cpu(1), declared())
    cluster.run()
    cluster.show(Gone("Namespace", "", "d"))
    cluster.run()
    cluster.show(job(), member(0), member(1))
    assert nodes_of(cluster.run()) == {"train-0": "n1"}


def test_the_gang_evicts_as_a_whole() -> None:
    """It has the priority of its pods, and what it needs leaves for all of them or not at all."""
    low = [pod(f"low-{i}").cpu(1).on(f"n{i}") for i in range(2)]
    high = [member(i).priority(10) for i in range(2)]
    nodes = [node(f"n{i}").cpu(1) for i in range(2)]
    found = plan(*nodes, *low, *high, job(gang=True))
    assert [(d.kind, d.outcome, len(d.victims)) for d in found.values()] == [("Job", "preempt", 2)]
    found = plan(nodes[0], low[0], *high, job(gang=True))
    assert [d.outcome for d in found.values()] == ["unschedulable"]


@pytest.mark.parametrize("in_order", [False, True])
def test_a_jobset(*, in_order: bool) -> None:
    """All of its Jobs start together; each by itself where it starts them in order."""
    room = JOBS * MEMBERS - 1
    cluster = Cluster(node("n1").cpu(room), jobset(gang=True, in_order=in_order), *jobs(), *waiting())
    assert len(nodes_of(cluster.run())) == (MEMBERS if in_order else 0)
    cluster = Cluster(node("n1").cpu(room + 1), jobset(gang=True, in_order=in_order), *jobs(), *waiting())
    assert len(nodes_of(cluster.run())) == JOBS * MEMBERS


def test_the_setting_for_jobs_is_not_one_for_jobsets() -> None:
    """What is above a Job decides."""
    seen: list[Built] = [jobset(), *jobs(), *waiting()]
    assert len(nodes_of(Cluster(node("n1").cpu(3), *seen, gang_owners=("Job",)).run())) == 3
    assert len(nodes_of(Cluster(node("n1").cpu(3), *seen, gang_owners=("JobSet",)).run())) == 0


def of_lws(index: int, worker: int, size: str = "2") -> PodBuilder:
    """A pod of a LeaderWorkerSet, as its controller makes it."""
    made = pod(f"serve-{index}-{worker}").cpu(1).hint(SIZE, size)
    return made.labels({NAME: "serve", GROUP_INDEX: str(index)})


def test_each_group_of_a_leader_worker_set_is_a_gang() -> None:
    """Two groups of two in room for three: one starts. Without the declaration three pods do."""
    pods = [of_lws(i, w) for i in range(2) for w in range(2)]
    assert len(nodes_of(Cluster(node("n1").cpu(3), *pods).run())) == 3
    cluster = Cluster(node("n1").cpu(3), *pods, gang_owners=("LeaderWorkerSet",))
    assert nodes_of(cluster.run()) == {"serve-0-0": "n1", "serve-0-1": "n1"}
    said = [p.hint(GANG, "true") for p in pods]
    assert len(nodes_of(Cluster(node("n1").cpu(3), *said).run())) == 2
    cluster = Cluster(node("n1").cpu(3), *[of_lws(i, w) for i in range(2) for w in range(2)])
    cluster.run()
    cluster.show(declared(), *[of_lws(2, w) for w in range(2)])
    assert len(nodes_of(cluster.run())) == 0


def leaders_first(**fields: object) -> Gang:
    """A LeaderWorkerSet of groups of three, whose workers are created when their leader is ready."""
    shape = pod("worker").cpu(3).obj().shape
    family = OPERATORS["LeaderWorkerSet"].family
    made = Gang(family, "d", "serve", kind="LeaderWorkerSet", announced=(Announced("worker", 2, shape),))
    return msgspec.structs.replace(made, **fields)


def of_leaders_first(worker: int) -> PodBuilder:
    """A pod of its first group."""
    return of_lws(0, worker, "3").labels({WORKER_INDEX: str(worker)}).cpu(3 if worker else 1)


def test_a_leader_that_is_ready_first_waits_for_the_room_of_its_workers() -> None:
    """Otherwise it would wait for workers that come only when it runs. They find the room that is held for them."""
    leader, workers = of_leaders_first(0), [of_leaders_first(n) for n in (1, 2)]
    cluster = Cluster(node("n1"), leaders_first(declared=True), leader, announced_share=1.0)
    assert nodes_of(cluster.run()) == {}
    cluster.show(node("n2"))
    assert set(nodes_of(cluster.run())) == {"serve-0-0"}
    cluster.show(pod("other").cpu(3), *workers)
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"serve-0-0", "serve-0-1", "serve-0-2"}


def test_a_leader_that_is_seen_before_its_set() -> None:
    """It is looked at again when that says that leaders start first, or nothing of the kind any more."""
    cluster = Cluster(node("n1").cpu(8), of_leaders_first(0), gang_owners=("LeaderWorkerSet",))
    assert nodes_of(cluster.run()) == {}
    cluster.show(leaders_first())
    assert set(nodes_of(cluster.run())) == {"serve-0-0"}
    cluster = Cluster(node("n1").cpu(6), leaders_first(declared=True), of_leaders_first(0))
    cluster.run()
    cluster.show(leaders_first(declared=False))
    assert set(nodes_of(cluster.run())) == {"serve-0-0"}


def test_a_jobset_that_is_restarted_is_another_gang() -> None:
    """Pods of the attempt before, which are about to go, do not stand for those of the new one."""
    old = [msgspec.structs.replace(p, labels={RESTART_ATTEMPT: "0"}) for p in running()[:-1]]
    cluster = Cluster(node("n1").cpu(8), node("n2").cpu(7), jobset(gang=True), *jobs(), *old)
    cluster.run()
    new = [msgspec.structs.replace(p, labels={RESTART_ATTEMPT: "1"}, name=f"new-{p.name}") for p in waiting()]
    cluster.show(*new[:-1])
    assert nodes_of(cluster.run()) == {}
    cluster.show(new[-1])
    assert len(nodes_of(cluster.run())) == JOBS * MEMBERS


@pytest.mark.parametrize("size", ["", "0", "two", "1234567"])
def test_a_size_that_is_no_number_makes_no_group(size: str) -> None:
    """Such a pod starts by itself."""
    cluster = Cluster(node("n1").cpu(1), of_lws(0, 0, size), of_lws(0, 1, size), gang_owners=("LeaderWorkerSet",))
    assert len(nodes_of(cluster.run())) == 1


def of_kueue(index: int) -> PodBuilder:
    """A pod of a plain pod group of two."""
    return pod(f"p{index}").cpu(1).labels({GROUP_LABEL: "g"}).hint(TOTAL, "2").gang("g", FAMILY)


def test_a_plain_pod_group_of_kueue() -> None:
    """While a pod is gated none starts; when Kueue has let all go they start together, where there is room for all."""
    cluster = Cluster(node("n1").cpu(1), of_kueue(0), of_kueue(1).gated("kueue.x-k8s.io/admission"))
    assert nodes_of(cluster.run()) == {}
    cluster.change("p1", gates=())
    assert nodes_of(cluster.run()) == {}
    cluster.show(node("n2").cpu(1))
    assert len(nodes_of(cluster.pass_time(60))) == 2


TORCH = OPERATORS["PyTorchJob"]


def torch(members: int = 2, **fields: object) -> Gang:
    """A PyTorchJob of so many pods."""
    made = Gang(TORCH.family, "d", "train", kind="PyTorchJob", uid="uid-PyTorchJob-train", min_member=members)
    return msgspec.structs.replace(made, **fields)


def replica(index: int) -> PodBuilder:
    """A pod of it."""
    return pod(f"train-worker-{index}").cpu(1).owner("PyTorchJob", "train")


@pytest.mark.parametrize(
    ("seen", "kinds", "together"),
    [
        ([torch()], (), False),
        ([torch(declared=True)], (), True),
        ([torch()], ("PyTorchJob",), True),
        ([torch()], ("Job", "RayCluster"), False),
        ([torch(declared=False)], ("PyTorchJob",), False),
        ([declared(), torch()], (), True),
        ([declared()], (), True),  # how many it needs is not known yet, so it waits
    ],
)
def test_an_object_of_an_operator(seen: list[Built], kinds: tuple[str, ...], *, together: bool) -> None:
    """Its pods are a gang where it is declared one."""
    cluster = Cluster(node("n1").cpu(1), *seen, replica(0), replica(1), gang_owners=kinds)
    assert nodes_of(cluster.run()) == ({} if together else {"train-worker-0": "n1"})
    cluster.show(node("n2").cpu(1), torch(declared=together))
    assert len(nodes_of(cluster.pass_time(60))) == (2 if together else 1)


def test_what_an_operators_object_says_changes() -> None:
    """Its waiting pods follow it, and its end."""
    cluster = Cluster(node("n1").cpu(1), torch(declared=True), replica(0), replica(1))
    assert nodes_of(cluster.run()) == {}
    cluster.show(torch())
    assert nodes_of(cluster.run()) == {"train-worker-0": "n1"}
    cluster = Cluster(node("n1").cpu(1), torch(declared=True), replica(0), replica(1))
    cluster.run()
    cluster.show(Gone("PodGroup", "d", "train", group=TORCH.family))
    assert nodes_of(cluster.run()) == {"train-worker-0": "n1"}


def test_pods_wait_for_the_object_of_their_operator() -> None:
    """As for a Job: for some seconds, unless they name a group."""
    cluster = Cluster(node("n1").cpu(2), owner_wait_seconds=5.0)
    cluster.run()
    cluster.show(replica(0), replica(1).light_gang("mine", 1))
    assert nodes_of(cluster.pass_time(4)) == {"train-worker-1": "n1"}
    assert nodes_of(cluster.pass_time(2)) == {"train-worker-0": "n1"}


def test_the_launcher_of_an_mpi_job_is_one_of_its_members() -> None:
    """It is the pod of a Job that the MPIJob owns."""
    mpi = OPERATORS["MPIJob"]
    whole = Gang(mpi.family, "d", "mpi", kind="MPIJob", uid="uid-MPIJob-mpi", min_member=2, declared=True)
    launcher = job(1, name="mpi-launcher", uid="uid-Job-mpi-launcher", owner=Owner("MPIJob", "mpi", "uid-MPIJob-mpi"))
    pods = [member(0, "mpi-launcher"), pod("mpi-worker-0").cpu(1).owner("MPIJob", "mpi")]
    cluster = Cluster(node("n1").cpu(1), whole, launcher, *pods)
    assert nodes_of(cluster.run()) == {}
    cluster.show(node("n2").cpu(1))
    assert len(nodes_of(cluster.pass_time(60))) == 2


def test_a_launcher_with_a_queue_starts_with_its_job() -> None:
    """Its MPIJob is no gang, so it is the Job that is admitted."""
    launcher = msgspec.structs.replace(
        queued_job("mpi-launcher", "a", 1), owner=Owner("MPIJob", "mpi", "uid-MPIJob-mpi")
    )
    cluster = Cluster(node("n1").cpu(1), *objects(queue("a", cpu=4)), launcher, member(0, "mpi-launcher"))
    assert nodes_of(cluster.run()) == {"mpi-launcher-0": "n1"}
    [found] = {p.gang for p in cluster.core.world.pods.values()}
    assert (found.family, found.name) == (QUEUED_JOB, "mpi-launcher")


def test_events_name_the_object_of_the_operator() -> None:
    """With its API version; its status is its operator's."""
    cluster = Cluster(node("n1").cpu(1), torch(declared=True), replica(0), replica(1), events_per_gang=True)
    actions = cluster.run()
    assert {r.regarding[:4] for r in reports(actions, "FailedScheduling")} == {
        ("kubeflow.org/v1", "PyTorchJob", "d", "train")
    }
    assert not [a for a in actions if isinstance(a, GangStatus)]
