"""The judge of lives judges what the pages promise, and finds a scheduler that breaks it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Cause
from gangsched.core.actions import Bind, Mark, Nominate, Remove, WithdrawNomination
from gangsched.core.actuation.records import EvictionOwner, Intent, Owners, written
from gangsched.core.devices import binding
from gangsched.core.events import Changed, Outcome
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle.claims import DeviceClaims
from gangsched.core.lifecycle.evicting import Evictions
from gangsched.core.lifecycle.report import mark_message
from gangsched.core.preemption.harm import Budgets
from gangsched.core.state.membership import Membership
from gangsched.messages import causes
from gangsched.model.times import render_time
from tests import generators
from tests.builders import OURS, gang, node, pod
from tests.chaos.__main__ import run as play_seed
from tests.chaos.checks import PROMISE, Sentence
from tests.chaos.counted import beyond
from tests.chaos.endings import asleep, left_held, repeated_at_once
from tests.chaos.made_up import about, does, played
from tests.chaos.play import Played

ROOT = Path(__file__).parents[2]
FOR_H = mark_message(OURS, "d/h", "d/h1")


@pytest.mark.parametrize("sentence", PROMISE, ids=lambda s: s.text)
def test_what_is_judged_stands_on_a_page(sentence: Sentence) -> None:
    """Word by word, whatever the lines."""
    assert sentence.text in re.sub(r"\s+", " ", (ROOT / sentence.page).read_text())


#: Lives in which plans that are made at almost the same time share a budget.
SHARED = (17300025, 17300099, 17300138, 17300171, 17300204, 17300245)


@pytest.mark.parametrize("seed", SHARED)
def test_nothing_is_taken_twice(seed: int) -> None:
    """Nor if budgets are shown again while those who leave are not counted yet."""
    assert play_seed(seed, ("bursts",)).problems == []


def _highest(self: Membership, gangs: Any) -> int:
    return max((pod.priority for gang in gangs for pod in self.pods(gang) if pod.live), default=0)


_required = Membership.required
#: What is broken in the scheduler; the sentence that it breaks; lives in which that shows.
BROKEN: dict[str, tuple[Any, str, Callable[..., Any], str, tuple[tuple[int, str], ...]]] = {
    "plans do not know of each other": (
        Condemned,
        "counts_on",
        lambda *_: False,
        "For later decisions they are gone",
        tuple((seed, "bursts") for seed in SHARED),
    ),
    "budgets are not charged": (
        Budgets,
        "count",
        lambda *_: None,
        "For later decisions they are gone",
        tuple((seed, "bursts") for seed in SHARED),
    ),
    "room is not held": (
        Ledger,
        "plans",
        lambda *_: [],
        "no node is given out twice",
        ((9700001, ""), (9700011, ""), (9700014, "")),
    ),
    "the highest priority of a gang counts": (
        Membership,
        "preemptor_priority",
        _highest,
        "of strictly lower priority than the gang",
        ((9800011, "priorities"), (9800044, "priorities")),
    ),
    "gangs need one member less": (
        Membership,
        "required",
        lambda self, *of: max(0, _required(self, *of) - 1),
        "no gang is bound in part because of a plan",
        tuple((seed, "") for seed in range(10)),
    ),
    "devices of pods that are gone are given at once": (
        binding,
        "waits_for",
        lambda *_: ("", False),
        "no device is given out twice",
        tuple((seed, "claims") for seed in (1003, 1034, 1061, 1063, 1067, 1068, 1079, 1088)),
    ),
    "claims stay reserved": (
        DeviceClaims,
        "_take_back",
        lambda self, key, _: self._world.snapshot.devices.forget(key),
        "a member that is not bound gives its devices back",
        tuple((seed, "claims") for seed in (1018, 1033, 1034, 1055, 1063, 1067, 1077, 1125)),
    ),
    "marks stay": (
        Evictions,
        "withdraw",
        lambda *_: [],
        "A pod that is neither needed nor removed loses its mark.",
        ((6, ""), (17300011, "bursts"), (17300015, "bursts"), (30027, "marks")),
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_scheduler_that_breaks_the_promise_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge says which sentence of the page is broken."""
    kind, name, instead, sentence, lives = BROKEN[what]
    monkeypatch.setattr(kind, name, instead)
    found = (text for seed, part in lives for text in play_seed(seed, [part] if part else None).problems)
    assert any(text.startswith(f"{sentence}: at ") for text in found)


# -- what is left at the end ---------------------------------------------------------------------------------------


def test_nobody_is_asleep_over_what_has_only_just_happened() -> None:
    """The cluster lives on for a little after the scheduler has stopped; what it has known for long is no excuse."""
    for seconds, found in ((0.1, []), (60.0, ["d/p could bind"])):
        run = played(pod("p").scheduler(generators.SCHEDULER).cpu(1))
        run.world.clock.advance_to(100.0)
        run.world.apply(Changed(node("n1").obj()), Cause(log.USER, log.CREATE))
        run.world.clock.advance_to(100.0 + seconds)
        assert [text.partition(": ")[2] for text in asleep(run)] == found


@pytest.mark.parametrize(("until", "found"), [(300.0, []), (200.0, []), (199.0, ["d/p could preempt"])])
def test_a_gang_that_pauses_is_not_asleep(until: float, found: list[str]) -> None:
    """Evictions have not led to its binding: it evicts no pod before the time that it has named, in whole seconds."""
    ours = [each.scheduler(generators.SCHEDULER).cpu(1) for each in (pod("v").on("n1"), pod("p").priority(5))]
    run = played(node("n1").cpu(1), *ours)
    said = {"message": causes.not_yet(why="it pauses", time=render_time(until))}
    run.world.history.add(Cause(log.SCHEDULER, log.CONDITION, said), "Pod", "d/p", uid=about(run, "p").uid)
    run.world.clock.advance_to(200.0)
    assert [text.partition(": ")[2] for text in asleep(run)] == found


@pytest.mark.parametrize(("withdrawn", "seconds", "found"), [(False, 200.0, 1), (False, 60.0, 0), (True, 200.0, 0)])
def test_nominations_that_outlive_every_plan_are_found(withdrawn: bool, seconds: float, found: int) -> None:
    """Each plan ends with its time."""
    run = played(node("n1"), pod("p").scheduler(generators.SCHEDULER))
    does(run, Nominate(1, about(run, "p"), "n1", "p", written(Intent("p", 0))))
    if withdrawn:
        does(run, WithdrawNomination(2, about(run, "p"), "Withdrawn", "it is over"))
    run.world.clock.advance_to(seconds)
    assert len(left_held(run)) == found


def evicts(run: Played, plan: str, member: str, victim: str) -> None:
    """By this plan gang h nominates a member, and marks and removes a victim."""
    owners = written(Owners.of([EvictionOwner(plan, "preemption", OURS, "d/h")]))
    does(
        run,
        Nominate(1, about(run, member), "n1", plan, written(Intent(plan, 1))),
        Mark(2, about(run, victim), FOR_H, owners=owners),
        Remove(3, about(run, victim), mark=FOR_H),
    )


@pytest.mark.parametrize(("seconds", "bound", "found"), [(5.0, False, 1), (40.0, False, 0), (5.0, True, 0)])
def test_a_gang_that_evicts_again_without_a_pause_is_found(seconds: float, bound: bool, found: int) -> None:
    """A plan for which others left has not led to a binding; or it has."""
    members = [pod(name).gang("h").priority(5) for name in ("h1", "h2")]
    run = played(node("n1"), gang("h").min(1), *members, *(pod(v).on("n1") for v in ("v1", "v2")))
    evicts(run, "p", "h1", "v1")
    if bound:
        does(run, Bind(4, about(run, "h1"), "n1"))
    run.world.clock.advance_to(seconds)
    evicts(run, "q", "h2", "v2")
    assert len(repeated_at_once(run)) == found


def test_what_the_page_leaves_open_is_counted() -> None:
    """It is no error: a member of a gang in part on which nothing is said, and a pod that a kubelet has turned away."""
    run = played(node("n1").cpu(1), gang("g").min(2), pod("m1").gang("g"), pod("m2").gang("g"))
    does(run, Bind(1, about(run, "m1"), "n1"))
    run.world.history.add(Cause(log.KUBELET, log.REJECT, {"reason": "OutOfcpu"}), "Pod", "d/x", outcome=Outcome.OK)
    counted = beyond(run)
    assert counted["members without a word, of gangs bound in part at the end"] == 1
    assert counted["turned away by kubelets"] == 1
