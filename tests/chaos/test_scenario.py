"""What a seed is made of: parts that change nothing of each other, refusals that last, crashes that come in turn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim.store import describe
from gangsched.core.actions import Action, Bind, Mark, PodRef, SelectNode
from tests.chaos.play import Mortal, next_crashes
from tests.chaos.refusals import Rule
from tests.chaos.scenario import PARTS, scenario
from tests.chaos.trouble import Crash


def test_a_refused_pair_stays_refused() -> None:
    """While the rule stands: about a third of the pairs, always the same; and nothing that it is not about."""
    rule = Rule("seed", (Bind,), 0.3)
    pairs = [Bind(i, PodRef("d", f"p{i}", f"uid-{i}"), f"n{j}") for i in range(20) for j in range(10)]
    first = [rule.refuses(pair) for pair in pairs]
    assert 30 < sum(first) < 90
    assert [rule.refuses(pair) for pair in pairs] == first
    assert not any(rule.refuses(Mark(i, PodRef("d", f"p{i}", f"uid-{i}"), "text")) for i in range(20))


def test_volumes_are_refused_by_their_claim_and_members_wherever_they_go() -> None:
    """A rule about members is the same on every node; one about volumes does not depend on who asks."""
    member = Rule("seed", (Bind,), 0.5, anywhere=True)
    pods = [PodRef("d", f"p{i}", f"uid-{i}") for i in range(20)]
    seen = [{member.refuses(Bind(1, each, f"n{j}")) for j in range(5)} for each in pods]
    assert sorted({len(s) for s in seen}) == [1]
    assert {True} in seen
    assert {False} in seen
    storage = Rule("seed", (SelectNode,), 0.5)
    assert len({storage.refuses(SelectNode(1, each, "c", "uid-c", "n1")) for each in pods}) == 1


@pytest.mark.parametrize("name", PARTS)
def test_a_part_changes_nothing_of_the_others(name: str) -> None:
    """What a seed was without it, it is with it: the same objects in the same places, crashes and other troubles."""
    for seed in range(20):
        made = scenario(seed, parts=(name,))
        plain = scenario(
            seed, parts=(), troubles=name != "takeovers", refusing=name != "takeovers"
        )  # nobody interferes
        assert made.crashes[len(made.crashes) - len(plain.crashes) :] == plain.crashes
        assert {(t.at_seconds, t.name) for t in plain.troubles} <= {(t.at_seconds, t.name) for t in made.troubles}
        assert {describe(e) for e in plain.events} <= {describe(e) for e in made.events}


class Writes(SimCluster):
    """A connection that only counts what it is told to do."""

    def __init__(self) -> None:
        super().__init__(World([]))
        self.asked: list[Action] = []

    def submit(self, actions: Sequence[Action]) -> None:
        """Nothing is done."""
        self.asked += actions


def test_a_process_dies_of_whichever_crash_comes_first_and_the_others_wait_for_the_next() -> None:
    """One that waits for marks does not keep those back that count everything."""
    marks, early, late = Crash(2, False, 0.0, (Mark,)), Crash(4, False, 0.0), Crash(9, False, 0.0)
    assert next_crashes([marks, early, late]) == [marks, early]
    assert next_crashes([early, late]) == [early]
    binding: Action = Bind(1, PodRef("d", "p", "uid-p"), "n1")
    mark: Action = Mark(2, PodRef("d", "v", "uid-v"), "text")
    lives: list[tuple[list[Action], Crash | None, int]] = [
        ([binding] * 6, early, 4),
        ([binding, mark, mark, binding], marks, 3),
        ([binding, mark, binding], None, 3),
    ]
    for actions, died_of, started in lives:
        cluster = Writes()
        mortal = Mortal(cluster, [marks, early])
        mortal.submit(actions[:1])
        mortal.submit(actions[1:])
        mortal.submit(actions if died_of is not None else [])
        assert (mortal.died_of, len(cluster.asked)) == (died_of, started)
        assert mortal.stopped == (died_of is not None)
