"""Pods of which it is not clear whose they are wait: nothing starts, and nobody is evicted, on a guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
import pytest

from gangsched.core.events import Changed, Gone, KindRead, ObjectRefused, Reading
from gangsched.model.dialects.objects import OWNER_GROUPS
from gangsched.model.dialects.operators import OPERATORS
from gangsched.model.dialects.owners import GROUP_INDEX, NAME, SIZE
from gangsched.model.jobsets import JobSet, ReplicatedJob
from gangsched.model.records import Announced, Gang, Job, Owner, PodSelector
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of, plan, texts, writes

RAY, TORCH, LWS = OPERATORS["RayCluster"], OPERATORS["PyTorchJob"], OPERATORS["LeaderWorkerSet"]
Owning: TypeAlias = Gang | Job | JobSet | PodSelector
READ = [KindRead(f"{kind}.{group}".rstrip("."), Reading.READ) for kind, group in OWNER_GROUPS.items()]


def operator_object(kind: str, name: str, **fields: object) -> Gang:
    """An object of an operator."""
    made = Gang(OPERATORS[kind].family, "d", name, kind=kind, uid=f"uid-{kind}-{name}", min_member=4, declared=True)
    return msgspec.structs.replace(made, **fields)


def job(name: str = "wide", **fields: object) -> Job:
    """A Job of four pods that start together."""
    made = Job("d", name, f"uid-Job-{name}", parallelism=4, completions=4, gang=True)
    return msgspec.structs.replace(made, **fields)


def members(kind: str, name: str, **labels: str) -> list[PodBuilder]:
    """Four pods of an owner: one too many for the room, with what may be evicted."""
    made = [pod(f"{name}-{i}").cpu(2).priority(1000).owner(kind, name) for i in range(4)]
    return [each.labels(labels) if labels else each for each in made]


#: What owns the pods: of what kind and name, and what there is of owners, the topmost first.
OWNED: dict[str, tuple[list[PodBuilder], list[Owning]]] = {
    "Job": (members("Job", "wide"), [job()]),
    "JobSet": (
        members("Job", "set-w-0"),
        [
            JobSet("d", "set", "uid-JobSet-set", replicated=(ReplicatedJob(1, job("set-w", gang=None)),), gang=True),
            job("set-w-0", owner=Owner("JobSet", "set", "uid-JobSet-set"), gang=None),
        ],
    ),
    "RayCluster": (members("RayCluster", "ray"), [operator_object("RayCluster", "ray")]),
    "RayJob": (
        members("RayCluster", "ray-x"),
        [
            operator_object("RayJob", "ray"),
            operator_object("RayCluster", "ray-x", owner=Owner("RayJob", "ray", "uid-RayJob-ray")),
        ],
    ),
    "PyTorchJob": (members("PyTorchJob", "torch"), [operator_object("PyTorchJob", "torch")]),
    "ReplicaSet": (members("ReplicaSet", "web"), [PodSelector("ReplicaSet", "d", "web", uid="uid-ReplicaSet-web")]),
    "StatefulSet": (members("StatefulSet", "db"), [PodSelector("StatefulSet", "d", "db", uid="uid-StatefulSet-db")]),
    "LeaderWorkerSet": (
        [each.labels({NAME: "lws", GROUP_INDEX: "0"}).hint(SIZE, "4") for each in members("StatefulSet", "lws")],
        [
            operator_object("LeaderWorkerSet", "lws"),
            PodSelector(
                "StatefulSet",
                "d",
                "lws",
                uid="uid-StatefulSet-lws",
                owner=Owner("LeaderWorkerSet", "lws", "uid-LeaderWorkerSet-lws"),
            ),
        ],
    ),
}


def gone(record: Owning) -> Gone:
    """The end of an owner."""
    if isinstance(record, Gang):
        return Gone("PodGroup", record.namespace, record.name, record.uid, record.family)
    kind = record.kind if isinstance(record, PodSelector) else type(record).__name__
    return Gone(kind, record.namespace, record.name, record.uid, OWNER_GROUPS[kind])


def evicted(cluster: Cluster) -> set[str]:
    """The pods that were removed."""
    return {name for verb, name in writes(cluster.log) if verb == "Remove"}


def full_cluster(pods: list[PodBuilder], owners: list[Owning]) -> Cluster:
    """Four places with lower work, of which one may not be evicted, so that the four pods cannot start together."""
    work = [pod(f"low-{i}").cpu(2).on(f"n{i}").priority(100) for i in range(3)]
    guarded = pod("low-3").cpu(2).on("n3").priority(2000)
    nodes = [node(f"n{i}").cpu(2) for i in range(4)]
    cluster = Cluster(*READ, *nodes, *work, guarded, *owners, *pods)
    cluster.run()
    return cluster


GANGS = ("Job", "JobSet", "RayCluster", "RayJob", "PyTorchJob", "LeaderWorkerSet")


@pytest.mark.parametrize("kind", GANGS)
@pytest.mark.parametrize("which", [0, -1])
def test_the_end_of_an_owner_evicts_nobody(kind: str, which: int) -> None:
    """With a deletion in the background the pods outlive their owner, or the owner of that, for a time: they wait."""
    pods, owners = OWNED[kind]
    cluster = full_cluster(pods, owners)
    assert evicted(cluster) == set()
    cluster.show(gone(owners[which]))
    cluster.pass_time(600)
    assert (evicted(cluster), nodes_of(cluster.log)) == (set(), {})
    assert "is gone, or is not known yet" in texts(cluster.log, pods[0].obj().name)[-1][1]


@pytest.mark.parametrize("kind", OWNED)
@pytest.mark.parametrize("what", ["gone", "deleting", "another", "not seen"])
def test_pods_of_an_unclear_owner_wait(kind: str, what: str) -> None:
    """None of them is a gang of one, though there is room: not while the owner is not known, nor when it leaves, nor
    for one of its name; once it is clear whose they are they start.
    """
    pods, owners = OWNED[kind]
    top: Owning = {
        "gone": owners[0],
        "not seen": owners[0],
        "deleting": msgspec.structs.replace(owners[0], deleting=True),
        "another": msgspec.structs.replace(owners[0], uid="another"),
    }[what]
    room = [node(f"n{i}").cpu(2) for i in range(4)]
    cluster = Cluster(*READ, *room, *([] if what == "not seen" else [top]), *owners[1:], *pods[:3])
    if what == "gone":
        cluster.show(gone(top))
    assert nodes_of(cluster.run()) == {}
    cluster.show(pods[3])
    assert nodes_of(cluster.pass_time(600)) == {}
    cluster.show(*owners)
    assert len(nodes_of(cluster.pass_time(60))) == 4


def test_an_orphan_is_no_member_of_the_namesake() -> None:
    """Pods of an earlier Job that run do not count for the new one of that name."""
    orphans = [pod(f"old-{i}").cpu(1).on("n1").field(owner=Owner("Job", "wide", "old")) for i in range(2)]
    new = [pod(f"new-{i}").cpu(1).owner("Job", "wide") for i in range(2)]
    two = job(parallelism=2, completions=2)
    cluster = Cluster(node("n1").cpu(3), *orphans, two, *new)
    assert nodes_of(cluster.run()) == {}
    cluster.show(node("n2").cpu(1))
    assert len(nodes_of(cluster.run())) == 2


def test_a_member_of_a_group_whose_owner_is_gone() -> None:
    """It does not count as ready, and starts with the others only when it is clear whose it is."""
    mine = [pod(f"p-{i}").cpu(1).light_gang("g", 2).owner("Job", "wide") for i in range(2)]
    cluster = Cluster(*READ, node("n1").cpu(2), *mine)
    assert nodes_of(cluster.run()) == {}
    cluster.show(job())
    assert len(nodes_of(cluster.run())) == 2


@pytest.mark.parametrize("what", ["gone", "deleting", "the group"])
def test_a_group_whose_owner_leaves(what: str) -> None:
    """Its gang waits: the group leaves with its owner, and a group that is being deleted is one no more."""
    owner = Owner("Job", "wide", "uid-Job-wide")
    group = msgspec.structs.replace(gang("g").min(2).obj(), owner=owner)
    pods = [pod(f"p-{i}").cpu(1).gang("g") for i in range(2)]
    ways: dict[str, Built] = {
        "gone": gone(job()),
        "deleting": Changed(job(deleting=True)),
        "the group": Changed(msgspec.structs.replace(group, deleting=True)),
    }
    cluster = Cluster(*READ, job(), group, *pods, ways[what])
    cluster.run()
    cluster.show(node("n1").cpu(2))
    assert nodes_of(cluster.pass_time(600)) == {}


def test_the_kind_of_another_api_is_another() -> None:
    """A StatefulSet of another API group is of a kind that is not read: its pods start by themselves, as ever."""
    other = pod("p").cpu(1).field(owner=Owner("StatefulSet.v1beta1.apps.kruise.io", "db", "u"))
    assert nodes_of(Cluster(*READ, node("n1").cpu(1), other).run()) == {"p": "n1"}


@pytest.mark.parametrize(
    ("reading", "starts"),
    [(Reading.READ, False), (Reading.ABSENT, False), (Reading.CLOSED, True), (Reading.UNKNOWN, True)],
)
def test_what_is_known_of_a_kind(reading: Reading, *, starts: bool) -> None:
    """Pods of an owner that was not seen wait where all owners of its kind are known, and where there can be none; a
    kind that may not be read is none that is read.
    """
    cluster = Cluster(KindRead("RayCluster.ray.io", reading), node("n1").cpu(2), *members("RayCluster", "ray")[:1])
    assert bool(nodes_of(cluster.run())) == starts
    cluster.show(KindRead("RayCluster.ray.io", Reading.CLOSED))
    assert bool(nodes_of(cluster.run())) != starts


def test_an_owner_that_cannot_be_understood() -> None:
    """How many pods of it start together is not known, so they wait."""
    refused = ObjectRefused("PyTorchJob.kubeflow.org", "d", "torch", "uid-PyTorchJob-torch", "spec", "is wrong")
    cluster = Cluster(*READ, node("n1").cpu(8), *members("PyTorchJob", "torch"), refused)
    assert nodes_of(cluster.run()) == {}
    assert "is invalid: spec: is wrong" in texts(cluster.log, "torch-0")[-1][1]
    cluster.show(operator_object("PyTorchJob", "torch"))
    assert len(nodes_of(cluster.run())) == 4


def test_a_plan_says_why() -> None:
    """The decision about a pod without an owner is to wait, with the reason."""
    found = plan(*READ, node("n1").cpu(2), members("Job", "wide")[0])["d/wide-0"]
    assert (found.outcome, found.message) == ("gathering", "its Job d/wide is gone, or is not known yet")


@pytest.mark.parametrize("kind", OPERATORS)
def test_kinds_are_told_apart_by_their_group(kind: str) -> None:
    """The table of owners has the group of each operator."""
    assert OWNER_GROUPS[kind] == OPERATORS[kind].group


def test_workers_whose_stateful_set_a_pod_owns() -> None:
    """A LeaderWorkerSet makes a StatefulSet of each leader, which that owns: pods are read, and are no such owners."""
    pods = [each.labels({NAME: "lws", GROUP_INDEX: "0"}).hint(SIZE, "4") for each in members("StatefulSet", "lws")]
    leader, workers = pods[0], [each.owner("StatefulSet", "lws-0") for each in pods[1:]]
    leading = PodSelector(
        "StatefulSet",
        "d",
        "lws",
        uid="uid-StatefulSet-lws",
        owner=Owner("LeaderWorkerSet", "lws", "uid-LeaderWorkerSet-lws"),
    )
    working = PodSelector(
        "StatefulSet", "d", "lws-0", uid="uid-StatefulSet-lws-0", owner=Owner("Pod", "lws-0", "uid-lws-0")
    )
    known = (operator_object("LeaderWorkerSet", "lws"), leading, working)
    found = [Changed(each) for each in known]
    cluster = Cluster(*READ, KindRead("Pod", Reading.READ), *found, node("n1").cpu(8), leader, *workers)
    cluster.run()
    assert len(nodes_of(cluster.log)) == 4


@pytest.mark.parametrize("first", ["group", "owner"])
@pytest.mark.parametrize(("announced", "minimum", "starts"), [(True, 3, True), (False, 3, False), (True, 2, True)])
def test_a_group_counts_no_member_that_its_owner_makes_when_others_run(
    first: str, *, announced: bool, minimum: int, starts: bool
) -> None:
    """The group of an MPIJob has its launcher in its minimum, also where that is made when the workers are ready."""
    later = (Announced("launcher", 1),) if announced else ()
    owner = operator_object("MPIJob", "mpi", min_member=2 if announced else 3, announced=later, declared=None)
    group = gang("mpi").min(minimum).field(owner=Owner("MPIJob", "mpi", owner.uid))
    workers = [pod(f"mpi-worker-{i}").cpu(2).gang("mpi").owner("MPIJob", "mpi") for i in range(2)]
    cluster = Cluster(node("n1").cpu(4), *READ, *((group, owner) if first == "group" else (owner, group)), *workers)
    bound = nodes_of(cluster.run())
    assert bound == ({f"mpi-worker-{i}": "n1" for i in range(2)} if starts else {})


def test_the_owner_of_a_group_says_later_that_it_makes_members_later() -> None:
    """The group is looked at again."""
    owner = operator_object("MPIJob", "mpi", min_member=3, declared=None)
    group = gang("mpi").min(3).field(owner=Owner("MPIJob", "mpi", owner.uid))
    workers = [pod(f"mpi-worker-{i}").cpu(2).gang("mpi").owner("MPIJob", "mpi") for i in range(2)]
    cluster = Cluster(node("n1").cpu(4), *READ, group, owner, *workers)
    assert nodes_of(cluster.run()) == {}
    cluster.show(msgspec.structs.replace(owner, min_member=2, announced=(Announced("launcher", 1),)))
    assert nodes_of(cluster.run()) == {f"mpi-worker-{i}": "n1" for i in range(2)}


#: Owners that come to an end, as they are then.
ENDED: dict[str, list[Owning]] = {
    "Job": [job(finished=True)],
    "JobSet": [msgspec.structs.replace(OWNED["JobSet"][1][0], finished=True), OWNED["JobSet"][1][1]],
    "PyTorchJob": [operator_object("PyTorchJob", "torch", finished=True)],
    "RayJob": [operator_object("RayJob", "ray", finished=True), OWNED["RayJob"][1][1]],
}


def single(owner: Owning) -> Owning:
    """The owner without the wish that its pods start together."""
    changes = {"declared": None} if isinstance(owner, Gang) else {"gang": None}
    return msgspec.structs.replace(owner, **changes)


@pytest.mark.parametrize("change", [list, lambda owners: list(map(single, owners))], ids=["gang", "single"])
@pytest.mark.parametrize("kind", ENDED)
def test_nobody_is_evicted_for_an_owner_that_has_ended(
    kind: str, change: Callable[[list[Owning]], list[Owning]]
) -> None:
    """Its controller deletes the pods that still wait: neither do they start, nor do they evict."""
    cluster = Cluster(node("n").cpu(8), pod("low").cpu(8).on("n"), *READ, *change(ENDED[kind]), *OWNED[kind][0])
    log = cluster.run()
    assert not writes(log)
    assert all("has ended" in texts(log, name)[-1][1] for _, name in cluster.pods if name != "low")


@pytest.mark.parametrize("kind", ENDED)
def test_pods_wait_from_the_end_of_their_owner(kind: str) -> None:
    """They were waiting for room: what becomes free later is not for them."""
    cluster = Cluster(node("n").cpu(4), *READ, *OWNED[kind][1], *OWNED[kind][0])
    cluster.run()
    cluster.show(*map(Changed, ENDED[kind]), node("more").cpu(8))
    cluster.run()
    assert not any(each.node for each in cluster.pods.values())
