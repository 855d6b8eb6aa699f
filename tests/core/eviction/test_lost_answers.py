"""Removals whose answer is lost: nobody knows whether their pods leave until they are seen to."""

from __future__ import annotations

from gangsched.core.actions import Remove
from gangsched.core.events import Outcome, WriteDone
from gangsched.model.records import Job
from tests.builders import gang, node, pdb, pod
from tests.core.eviction.recalls import two_gangs
from tests.core.harness import Cluster, nodes_of
from tests.core.stories import assert_clean, evicted, go_on


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
    go_on(cluster)
    cluster.change("v1", deleting_since=cluster.now + 30)
    cluster.pass_time(20)
    assert evicted(cluster) == {"v1"}
    cluster.leave("v1")
    cluster.run()
    assert nodes_of(cluster.log) == {"p": "n1"}
    assert_clean(cluster)


def in_doubt() -> Cluster:
    """Gang low leaves whole for gang g; the answer to the removal of w1 is lost, and g is gone before that of w2 is
    sent.
    """
    cluster = two_gangs()
    lost(cluster, "w1")
    cluster.delete("m1")
    cluster.run()
    go_on(cluster)
    return cluster


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
