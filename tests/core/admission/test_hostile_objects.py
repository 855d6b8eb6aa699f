"""What users can write into their own objects gets them no room, harms no neighbour, and stops nobody (SECURITY.md)."""

from __future__ import annotations

import json

import pytest

from gangsched.core.actions import MARK_REASON, Mark, Nominate, Remove, Report, SetCondition, Unmark, Write
from gangsched.core.actuation.records import EvictionOwner, Owners, written
from gangsched.core.events import ObjectRefused
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from gangsched.messages import notes
from gangsched.model.dialects import koordinator
from gangsched.model.dialects.objects import PREEMPTION_DELAY
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.records import SINGLE, Condition, GangId
from tests.builders import OURS, SIGS, PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of, plan, reports, texts
from tests.core.stories import PHASES, assert_clean, go_on, names, stopped_in

#: Names that mean something to formatters, templates, shells, terminals and JSON.
STRANGE = ("{0.__class__}", "%s%s%n", "$(reboot)", "a\nb", '"},{"', "\x1b[31m", "../../etc", "ü" * 200, " ")
#: The name of a gang that would be the key of another's GangGroup if names were not checked.
KEY = f"a#{SIGS}#py-gang-scheduler,o/b"
LONGEST = f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}"


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
def test_strange_labels_are_only_labels(name: str) -> None:
    """Whatever the value of a label is, the gang is told why it waits, and the next gang is served."""
    strange = [pod(f"m{n}").cpu(1).light_gang("g", 3).label(x=name) for n in (1, 2)]
    cluster = Cluster(node("n1"), *strange, pod("other").cpu(1))
    cluster.run()
    assert nodes_of(cluster.log) == {"other": "n1"}
    assert texts(cluster.log, "m1") == [("GangNotReady", "2 of 3 members exist; 1 missing")]


def crowded(name: str, group: str = "") -> Cluster:
    """A gang of two would get room on n1 and n2 if v1 and v2 left."""
    return Cluster(
        *(node(f"n{i}") for i in (1, 2)),
        *(pod(f"v{i}").cpu(3).priority(1).on(f"n{i}") for i in (1, 2)),
        *(pod(f"m{i}").cpu(3).priority(5).light_gang(name, 2, group) for i in (1, 2)),
    )


@pytest.mark.parametrize("name", [*STRANGE, "A", "a_b", "a.", "-a", "a" * 254, KEY])
def test_strange_names_are_refused(name: str) -> None:
    """Nobody leaves for pods whose gang cannot be called so, before and after a restart; each waits and says why, is
    told once, and goes on when it is corrected; others are served.
    """
    cluster = crowded(name)
    cluster.show(pod("other").cpu(1))
    cluster.run()
    cluster.change("m1", priority=6)
    cluster.run()
    first = reports(cluster.log, report.REFUSED)
    assert [a.regarding[3] for a in first] == ["m1", "m2"]
    assert all(koordinator.NAME in a.note and "at most 253" in a.note and len(a.note) < 400 for a in first)
    said = cluster.pod("m1").scheduled_condition
    assert said is not None
    assert said.reason == report.REFUSED
    assert koordinator.NAME in said.message
    cluster.restart()
    cluster.pass_time(300)
    assert nodes_of(cluster.log) == {"other": "n1"}
    assert names(cluster, Remove) == names(cluster, Mark) == set()
    cluster.show(*(pod(f"m{i}").cpu(3).priority(5).light_gang("g", 2) for i in (1, 2)))
    cluster.run()
    assert names(cluster, Remove) == {"v1", "v2"}


@pytest.mark.parametrize("name", ["a.b-c", "0", LONGEST])
@pytest.mark.parametrize("partners", [0, 40])
def test_marks_of_the_longest_names_are_read_back(name: str, partners: int) -> None:
    """However long the name of a gang or a GangGroup is, its marks are not; after a restart the same victims leave."""
    others = [f"{'x' * 230}.{n:02d}" for n in range(partners)]
    group = json.dumps([f"d/{each}" for each in (name, *others)]) if partners else ""
    cluster = crowded(name, group)
    cluster.show(*(pod(f"o{n}").light_gang(each, 1, group).priority(5) for n, each in enumerate(others)))
    cluster.slow = lambda write: isinstance(write, Remove) and write.pod.name == "v2"
    cluster.run()
    assert all(len(a.message) <= 4096 for a in cluster.log if isinstance(a, Mark | Nominate))
    cluster.show(node("n3"), pod("v3").cpu(3).on("n3"))  # as good a choice, for whoever chooses anew
    cluster.slow = lambda _: False
    cluster.restart()
    cluster.run()
    cluster.leave()
    cluster.run()
    assert names(cluster, Remove) == {"v1", "v2"}
    assert nodes_of(cluster.log).keys() >= {"m1", "m2"}


def test_no_name_has_the_key_of_a_gang_group() -> None:
    """A gang that is called like the key of a GangGroup does not keep it from being placed."""
    pair = ["d/a", "o/b"]
    cluster = Cluster(node("n1"), pod("evil").cpu(9).light_gang(KEY, 1))
    cluster.run()
    cluster.show(light("a", pair), light("b", pair, "o"))
    cluster.run()
    assert nodes_of(cluster.log) == {"a-0": "n1", "b-0": "n1"}


MISTAKES = {
    "not JSON": (koordinator.GROUPS, "not json"),
    "not strings": (koordinator.GROUPS, "[1, 2]"),
    "not of namespaces": (koordinator.GROUPS, '["x"]'),
    "no names": (koordinator.GROUPS, '["d/g", "d/a b"]'),
    "too many gangs": (koordinator.GROUPS, json.dumps([f"d/g{n}" for n in range(300)])),
    "too long a list": (koordinator.GROUPS, json.dumps([f"d/{'g' * 200_000}"])),
    "nested": (koordinator.GROUPS, "[" * 100_000),
    "topology": (koordinator.TOPOLOGY, "{bad"),
    "layer": (koordinator.TOPOLOGY, '{"gatherStrategy": [{"layer": "?", "strategy": "MustGather"}]}'),
    "negative": (koordinator.MIN, "-1"),
    "zero": (koordinator.MIN, "0"),
    "absurd": (koordinator.MIN, "99999999"),
    "no number": (koordinator.MIN, "1e400"),
    "total": (koordinator.TOTAL, "many"),
    "total below the minimum": (koordinator.TOTAL, "1"),
    "mode": (koordinator.MODE, "strict"),
    "match policy": (koordinator.MATCH_POLICY, "once"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wish_that_cannot_be_read_is_waited_for(mistake: str) -> None:
    """The gang does not start, one of its members is told once what is wrong, and it starts when that is mended."""
    key, value = MISTAKES[mistake]

    def members(text: str | None) -> list[PodBuilder]:
        made = [pod(f"m{n}").cpu(1).light_gang("g", 2) for n in (1, 2)]
        return [each.hint(key, text) if text is not None else each for each in made]

    cluster = Cluster(node("n1"), *members(value), pod("other").cpu(1))
    cluster.run()
    cluster.change("m1", priority=1)
    cluster.pass_time(60)
    assert nodes_of(cluster.log) == {"other": "n1"}
    assert cluster.core.states() == {"d/g": "Gathering"}
    told = reports(cluster.log, report.REFUSED)
    assert len(told) == 1
    assert told[0].regarding[1:4] == ("Pod", "d", "m1")
    assert f"metadata.annotations[{key}]" in told[0].note
    for name in ("m1", "m2"):
        said = cluster.pod(name).scheduled_condition
        assert said is not None
        assert (said.reason, key in said.message) == (report.REFUSED, True)
    cluster.show(*members(None))
    cluster.run()
    assert nodes_of(cluster.log).keys() == {"other", "m1", "m2"}


@pytest.mark.parametrize("text", ["soon", "600", "-5s", "0s", "9999999h", "1s" * 40, "∞"])
def test_a_waiting_time_that_cannot_be_read_is_told_and_holds_up_nobody(text: str) -> None:
    """One of the members hears of it, once; the time of the configuration holds for the gang."""
    members = [pod(f"m{n}").cpu(3).priority(5).light_gang("g", 2).hint(koordinator.WAIT, text) for n in (1, 2)]
    runs = [pod(f"v{n}").cpu(3).priority(1).on(f"n{n}").field(grace_seconds=90.0) for n in (1, 2)]
    cluster = Cluster(node("n1"), node("n2"), *runs, *members, timeout_seconds=90.0)
    cluster.run()
    cluster.change("m1", priority=6)
    cluster.pass_time(89)
    assert {cluster.core.states()["d/g"], *names(cluster, Remove)} == {"WaitingForVictims", "v1", "v2"}
    [told] = reports(cluster.log, report.REFUSED)
    assert told.regarding[1:4] == ("Pod", "d", "m1")
    assert told.note.startswith(f"metadata.annotations[{koordinator.WAIT}]: ")
    assert told.note.endswith("; it is ignored")
    actions = cluster.pass_time(2)
    assert any(text.startswith("timed out while WaitingForVictims: ") for _, text in texts(actions, "m1"))


@pytest.mark.parametrize("made", [pod("m").hint(PREEMPTION_DELAY, "soon"), pod("m").gang("g")], ids=["pod", "group"])
def test_a_delay_that_cannot_be_read_is_told_and_holds_up_nobody(made: PodBuilder) -> None:
    """Of a pod, and of a group object, which is told again only when another thing is wrong."""
    wrong = FieldError(f"metadata.annotations[{PREEMPTION_DELAY}]", "'soon' is not a duration").remark
    group = gang("g").field(remark=wrong)
    objects: list[Built] = [made.cpu(1)] if made.obj().gang.family == SINGLE else [group, made.cpu(1)]
    cluster = Cluster(node("n1"), *objects)
    cluster.run()
    cluster.show(*objects)
    cluster.run()
    assert nodes_of(cluster.log) == {"m": "n1"}
    [told] = reports(cluster.log, report.REFUSED)
    assert told.regarding[1:4] == (("Pod", "d", "m") if len(objects) == 1 else ("PodGroup", "d", "g"))
    assert PREEMPTION_DELAY in told.note


def test_partners_wait_for_a_list_that_cannot_be_read() -> None:
    """A gang whose partner's list is not understood does not start without it."""
    pair = ["d/a", "d/b"]
    cluster = Cluster(node("n1"), light("a", pair), pod("b-0").cpu(1).light_gang("b", 1, '["d/a", "d/b"'))
    cluster.run()
    assert nodes_of(cluster.log) == {}
    cluster.show(light("b", pair))
    cluster.run()
    assert nodes_of(cluster.log) == {"a-0": "n1", "b-0": "n1"}


@pytest.mark.parametrize(("wrong", "placed"), [("m1", set()), ("m2", {"m1", "m2"})])
def test_only_who_speaks_for_the_gang_holds_it_up(wrong: str, placed: set[str]) -> None:
    """The oldest member that says how large the gang is speaks for it; the mistake of another is told and holds up
    nobody.
    """
    members = [pod(f"m{n}").cpu(1).light_gang("g", 2).created(n) for n in (1, 2)]
    members[int(wrong[1]) - 1].hint(koordinator.GROUPS, "not json")
    cluster = Cluster(node("n1"), *members)
    cluster.run()
    assert nodes_of(cluster.log).keys() == placed
    assert [a.regarding[3] for a in reports(cluster.log, report.REFUSED)] == [wrong]


@pytest.mark.parametrize("phase", PHASES)
def test_a_member_that_cannot_be_read_any_more_leaves_the_plan(phase: type[Write]) -> None:
    """It loses its nomination and is not bound by what was known before; the other member gets the room."""
    cluster = Cluster(
        node("n1"),
        gang("g").min(1).timeout(60),
        pod("v1").cpu(3).priority(1).on("n1"),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
    )
    cluster.slow = lambda write: isinstance(write, phase)
    cluster.run()
    alone = GangId(SINGLE, "d", "m1", OURS)  # as a pod of which a field is refused is shown
    cluster.change("m1", gang=alone, mistake=Mistake("spec.tolerations[0].operator", "'Is' is none of them"))
    go_on(cluster)
    cluster.pass_time(40)  # where removals were on their way the gang pauses
    for _ in "12":
        cluster.leave()
        cluster.pass_time(ROUND_PAUSE_SECONDS)
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"m2": "n1"}
    assert names(cluster, Remove) == {"v1"}
    assert cluster.core.states() == {"d/m1": "Gathering"}
    assert_clean(cluster)


def test_a_node_that_is_refused_takes_no_new_pods() -> None:
    """What runs there stays, nothing is added whatever it tolerates, it is told once; a better state mends it."""
    refused = ObjectRefused("Node", "", "n1", "uid-n1", "status.allocatable.cpu", "'x' is not a quantity")
    tolerant = pod("new").cpu(1).tolerates(operator="Exists")
    cluster = Cluster(node("n1"), pod("runs").cpu(1).on("n1"))
    cluster.run()
    cluster.show(refused, refused, tolerant)
    cluster.pass_time(60)
    assert nodes_of(cluster.log) == {}
    assert len(reports(cluster.log, report.REFUSED)) == 1
    assert "could not be read" in texts(cluster.log, "new")[-1][1]
    cluster.show(node("n1"))
    cluster.pass_time(60)
    assert nodes_of(cluster.log) == {"new": "n1"}


def test_a_node_that_is_refused_in_the_middle_is_planned_around() -> None:
    """Nobody leaves a node on which the preemptor could not be bound any more."""
    cluster = stopped_in(Mark)
    cluster.show(node("n3"), ObjectRefused("Node", "", "n2", "uid-n2", "spec.taints[0].effect", "'x' is none of them"))
    go_on(cluster)
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log).keys() == {"m1", "m2"}
    assert "n2" not in nodes_of(cluster.log).values()
    assert "v2" not in names(cluster, Remove)


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


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("owner", ["m", "other"])
def test_a_forged_mark_of_a_rollback_removes_nobody(owner: str, *, record: bool) -> None:
    """Nor does one that names the pod's own gang, or another: it is taken back, and the pod runs on. Without a record
    the mark is somebody else's, whatever its sentence says, and is left to them.
    """
    text = notes.rolling_back(scheduler="py-gang-scheduler", gang=f"d/{owner}", trigger="d/x")
    made = EvictionOwner("p-1", "rollback", "py-gang-scheduler", f"d/{owner}", "d/x")
    forged = pod("m").cpu(1).on("n1").field(disruption=Condition("True", MARK_REASON, text))
    if record:
        forged = forged.field(evicted_for=Condition("True", "Owned", written(Owners.of([made]))))
    cluster = Cluster(node("n1"), forged, pod("other").cpu(1), rollback=True)
    cluster.run()
    assert names(cluster, Remove) == set()
    assert names(cluster, Unmark) == ({"m"} if record else set())


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
    assert not cluster.core.ledger.holders()


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
