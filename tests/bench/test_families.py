"""Clusters with a known optimum: the generators against the exact oracle, the judge against wrong plans, and plans."""

from xml.etree import ElementTree

import msgspec
import pytest

from gangsched.core.decision import PREEMPT, UNSCHEDULABLE, Gap, Placement, UnitRef, Verdict, Victim
from gangsched.model.records import Budget, Gang
from tests.bench.families import run
from tests.bench.families.__main__ import main
from tests.bench.families.catalogue import FAMILIES, cluster
from tests.bench.families.judge import Court, Finding, never_worse
from tests.bench.families.known import Cluster, Least, Option, cheapest, together
from tests.bench.families.others import RULES, fits
from tests.bench.families.report import GOALS, summary
from tests.bench.families.site import FULL, MIDDLE, TINY, selects
from tests.builders import decided
from tests.oracle import exact
from tests.oracle.case import Maker
from tests.oracle.generate import SIGS
from tests.oracle.problem import read

# -- the clusters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "quota"])
def test_the_known_optimum_is_that_of_the_exact_oracle(family):
    """On small clusters HiGHS finds the same least harm, and the product's placement finds room without its victims."""
    for seed, size in [*((seed, TINY) for seed in range(8)), *((seed, MIDDLE) for seed in range(8, 11))]:
        made = cluster(family, seed, size)
        found = [best for case in made.same if (best := exact.least_harm(read(case))) is not None]
        best = min(found, key=lambda b: b.harm[:-1])
        told = (family, seed, made.title)
        assert (best.harm.beyond_budget, best.harm.levels) == (made.least.beyond, made.least.levels), told
        if made.least.work is not None:
            assert best.harm.work == pytest.approx(made.least.work, rel=1e-5), told
        assert fits(Court(made).attempt(), best.taken), told


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_is_a_cluster(family):
    """Generated twice, a cluster is the same, and so is its optimum."""
    assert repr(cluster(family, 5, TINY)) == repr(cluster(family, 5, TINY))


def test_sharing_out_is_the_same_in_steps_and_in_full():
    """Where each further member on a node costs more, the cheapest steps are what trying all ways finds."""
    curves = [((1, 3, 7), 2), ((2, 4), 1), ((None,), 5), ((5,), 3)]
    options: list[Option] = [
        ({(x,): c for x, c in enumerate(curve, 1) if c is not None}, copies) for curve, copies in curves
    ]
    assert cheapest(curves, 8) == [together(options, (8,)).get((n,)) for n in range(9)]
    assert cheapest([((5, 6), 2)], 3) == [0, 5, 6, 11]


# -- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "goal"), [(f, g) for f, g in GOALS.items() if g.worst is None])
def test_where_some_plans_may_be_worse_a_quick_run_tells_it_of_enough_clusters(family, goal):
    """One unlucky cluster, or two, miss no goal that allows for some of a hundred."""
    findings = [run.one(task) for task in run.tasks([family], range(1), "small", [])] * goal.quick
    for n in (0, 1):
        answer = msgspec.structs.replace(findings[n].answer, at_optimum=False, gap_share=None)
        findings[n] = msgspec.structs.replace(findings[n], answer=answer)
    assert summary(family, findings).not_met() == []


@pytest.mark.parametrize("family", FAMILIES)
def test_plans_are_within_the_rules(family):
    """A plan is found, evicts nothing that it may not, places every member, and says nothing untrue of itself; no goal
    of the family is missed.
    """
    findings = [run.one(task) for task in run.tasks([family], range(2), "small", [1, 100])]
    for found in findings:
        for answer in (found.answer, *found.cut):
            assert (answer.outcome, answer.wrong, answer.lie) == (PREEMPT, "", ""), (family, found.seed, found.title)
    assert summary(family, findings).not_met() == []


@pytest.mark.parametrize("seed", [930045, 930096])
def test_budgets_in_tight_mixes_are_exceeded_by_no_more_than_they_have_to(seed):
    """Of 71 gangs and 54, with 1,800 fillings and more, the plan is proven, far within the steps of a search."""
    found = Court(cluster("tight", seed, FULL)).answer(4500)
    assert (found.at_optimum, found.optimal, found.wrong) == (True, True, "")


# -- the judge -------------------------------------------------------------------------------------------------------


def two_choices() -> Cluster:
    """A gang of one that fits where ``free`` runs, where ``guarded`` runs, and where two members of a gang do."""
    make = Maker()
    whole, half = make.shape({"cpu": 2000}), make.shape({"cpu": 1000})
    nodes = [make.node(name, {"cpu": 2000}) for name in ("n1", "n2", "n3", "n4")]
    pods = [
        make.pod("free", whole, node="n1", started=5.0),
        make.pod("guarded", whole, node="n2", labels={"guarded": "yes"}, started=5.0),
        make.pod("run-0", half, gang=(SIGS, "run"), node="n3", started=5.0),
        make.pod("run-1", half, gang=(SIGS, "run"), node="n3", started=5.0),
        make.pod("high", whole, node="n4", priority=1000, started=5.0),
        make.pod("want-0000", whole, gang=(SIGS, "want"), priority=100),
    ]
    gangs = [Gang(SIGS, "default", "run", min_member=2), Gang(SIGS, "default", "want", min_member=1)]
    budgets = [Budget("default", "pdb", selects(guarded="yes"), allowed=0)]
    return Cluster(nodes, pods, gangs, budgets, least=Least(0, ((0, 0, 1),)))


NODE_OF = {"free": "n1", "guarded": "n2", "run-0": "n3", "run-1": "n3", "high": "n4"}


class Judged:
    """A judge of plans for :func:`two_choices`."""

    def __init__(self) -> None:
        self.court = Court(two_choices())
        warm = self.court.warm
        self.verdict = warm.decide()

    def of(self, *names: str, to: str = "", over: tuple[str, ...] = (), **decision):
        """What is said of a plan with these victims, for a member on the node of the first."""
        victims = tuple(
            Victim("default", n, f"uid-default-{n}", NODE_OF[n], UnitRef("Pod", n), False, 0, n in over) for n in names
        )
        places = (Placement("default", "want-0000", "uid-default-want-0000", to or NODE_OF[names[0]]),)
        found = self.verdict.first
        made = decided(PREEMPT, found.gang, required=found.required, victims=victims, placements=places, **decision)
        return self.court.judged(Verdict((made,)))


@pytest.fixture(scope="module")
def judged():
    """The judge of two choices."""
    return Judged()


def test_the_optimum_is_good(judged):
    """With nothing but the pod that has to leave, nothing is wrong, whether the plan says that it is optimal or not."""
    for said in ({"optimal": True}, {"optimal": False, "gap": Gap("pods", 0, 0)}, {}):
        answer = judged.of("free", **said)
        assert (answer.at_optimum, answer.wrong, answer.needless, answer.lie) == (True, "", "", "")


def test_a_victim_too_many_is_found(judged):
    """One that could be put back is needless, and harm is above the optimum."""
    answer = judged.of("free", "guarded", over=("guarded",))
    assert "could be put back" in answer.needless
    assert (answer.at_optimum, answer.excess > 0) == (False, True)


def test_a_broken_budget_is_found(judged):
    """A pod that its budget does not let go is worse than one without a budget, and has to be marked."""
    answer = judged.of("guarded", over=("guarded",))
    assert (answer.broken, answer.at_optimum, answer.needless) == (True, False, "")
    assert "marked" in judged.of("guarded").wrong


def test_an_interrupted_gang_is_found(judged):
    """Two pods of a gang are worse than one without; and one of the two may not leave alone."""
    answer = judged.of("run-0", "run-1")
    assert (answer.broken, answer.wrong, answer.levels) == (True, "", ((0, 1, 2),))
    assert "1 of 2 members" in judged.of("run-0", to="n1").wrong


def test_what_may_not_be_evicted_is_found(judged):
    """A pod of higher priority is no victim."""
    assert "may not be evicted" in judged.of("high").wrong


def test_a_member_without_room_is_found(judged):
    """A member on a node that nothing has left does not fit there."""
    assert "has not that much cpu" in judged.of("free", to="n2").wrong


def test_a_lie_about_the_gap_is_found(judged):
    """A worse plan must not say that it is optimal, or nearer to it than it is, nor prove a part that is worse."""
    worse = {"over": ("guarded",)}
    assert judged.of("guarded", **worse, optimal=True).lie
    assert judged.of("guarded", **worse, optimal=False).lie
    assert judged.of("guarded", **worse, optimal=False, gap=Gap("pdb", 0, 0)).lie
    assert judged.of("guarded", **worse, optimal=False, gap=Gap("pods", 0, 9)).lie
    honest = judged.of("guarded", **worse, optimal=False, gap=Gap("pdb", 0, 1))
    assert (honest.lie, honest.gap, honest.gap_share) == ("", 1, 1.0)


def test_what_goes_wrong_misses_a_goal(judged):
    """Each kind of wrong plan is named among the goals that a family misses; a good one with a true gap is not."""

    def goals(answer, cut=()):
        found = Finding("mpi", 1, "", two_choices().least, 4, answer, list(cut))
        return " ".join(summary("mpi", [found]).not_met())

    good = judged.of("free", optimal=True)
    assert goals(good) == ""
    none = judged.court.judged(Verdict((decided(UNSCHEDULABLE, judged.verdict.first.gang),)))
    needless = judged.of("free", "guarded", over=("guarded",), optimal=False, gap=Gap("pdb", 0, 5))
    for answer, text in (
        (none, "not found"),
        (needless, "put back"),
        (judged.of("guarded", over=("guarded",), optimal=False, gap=Gap("pdb", 0, 1)), "break a budget"),
        (judged.of("high"), "against the rules"),
        (judged.of("guarded", over=("guarded",), optimal=True), "not so"),
        (judged.of("free", optimal=None, gap=None), "median gap not stated"),
    ):
        assert text in goals(answer), text
    assert "cut short" in goals(good, [needless])


def test_a_run_is_printed_written_and_drawn(tmp_path, capsys):
    """A run of one family: a table, findings with which another run is compared, and a picture with all plans."""
    json, svg = tmp_path / "found.json", tmp_path / "found.svg"
    some = ["--quick", "--only", "quota", "--count", "2", "--cut", "1", "--jobs", "1", "--json", str(json)]
    assert main([*some, "--plot", str(svg)]) == 0
    assert "quota" in capsys.readouterr().out
    ElementTree.fromstring(svg.read_text(encoding="utf-8"))
    assert svg.read_text(encoding="utf-8").count("<circle") == 4
    assert main([*some, "--against", str(json)]) == 0
    findings = msgspec.json.decode(json.read_bytes(), type=list[Finding])
    better = msgspec.structs.replace(findings[0].answer, levels=((-99, 0, 1),))
    findings[0] = msgspec.structs.replace(findings[0], answer=better)
    json.write_bytes(msgspec.json.encode(findings))
    capsys.readouterr()
    assert main([*some[:-2], "--against", str(json)]) == 1
    assert "before" in capsys.readouterr().out


def test_longer_searches_must_not_do_more_harm(judged):
    """Plans in the order of their budgets may only get better."""
    good, bad = judged.of("free"), judged.of("guarded", over=("guarded",))
    assert never_worse([bad, bad, good]) == ""
    assert "0:0g1p" in never_worse([good, bad])


@pytest.mark.parametrize("rule", RULES)
def test_other_schedulers_rules_make_room(rule):
    """By the rules of others one pod leaves here too, and is as good a choice."""
    court = Court(two_choices())
    found = RULES[rule](court.reading, court.attempt())
    assert found is not None
    assert (found.victims, found.broken, found.beyond, found.levels) == (1, 0, 0, ((0, 0, 1),))


def test_other_schedulers_leave_gangs_broken():
    """Where only gangs run, the rules that know single pods only leave some with a member too few."""
    broken = dict.fromkeys(RULES, 0)
    for seed in range(8):
        court = Court(cluster("whole-gangs", seed, TINY))
        for name, rule in RULES.items():
            found = rule(court.reading, court.attempt())
            assert found is not None, (name, seed)
            broken[name] += found.broken
    assert broken["kube-scheduler"] == 0
    assert broken["koordinator"] > 0
