"""Quota from the first label to the last release: promises, waiting, waking, restarts."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.events import Changed, Event, Gone
from gangsched.core.quota.gang_workloads import Managed
from gangsched.model.queues import QUEUE_LABEL, LocalQueue
from gangsched.model.records import QUEUED_JOB, Job, Owner, QueueLabels
from tests.builders import pod
from tests.core.harness import Built, Cluster, nodes_of, texts, writes
from tests.core.queues import big, objects, queued
from tests.core.quota.world import own, queue

#: Queue a owns 4 cores and asks them back; b owns none and borrows.
LENT = objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=0))


def test_reclaiming_from_start_to_end():
    """The borrower is marked and removed, the owner starts when it is gone, and the borrower's successor waits."""
    cluster = Cluster(big(), *LENT, queued("old", "b", 3))
    assert nodes_of(cluster.run()) == {"old": "n1"}
    cluster.show(queued("new", "a", 4))
    assert writes(cluster.run()) == [("Nominate", "new"), ("Mark", "old"), ("Remove", "old")]
    cluster.show(queued("old-2", "b", 3))
    assert nodes_of(cluster.run()) == {}
    cluster.leave()
    assert nodes_of(cluster.run()) == {"new": "n1"}
    assert "insufficient unused quota for cpu in flavor default, 3 more needed" in texts(cluster.log, "old-2")[-1][1]
    cluster.change("new", phase="Succeeded")
    cluster.pass_time(30)
    assert cluster.pod("old-2").node == "n1"


def test_promised_quota_is_not_given_away():
    """While victims terminate their quota is the preemptor's: somebody else who would fit gets none of it."""
    cluster = Cluster(big(), *LENT, queued("old", "b", 3))
    cluster.run()
    cluster.show(queued("new", "a", 4))
    cluster.run()
    cluster.show(queued("thief", "b", 1, priority=9), queued("other", "a", 1, priority=9))
    cluster.leave()
    assert nodes_of(cluster.run()) == {"new": "n1"}


def test_a_finished_workload_wakes_its_cohort():
    """Who waits for quota is decided again when somebody in the same tree of cohorts has finished."""
    cluster = Cluster(big(), *LENT, queued("old", "a", 4))
    cluster.run()
    cluster.show(queued("next", "b", 3))
    assert nodes_of(cluster.run()) == {}
    cluster.pass_time(60)
    cluster.change("old", phase="Succeeded")
    assert nodes_of(cluster.run()) == {"next": "n1"}


def test_a_promise_that_comes_to_nothing_wakes_those_who_wait():
    """A queue loses its quota while a gang waits for its victim: what that was promised goes to whoever waits."""
    low = pod("low").cpu(8).priority(-1).on("n1")
    cluster = Cluster(big(cpu=8), *objects(queue("a", "co", cpu=4), queue("b", "co", cpu=0)), low)
    cluster.run()
    cluster.show(queued("new", "a", 4), queued("other", "b", 4))
    assert writes(cluster.run()) == [("Nominate", "new"), ("Mark", "low"), ("Remove", "low")]
    rules = queue("a", "co", cpu=own(0, borrowing=0)), queue("b", "co", cpu=4)
    cluster.show(*map(Changed, rules))
    assert nodes_of(cluster.run()) == {}
    cluster.pass_time(60)
    cluster.leave()
    assert nodes_of(cluster.run()) == {"other": "n1"}


def test_more_quota_wakes_and_so_does_a_new_queue():
    """A ClusterQueue that grows, or a LocalQueue that appears, helps whoever waits for it."""
    cluster = Cluster(big(), *objects(queue("a", cpu=1)), queued("x", "a", 2), pod("y").labels({QUEUE_LABEL: "late"}))
    assert nodes_of(cluster.run()) == {}
    cluster.pass_time(60)
    cluster.show(Changed(queue("a", cpu=2)))
    assert nodes_of(cluster.run()) == {"x": "n1"}
    cluster.show(Changed(LocalQueue("d", "late", "a")))
    assert nodes_of(cluster.run()) == {"y": "n1"}


def test_without_its_last_queue_nobody_waits_for_quota():
    """When the last ClusterQueue goes, labels mean nothing any more."""
    cluster = Cluster(big(), *objects(queue("a", cpu=1)), queued("x", "a", 2))
    assert nodes_of(cluster.run()) == {}
    cluster.pass_time(60)
    cluster.show(Gone("ClusterQueue", "", "a"))
    assert nodes_of(cluster.run()) == {"x": "n1"}


def test_quota_switched_off():
    """With the option off, queues and labels mean nothing."""
    cluster = Cluster(big(), *objects(queue("a", cpu=1)), queued("x", "a", 2), quota=False)
    assert nodes_of(cluster.run()) == {"x": "n1"}


def test_a_head_that_leaves_lets_the_next_pass():
    """Under StrictFIFO the next in line is woken when the head that does not fit is deleted."""
    records = objects(queue("a", cpu=4, strategy="StrictFIFO"))
    cluster = Cluster(big(), *records, queued("head", "a", 5).created(1), queued("next", "a", 1).created(2))
    assert nodes_of(cluster.run()) == {}
    cluster.pass_time(60)
    cluster.delete("head")
    assert nodes_of(cluster.run()) == {"next": "n1"}


def test_a_restart_finishes_what_quota_has_begun():
    """A victim of higher priority that was marked for quota's sake is removed by the next process too."""
    cluster = Cluster(big(cpu=6), *LENT, queued("old", "b", 3, priority=50))
    cluster.run()
    cluster.slow = lambda write: type(write).__name__ == "Remove"
    cluster.show(queued("new", "a", 4))
    cluster.run()
    cluster.slow = lambda _: False
    cluster.restart()
    assert writes(cluster.run()) == [("Remove", "old")]
    cluster.leave()
    assert nodes_of(cluster.run()) == {"new": "n1"}


def test_pods_of_a_job_with_a_queue_start_together():
    """The pods of a Job whose label names a queue are one workload, whichever comes first, the Job or its pods."""
    job = Job("d", "j", "uid-Job-j", parallelism=3, completions=3, queue=QueueLabels("q-a", ""))
    members = [pod(f"j-{i}").cpu(2).owner("Job", "j") for i in range(3)]
    orders: list[list[Built]] = [[job, *members], [*members, job]]
    for things in orders:
        cluster = Cluster(big(), *objects(queue("a", cpu=5)), *things)
        assert nodes_of(cluster.run()) == {}
        assert {g.family for g in cluster.core.world.membership.members} == {QUEUED_JOB}
        cluster.show(Changed(queue("a", cpu=6)))
        cluster.pass_time(10)
        assert len(nodes_of(cluster.log)) == 3


def test_equal_pods_of_different_queues_are_judged_apart():
    """That one queue is full says nothing about a pod like it in another."""
    records = objects(queue("a", cpu=1), queue("b", cpu=2))
    cluster = Cluster(big(), *records, *(queued(f"{q}-{i}", q, 1) for q in "ab" for i in range(2)))
    assert set(nodes_of(cluster.run())) == {"a-0", "b-0", "b-1"}


def test_the_status_of_a_queue_is_no_news():
    """A ClusterQueue that is shown again as it was wakes nobody."""
    full = queue("a", cpu=1)
    cluster = Cluster(big(), *objects(full), queued("x", "a", 2))
    cluster.run()
    cluster.pass_time(60)
    before = len(cluster.decisions)
    cluster.show(Changed(full))
    cluster.run()
    assert len(cluster.decisions) == before
    cluster.show(Changed(queue("a", cpu=2)))
    assert nodes_of(cluster.run()) == {"x": "n1"}


def test_a_queue_that_begins_to_borrow_wakes_its_reclaimers():
    """No node has room for the owner, and nobody may leave for it until their queue borrows: then it is decided again,
    although nothing has been given back and everybody else has the higher priority.
    """
    rules = objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=4))
    cluster = Cluster(big(cpu=6), *rules, queued("old", "b", 4, priority=10))
    cluster.run()
    cluster.show(queued("owner", "a", 4))
    assert nodes_of(cluster.run()) == {}
    cluster.pass_time(60)
    cluster.show(queued("borrower", "b", 1, priority=20))
    assert writes(cluster.run())[-1] == ("Remove", "old")
    cluster.leave()
    assert nodes_of(cluster.run()) == {"owner": "n1"}


@pytest.mark.parametrize(
    "change",
    [Changed(LocalQueue("d", "q-a", "a", stop="Hold")), Gone("LocalQueue", "d", "q-a")],
    ids=["stopped", "gone"],
)
def test_what_runs_keeps_its_quota_without_its_local_queue(change: Event):
    """Nobody enters by a LocalQueue that is stopped or gone; what it has let in holds its quota until it ends."""
    cluster = Cluster(big(), *objects(queue("a", cpu=4)), Changed(LocalQueue("d", "q-b", "a")))
    cluster.show(queued("old", "a", 4))
    assert nodes_of(cluster.run()) == {"old": "n1"}
    cluster.show(change, queued("same", "a", 1), queued("other", "b", 4))
    assert nodes_of(cluster.run()) == {}
    cluster.change("old", phase="Succeeded")
    cluster.pass_time(30)
    assert nodes_of(cluster.log) == {"old": "n1", "other": "n1"}


def test_pods_wait_for_their_job():
    """Pods that are seen before their Job are of its gang and its queue all the same; who has none waits no longer than
    that takes, and who is of no Job not at all.
    """
    job = Job("d", "j", "uid-Job-j", parallelism=3, completions=3, queue=QueueLabels("q-a", ""))
    members = [pod(f"j-{i}").cpu(2).owner("Job", "j") for i in range(3)]
    orphan = pod("orphan").owner("Job", "nobody")
    cluster = Cluster(big(), *objects(queue("a", cpu=5)), orphan, owner_wait_seconds=5.0)
    assert nodes_of(cluster.run()) == {}
    cluster.show(pod("free"), *members)
    assert nodes_of(cluster.run()) == {"free": "n1"}
    cluster.now += 1
    cluster.show(job)
    assert nodes_of(cluster.run()) == {}
    assert cluster.core.queue_counts()["unschedulable"] == 1
    assert nodes_of(cluster.pass_time(4)) == {"orphan": "n1"}
    cluster.show(Changed(queue("a", cpu=6)))
    assert len(nodes_of(cluster.pass_time(10))) == 3


def test_pods_wait_for_the_jobset_of_their_job():
    """A Job without a queue may have that of its JobSet; a pod that goes while it waits is forgotten."""
    above = Owner("JobSet", "s", "uid-JobSet-s")
    job = Job("d", "s-w-0", "uid-Job-s-w-0", parallelism=1, completions=1, owner=above)
    late = pod("s-w-0-0").owner("Job", "s-w-0")
    cluster = Cluster(big(), *objects(queue("a", cpu=5)), job, owner_wait_seconds=5.0)
    cluster.run()
    cluster.show(late, pod("brief").owner("Job", "s-w-0"))
    assert nodes_of(cluster.run()) == {}
    cluster.delete("brief")
    assert nodes_of(cluster.pass_time(5)) == {"s-w-0-0": "n1"}


def remembered(managed: Managed) -> dict[str, int]:
    """How much is known of workloads, by attribute; not what there is once for each queue or shape."""
    known = vars(managed) | vars(managed._flavors)
    found = {name: each for name, each in known.items() if name not in ("_pending", "_existing", "shapes")}
    return {name: len(each) for name, each in found.items() if isinstance(each, dict | set)}


def test_nothing_is_remembered_of_what_is_gone():
    """A Job that was let go on by stand-ins, and whose pods go before it does, leaves no trace."""
    made = pod("j").cpu(1).uid("").obj()
    job = Job("d", "j", "uid-Job-j", parallelism=2, completions=2, queue=QueueLabels("q-a", ""), template=made)
    cluster = Cluster(big(), *objects(queue("a", cpu=5)))
    cluster.run()
    managed = cluster.core.world.managed
    before = remembered(managed)
    cluster.show(msgspec.structs.replace(job, suspended=True))
    assert writes(cluster.run()) == [("ResumeJob", "j")]
    cluster.show(*(pod(f"j-{i}").cpu(1).owner("Job", "j") for i in range(2)))
    assert len(nodes_of(cluster.run())) == 2
    for name in ("j-0", "j-1"):
        cluster.delete(name)
    cluster.run()
    cluster.show(msgspec.structs.replace(job, finished=True))
    cluster.run()
    cluster.show(Gone("Job", "d", "j"))
    cluster.run()
    assert remembered(managed) == before
