"""Removals whose answer is lost: nobody knows whether their pods leave until they are seen to."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.actions import Remove, Unmark
from gangsched.core.actuation.records import owners_of
from gangsched.core.events import Outcome, WriteDone
from gangsched.model.records import Job
from tests.builders import gang, node, pdb, pod
from tests.core.eviction.recalls import recalled, two_gangs
from tests.core.harness import Cluster, nodes_of
from tests.core.stories import assert_clean, evicted, go_on, names


def lost(cluster: Cluster, name: str, outcome: Outcome = Outcome.TRANSIENT) -> None:
    """The removal of this pod, which waits, is answered so; what it has done, if anything, is not seen yet."""
    write = next(w for w in cluster.waiting if w.pod.name == name)
    cluster.waiting.remove(write)
    cluster.run()
    cluster.show(WriteDone(write.id, outcome))
    cluster.run()


def given_up(first: Outcome = Outcome.TRANSIENT) -> Cluster:
    """Pod p takes the room of v1 rather than that of v2, the answer to its removal is lost (or is ``first``), and
    before it is repeated the budget of v1 is tightened.
    """
    cluster = Cluster(
        *(node(f"n{i}") for i in (1, 2)),
        pod("v1").cpu(3).priority(1).label(app="v").on("n1"),
        pod("v2").cpu(3).priority(2).on("n2"),
        pod("p").cpu(3).priority(5),
        pdb("b").selects(app="v").allows(1),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    lost(cluster, "v1", first)
    cluster.show(pdb("b").selects(app="v").allows(0))
    cluster.run()
    return cluster


def test_a_round_that_has_evicted_is_paid_for_although_its_answer_was_lost() -> None:
    """The plan is given up before v1 is seen to leave; p waits for v1 then, and takes no second victim."""
    cluster = given_up()
    assert recalled(cluster) == {"v1"}
    go_on(cluster)
    cluster.change("v1", deleting_since=cluster.now + 30)
    cluster.pass_time(20)
    assert evicted(cluster) == {"v1"}
    cluster.leave("v1")
    cluster.run()
    assert nodes_of(cluster.log) == {"p": "n1"}
    assert_clean(cluster)


def test_a_round_of_which_nobody_knows_whether_it_has_evicted_is_paid_for() -> None:
    """The removal of v1 had no effect: v2 leaves instead, when the pause is over, and not before."""
    cluster = given_up()
    go_on(cluster)
    cluster.pass_time(29)
    assert evicted(cluster) == set()
    cluster.pass_time(2)
    assert evicted(cluster) == {"v2"}


def test_a_round_that_has_certainly_evicted_nobody_costs_no_pause() -> None:
    """The removal was not sent in the first place: v2 leaves at once."""
    cluster = given_up(Outcome.OUTDATED)
    go_on(cluster)
    assert evicted(cluster) == {"v2"}


def in_doubt() -> Cluster:
    """Gang low leaves whole for gang g; the answer to the removal of w1 is lost, and g is gone before that of w2 is
    sent.
    """
    cluster = two_gangs()
    lost(cluster, "w1")
    cluster.delete("m1")
    cluster.run()
    assert recalled(cluster) == {"w2"}
    go_on(cluster)
    return cluster


def test_a_gang_of_which_a_pod_leaves_after_all_leaves_whole() -> None:
    """Its other pod is of no use alone, though nobody needs its room any more."""
    cluster = in_doubt()
    cluster.pass_time(5)
    assert evicted(cluster) == set()
    cluster.change("w1", deleting_since=cluster.now + 30)
    cluster.run()
    assert evicted(cluster) == {"w1", "w2"}


def test_a_gang_of_which_no_pod_is_seen_to_leave_stays() -> None:
    """The removal had no effect: after half a minute the gang bears no mark any more."""
    cluster = in_doubt()
    cluster.pass_time(31)
    assert evicted(cluster) == set()
    assert_clean(cluster)


def test_a_pod_of_which_nobody_knows_whether_it_leaves_has_no_notice() -> None:
    """Another gang takes it too, and is gone: it stays marked all the while, and no time stands on it that was never
    announced.
    """
    cluster = in_doubt()
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.show(gang("h").min(2), *(pod(name).cpu(3).priority(6).gang("h") for name in ("h1", "h2")))
    cluster.run()
    both = [o for name in ("w1", "w2") for o in owners_of(cluster.pod(name))]
    cluster.delete("h1")
    cluster.run()
    one = [o for name in ("w1", "w2") for o in owners_of(cluster.pod(name))]
    assert (len(both), len(one)) == (4, 2)
    assert {o.not_before for o in both + one} == {""}
    assert all(cluster.pod(name).disruption_target for name in ("w1", "w2"))


#: It survives the loss of two pods.
JOB = Job("d", "j", "uid-Job-j", parallelism=2, completions=2, backoff_limit=2, version="1")


def of_a_job() -> Cluster:
    """Gang g takes the room of both pods of the Job, whose removals wait."""
    cluster = Cluster(
        *(node(f"n{i}") for i in (1, 2)),
        JOB,
        gang("g").min(2).timeout(60),
        *(pod(f"v{i}").cpu(3).priority(1).owner("Job", "j").on(f"n{i}") for i in (1, 2)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    return cluster


def test_a_job_may_have_counted_a_pod_whose_removal_has_no_answer() -> None:
    """Its status shows both victims before the second is seen to leave: neither is let off because of the count."""
    cluster = of_a_job()
    cluster.answer("v1")
    cluster.show(msgspec.structs.replace(JOB, failed=2, version="2"))
    lost(cluster, "v2")
    assert names(cluster, Unmark) == set()
    cluster.change("v2", deleting_since=cluster.now)
    go_on(cluster)
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


def test_what_a_job_has_not_counted_is_not_taken_for_counted() -> None:
    """The removals may have had no effect: the Job survives less by now, and would fail by what it has not lost."""
    cluster = of_a_job()
    lost(cluster, "v1")
    cluster.show(msgspec.structs.replace(JOB, backoff_limit=1, version="2"))
    lost(cluster, "v2")
    go_on(cluster)
    assert names(cluster, Unmark) == {"v1", "v2"}


@pytest.mark.parametrize(("outcome", "leaves"), [(Outcome.TRANSIENT, "v3"), (Outcome.OUTDATED, "v2")])
@pytest.mark.parametrize("seconds", [0, 31])
def test_who_may_have_left_for_a_plan_that_is_over_is_charged_to_its_budget(
    outcome: Outcome, leaves: str, seconds: float
) -> None:
    """For half a minute, or until its status is computed anew: the budget allows one of v1 and v2."""
    cluster = Cluster(
        *(node(f"n{i}") for i in (1, 2, 3)),
        *(pod(f"v{i}").cpu(3).priority(1).label(app="v").on(f"n{i}") for i in (1, 2)),
        pod("v3").cpu(3).priority(2).on("n3"),
        pod("p").cpu(3).priority(5),
        pdb("b").selects(app="v").allows(1),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    lost(cluster, "v1", outcome)
    cluster.delete("p")
    go_on(cluster)
    assert evicted(cluster) == set()
    cluster.pass_time(seconds)
    cluster.show(node("n1").cordoned(), pod("q").cpu(3).priority(5))
    cluster.run()
    assert evicted(cluster) == {"v2" if seconds else leaves}
