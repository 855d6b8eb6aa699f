"""Whose room the judge wants to be kept from whom, and which gangs it takes to be bound in part."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gangsched.core.actions import Bind, Nominate, WithdrawNomination
from gangsched.core.actuation.records import Intent, written
from gangsched.core.events import Changed, Gone, Outcome, WriteDone
from gangsched.model.queues import QUEUE_LABEL, STOP_HOLD, STOP_NONE, ClusterQueue, LocalQueue
from gangsched.model.records import Condition
from tests.builders import PodBuilder, gang, node, pod
from tests.chaos.made_up import about, played, told
from tests.chaos.play import Played
from tests.chaos.rooms import Room, Whole
from tests.chaos.told import Life, judged
from tests.core.harness import Built

NODE = node("n1").cpu(4)
RIVAL = pod("r").priority(5).cpu(4)


def member() -> PodBuilder:
    """The one of gang g that waits for the room."""
    return pod("m1").gang("g").priority(5).cpu(4)


def wrong(run: Played, kind: type[Life] = Room) -> list[str]:
    """What is wrong with a run, without the time."""
    return [text.partition(": ")[2] for text in judged(run.batches, kind, run.processes)]


def binds(run: Played, name: str = "r", to: str = "n1", process: int = 1) -> list[str]:
    """What is wrong when this pod is bound a second later."""
    run.world.clock.advance_to(run.world.clock.now + 1.0)
    told(run, asks=[Bind(9, about(run, name), to)], process=process)
    return wrong(run)


def nominated(rival: Built = RIVAL, *others: Built, there: Built = NODE) -> Played:
    """Gang g, of priority 5, has nominated a member to the only node, which its victim has left."""
    objects: list[Built] = [there, gang("g").min(1), member(), rival, *others]
    run = played(*objects)
    told(run, *objects)
    told(run, asks=[Nominate(1, about(run, "m1"), "n1", "p", "plan p: ...")])
    told(run, WriteDone(1, Outcome.OK))
    return run


@pytest.mark.parametrize(
    ("beside", "found"),
    [
        (pod("x").cpu(1).on("n1"), "d/r of d/r is bound to n1, which has cpu 5000 of 4000 asked for"),
        (pod("x").cpu(1).on("n1").terminating(), "d/r of d/r is bound to n1, which has cpu 5000 of 4000 asked for"),
        (pod("x").cpu(1).on("n1").phase("Succeeded"), ""),
    ],
)
def test_a_node_that_is_given_out_twice_is_found(beside: Built, found: str) -> None:
    """A pod has its room until it is gone or has ended; so has one that is about to be bound."""
    run = played(NODE, RIVAL, beside)
    told(run, NODE, RIVAL, beside)
    assert binds(run) == [found] * bool(found)
    run = played(NODE, RIVAL, pod("x").cpu(1))
    told(run, NODE, RIVAL, pod("x").cpu(1), asks=[Bind(1, about(run, "x"), "n1")])
    assert len(binds(run)) == 1


@pytest.mark.parametrize(("priority", "found"), [(4, 1), (5, 1), (6, 0)])
def test_room_of_a_nominated_member_that_its_equal_gets_is_found(priority: int, found: int) -> None:
    """More important work may take it."""
    assert len(binds(nominated(pod("r").priority(priority).cpu(4)))) == found


def test_who_fits_beside_a_nominated_member_takes_nothing_from_it() -> None:
    """There is room for both, or it is bound elsewhere, or it is a member itself."""
    assert binds(nominated(pod("r").priority(5), there=node("n1").cpu(5))) == []
    assert binds(nominated(RIVAL, node("n2").cpu(4)), to="n2") == []
    assert binds(nominated(pod("r").gang("g").priority(5).cpu(4))) == []


def test_room_of_a_nomination_that_is_over_is_anybodys() -> None:
    """It is withdrawn, its member is gone, or its plan has just had the last of its answers."""
    run = nominated()
    told(run, asks=[WithdrawNomination(3, about(run, "m1"), "Withdrawn", "...")])
    assert binds(run) == []
    run = nominated()
    told(run, Gone("Pod", "d", "m1", about(run, "m1").uid))
    assert binds(run) == []
    run = nominated()
    told(run, asks=[Bind(9, about(run, "r"), "n1")])
    assert wrong(run) == []


@pytest.mark.parametrize(("priority", "later", "found"), [(5, True, 0), (5, False, 1), (6, True, 1)])
def test_a_plan_that_was_made_later_takes_nothing_from_an_equal_one(priority: int, later: bool, found: int) -> None:
    """It was made with that room taken, so it needs more victims; a stronger one was not."""
    there: list[Built] = [NODE, RIVAL, pod("m1").priority(priority).cpu(4)]
    run = played(*there)
    told(run, *there)
    for name in ("r", "m1") if later else ("m1", "r"):
        told(run, asks=[Nominate(1, about(run, name), "n1", f"plan of {name}", "...")])
        told(run, WriteDone(1, Outcome.OK))
    assert len(binds(run)) == found


@pytest.mark.parametrize(
    ("plan", "own", "found"), [("1a-1", "", 1), ("1a-1", "2b-2", 1), ("2b-2", "1a-1", 0), ("", "", 0)]
)
def test_nominations_hold_room_after_a_restart(plan: str, own: str, found: int) -> None:
    """Those with a record of ours; others are a preference. Of two plans on record the older one was made first."""

    def on_record(pod: PodBuilder, plan: str) -> PodBuilder:
        intent = Condition("True", "Nominated", written(Intent(plan, 0))) if plan else None
        return pod.field(intent=intent).nominated("n1", intent=False)

    rival = pod("r").priority(5).cpu(4)
    objects: list[Built] = [NODE, gang("g").min(1), on_record(member(), plan), on_record(rival, own) if own else rival]
    run = played(*objects)
    told(run, *objects, process=2)
    assert len(binds(run, process=2)) == found


def test_among_gangs_of_queues_other_things_than_priority_count() -> None:
    """Nothing is said where both name a queue."""
    labels = {QUEUE_LABEL: "team"}
    run = nominated(pod("r").priority(5).cpu(4).labels(labels))
    told(run, member().labels(labels))
    assert binds(run) == []


# -- whole gangs ---------------------------------------------------------------------------------------------------


def begins(*binds: str, minimum: int = 2, repeated: str = "") -> Played:
    """Of the three members of gang g these are bound at once; of ``repeated`` that had been asked for before."""
    members = [pod(f"m{i}").priority(5).gang("g") for i in (1, 2, 3)]
    run = played(node("n1"), gang("g").min(minimum), *members)
    before = [Bind(1, about(run, repeated), "n1")] if repeated else []
    told(run, node("n1"), gang("g").min(minimum), *members, asks=before)
    told(run, WriteDone(1, Outcome.TRANSIENT), asks=[Bind(2, about(run, name), "n1") for name in binds])
    return run


@pytest.mark.parametrize(
    ("binds", "minimum", "repeated", "found"),
    [
        (("m1",), 2, "", ["d/g lacks 1 more"]),
        (("m1", "m2"), 2, "", []),
        (("m1", "m2", "m3"), 2, "", []),
        (("m1",), 3, "", ["d/g lacks 2 more"]),
        (("m2",), 3, "m1", ["d/g lacks 2 more", "d/g lacks 2 more"]),
        (("m1",), 2, "m1", ["d/g lacks 1 more"]),
    ],
)
def test_a_gang_of_which_only_a_part_is_bound_is_found(
    binds: Sequence[str], minimum: int, repeated: str, found: list[str]
) -> None:
    """All members that it lacks are asked for together, or none; one that is asked for again begins nothing."""
    assert wrong(begins(*binds, minimum=minimum, repeated=repeated), Whole) == found


def test_who_dies_in_the_middle_has_bound_no_part() -> None:
    """What it has asked for was all that it lived to ask for."""
    run = begins("m1")
    run.processes = 2
    assert wrong(run, Whole) == []


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(("runs", "found"), [(False, ["d/g starts, though d/team is stopped"]), (True, [])])
def test_a_gang_that_starts_in_a_stopped_queue_is_found(local: bool, runs: bool, found: list[str]) -> None:
    """Whichever of the two queues is stopped; one that runs gets its lost members back."""
    team = {QUEUE_LABEL: "team"}
    other = pod("m2").gang("g").labels(team)
    there: list[Built] = [
        node("n1"),
        gang("g").min(1),
        pod("m1").gang("g").labels(team),
        other.on("n1") if runs else other,
        Changed(LocalQueue("d", "team", "all", stop=STOP_HOLD if local else STOP_NONE)),
        Changed(ClusterQueue("all", stop=STOP_NONE if local else STOP_HOLD)),
    ]
    run = played(*there)
    told(run, *run.world.store.listing())
    told(run, asks=[Bind(1, about(run, "m1"), "n1")])
    assert wrong(run, Whole) == found
