"""Jobs and JobSets that go on in a flavor: their templates are to have its labels and tolerations, and no others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Remove, ResumeJob
from gangsched.core.events import Changed, Outcome
from gangsched.model.constraints import Directives, Taint, Toleration
from gangsched.model.jobsets import JobSet, ReplicatedJob
from gangsched.model.queues import ResourceFlavor
from gangsched.model.records import Job, Owner, PriorityClass, QueueLabels
from tests.builders import PodBuilder, node, pod
from tests.core.harness import Built, Cluster, kept, nodes_of, reports, writes
from tests.core.queues import objects, queued
from tests.core.quota.world import flavor, group, queue

TEAM = QueueLabels("q-a")
TOLERATION = Toleration("spot", "Exists", "", "NoExecute", 60)
SPOT = ResourceFlavor("spot", {"pool": "spot"}, (Taint("spot", "", "NoExecute"),), (TOLERATION,))
STEADY = ResourceFlavor("steady", {"pool": "steady"})
IN_SPOT = Directives((("pool", "spot"),), (TOLERATION,))
IN_STEADY = Directives((("pool", "steady"),))


def pools(spot: int = 4, steady: int = 0) -> list[Built]:
    """A node of each flavor, and a queue with so many cores in them."""
    flavors = group(flavor("spot", cpu=spot), flavor("steady", cpu=steady))
    nodes = [node("n-spot").cpu(4).label(pool="spot").taint("spot", effect="NoExecute"), steady_node()]
    return [*nodes, *objects(queue("a", "", flavors), SPOT, STEADY)]


def steady_node() -> Built:
    """The node of the other flavor."""
    return node("n-steady").cpu(4).label(pool="steady")


def template(name: str, **selector: str) -> PodBuilder:
    """A pod of one core."""
    return pod(name).cpu(1).selector(**selector).uid("")


def job(own: PodBuilder | None = None, **fields: Any) -> Job:
    """A Job of four, created suspended for its queue."""
    known = {"parallelism": 4, "completions": 4, "suspended": True, "queue": TEAM, "version": "1", **fields}
    return Job("d", "train", "uid-Job-train", template=(own or template("train")).obj(), **known)


def resumed(cluster: Cluster) -> list[tuple[Directives, ...] | None]:
    """What the templates are to have, by the Jobs that go on."""
    return [a.templates for a in cluster.run() if isinstance(a, ResumeJob)]


def test_a_job_goes_on_in_its_flavor() -> None:
    """The flavor's labels and tolerations, with their seconds."""
    assert resumed(Cluster(*pools(), job())) == [(IN_SPOT,)]


def test_what_the_template_says_itself_is_not_added() -> None:
    """A template that has all of it is not touched; of one that has a part the rest is added."""
    whole = template("train", pool="spot").shape(tolerations=(TOLERATION,))
    assert resumed(Cluster(*pools(), job(whole))) == [None]
    assert resumed(Cluster(*pools(), job(template("train", pool="spot")))) == [(Directives((), (TOLERATION,)),)]


def test_a_flavor_that_asks_nothing_changes_nothing() -> None:
    """Neither labels nor tolerations: the write is as without flavors."""
    found = Cluster(node("n").cpu(4), *objects(queue("a", cpu=4)), job())
    assert resumed(found) == [None]


def test_it_comes_back_in_another_flavor_or_in_the_same() -> None:
    """What it has of the first is not in the way of the second, and is replaced by it; the same is left as it is."""
    for spot, steady, expected in ((4, 0, None), (0, 4, (IN_STEADY,))):
        again = job(added=IN_SPOT, suspended_by="py-gang-scheduler")
        assert resumed(Cluster(*pools(spot, steady), again)) == [expected]


def test_without_a_queue_it_loses_what_it_had_of_a_flavor() -> None:
    """Its label was taken off while it was suspended."""
    again = job(added=IN_STEADY, suspended_by="py-gang-scheduler", queue=QueueLabels())
    assert resumed(Cluster(steady_node(), again)) == [(Directives(),)]


def test_each_template_of_a_jobset_gets_its_flavor() -> None:
    """One asks for the other pool; Jobs that there are still have what they had, which is not theirs."""
    fields: dict[str, Any] = {"parallelism": 2, "completions": 2}
    plain, bound = template("js").obj(), template("js", pool="steady").obj()
    first = Job("d", "js-a", template=plain, added=IN_STEADY, **fields)
    second = Job("d", "js-b", template=bound, **fields)
    third = Job("d", "js-c", template=plain, added=IN_STEADY, **fields)
    replicated = (ReplicatedJob(1, first), ReplicatedJob(1, second), ReplicatedJob(0, third))
    jobset = JobSet("d", "js", "uid", suspended=True, queue=TEAM, replicated=replicated)
    child: dict[str, Any] = {
        "uid": "uid-a",
        "suspended": True,
        "template": bound,
        "owner": Owner("JobSet", "js", "uid"),
    }
    there = Job("d", "js-a-0", **fields, **child)
    found = Cluster(*pools(2, 2), jobset, there)
    assert resumed(found) == [(IN_SPOT, Directives(), IN_STEADY)]


def test_a_job_of_a_jobset_keeps_labels_that_the_next_flavor_does_not_replace() -> None:
    """Its controller adds to a Job that there is and takes nothing off, so the pod still asks for the zone."""
    fields: dict[str, Any] = {"parallelism": 2, "completions": 2}
    for own, expected in (({"pool": "spot"}, 1), ({"pool": "spot", "zone": "z"}, 0)):
        like = Job("d", "js-a", template=template("js").obj(), **fields)
        jobset = JobSet("d", "js", "uid", suspended=True, queue=TEAM, replicated=(ReplicatedJob(1, like),))
        owner = Owner("JobSet", "js", "uid")
        there = Job("d", "js-a-0", "uid-a", suspended=True, template=template("js", **own).obj(), owner=owner, **fields)
        found = Cluster(*pools(0, 4), jobset, there)
        assert resumed(found) == [(IN_STEADY,)] * expected


def test_a_template_that_the_server_keeps_is_told_of_once() -> None:
    """The Job goes on all the same; its Event says what is missing."""
    cluster = Cluster(*pools(), job())
    cluster.judge = lambda write: (Outcome.OK, "its template stays") if isinstance(write, ResumeJob) else None
    cluster.run()
    notes = [each.note for each in reports(cluster.log, "Resumed")]
    assert notes == ["There is room for its 4 pods again: its suspension has ended; its template stays"]


def test_a_preempted_job_is_planned_without_its_first_flavor() -> None:
    """Its pods leave the first; it goes on in the second as soon as that has quota."""
    cluster = Cluster(*pools(), job())
    assert resumed(cluster) == [(IN_SPOT,)]
    back = msgspec.structs.replace(cluster.jobs["d", "train"], suspended=True, suspended_by="py-gang-scheduler")
    flavors = group(flavor("spot", cpu=0), flavor("steady", cpu=4))
    cluster.show(Changed(queue("a", "", flavors)), back)
    cluster.pass_time(600)
    assert [a.templates for a in cluster.log if isinstance(a, ResumeJob)][1:] == [(IN_STEADY,)]
    assert [kind for kind, _ in writes(cluster.log)] == ["ResumeJob"] * 2


def two_pools() -> list[Built]:
    """A node of each flavor, full; ``old`` and ``old2`` on the first may be evicted for what is in the queue."""
    first, second = ResourceFlavor("first", {"pool": "first"}), ResourceFlavor("second", {"pool": "second"})
    flavors = group(flavor("first", cpu=4), flavor("second", cpu=4))
    return [
        node("n-first").cpu(4).label(pool="first"),
        node("n-second").cpu(4).label(pool="second"),
        Changed(PriorityClass("high", 10)),
        *objects(queue("a", "", flavors, within="LowerPriority"), first, second),
        *(queued(name, "a", 2, priority=0).on("n-first") for name in ("old", "old2")),
        queued("busy", "a", 4, priority=100).on("n-second"),
    ]


def moves(newcomer: Built) -> Cluster:
    """Victims leave the first flavor for the newcomer; then their node is taken, and room turns up in the second."""
    cluster = Cluster(*two_pools(), newcomer)
    cluster.run()
    cluster.delete("busy")
    cluster.show(pod("thief").scheduler("other").cpu(4).priority(100).on("n-first"))
    cluster.run()
    cluster.leave()
    cluster.run()
    return cluster


@pytest.fixture
def train() -> Job:
    """A Job of one pod that takes a whole node."""
    return job(template("train").cpu(4).field(priority_class="high"), parallelism=1, completions=1)


def usage(cluster: Cluster) -> dict[str, Any]:
    """What each workload of namespace d holds, by name."""
    managed = cluster.core.world.managed
    managed.update_holdings()
    return {key.partition("#")[0]: admitted.usage for key, admitted in managed.quota.admissions.items()}


def test_a_pod_that_finds_its_room_in_another_flavor_holds_quota_there() -> None:
    """Its plan was made for the first one."""
    cluster = moves(queued("new", "a", 4, priority=10))
    assert nodes_of(cluster.log) == {"new": "n-second"}
    assert usage(cluster) == {"d/new": ((("second", "cpu"), 4000),)}


def test_quota_that_is_promised_moves_to_another_flavor_with_the_room(train: Job) -> None:
    """It is charged there before any pod is: the first flavor is free for others at once."""
    cluster = Cluster(*two_pools(), train)
    cluster.run()
    assert usage(cluster)["d/train"] == ((("first", "cpu"), 4000),)
    cluster.slow = lambda write: isinstance(write, ResumeJob)
    cluster.delete("busy")
    cluster.show(pod("thief").scheduler("other").cpu(4).priority(100).on("n-first"))
    cluster.run()
    (room,) = kept(cluster).values()
    assert {place.node for place in room} == {"n-second"}
    assert usage(cluster)["d/train"] == ((("second", "cpu"), 4000),)


def test_a_job_that_finds_its_room_in_another_flavor_goes_on_there(train: Job) -> None:
    """Its pods are to go where its room is kept."""
    cluster = moves(train)
    (resume,) = [a for a in cluster.log if isinstance(a, ResumeJob)]
    assert resume.templates == (Directives((("pool", "second"),)),)
    assert usage(cluster) == {"d/train": ((("second", "cpu"), 4000),)}


def test_after_a_restart_a_job_goes_on_in_the_flavor_that_its_victims_leave(train: Job) -> None:
    """The new process finds the victims and has made no decision of its own."""
    cluster = Cluster(*two_pools())
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Remove) and write.pod.name == "old2"
    cluster.show(train)
    cluster.run()
    cluster.slow = lambda _: False
    cluster.restart()
    cluster.run()
    cluster.leave()
    cluster.run()
    assert [a.templates for a in cluster.log if isinstance(a, ResumeJob)] == [(Directives((("pool", "first"),)),)]
