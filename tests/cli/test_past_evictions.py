"""``gangsched explain`` for the owner of victims: when they were evicted, for which gang, and what protects them."""

from __future__ import annotations

import pytest

from gangsched.cli.decisions import State
from gangsched.cli.explanation import Explanation
from gangsched.cli.past_evictions import Holds, Past, last_of, of_gone, with_past
from gangsched.cli.without_pods import of_others
from gangsched.cluster.kube.history import Line
from gangsched.core.events import Changed
from gangsched.core.options import Options
from gangsched.messages import notes
from gangsched.model.times import parse_time, render_time
from tests.builders import pod

NOW = parse_time("2026-01-01T08:00:00Z", "now")
HELD = Holds(("gpu-0", "gpu-9"), 120.0)


def line(seconds_ago: float, *pods: str, gang: str = "ml/hi", kind: str = "Pod") -> Line:
    """Pods of namespace web that were evicted so long ago, each from a node of its own."""
    where = {"node": "gpu-0", "reason": "LowerPriority", "why": "its room is needed", "trigger": "hi-0"}
    note = notes.preempted_by(preemptor=gang, priority=1000, **where)
    objects = [("web", name, f"gpu-{n}") for n, name in enumerate(pods)]
    return Line(render_time(NOW - seconds_ago), "Preempted", kind, note, objects)


def suspended(seconds_ago: float) -> Line:
    """A Job that was suspended."""
    note = notes.job_suspended(preemptor="ml/hi", priority=7, trigger="Pod hi-0", plan="1")
    return Line(render_time(NOW - seconds_ago), "JobSuspended", "Job", note, [("web", "tune", "")])


@pytest.mark.parametrize(
    ("kind", "name", "pods"),
    [
        ("Deployment", "web", ["web/web-a", "web/web-b"]),
        ("Pod", "web-a", ["web/web-a"]),
        ("", "web-b", ["web/web-b"]),
        ("Pod", "web", []),
        ("Job", "tune", ["web/tune"]),
        ("Deployment", "other", []),
    ],
)
def test_whose_evictions_these_are(kind: str, name: str, pods: list[str]) -> None:
    """An object by its name, an owner with its pods; all that left for one gang within a minute."""
    lines = [line(9000, "web-old", gang="ml/before"), suspended(300), line(80, "web-a"), line(75, "web-b")]
    found = last_of(lines, "web", kind, name, NOW)
    assert (list(found.pods) if found is not None else []) == pods


def test_old_evictions_are_no_answer() -> None:
    """After a day something else explains how an object stands."""
    assert last_of([line(25 * 3600, "web-a")], "web", "Deployment", "web", NOW) is None


def past() -> Past:
    """The eviction of two pods a minute ago."""
    found = last_of([line(60, "web-a", "web-b")], "web", "Deployment", "web", NOW)
    assert found is not None
    return found


MADE_ROOM = "2 pods made room for gang ml/hi at 07:59:00Z; gpu-0 is held for ml/hi until it runs or gives up"
AT_MOST = ", for 2m at most (preemption.maxWait)"


def test_pods_of_another_scheduler_that_were_evicted_here() -> None:
    """That they were evicted is the answer, and not that they could be a gang."""
    found = Explanation("web/web", "not ours", "2 pods are for default-scheduler", ())
    told = with_past(found, past(), HELD, NOW)
    assert (told.word, told.sentence) == ("evicted", MADE_ROOM + AT_MOST)
    assert "a priority of 1000 or more, a PodDisruptionBudget" in told.sections[0].lines[0]


def test_a_gang_that_waits_since_it_was_evicted() -> None:
    """The decision about it stays the answer; the eviction is told before all else."""
    found = Explanation("web/web", "unschedulable", "0 of 2 members fit", ())
    told = with_past(found, past(), Holds((), 120.0), NOW)
    assert (told.word, told.sections[0].label) == ("unschedulable", "evicted")
    assert told.sections[0].lines[0] == "2 pods made room for gang ml/hi at 07:59:00Z"


def test_a_pod_that_is_gone() -> None:
    """The record alone answers."""
    assert of_gone(past(), "web/web-a  Pod", HELD, NOW).sentence == MADE_ROOM + AT_MOST


@pytest.mark.parametrize(("owner", "init"), [("ReplicaSet", False), ("DaemonSet", False), ("Job", True), ("", True)])
def test_init_is_advised_where_it_works(owner: str, init: bool) -> None:
    """It refuses what is replaced one by one."""
    waits = pod("p").scheduler("default-scheduler")
    made = (waits.owner(owner, "o") if owner else waits).obj()
    answer = of_others(State([Changed(made)], Options(), 0.0), [made])
    assert answer is not None
    assert ("gangsched init makes a gang" in answer[3]) == init
    assert ("gangsched init refuses" in answer[3]) == (not init)
