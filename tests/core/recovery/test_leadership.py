"""Lost and regained leadership, restarts, and objects that cannot be understood."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Bind, Mark, Remove, Write
from gangsched.core.events import LeadershipChanged, ObjectRefused, Synced
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from tests.builders import gang, node, pdb, pod
from tests.core.harness import Cluster, event, nodes_of, reports, texts, writes
from tests.core.stories import PHASES, assert_clean, go_on, names, stopped_in

# -- leadership and restart --------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [*PHASES, Bind])
def test_without_leadership_nothing_is_written(phase: type[Write]) -> None:
    """From the moment it is lost nothing is asked for, decided or due, whatever happens."""
    cluster = stopped_in(phase)
    assert cluster.handle(LeadershipChanged(False)) == []
    cluster.answer()
    cluster.show(node("n3"), pod("x"))
    assert cluster.run() == []
    assert not cluster.core.has_work(cluster.now)
    assert cluster.core.wake_at() is None
    assert cluster.core.states() == {}


@pytest.mark.parametrize("phase", [*PHASES, Bind])
def test_regained_leadership_goes_on_from_what_the_cluster_shows(phase: type[Write]) -> None:
    """What was under way is finished; nobody dies in addition; no room is held by a ghost."""
    cluster = stopped_in(phase)
    cluster.handle(LeadershipChanged(False))
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    cluster.show(LeadershipChanged(True))
    cluster.run()
    cluster.leave()
    cluster.run()
    assert {n for (_, n), p in cluster.pods.items() if p.node} == {"m1", "m2"}
    assert cluster.core.states() == {}
    assert not cluster.core.ledger.holders()


def test_nothing_is_done_before_the_first_leadership() -> None:
    """With leader election, a synced standby only listens."""
    core = Scheduler(Options(wait_for_leadership=True))
    assert core.handle([event(node("n1")), event(pod("p")), Synced()], 0.0) == []
    assert not core.has_work(0.0)
    core.handle([LeadershipChanged(True)], 1.0)
    assert core.has_work(1.0)


@pytest.mark.parametrize("phase", PHASES)
def test_a_restart_in_any_phase_finishes_with_the_same_victims(phase: type[Write]) -> None:
    """A new process, knowing only the cluster, binds the gang and evicts nobody else."""
    cluster = stopped_in(phase)
    cluster.show(pod("w1").cpu(1).priority(1).on("n1"))
    cluster.answer("v1", "m1")
    cluster.slow = lambda _: False
    cluster.restart()
    cluster.run()
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    assert names(cluster, Remove) <= {"v1", "v2"}
    assert cluster.core.states() == {}


def test_a_restart_during_removal_finishes_the_list_that_was_marked() -> None:
    """Another choice may look better by then; but those marked are the ones that go."""
    cluster = stopped_in(Remove)
    cluster.answer("v1")
    cluster.show(node("n3"), pod("cheap").cpu(3).priority(0).on("n3"))
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    cluster.leave()
    cluster.run()
    assert names(cluster, Remove) == {"v1", "v2"}
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


def test_a_restart_forgets_no_mark() -> None:
    """Marks of a process that died before removal are used or taken back, never left."""
    cluster = stopped_in(Remove)
    cluster.waiting.clear()
    cluster.show(node("n3"), node("n4"))
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    cluster.pass_time(130)
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    assert_clean(cluster)


def test_a_restart_completes_a_gang_from_its_bound_members() -> None:
    """For a gang that fits the bindings are the record: those that are missing are made."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(pod(f"m{i}").cpu(3).gang("g") for i in (1, 2)))
    cluster.slow = lambda write: isinstance(write, Bind) and write.pod.name == "m2"
    cluster.run()
    cluster.restart()
    cluster.slow = lambda _: False
    assert nodes_of(cluster.run()) == {"m2": "n2"}


def test_a_stale_nomination_of_an_earlier_process_is_withdrawn() -> None:
    """A gang that no longer fits does not keep the record of a plan that nobody follows."""
    cluster = Cluster(node("n1"), pod("a").cpu(4).priority(9).on("n1"), pod("p").cpu(2).nominated("n1"))
    assert ("WithdrawNomination", "p") in writes(cluster.run())
    assert_clean(cluster)


def test_a_nomination_of_somebody_else_is_left_alone() -> None:
    """Without our record a nomination is a preference that others have set."""
    cluster = Cluster(node("n1"), pod("a").cpu(4).priority(9).on("n1"), pod("p").cpu(2).nominated("n1", intent=False))
    assert writes(cluster.run()) == []


# -- objects that cannot be understood ---------------------------------------------------------------------


def test_a_refused_object_is_reported_once() -> None:
    """The owner is told what is wrong, once per text, also when it came before everything was known."""
    refused = ObjectRefused("PodGroup.scheduling.sigs.k8s.io", "d", "g", "u", "spec.minMember", "0 is not positive")
    core = Scheduler(Options())
    assert core.handle([refused, refused], 0.0) == []
    actions = core.handle([event(pod("m").gang("g")), Synced()], 0.0)
    (report,) = reports(actions, "InvalidObject")
    assert report.regarding == ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "d", "g", "u")
    assert report.note == "spec.minMember: 0 is not positive"
    assert texts(actions, "m") == [("InvalidObject", "PodGroup d/g was refused: spec.minMember: 0 is not positive")]
    assert reports(core.handle([refused], 1.0), "InvalidObject") == []


def test_a_budget_that_comes_in_the_middle_does_not_confuse() -> None:
    """Budgets change all the time; a plan under way goes on."""
    cluster = stopped_in(Mark)
    cluster.show(pdb("b"))
    go_on(cluster)
    assert names(cluster, Remove) == {"v1", "v2"}
