"""Gangs of which some pods have left for another gang, and of which the API does not let the others go."""

from __future__ import annotations

from typing import Any

from gangsched.core.actions import Remove, Report
from gangsched.core.events import Outcome, WriteDone
from tests.builders import gang, node, pod
from tests.core.eviction.recalls import two_gangs, whole_gang
from tests.core.harness import Built, Cluster, reports
from tests.core.stories import member


def refused(cluster: Cluster, *names: str, outcome: Outcome = Outcome.BLOCKED) -> list[Report]:
    """The removals of these pods are refused; the Events about gangs that are broken for that."""
    for write in [each for each in cluster.waiting if each.pod.name in names]:
        cluster.waiting.remove(write)
        text = "" if outcome is Outcome.CONFLICT else f"budget {write.pod.name[0]} does not allow it"
        cluster._events.append(WriteDone(write.id, outcome, text))
    cluster.run()
    return reports(cluster.log, "GangBroken")


def held_back(*objects: Built, **options: Any) -> Cluster:
    """Gang g needs two nodes; the removals of those who run there wait."""
    cluster = Cluster(gang("g").min(2).timeout(60), *(member(n) for n in (1, 2)), *objects, **options)
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    return cluster


def test_a_gang_is_told_that_it_is_left_in_part() -> None:
    """In strict mode a budget keeps its second pod; whose gang has taken the first stands in its own Event."""
    [said] = refused(whole_gang(strict_budgets=True), "w2")
    assert (said.kind, said.regarding[1], said.regarding[3]) == ("Warning", "PodGroup", "low")
    assert said.note == (
        "Left in part: others of it, or of its GangGroup, have left for gang d/g (plan 0-1), and these stay:"
        " d/w2 (blocked: budget w does not allow it)"
    )


def test_it_is_told_though_the_preemptor_is_gone() -> None:
    """What was begun goes on without it, until it is refused."""
    cluster = whole_gang()
    for name in ("m1", "m2"):
        cluster.delete(name)
    cluster.sent = True
    cluster.run()
    [said] = refused(cluster, "w2", outcome=Outcome.REFUSED)
    assert said.note.endswith(
        "have left for gang d/g (plan 0-1), and these stay: d/w2 (refused: budget w does not allow it)"
    )


def test_without_an_object_the_first_that_stays_is_told() -> None:
    """The gang is known by the labels of its pods."""
    pods = [pod(f"w{n}").cpu(3).priority(1).light_gang("low", 3).on(f"n{n}") for n in (1, 2, 3)]
    cluster = held_back(*(node(f"n{n}") for n in (1, 2, 3)), *pods)
    cluster.answer("w1")
    cluster.run()
    [said] = refused(cluster, "w2", "w3")
    assert said.regarding[:4] == ("v1", "Pod", "d", "w2")


def test_each_gang_of_a_group_that_stays_is_told() -> None:
    """None is of use without the others."""
    keys = ("d/a", "d/b")
    gangs = [gang(name).group(*keys).min(1) for name in ("a", "b")]
    members = [pod(f"{name}{n}").cpu(3).priority(1).gang(name).on(f"n{n}") for n, name in ((1, "a"), (2, "b"))]
    cluster = held_back(node("n1"), node("n2"), *gangs, *members)
    cluster.answer("a1")
    cluster.run()
    assert [said.regarding[3] for said in refused(cluster, "b2")] == ["b"]


def test_a_gang_of_which_no_pod_has_left_is_not_told() -> None:
    """Both removals are refused: it is whole."""
    assert refused(two_gangs(strict_budgets=True), "w1", "w2") == []


def test_a_gang_that_is_still_at_its_minimum_is_not_told() -> None:
    """Only a member to spare has left, of a gang that leaves as a whole."""
    low = gang("low").min(1).priority(1).mode("PodGroup")
    pods = [pod(f"w{n}").cpu(3).priority(1).gang("low").on(f"n{n}") for n in (1, 2)]
    cluster = held_back(node("n1"), node("n2"), low, *pods)
    cluster.answer("w1")
    cluster.run()
    assert refused(cluster, "w2") == []


def test_each_gang_is_told_its_own_reason() -> None:
    """Two gangs leave for one plan; each is kept by a budget of its own, or by others who take its mark back."""
    lows = [gang(name).min(2).priority(1).mode("PodGroup") for name in ("a", "b")]
    pods = [pod(f"{k}{n}").cpu(3).priority(1).gang(k).on(f"n{n + 2 * (k == 'b')}") for k in "ab" for n in (1, 2)]
    cluster = Cluster(gang("g").min(4).timeout(600), *(member(n) for n in (1, 2, 3, 4)), *lows, *pods)
    cluster.show(*(node(f"n{n}") for n in (1, 2, 3, 4)))
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.answer("a1", "b1")
    cluster.run()
    said = {each.regarding[3]: each.note for each in refused(cluster, "a2", "b2")}
    assert {name: note.rpartition(" (")[2] for name, note in said.items()} == {
        name: f"blocked: budget {name} does not allow it)" for name in ("a", "b")
    }


def test_a_mark_that_is_taken_back_again_and_again_is_a_reason() -> None:
    """No outcome of a write is named."""
    cluster = whole_gang()
    said: list[Report] = []
    while not said and cluster.waiting:
        said = refused(cluster, "w2", outcome=Outcome.CONFLICT)
    assert said[0].note.endswith("these stay: d/w2 (its mark was taken back by another client)")
