"""Members that are known by their number alone."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.actions import ResumeJob
from gangsched.core.state.expected_members import Expected, ExpectedMembers, Pods
from gangsched.model.jobsets import ReplicatedJob
from gangsched.model.records import GangId, Job, Pod
from tests.builders import node, pod
from tests.core.eviction.jobs import job, nodes
from tests.core.harness import Cluster
from tests.core.jobsets import jobs, jobset, like

OURS = "py-gang-scheduler"
GANG = GangId("Job", "d", "train", OURS)
MANY = 10_000


def alike(name: str, each: int, jobs: range | None = None) -> Expected:
    """Pods like one that asks for a core."""
    return Expected(pod("").uid("").cpu(1).obj(), name, f"uid-{name}", each, jobs)


def test_it_is_counted_without_being_made() -> None:
    """The number of members, and one of each kind, are known before there is any of them."""
    members = ExpectedMembers()
    assert members.replace(GANG, [alike("a", 3), alike("b", 2, range(4, 6))]) == []
    assert (members.number(GANG), len(Pods(members, GANG)), len(members.members_of(GANG)), members.made) == (
        7,
        7,
        2,
        {},
    )
    assert members.replace(GANG, []) == []


def test_members_have_the_names_of_their_jobs_pods() -> None:
    """In name order, and by UID; with several Jobs their indexes come in between."""
    members = ExpectedMembers()
    members.replace(GANG, [alike("b", 2, range(4, 6)), alike("a", 11)])
    made = [*Pods(members, GANG)]
    assert [p.name for p in made[:4]] == ["a-0", "a-1", "a-10", "a-2"]
    assert [(p.name, p.uid) for p in made[-2:]] == [("b-5-0", "uid-b-5/0"), ("b-5-1", "uid-b-5/1")]
    assert {p.uid for p in made} == set(members.made)
    assert Pods(members, GANG)[0].name == "a-0"
    assert {*members.replace(GANG, [])} == {p.uid for p in made}
    assert (members.made, GANG in members) == ({}, False)


def big(name: str, at: float) -> Job:
    """A suspended Job of ten thousand, more than the cluster has room for."""
    return job(name, parallelism=MANY, completions=MANY, suspended=True, suspended_by=OURS, created=at)


def made_by(cluster: Cluster) -> int:
    """How many pods there are that stand in for others."""
    return len(cluster.core.world.membership.expected.made)


def test_suspended_jobs_cost_no_more_than_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made for their decisions and no more than one gang's are kept; events of others make none."""
    cluster = Cluster(node("n1").cpu(4))
    cluster.run()
    asked: list[str] = []
    before = ExpectedMembers.pods

    def made(members: ExpectedMembers, gang: GangId) -> list[Pod]:
        asked.append(gang.name)
        return before(members, gang)

    monkeypatch.setattr(ExpectedMembers, "pods", made)
    all_of_them = [big(f"j{n}", n) for n in range(4)]
    cluster.handle(*all_of_them)
    assert (asked, made_by(cluster)) == ([], 0)
    cluster.run()
    assert {*asked} == {"j0", "j1", "j2", "j3"}
    assert made_by(cluster) == MANY
    asked.clear()
    cluster.handle(*(msgspec.structs.replace(each, version="2") for each in all_of_them))
    cluster.handle(pod("new").cpu(1).on("n1"))
    cluster.handle(pod("new").cpu(1).on("n1").terminating())
    assert asked == []


def test_what_has_room_stays_until_its_pods_come() -> None:
    """A Job for which room is kept has its stand-ins, whatever is decided meanwhile."""
    waits = job("first", suspended=True, suspended_by=OURS, created=1.0)
    cluster = Cluster(*nodes(), pod("leaves").cpu(4).on("n1").terminating(60), waits)
    cluster.run()
    cluster.show(big("j1", 2.0), big("j2", 3.0))
    cluster.run()
    assert {f"uid-Job-first/{i}" for i in range(8)} <= {*cluster.core.world.membership.expected.made}
    cluster.leave()
    assert [action.job.name for action in cluster.run() if isinstance(action, ResumeJob)] == ["first"]


def test_started_jobs_of_a_jobset_count_by_what_they_want() -> None:
    """Those that are there by their own state, the others by what the JobSet says, each by its index."""
    there = msgspec.structs.replace(jobs(suspended=True)[1], parallelism=1, completions=4, succeeded=3)
    waits = jobset(suspended=True, suspended_by=OURS, replicated=(ReplicatedJob(3, like()),))
    cluster = Cluster(node("n1").cpu(4), waits, there)
    cluster.run()
    [gang] = cluster.core.world.membership.expected
    names = [p.name for p in cluster.core.world.membership.pods(gang)]
    assert names == [*(f"train-w-0-{i}" for i in range(4)), "train-w-1-0", *(f"train-w-2-{i}" for i in range(4))]
