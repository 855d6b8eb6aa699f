"""What the judge wants of a victim in the moment in which its removal is asked for, and what it only counts."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Mark, Nominate, Remove, Unmark
from gangsched.core.actuation.records import Intent, written
from gangsched.core.events import Gone
from gangsched.core.lifecycle.report import mark_message
from gangsched.core.state.membership import Membership
from gangsched.messages.notes import rolling_back
from gangsched.model.queues import QUEUE_LABEL
from gangsched.model.records import PREEMPT_NEVER, GangId
from tests.builders import OURS, SIGS, gang, node, pod
from tests.chaos.made_up import about, does, played, told
from tests.chaos.play import Played, play
from tests.chaos.removals import forbidden, let_off, outdated
from tests.chaos.scenario import scenario
from tests.core.harness import Built

BACK = rolling_back(scheduler=OURS, gang="d/g", trigger="d/m1")
FOR_G = mark_message(OURS, "d/g", "d/m1")
MEMBER = pod("m1").gang("g").priority(5).cpu(4)
VICTIM = pod("v").priority(3).cpu(4).on("n1")
THERE: list[Built] = [node("n1").cpu(8), gang("g").min(1), MEMBER, VICTIM]


def marked(*others: Built) -> Played:
    """Gang g has nominated its member and marked the victim."""
    run = played(*THERE, *others)
    told(run, *THERE, *others)
    mark = Mark(2, about(run, "v"), FOR_G)
    told(run, asks=[Nominate(1, about(run, "m1"), "n1", "p", written(Intent("p", 1))), mark])
    does(run, mark)
    return run


def removes(run: Played, name: str = "v") -> list[str]:
    """What is wrong when the victim is removed now."""
    removal = Remove(3, about(run, name), mark=FOR_G)
    told(run, asks=[removal])
    does(run, removal)
    return [text.split(": ", 2)[2] for text in forbidden(run)]


WRONG: dict[str, tuple[Built, str]] = {
    "ended": (pod("v").priority(3).cpu(4).on("n1").phase("Succeeded"), "it was known to have ended"),
    "joined by a weaker one": (pod("m2").gang("g").priority(3), "its priority 3 is not below 3"),
    "joined by one that may not": (pod("m2").gang("g").priority(9).never(), "that gang does not preempt"),
    "of less priority": (gang("g").min(1).priority(2), "its priority 3 is not below 2"),
    "not to preempt": (gang("g").min(1).field(preemption_policy=PREEMPT_NEVER), "that gang does not preempt"),
    "whole": (pod("m2").gang("g").priority(5).on("n2"), "that gang lacks nobody"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_removal_that_what_is_known_forbids_is_found(case: str) -> None:
    """The victim or the gang is not what it was when the plan was made, and the process has been told."""
    change, text = WRONG[case]
    run = marked()
    told(run, change)
    assert removes(run) == [text]


@pytest.mark.parametrize("case", WRONG)
def test_a_removal_that_waits_meanwhile_is_counted(case: str) -> None:
    """It was right when it was asked for, and is not when it is sent: that is no error."""
    run = marked()
    removal = Remove(3, about(run, "v"), mark=FOR_G)
    told(run, asks=[removal])
    run.world.clock.advance_to(1.0)
    told(run, WRONG[case][0])
    assert outdated(run) == 0
    run.world.clock.advance_to(2.0)
    does(run, removal)
    assert forbidden(run) == []
    assert outdated(run) == 1


@pytest.mark.parametrize(("ended", "found"), [(True, ["it was known to have ended"]), (False, [])])
def test_a_pod_that_had_ended_is_not_rolled_back(ended: bool, found: list[str]) -> None:
    """Nobody's priority counts in a rollback, and a pod that has ended cannot be evicted."""
    there: list[Built] = [node("n1").cpu(4), gang("g").min(2), MEMBER, pod("m2").gang("g").priority(5).on("n1")]
    run = played(*there)
    told(run, *there)
    mark, removal = Mark(1, about(run, "m2"), BACK), Remove(2, about(run, "m2"), mark=BACK)
    does(run, mark)
    told(run, *([pod("m2").gang("g").priority(5).on("n1").phase("Succeeded")] if ended else []), asks=[removal])
    does(run, removal)
    assert [text.split(": ", 2)[2] for text in forbidden(run)] == found


def test_a_removal_for_a_gang_that_is_gone_is_found() -> None:
    """Without its group nobody knows how many it needs; without its members nobody needs anything."""
    for gone, text in (
        ([Gone("PodGroup", "d", "g", group=SIGS)], "that gang lacks nobody"),
        ([Gone("Pod", "d", "m1", "uid-d-m1")], "nobody is left of that gang"),
    ):
        run = marked()
        told(run, *gone)
        assert removes(run) == [text]


def test_between_workloads_of_queues_it_is_not_priority_that_decides() -> None:
    """Both name a queue; one that does is not enough."""
    in_queue = pod("v").priority(9).cpu(4).on("n1").labels({QUEUE_LABEL: "team"})
    for also, found in (([], 1), ([pod("m1").gang("g").priority(5).cpu(4).labels({QUEUE_LABEL: "team"})], 0)):
        run = marked()
        told(run, in_queue, *also)
        assert len(removes(run)) == found


@pytest.mark.parametrize("begun", [True, False])
def test_victims_that_are_let_off_after_the_first_removal_are_counted(begun: bool) -> None:
    """Before it the list may change; who leaves by itself is not let off."""
    run = marked(pod("w").priority(3).cpu(2).on("n1"), pod("x").priority(3).cpu(2).on("n1"))
    nominated = Nominate(1, about(run, "m1"), "n1", "p", written(Intent("p", 3)))
    marks = [Mark(n, about(run, name), FOR_G) for n, name in ((5, "v"), (6, "w"), (7, "x"))]
    does(run, nominated, *marks)
    if begun:
        assert removes(run) == []
    does(run, Unmark(8, about(run, "w"), "", ""))
    assert let_off(run) == begun


def test_a_scheduler_that_goes_by_the_highest_priority_of_a_gang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang whose members differ preempts as the least of them."""

    def highest(self: Membership, gangs: tuple[GangId, ...]) -> int:
        return max((pod.priority for gang in gangs for pod in self.pods(gang) if pod.live), default=0)

    monkeypatch.setattr(Membership, "preemptor_priority", highest)
    found = [text for seed in (9800011, 9800044) for text in forbidden(play(scenario(seed, parts=("priorities",))))]
    assert any("is not below" in text for text in found)
