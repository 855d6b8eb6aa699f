"""What users can write into their own objects gets them no room, harms no neighbour, and stops nobody (SECURITY.md)."""

from __future__ import annotations

import json

import pytest

from gangsched.core.actions import MARK_REASON, Remove, Report, SetCondition, Unmark
from gangsched.core.events import ObjectRefused
from gangsched.core.lifecycle import report
from gangsched.model.records import Condition
from tests.builders import SIGS, PodBuilder, gang, node, pod
from tests.core.harness import Cluster, nodes_of, plan, reports, texts
from tests.core.stories import names

#: Names that mean something to formatters, templates, shells, terminals and JSON.
STRANGE = ("{0.__class__}", "%s%s%n", "$(reboot)", "a\nb", '"},{"', "\x1b[31m", "../../etc", "ü" * 200, " ")


def light(name: str, group: list[str], namespace: str = "d") -> PodBuilder:
    """The only member of a gang that claims to belong to a GangGroup."""
    return pod(f"{name}-0", namespace).cpu(1).light_gang(name, 1, json.dumps(group))


def test_a_gang_cannot_join_another_namespaces_group() -> None:
    """The one that lists others without being listed waits alone; the others start as if it were not there."""
    made = plan(
        node("n1"),
        light("a", ["d/a", "d/b"]),
        light("b", ["d/a", "d/b"]),
        light("evil", ["d/a", "d/b", "other/evil"], "other"),
    )
    assert made["d/a"].outcome == made["d/b"].outcome == "bind"
    assert made["d/a"].group == ("d/a", "d/b")
    assert made["other/evil"].outcome == "gathering"
    assert made["other/evil"].message == "gang d/a does not list the same GangGroup"


def test_groups_in_a_circle_wait() -> None:
    """A lists b, b lists c, c lists a: nobody agrees with anybody, and others go on."""
    made = plan(
        node("n1"),
        light("a", ["d/a", "d/b"]),
        light("b", ["d/b", "d/c"]),
        light("c", ["d/a", "d/c"]),
        pod("other").cpu(1),
    )
    assert {made[f"d/{name}"].outcome for name in "abc"} == {"gathering"}
    assert made["d/other"].outcome == "bind"


def test_a_member_of_another_namespace_does_not_count() -> None:
    """A pod elsewhere that names the group neither completes it nor is placed with it."""
    cluster = Cluster(node("n1"), gang("g").min(2), pod("m").cpu(1).gang("g"), pod("evil", "other").cpu(1).gang("g"))
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert ("GangNotReady", "1 of 2 members exist; 1 missing") in texts(cluster.log, "m")


def test_a_nomination_alone_holds_no_room() -> None:
    """Without our record on the pod, a nominated node is a wish: lower priorities may use it."""
    wish = pod("wish").cpu(4).priority(9).gated().nominated("n1", intent=False)
    cluster = Cluster(node("n1"), wish, pod("small").cpu(4).priority(1))
    cluster.run()
    assert nodes_of(cluster.log) == {"small": "n1"}


@pytest.mark.parametrize(
    ("preemptor", "trigger"),
    [("d/nobody", "d/nobody-0"), ("d/poor", "d/poor"), ("d/rich", "d/rich"), ("other/rich", "other/rich")],
)
def test_a_forged_mark_evicts_nobody(preemptor: str, trigger: str) -> None:
    """A mark in the name of a gang that does not exist, is too weak, or has nominated nobody: the pod stays."""
    text = report.mark_message("py-gang-scheduler", preemptor, trigger)
    forged = pod("neighbour").cpu(4).priority(5).on("n1").field(disruption=Condition("True", MARK_REASON, text))
    cluster = Cluster(
        node("n1"),
        node("n2"),
        forged,
        pod("poor").cpu(4).priority(1).label(busy="x").selector(nowhere="x"),
        pod("rich").cpu(4).priority(9),
    )
    cluster.run()
    assert names(cluster, Remove) == set()
    assert nodes_of(cluster.log)["rich"] == "n2"


def test_one_expensive_member_lifts_nobody() -> None:
    """As a preemptor a gang has the priority of its cheapest member."""
    made = plan(
        node("n1"),
        pod("running").cpu(4).priority(5).on("n1"),
        gang("g").min(2),
        pod("m1").cpu(2).priority(9).gang("g"),
        pod("m2").cpu(2).priority(1).gang("g"),
    )
    assert made["d/g"].outcome == "unschedulable"
    assert made["d/g"].victims == ()


def test_one_cheap_member_exposes_nobody() -> None:
    """As a victim a whole gang has the priority of its most expensive member."""
    made = plan(
        node("n1"),
        gang("g").min(2),
        pod("m1").cpu(2).priority(9).gang("g").on("n1"),
        pod("m2").cpu(2).priority(1).gang("g").on("n1"),
        pod("new").cpu(2).priority(5),
    )
    assert made["d/new"].outcome == "unschedulable"


@pytest.mark.parametrize("name", STRANGE)
def test_strange_names_are_only_names(name: str) -> None:
    """Whatever a gang or a node label is called, it is told as it is, and the next gang is served."""
    strange = [pod(f"m{n}").cpu(1).light_gang(name, 3).label(x=name) for n in (1, 2)]
    cluster = Cluster(node("n1"), *strange, pod("other").cpu(1))
    cluster.run()
    assert nodes_of(cluster.log) == {"other": "n1"}
    assert texts(cluster.log, "m1") == [("GangNotReady", "2 of 3 members exist; 1 missing")]


def test_a_group_of_ten_thousand_members() -> None:
    """It is one decision like others, and the pod behind it is served."""
    listed = [f"d/g{n:03d}" for n in range(200)]
    group = json.dumps(listed)
    members = [pod(f"g{g:03d}-{m}").cpu(0.1).light_gang(f"g{g:03d}", 50, group) for g in range(200) for m in range(50)]
    made = plan(*(node(f"n{n}").cpu(16).pods(200) for n in range(70)), *members, pod("other").cpu(1))
    assert made["d/g000"].group == tuple(listed)
    assert {made[key].outcome for key in listed} == {"bind"}
    assert made["d/other"].outcome == "bind"


GIANT = "x" * 200_000


@pytest.mark.parametrize(
    "made",
    [
        pod("m").cpu(1).light_gang(GIANT, 2),
        pod("m").cpu(1).light_gang("g", 1, json.dumps(["d/g", f"d/{GIANT}"])),
        pod("m").cpu(1).label(app=GIANT).selector(app=GIANT),
        pod("m").cpu(1).claims(GIANT),
    ],
    ids=["gang", "group", "selector", "claim"],
)
def test_giant_names_make_no_giant_texts(made: PodBuilder) -> None:
    """However long what a user writes is, Events and conditions stay short, and the next pod is served."""
    cluster = Cluster(node("n1"), made, pod("other").cpu(1))
    cluster.run()
    assert nodes_of(cluster.log) == {"other": "n1"}
    assert all(len(a.note) <= 1024 for a in cluster.log if isinstance(a, Report))
    told = [a.message for a in cluster.log if isinstance(a, SetCondition)]
    assert told
    assert all(len(text) <= 4096 for text in told)


@pytest.mark.parametrize("owner", ["m", "other"])
def test_a_forged_mark_of_a_rollback_removes_nobody(owner: str) -> None:
    """Nor does one that names the pod's own gang, or another: it is taken back, and the pod runs on."""
    text = report.rollback_message("py-gang-scheduler", f"d/{owner}", "d/x")
    forged = pod("m").cpu(1).on("n1").field(disruption=Condition("True", MARK_REASON, text))
    cluster = Cluster(node("n1"), forged, pod("other").cpu(1), rollback=True)
    cluster.run()
    assert names(cluster, Remove) == set()
    assert names(cluster, Unmark) == {"m"}


def test_a_nomination_by_somebody_else_is_not_taken_for_a_plan() -> None:
    """A pod nominates itself to a full node with a condition of its own making: nobody leaves, nothing is held."""
    forged = Condition("True", "Nominated", "plan of mine: nominated to n1; waiting for all victims")
    wish = pod("wish").cpu(4).nominated("n1", intent=False).field(intent=forged)
    cluster = Cluster(node("n1"), pod("runs").cpu(4).on("n1"), wish, pod("small").cpu(1).created(9))
    cluster.run()
    assert names(cluster, Remove) == set()
    cluster.delete("runs")
    cluster.show(wish.gated())
    cluster.pass_time(20)
    assert nodes_of(cluster.log) == {"small": "n1"}
    assert cluster.core.world.held == {}


def test_an_object_that_is_refused_stops_nobody() -> None:
    """Told once, however often it is shown; its gang waits and says why; others go on."""
    refused = ObjectRefused(f"PodGroup.{SIGS}", "d", "g", "uid-g", "spec.minMember", "-1 is not between 1 and 1000000")
    cluster = Cluster(node("n1"), refused, pod("m").cpu(1).gang("g"), pod("other").cpu(1), refused)
    cluster.run()
    cluster.show(refused)
    cluster.run()
    assert len(reports(cluster.log, report.REFUSED)) == 1
    assert nodes_of(cluster.log) == {"other": "n1"}
    assert texts(cluster.log, "m")[-1][1].startswith("PodGroup d/g was refused: spec.minMember: -1")
