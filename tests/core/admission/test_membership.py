"""Which pods form a gang, which gangs a GangGroup, and whether everybody is there."""

from __future__ import annotations

import json
from collections.abc import Container

import pytest

from gangsched.core.state import incomplete
from gangsched.core.state.membership import Membership
from gangsched.model.dialects.koordinator import MIN
from gangsched.model.errors import Mistake
from gangsched.model.records import SINGLE, Gang, GangId
from tests.builders import OURS, SIGS, UPSTREAM, GangBuilder, PodBuilder, gang, pod


def members(*objects: PodBuilder | GangBuilder, assumed: Container[str] = ()) -> Membership:
    """Pods and groups."""
    out = Membership([OURS])
    out.assumed = assumed
    for builder in objects:
        made = builder.obj()
        if isinstance(made, Gang):
            out.set_object(made)
        else:
            out.set_pod(made)
    return out


def ident(name: str, namespace: str = "d", family: str = SIGS) -> GangId:
    """A gang of ours."""
    return GangId(family, namespace, name, OURS)


def listing(*keys: str) -> str:
    """A GangGroup as the annotation spells it."""
    return json.dumps(keys)


# -- who counts --------------------------------------------------------------------------------------------


def test_census() -> None:
    """Every member is in exactly one list, by name; failed ones and unbound ones that are being deleted are in none."""
    found = members(
        pod("b").gang("g"),
        pod("a").gang("g"),
        pod("gated").gang("g").gated(),
        pod("bound").gang("g").on("n1"),
        pod("assumed").gang("g"),
        pod("leaving").gang("g").on("n1").terminating(),
        pod("cancelled").gang("g").terminating(),
        pod("done").gang("g").on("n1").phase("Succeeded"),
        pod("failed").gang("g").on("n1").phase("Failed"),
        pod("stranger").gang("h"),
        pod("other").gang("g").scheduler("default-scheduler"),
        assumed={"uid-d-assumed"},
    )
    census = found.census(ident("g"))
    assert [p.name for p in census.pending] == ["a", "b"]
    assert [p.name for p in census.gated] == ["gated"]
    assert [p.name for p in census.bound] == ["assumed", "bound"]
    assert [p.name for p in census.terminating] == ["leaving"]
    assert census.succeeded == 1
    assert census.present == 5


@pytest.mark.parametrize(
    ("objects", "required", "missing"),
    [
        ((gang("g").min(2), pod("a").gang("g"), pod("b").gang("g")), 2, ""),
        ((gang("g").min(2), pod("a").gang("g")), 2, "1 of 2 members exist; 1 missing"),
        ((gang("g").min(3), pod("a").gang("g"), pod("b").gang("g").gated()), 3,
         "1 of 3 members may be scheduled; 1 held by scheduling gates (wait), 1 missing"),
        ((gang("g").min(2), pod("a").gang("g").on("n"), pod("b").gang("g")), 1, ""),
        ((gang("g").min(1), pod("a").gang("g").on("n"), pod("b").gang("g")), 0, ""),
        ((gang("g").min(2), pod("a").gang("g").on("n").phase("Succeeded"), pod("b").gang("g")), 1, ""),
        ((gang("g").min(2), pod("a").gang("g").on("n").terminating(), pod("b").gang("g")), 2,
         "1 of 2 members exist; 1 missing"),
        ((gang("g").min(2).field(match_policy="only-waiting"), pod("a").gang("g").on("n"),
          pod("b").gang("g"), pod("c").gang("g")), 2, ""),
        ((pod("a").gang("g"),), 0, "PodGroup d/g does not exist"),
        ((pod("a").light_gang("g", 2), pod("b").light_gang("g", 2)), 2, ""),
        ((pod("a").light_gang("g"), pod("b").light_gang("g")), 0,
         f"no member of gang d/g says how many members it needs (annotation {MIN})"),
    ],
    ids=["complete", "too-few", "gated", "one-bound", "at-minimum", "succeeded", "terminating", "only-waiting",
         "no-object", "annotations", "no-minimum"],
)  # fmt: skip
def test_required_and_missing(objects: tuple[PodBuilder | GangBuilder, ...], required: int, missing: str) -> None:
    """Required is the minimum less what is placed; what is missing is said in words."""
    found = members(*objects)
    census = found.census(ident("g"))
    assert found.required(ident("g"), census) == required
    assert incomplete.missing(found, ident("g"), census) == missing


def test_a_refused_object_is_named() -> None:
    """A group that exists but cannot be understood is not reported as missing."""
    found = members(pod("a").gang("g"))
    found.set_object(gang("g").field(mistake=Mistake("spec.minMember", "0 is not between 1 and 1000000")).obj())
    assert incomplete.missing(found, ident("g"), found.census(ident("g"))) == (
        "PodGroup d/g was refused: spec.minMember: 0 is not between 1 and 1000000"
    )
    found.set_object(gang("g").obj())
    assert incomplete.missing(found, ident("g"), found.census(ident("g"))) == ""


def test_the_oldest_valid_member_describes_an_annotated_gang() -> None:
    """Later members do not change what the first one said."""
    found = members(
        pod("c").light_gang("g").created(1),
        pod("b").light_gang("g", 3).created(2),
        pod("a").light_gang("g", 5).created(3),
    )
    spec = found.spec(ident("g"))
    assert spec is not None
    assert spec.min_member == 3


def test_the_object_wins_over_annotations() -> None:
    """Where a PodGroup exists the members' annotations do not count."""
    found = members(gang("g").min(2), pod("a").gang("g").hint("gang.scheduling.koordinator.sh/min-available", "9"))
    spec = found.spec(ident("g"))
    assert spec is not None
    assert spec.min_member == 2


def test_a_pod_without_a_group_is_a_gang_of_one() -> None:
    """One code path for gangs and single pods."""
    found = members(pod("a").created(7))
    single = ident("a", family=SINGLE)
    spec = found.spec(single)
    assert spec is not None
    assert (spec.min_member, spec.kind, found.created([single])) == (1, "Pod", 7)
    assert found.required(single, found.census(single)) == 1


def test_groups_of_different_apis_with_one_name_are_different_gangs() -> None:
    """The family is part of a gang's identity."""
    found = members(gang("g").min(1), gang("g").family(UPSTREAM).min(2), pod("a").gang("g"),
                    pod("b").gang("g", UPSTREAM))  # fmt: skip
    assert [p.name for p in found.pods(ident("g"))] == ["a"]
    assert [p.name for p in found.pods(ident("g", family=UPSTREAM))] == ["b"]


def test_a_recreated_pod_of_the_same_name_is_another_member() -> None:
    """Members are kept by UID: the old incarnation's end does not take the new one away."""
    found = members(pod("a").gang("g").uid("old"), pod("a").gang("g").uid("new"))
    found.drop_pod(pod("a").gang("g").uid("old").obj())
    assert [p.uid for p in found.pods(ident("g"))] == ["new"]


def test_nothing_is_kept_of_gangs_without_members() -> None:
    """Gangs that are over do not pile up."""
    found = members(pod("a").gang("g"))
    found.drop_pod(pod("a").gang("g").obj())
    found.drop_pod(pod("a").gang("g").obj())
    assert not found.members


# -- GangGroups --------------------------------------------------------------------------------------------

PAIR = ("d/a", "d/b")


@pytest.mark.parametrize(
    ("objects", "gangs", "problem"),
    [
        ((gang("a").group(*PAIR), gang("b").group(*PAIR)), ["d/a", "d/b"], ""),
        ((gang("a").group("d/a", "e/b"), gang("b", "e").group("d/a", "e/b")), ["d/a", "e/b"], ""),
        ((gang("a"),), ["d/a"], ""),
        ((gang("a").group(*PAIR),), ["d/a"], "gang d/b of the GangGroup does not exist yet"),
        ((gang("a").group(*PAIR), gang("b")), ["d/a"], "gang d/b does not list the same GangGroup"),
        ((gang("a").group(*PAIR), gang("b").group("d/a", "d/b", "d/c")), ["d/a"],
         "gang d/b does not list the same GangGroup"),
        ((gang("a").group("d/b", "d/c"), gang("b").group("d/b", "d/c"), gang("c").group("d/b", "d/c")), ["d/a"],
         "the GangGroup of d/a does not list d/a itself"),
        ((pod("x").light_gang("a", 1, listing(*PAIR)), pod("y").light_gang("b", 1, listing(*PAIR))),
         ["d/a", "d/b"], ""),
        ((pod("x").light_gang("a", 1, listing(*PAIR)), pod("y").light_gang("b", 1)), ["d/a"],
         "gang d/b does not list the same GangGroup"),
    ],
    ids=["same-lists", "across-namespaces", "alone", "missing", "one-sided", "unequal", "not-itself", "annotations",
         "annotations-one-sided"],
)  # fmt: skip
def test_gang_group(objects: tuple[GangBuilder, ...], gangs: list[str], problem: str) -> None:
    """A GangGroup exists only when every listed gang exists and lists the same set."""
    found = members(*objects)
    group, said = found.group(ident("a"))
    assert [g.key for g in group] == gangs
    assert said == problem


def test_a_one_sided_list_does_not_bother_the_other_gang() -> None:
    """Nobody can make another gang wait by listing it."""
    found = members(gang("a").group(*PAIR), gang("b"), pod("x").gang("a"), pod("y").gang("b"))
    assert incomplete.problem(found, [ident("b")]) == ""
    assert incomplete.problem(found, [ident("a")]) == "gang d/b does not list the same GangGroup"


def test_problems_of_a_group_name_the_gang() -> None:
    """With several gangs the text says which one is incomplete."""
    found = members(gang("a").group(*PAIR).min(2), gang("b").group(*PAIR), pod("x").gang("a"), pod("y").gang("b"))
    assert incomplete.problem(found, [ident("a"), ident("b")]) == "d/a: 1 of 2 members exist; 1 missing"


# -- priority and policy -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "priority"),
    [
        ((gang("a"), pod("x").gang("a").priority(5), pod("y").gang("a").priority(3)), 3),
        ((gang("a").priority(7), pod("x").gang("a").priority(5)), 5),
        ((gang("a").priority(3), pod("x").gang("a").priority(5)), 3),
        ((gang("a"), pod("x").gang("a").priority(5), pod("y").gang("a").priority(1).phase("Failed")), 5),
        ((gang("a"), pod("x").gang("a").priority(5), pod("y").gang("a").priority(1).on("n").terminating()), 5),
        ((gang("a"), pod("x").gang("a").priority(5), pod("y").gang("a").priority(4).on("n")), 4),
    ],
    ids=["lowest", "group-raises-nothing", "group-is-lower", "failed", "terminating", "bound"],
)
def test_priority_as_preemptor(objects: tuple[PodBuilder | GangBuilder, ...], priority: int) -> None:
    """The lowest of its live members', or that of its group if that is lower."""
    assert members(*objects).preemptor_priority([ident("a")]) == priority


def test_priority_of_a_group_is_its_lowest() -> None:
    """A GangGroup preempts with the priority of its weakest gang."""
    found = members(gang("a").priority(9), gang("b"), pod("x").gang("b").priority(4))
    assert found.preemptor_priority([ident("a"), ident("b")]) == 4


@pytest.mark.parametrize(
    ("objects", "policy"),
    [
        ((gang("a"), pod("x").gang("a"), pod("y").gang("a")), "PreemptLowerPriority"),
        ((gang("a"), pod("x").gang("a"), pod("y").gang("a").never()), "Never"),
        ((gang("a").field(preemption_policy="Never"), pod("x").gang("a")), "Never"),
        ((gang("a"), pod("x").gang("a"), pod("y").gang("a").never().phase("Failed")), "PreemptLowerPriority"),
    ],
    ids=["nobody", "a-member", "the-group", "a-failed-member"],
)
def test_never_of_any_member_counts(objects: tuple[PodBuilder | GangBuilder, ...], policy: str) -> None:
    """Never on any live member, or on the group, is Never."""
    assert members(*objects).policy([ident("a")]) == policy


def test_priority_and_policy_of_a_large_gang_follow_each_of_its_members() -> None:
    """What is kept of a gang with many members is forgotten when one of them changes, comes or goes."""
    many = [pod(f"x{n}").gang("a").priority(5) for n in range(40)]
    found = members(gang("a"), *many)
    seen = [(found.preemptor_priority([ident("a")]), found.policy([ident("a")]))]
    late = pod("late").gang("a").priority(2).never()
    for change in (
        lambda: found.set_pod(late.obj()),
        lambda: found.set_pod(late.on("n").terminating().obj()),
        lambda: found.drop_pod(late.obj()),
        lambda: found.set_pod(many[0].priority(4).obj()),
    ):
        change()
        seen.append((found.preemptor_priority([ident("a")]), found.policy([ident("a")])))
    lower, never = "PreemptLowerPriority", "Never"
    assert seen == [(5, lower), (2, never), (5, lower), (5, lower), (4, lower)]


def test_age_is_that_of_the_object_and_of_the_oldest_gang() -> None:
    """The queue orders gangs by the age of their group object, else of their oldest member."""
    found = members(
        gang("a").created(50),
        pod("x").gang("a").created(1),
        pod("y").light_gang("b", 1).created(30),
        pod("z").light_gang("b", 1).created(20),
    )
    assert found.created([ident("a")]) == 50
    assert found.created([ident("b")]) == 20
    assert found.created([ident("a"), ident("b")]) == 20
