"""What the status of queue objects says: who waits, who has quota, who runs, and what they use."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.actions import QueueStatus
from gangsched.core.events import Changed, Gone
from gangsched.core.quota.status import Tally
from gangsched.core.quota.workloads import Admission, Workload
from gangsched.model.queues import LocalQueue
from tests.core.harness import Cluster
from tests.core.queues import big, job, objects, owned, queued
from tests.core.quota.world import cohort, queue

#: Queue a owns 4 cores and asks them back; b owns none and borrows.
LENT = objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=0))


def told(cluster: Cluster, again: bool = False) -> dict[tuple[str, str], QueueStatus]:
    """The statuses that have changed, by kind and name."""
    found = cluster.core.world.managed.statuses(again)
    return {(s.plural, s.name): s for s in found}


def counts(status: QueueStatus) -> tuple[int, int, int]:
    """Pending, reserving, admitted."""
    return tuple(status.status[f"{name}Workloads"] for name in ("pending", "reserving", "admitted"))


def flavors(field: str, status: QueueStatus) -> list[Any]:
    """The totals (and what is borrowed) of the only flavor."""
    [flavor] = status.status[field]
    return [(r["name"], r["total"], r.get("borrowed")) for r in flavor["resources"]]


def test_a_workload_waits_reserves_and_runs():
    """While its victims leave a workload holds quota and is not admitted yet; each queue is told once per change."""
    cluster = Cluster(big(), *LENT)
    cluster.run()
    assert {kind for kind, _ in told(cluster)} == {"clusterqueues", "localqueues"}
    cluster.show(queued("old", "b", 3))
    cluster.run()
    running = told(cluster)
    assert counts(running["clusterqueues", "b"]) == counts(running["localqueues", "q-b"]) == (0, 1, 1)
    assert flavors("flavorsUsage", running["clusterqueues", "b"]) == [("cpu", "3", "3")]
    assert flavors("flavorsUsage", running["localqueues", "q-b"]) == [("cpu", "3", None)]
    assert ("clusterqueues", "a") not in running
    cluster.show(queued("new", "a", 4))
    cluster.run()
    cluster.show(queued("more", "b", 1))
    cluster.run()
    waiting = told(cluster)
    assert counts(waiting["clusterqueues", "a"]) == (0, 1, 0)
    assert flavors("flavorsReservation", waiting["clusterqueues", "a"]) == [("cpu", "4", "0")]
    assert flavors("flavorsUsage", waiting["clusterqueues", "a"]) == [("cpu", "0", "0")]
    assert counts(waiting["clusterqueues", "b"]) == (1, 1, 1)
    cluster.leave()
    cluster.run()
    after = told(cluster)
    assert counts(after["clusterqueues", "a"]) == (0, 1, 1)
    assert counts(after["clusterqueues", "b"]) == (1, 0, 0)
    assert told(cluster) == {}
    assert len(told(cluster, again=True)) == 4


def test_a_job_that_goes_on_is_one_workload():
    """A Job that was suspended waits, then has quota before its pods are there, and is never counted twice."""
    cluster = Cluster(big(), *LENT, job("old", "b", 3), owned("old", 3))
    cluster.run()
    cluster.show(job("new", "a", 4), owned("new", 4))
    cluster.run()
    cluster.leave()
    cluster.run()
    assert counts(told(cluster)["clusterqueues", "b"]) == (1, 0, 0)
    cluster.pass_time(60)
    cluster.change("new-0", phase="Succeeded")
    cluster.pass_time(20)  # within the time that its pods have to come
    assert counts(told(cluster)["clusterqueues", "b"]) == (0, 1, 0)
    cluster.slow = lambda _: True
    cluster.show(owned("old", 3, "old-again"))
    cluster.step()
    assert counts(told(cluster, again=True)["clusterqueues", "b"])[:2] == (0, 1)
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert counts(told(cluster, again=True)["clusterqueues", "b"]) == (0, 1, 1)


def test_active_says_why_not():
    """A queue whose flavor is missing is inactive, and so is every name for it; a name without a queue is, too."""
    cluster = Cluster(big(), *objects(queue("a", cpu=1)), Changed(LocalQueue("d", "lost", "nowhere")))
    cluster.show(Changed(LocalQueue("d", "held", "a", stop="Hold")))
    cluster.run()
    active = {key: s.status["active"][:2] for key, s in told(cluster).items()}
    assert active == {
        ("clusterqueues", "a"): ("True", "Ready"),
        ("localqueues", "q-a"): ("True", "Ready"),
        ("localqueues", "held"): ("False", "Stopped"),
        ("localqueues", "lost"): ("False", "ClusterQueueDoesNotExist"),
    }
    cluster.show(Gone("ResourceFlavor", "", "default"))
    cluster.run()
    changed = {key: s.status["active"] for key, s in told(cluster).items()}
    assert changed == {
        ("clusterqueues", "a"): ("False", "FlavorNotFound", "Can't admit new workloads: FlavorNotFound"),
        ("localqueues", "q-a"): (
            "False",
            "ClusterQueueIsInactive",
            "Can't submit new workloads to clusterQueue",
        ),
    }


def test_shares_are_told_with_fair_sharing():
    """Queues and Cohort objects have their share of what is lent, and hear of it when what is used below changes."""
    things = objects(queue("a", "co", cpu=0, weight=2.0), queue("b", "co", cpu=4))
    top = Changed(cohort("top", cpu=4))
    cluster = Cluster(big(), *things, top, Changed(cohort("co", "top")), fair_sharing=True)
    cluster.run()
    told(cluster)
    cluster.show(queued("w", "a", 6))
    cluster.run()
    found = {
        key: s.status["fairSharing"]["weightedShare"] for key, s in told(cluster).items() if key[0] != "localqueues"
    }
    assert found == {("clusterqueues", "a"): 375, ("cohorts", "co"): 250}


def test_no_shares_are_told_without_fair_sharing():
    """What a queue borrows is nobody's share unless queues are weighed by it."""
    cluster = Cluster(big(), *objects(queue("a", "co", cpu=0), queue("b", "co", cpu=4)), queued("w", "a", 2))
    cluster.show(Changed(cohort("co")))
    cluster.run()
    found = told(cluster)
    assert found
    assert not any("fairSharing" in status.status for status in found.values())


WORKLOADS = st.builds(
    lambda queue, local: Workload("d", "w", "", queue, (), local_queue=f"d/{local}"),
    st.sampled_from("ab"),
    st.sampled_from("xy"),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from("123"), st.none() | WORKLOADS, st.sampled_from(["waits", "holds", "runs"]), st.integers(0, 3)
    )
)


@given(STEPS)
def test_sums_are_those_of_a_fresh_count(steps):
    """However workloads come, change and go, the sums are those of who is there in the end."""
    tally, last = Tally(), Tally()
    waiting: dict[str, Workload] = {}
    holding: dict[str, tuple[Admission, bool]] = {}
    for uid, workload, what, units in steps:
        if what == "waits":
            tally.waits(uid, workload)
            waiting.pop(uid, None)
            if workload is not None:
                waiting[uid] = workload
        else:
            usage = ((("f", "cpu"), units),) if units else ()
            admission = Admission(workload, usage) if workload is not None else None
            tally.holds(uid, admission, what == "runs")
            holding.pop(uid, None)
            if admission is not None:
                holding[uid] = admission, what == "runs"
    for uid, workload in waiting.items():
        last.waits(uid, workload)
    for uid, (admission, runs) in holding.items():
        last.holds(uid, admission, runs)
    for name in "ab":
        assert as_tuple(tally.of_queue(name)) == as_tuple(last.of_queue(name))
    for name in "xy":
        assert as_tuple(tally.of_local_queue(f"d/{name}")) == as_tuple(last.of_local_queue(f"d/{name}"))


def as_tuple(sums: Any) -> tuple[Any, ...]:
    """Everything that sums say."""
    return sums.pending, sums.reserving, sums.admitted, sums.reserved, sums.used
