"""The plan as a table for people."""

from __future__ import annotations

import io
import re
from collections import Counter

import pytest
from rich.console import Console

from gangsched.cli import summing
from gangsched.cli.contracts import Planned
from gangsched.cli.render import make_console, render_plan
from gangsched.core.decision import Awaited, Gap, Placement, Reason, Spared, UnitRef, Unplaced, Victim
from gangsched.core.events import Changed
from gangsched.model.records import GangId
from tests import builders

GANG = GangId("scheduling.sigs.k8s.io", "ns", "train", "me")


def shown(*decisions, others=None, width=120, terminal=False, whole=False):
    """The text of these decisions, as in a file."""
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False, force_terminal=terminal)
    render_plan(Planned([(d, 1.0) for d in decisions], (), ("me",), others or {}), console, whole=whole)
    return file.getvalue()


def decided(outcome="bind", **fields):
    """A decision with these fields."""
    return builders.decided(outcome, **{"gang": GANG, "priority": 7, "required": 2, **fields})


def placed(*names):
    """Placements of these members on node n."""
    return tuple(Placement("ns", name, "u", "n") for name in names)


def victim(name, unit=None, **fields):
    """A victim on node n."""
    unit = unit or UnitRef("Pod", f"ns/{name}")
    return Victim("ns", name, "u", "n", unit, **{"partial": False, "priority": 1, "over_budget": False, **fields})


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"placements": placed("a", "b")}, "BIND  2 members can start now"),
        (
            {"placements": placed("a"), "unplaced": (Unplaced("ns/b", ()),)},
            "1 member can start now; 1 more member cannot",
        ),
        (
            {"outcome": "wait", "placements": placed("a"), "awaiting": (Awaited("ns/x", "n"),)},
            "WAIT  1 member can start when 1 terminating pod",
        ),
        (
            {"outcome": "preempt", "placements": placed("a"), "victims": (victim("v"),)},
            "PREEMPT  1 member can start after 1 pod is evicted",
        ),
        ({"outcome": "unschedulable"}, "UNSCHEDULABLE  does not fit: 2 pods that must start together"),
        ({"outcome": "unschedulable", "required": 0}, "the gang has its minimum"),
        ({"outcome": "gathering"}, "WAITS  the gang is not complete yet"),
    ],
)
def test_every_outcome_has_a_sentence(fields, sentence):
    """What happens, in words and numbers."""
    assert sentence in shown(decided(**fields))


def test_victims_are_grouped_by_unit():
    """A gang that goes is one line with its pods below; a single pod is one line."""
    unit = UnitRef("PodGroup", "ns/old")
    victims = (victim("x", unit), victim("s", why="it is in the way"), victim("y", unit, over_budget=True))
    lines = shown(decided(outcome="preempt", placements=placed("a"), victims=victims)).splitlines()
    at = next(i for i, line in enumerate(lines) if "victims" in line)
    assert "PodGroup ns/old  all of it, 2 pods, priority 1, lower priority" in lines[at]
    assert "ns/x" in lines[at + 1]
    assert "ns/y" in lines[at + 2]
    assert "beyond its PodDisruptionBudget" in lines[at + 2]
    assert "Pod ns/s  on n, it is in the way" in lines[at + 3]


def test_parts_of_gangs_and_other_methods_are_said():
    """Some pods of a gang, and removal through another way than deletion."""
    unit = UnitRef("PodGroup", "ns/old")
    text = shown(decided(outcome="preempt", victims=(victim("x", unit, partial=True, method="evict"),)))
    assert "1 of its pods" in text
    assert "removed through the Eviction API" in text


def test_everything_else_that_is_known_is_shown():
    """Spared units, unplaced members, warnings, message, domain, group and a search cut short."""
    text = shown(
        decided(
            outcome="unschedulable",
            group=("ns/other", "ns/train"),
            spared=(Spared(UnitRef("PodGroup", "ns/big"), "costs more"),),
            unplaced=(Unplaced("ns/a", ("too big", "too old")),),
            warnings=("members differ",),
            reasons=(Reason("Insufficient cpu", 2),),
            message="0/2 nodes are available: 2 Insufficient cpu.",
            topology_domain="rack-1",
            stopped=True,
        )
    )
    for part in (
        "ns/other, ns/train",
        "PodGroup ns/big  costs more",
        "ns/a  too big; too old",
        "members differ",
        "0/2 nodes are available: 2 Insufficient cpu.",
        "rack-1",
        "cut short",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("fields", "foot"),
    [
        ({}, "planned in 1.0 ms"),
        ({"optimal": True}, "planned in 1.0 ms; optimal"),
        ({"optimal": True, "stopped": True}, "planned in 1.0 ms; optimal; the search was cut short at its limit"),
        (
            {"optimal": False, "gap": Gap("pods", 0, 3), "stopped": True},
            (
                "planned in 1.0 ms; at most 3 pods more than needed at priority 0; the search was cut short at its "
                "limit, so a less harmful choice may exist"
            ),
        ),
    ],
)
def test_how_good_the_plan_is(fields, foot):
    """What is proven stands behind the time that it took; only what is not proven may be outdone."""
    text = shown(decided(outcome="preempt", victims=(victim("v"),), **fields), width=200)
    assert f"  {foot}\n" in text


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (Gap("pods", -5, 1), "at most 1 pod more than needed at priority -5"),
        (Gap("gangs", 100, 1), "at most 1 gang more than needed at priority 100"),
        (Gap("gangs", 100, 2), "at most 2 gangs more than needed at priority 100"),
        (Gap("pdb", 0, 2), "at most 2 pods more than needed beyond PodDisruptionBudgets"),
    ],
)
def test_a_gap_in_words(gap, words):
    """Of pods or gangs of a priority, or of pods beyond budgets, which have no priority."""
    assert decided(outcome="preempt", optimal=False, gap=gap).proof == words


def on_nodes(count):
    """A gang of so many members, one on each node, for which as many pods of two namespaces leave."""
    places = tuple(Placement("ns", f"w-{i:04}", "u", f"gpu-{i}") for i in range(count))
    units = [UnitRef("Job", f"{'ab'[i % 2]}/old-{i // 16}") for i in range(count)]
    gone = tuple(
        Victim("ab"[i % 2], f"v-{i}", "u", f"gpu-{i}", unit, partial=False, priority=i % 3, over_budget=i == 0)
        for i, unit in enumerate(units)
    )
    return decided(outcome="preempt", required=count, placements=places, victims=gone)


def test_many_members_and_victims_are_summed():
    """Of more than 20, by the nodes that they go to, and by namespace and unit; -v has all of them by name."""
    text = shown(on_nodes(256))
    assert "members  256 members → 256 nodes (gpu-0 … gpu-255)\n" in text
    assert (
        "victims  128 pods of 16 units in namespace a, priority 0 … 2: Job a/old-0, Job a/old-1, Job a/old-2 and 13"
        in text.replace("\n           ", " ")
    )
    assert "1 pod beyond their PodDisruptionBudgets" in " ".join(text.split())
    assert "v-255" not in text
    whole = shown(on_nodes(256), whole=True)
    assert ("w-0255" in whole, "v-255" in whole) == (True, True)
    few = shown(on_nodes(20))
    assert ("w-0019" in few, "nodes (" in few) == (True, False)


def test_node_groups_are_told_apart():
    """Nodes whose names begin alike are one group, the largest first; of many groups only some are shown."""
    names = [*(f"gpu-{i}" for i in range(20)), "cpu-1.example", *(f"pool{chr(97 + i)}-1" for i in range(9))]
    lines = summing.members([Placement("ns", f"w-{i}", "u", name) for i, name in enumerate(names)])
    assert lines[0] == "20 members → 20 nodes (gpu-0 … gpu-19)"
    assert (len(lines), lines[-1]) == (6, "… and 6 more such lines (-v shows all)")


def test_nodes_that_are_numbered_are_one_group():
    """Nodes whose names are a word and a number are one line with the first and the last."""
    found = summing.members([Placement("d", f"p{i}", "u", f"n{i % 64:03d}") for i in range(256)])
    assert found == ["256 members → 64 nodes (n000 … n063)"]


def test_a_gang_has_few_lines_on_a_terminal():
    """Fifteen, the last of which says how the others are had; -v and a file have all of them."""
    unplaced = tuple(Unplaced(f"ns/w-{i}", (f"reason {i}",)) for i in range(30))
    large = decided(outcome="unschedulable", unplaced=unplaced)
    lines = shown(large, terminal=True, width=80).splitlines()
    assert [i for i, line in enumerate(lines) if not line.strip()] == [15]
    assert "-v shows all" in lines[14]
    assert "reason 0" in "".join(lines)
    assert "reason 29" in shown(large, terminal=True, whole=True)
    assert "reason 29" in shown(large)


def test_what_is_said_of_many_is_said_once():
    """Names with the same reason share a line; few names have one each."""
    unplaced = tuple(Unplaced(f"ns/w-{i:02}", ("too big",)) for i in range(12))
    spared = tuple(Spared(UnitRef("Pod", f"ns/{i}"), "costs more") for i in range(3))
    text = shown(decided(outcome="unschedulable", unplaced=(*unplaced, Unplaced("ns/x", ("too old",))), spared=spared))
    assert text.count("too big") == 1
    assert "ns/w-00, ns/w-01, ns/w-02 and 9 more" in text
    assert "ns/x" in text
    assert text.count("costs more") == 3


def test_the_last_line_counts():
    """How many gangs of which outcome, and how many victims, each once."""
    twice = decided(outcome="preempt", victims=(victim("v"),))
    assert shown(twice, twice, decided()).splitlines()[-1] == "3 gangs: 1 bind, 2 preempt, 1 victim"


def test_an_empty_plan_says_whose_pods_wait():
    """Most likely the pods are there under another scheduler's name."""
    assert shown() == "No pod of me is waiting for a node in this input.\n"
    assert "2 pods of koord-scheduler are: gangsched init makes a gang of their" in shown(
        others=Counter({"koord-scheduler": 2})
    )


def test_pods_of_other_schedulers_are_not_forgotten():
    """A manifest without a schedulerName beside gangs of ours is not passed over in silence."""
    lines = shown(decided(), others=Counter({"default-scheduler": 3, "x": 1})).splitlines()
    assert lines[-2:] == [
        "1 gang: 1 bind",
        "3 pods of default-scheduler are waiting too: --scheduler-name default-scheduler plans for them.",
    ]


def test_names_cannot_steer_the_terminal():
    """ESC, RLO and markup in names are shown as they are."""
    gang = GangId("scheduling.sigs.k8s.io", "ns", "a\x1b[31m[bold]\u202eb", "me")
    text = shown(decided(gang=gang))
    assert not {"\x1b", "\u202e"}.intersection(text)
    assert "ns/a\\x1b[31m[bold]\\u202eb" in text


def test_narrow_terminals_lose_nothing():
    """Long names are folded, not cut."""
    text = shown(decided(placements=placed("x" * 70)), width=40)
    assert text.count("x") >= 70
    assert max(map(len, text.splitlines())) <= 40


def test_files_get_whole_lines_without_trailing_blanks(monkeypatch, capsys):
    """What goes into a pipe is neither wrapped nor cut off: a name can be found there."""
    monkeypatch.delenv("COLUMNS", raising=False)
    why = " ".join(["because"] * 100)
    render_plan(Planned([(decided(outcome="preempt", victims=(victim("x" * 200, why=why),)), 1.0)]), make_console())
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "victims" in line]
    assert "x" * 200 in line
    assert line.endswith(why)
    assert not any(line.endswith(" ") for line in shown(decided(placements=placed("a"))).splitlines())


def test_a_unit_is_named_once():
    """The line of a unit begins with its name, so its reason does not repeat it."""
    unit = UnitRef("PodGroup", "ns/old")
    why = "priority 1 is lower than 7; needed to make room for the gang; PodGroup ns/old leaves as a whole"
    text = shown(decided(outcome="preempt", victims=(victim("x", unit, why=why),)), width=200)
    assert f"PodGroup ns/old  all of it, 1 pod, {why.replace('PodGroup ns/old', 'it')}" in text
    assert text.count("PodGroup ns/old") == 1
    assert text.count("is lower than 7") == 1


def test_one_terminating_pod_is_gone():
    """One is, several are."""
    awaited = tuple(Awaited(f"ns/x{i}", "n") for i in range(2))
    assert awaited[0].pod in shown(decided(outcome="wait", awaiting=awaited[:1]))
    assert "1 terminating pod is gone" in shown(decided(outcome="wait", awaiting=awaited[:1]))
    assert "2 terminating pods are gone" in shown(decided(outcome="wait", awaiting=awaited))


def test_a_terminal_shows_nodes_before_and_after():
    """Only those on which something changes are drawn, with who leaves them and who comes; a file has no picture."""
    nodes = [builders.node(f"n{i}").cpu(4).obj() for i in range(30)]
    old = [builders.pod(f"old-{i}").cpu(4).priority(1).on(f"n{i}").obj() for i in range(2)]
    new = [builders.pod(f"new-{i}").cpu(4).priority(9).obj() for i in range(2)]
    decision = decided(
        outcome="preempt",
        victims=tuple(Victim("d", p.name, p.uid, p.node, UnitRef("Pod", p.key), False, 1, False) for p in old),
        placements=tuple(Placement("d", p.name, p.uid, f"n{i}") for i, p in enumerate(new)),
    )
    plan = Planned([(decision, 1.0)], events=[*map(Changed, nodes), *map(Changed, [*old, *new])])
    screens = []
    for terminal in (True, False):
        file = io.StringIO()
        render_plan(plan, Console(file=file, width=80, force_terminal=terminal, color_system=None))
        screens.append(file.getvalue())
    before, after = screens[0].split("\n  after")
    assert re.findall(r"n(\d) │░+ (old-\d) ░+│ 4 of 4 CPU → (new-\d)", before) == [
        ("0", "old-0", "new-0"),
        ("1", "old-1", "new-1"),
    ]
    assert re.findall(r"n(\d) │█+ (new-\d) █+│", after) == [("0", "new-0"), ("1", "new-1")]
    assert "28 nodes more, on which nothing changes" in after
    assert "│" not in screens[1]
