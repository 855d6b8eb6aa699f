"""Gangs made of parts of which each has a topology of its own."""

from __future__ import annotations

from collections import defaultdict

from gangsched.core.decision import Decision
from gangsched.model.records import Part
from tests.builders import GangBuilder, PodBuilder, gang, node, pod
from tests.core.harness import Built, placed, plan

FAMILY = "scheduling.run.ai"
RACK, SPINE = ("rack", True), ("spine", True)


def members(part: str, count: int, cores: float = 1, priority: int = 10) -> list[PodBuilder]:
    """Members of one part."""
    label = {"kai.scheduler/subgroup-name": part}
    return [pod(f"{part}-{i}").cpu(cores).gang("g", FAMILY).labels(label).priority(priority) for i in range(count)]


def made_of(*parts: Part, least: int | None = None, **fields: object) -> GangBuilder:
    """A gang of these parts, all of which have to start."""
    whole = Part(least=len(parts) if least is None else least, parts=parts, **fields)  # type: ignore[arg-type]
    return gang("g").family(FAMILY).min(1).field(parts=whole)


def racks(**cores: list[float]) -> list[Built]:
    """Racks of nodes with so many cores; those whose names begin with the same letter share a spine."""
    return [
        node(f"{rack}-{n}").cpu(each).label(rack=rack, spine=rack[0])
        for rack, nodes in cores.items()
        for n, each in enumerate(nodes)
    ]


def where(decision: Decision) -> dict[str, set[str]]:
    """The racks of each part."""
    out: dict[str, set[str]] = defaultdict(set)
    for name, on in placed(decision).items():
        out[name.rsplit("-", 1)[0]].add(on.rsplit("-", 1)[0])
    return dict(out)


def test_each_part_is_in_a_domain_of_its_own() -> None:
    """Two parts of two: the racks that hold two are found, though others have room for one."""
    parts = [Part(name, 2, topology=(RACK,)) for name in "ab"]
    nodes = racks(r1=[1], r2=[1, 1], r3=[1], r4=[1, 1])
    decision = plan(*nodes, made_of(*parts), *members("a", 2), *members("b", 2))["d/g"]
    assert decision.outcome == "bind"
    assert sorted(map(sorted, where(decision).values())) == [["r2"], ["r4"]]


def test_parts_may_share_a_domain_unless_they_are_to_be_apart() -> None:
    """One rack with room for both parts is enough, if no part is to have its own."""
    nodes, pods = racks(r1=[2, 2], r2=[1]), [*members("a", 2), *members("b", 2)]
    together = [Part(name, 2, topology=(RACK,)) for name in "ab"]
    assert where(plan(*nodes, made_of(*together), *pods)["d/g"]) == {"a": {"r1"}, "b": {"r1"}}
    apart = [Part(name, 2, topology=(RACK,), distinct="rack") for name in "ab"]
    assert plan(*nodes, made_of(*apart), *pods)["d/g"].outcome == "unschedulable"


def test_unequal_parts_leave_each_other_room() -> None:
    """The small part does not take the only rack that holds the large one."""
    parts = [Part("a", 1, topology=(RACK,)), Part("b", 3, topology=(RACK,))]
    nodes = racks(r1=[1, 1, 1], r2=[1])
    decision = plan(*nodes, made_of(*parts), *members("a", 1), *members("b", 3))["d/g"]
    assert where(decision) == {"a": {"r2"}, "b": {"r1"}}


def test_many_unequal_parts() -> None:
    """More kinds of parts than a table holds are placed one after another, the largest first."""
    parts = [Part(f"p{n}", n, topology=(RACK,)) for n in range(1, 13)]
    nodes = racks(**{f"r{n}": [float(n)] for n in range(1, 13)})
    pods = [each for n in range(1, 13) for each in members(f"p{n}", n)]
    decision = plan(*nodes, made_of(*parts), *pods)["d/g"]
    assert where(decision) == {f"p{n}": {f"r{n}"} for n in range(1, 13)}


def test_parts_within_parts() -> None:
    """A replica is in one spine, and each of its segments in one rack of it."""

    def replica(name: str) -> Part:
        segments = tuple(Part(f"{name}{n}", 2, topology=(RACK,)) for n in range(2))
        return Part(name, least=2, parts=segments, topology=(SPINE,))

    nodes = racks(a1=[2], a2=[1, 1], b1=[2], c1=[2], c2=[2])
    pods = [each for name in ("x0", "x1", "y0", "y1") for each in members(name, 2)]
    decision = plan(*nodes, made_of(replica("x"), replica("y")), *pods)["d/g"]
    spines = {name: {rack[0] for rack in found} for name, found in where(decision).items()}
    assert all(len(found) == 1 for found in where(decision).values())
    assert spines["x0"] == spines["x1"] != spines["y0"] == spines["y1"]
    assert {*spines["x0"], *spines["y0"]} == {"a", "c"}


def test_members_of_no_part_are_with_the_others() -> None:
    """The level of the whole gang holds for all members, those of no part included."""
    parts = [Part("a", 2, topology=(RACK,)), Part("b", 2, topology=(RACK,)), Part("", 1)]
    nodes = racks(a1=[2], a2=[2], b1=[2], b2=[2], b3=[1])
    pods = [*members("a", 2), *members("b", 2), pod("x").cpu(1).gang("g", FAMILY).priority(10)]
    decision = plan(*nodes, made_of(*parts, topology=(SPINE,)), *pods)["d/g"]
    assert {on[0] for on in placed(decision).values()} == {"b"}


def test_victims_and_domains_are_one_choice() -> None:
    """The racks in which least has to leave are taken together: not the first that hold the parts."""
    parts = [Part(name, 2, topology=(RACK,)) for name in "ab"]
    nodes = racks(r1=[1, 1], r2=[1, 1], r3=[1, 1], r4=[1, 1])
    busy = {"r1-0": 1, "r1-1": 1, "r2-0": 1, "r3-0": 5, "r4-0": 1, "r4-1": 5}
    running = [pod(f"v-{on}").cpu(1).on(on).priority(priority) for on, priority in busy.items()]
    decision = plan(*nodes, *running, made_of(*parts), *members("a", 2), *members("b", 2))["d/g"]
    assert decision.outcome == "preempt"
    assert sorted(v.name for v in decision.victims) == ["v-r1-0", "v-r1-1", "v-r2-0"]
    assert decision.optimal


def test_a_level_that_is_preferred_counts_after_harm() -> None:
    """A part is in one rack if that takes no further victims."""
    part = Part("a", 2, topology=(SPINE, ("rack", False)))
    nodes = racks(a1=[1], a2=[1], b1=[1, 1])
    assert where(plan(*nodes, made_of(part), *members("a", 2))["d/g"]) == {"a": {"b1"}}
    filler = pod("v").cpu(1).on("b1-0").priority(1)
    assert where(plan(*nodes, filler, made_of(part), *members("a", 2))["d/g"]) == {"a": {"a1", "a2"}}
    fillers = [pod(f"v{n}").cpu(1).on(on).priority(1) for n, on in enumerate(("a1-0", "b1-0"))]
    assert where(plan(*nodes, *fillers, made_of(part), *members("a", 2))["d/g"]) == {"a": {"b1"}}


def test_a_lost_member_returns_to_its_part() -> None:
    """Its part runs in one rack: it waits for room there, though there is room elsewhere."""
    part = Part("a", 2, topology=(RACK,))
    nodes = racks(r1=[1, 1], r2=[1, 1])
    runs = members("a", 2)[0].on("r1-0")
    decision = plan(*nodes, made_of(part), runs, members("a", 2)[1])["d/g"]
    assert placed(decision) == {"a-1": "r1-1"}
    filler = pod("v").cpu(1).on("r1-1").priority(100)
    assert plan(*nodes, filler, made_of(part), runs, members("a", 2)[1])["d/g"].outcome == "unschedulable"


def test_a_part_that_runs_in_two_domains_is_reported() -> None:
    """It is not guessed which of them is meant."""
    part = Part("a", 3, topology=(RACK,))
    first, second, third = members("a", 3)
    nodes = racks(r1=[2], r2=[2])
    decision = plan(*nodes, made_of(part), first.on("r1-0"), second.on("r2-0"), third)["d/g"]
    assert decision.outcome == "unschedulable"
    assert "part a:" in decision.message
    assert "rack=r1" in decision.message
    assert "rack=r2" in decision.message


def test_parts_apart_keep_off_those_that_run() -> None:
    """A part that was lost whole goes to a rack in which no sibling runs."""
    parts = [Part(name, 2, topology=(RACK,), distinct="rack") for name in "ab"]
    runs = [each.on("r1-0") for each in members("a", 2)]
    decision = plan(*racks(r1=[4], r2=[2]), made_of(*parts), *runs, *members("b", 2))["d/g"]
    assert where(decision) == {"b": {"r2"}}


def test_further_parts_join_whole() -> None:
    """Of three parts two have to start. The third joins if a rack has room for all of it, and else none of it does."""
    parts = [Part(name, 2, topology=(RACK,)) for name in "abc"]
    pods = [each for name in "abc" for each in members(name, 2)]
    found = plan(*racks(r1=[1, 1], r2=[1, 1], r3=[1, 1]), made_of(*parts, least=2), *pods)["d/g"]
    assert sorted(map(sorted, where(found).values())) == [["r1"], ["r2"], ["r3"]]
    found = plan(*racks(r1=[1, 1], r2=[1, 1], r3=[1], r4=[1]), made_of(*parts, least=2), *pods)["d/g"]
    assert sorted(where(found)) == ["a", "b"]


def test_a_part_joins_those_that_run() -> None:
    """A gang that runs takes a further part when there is room, and further members of a part in its rack."""
    parts = [Part(name, 2, topology=(RACK,), distinct="rack") for name in "ab"]
    runs = [each.on("r1-0") for each in members("a", 2)]
    more = members("a", 3)[2]
    nodes = racks(r1=[3], r2=[2])
    found = plan(*nodes, made_of(*parts, least=1), *runs, more, *members("b", 2))["d/g"]
    assert where(found) == {"a": {"r1"}, "b": {"r2"}}
    found = plan(*racks(r1=[2], r2=[3]), made_of(*parts, least=1), *runs, more, *members("b", 2))["d/g"]
    assert where(found) == {"b": {"r2"}}


def test_a_refusal_names_the_part_and_its_nearest_domain() -> None:
    """It says how many members of the part find room there, now and if the nodes were empty."""
    parts = [Part("a", 1, topology=(RACK,)), Part("b", 3, topology=(RACK,))]
    pods = [*members("a", 1), *members("b", 3)]
    decision = plan(*racks(r1=[1, 1], r2=[1]), node("x").cpu(9), made_of(*parts), *pods)["d/g"]
    assert decision.headline is not None
    assert decision.headline.word == "never fits"
    assert decision.headline.why == "part b needs one rack for 3 members; the nearest (rack=r1) takes 2"
    filler = pod("v").cpu(1).on("r1-0").priority(100)
    decision = plan(*racks(r1=[1, 1, 1], r2=[1]), filler, made_of(*parts), *pods)["d/g"]
    assert decision.headline is not None
    assert decision.headline.word == "not now"
    assert decision.headline.why.startswith("2 of 3 members of part b fit in rack=r1")
    assert "part b needs one domain of rack: rack=r1 comes nearest, with room for 2 of 3 members" in decision.message


def test_parts_that_need_more_domains_than_there_are() -> None:
    """It is said that parts which are to be apart lack a domain."""
    parts = [Part(name, 1, topology=(RACK,), distinct="rack") for name in "abc"]
    pods = [each for name in "abc" for each in members(name, 1)]
    decision = plan(*racks(r1=[3], r2=[3]), made_of(*parts), *pods)["d/g"]
    assert decision.headline is not None
    assert decision.headline.why == "the parts need more domains of rack than there are (2)"


def test_the_parts_that_start_are_those_that_fit() -> None:
    """One part has to start: not the first by name, but the one that fits, or for which less has to leave."""
    parts = [Part("a", 3, topology=(RACK,)), Part("b", 2, topology=(RACK,)), Part("c", 2, topology=(RACK,))]
    pods = [*members("a", 3), *members("b", 2), *members("c", 2, cores=2)]
    assert where(plan(*racks(r1=[1, 1], r2=[1]), made_of(*parts, least=1), *pods)["d/g"]) == {"b": {"r1"}}
    fillers = [pod(f"v{n}").cpu(1).on(f"r1-{n}").priority(1) for n in range(3)]
    decision = plan(*racks(r1=[1, 1, 1], r2=[1]), *fillers, made_of(*parts, least=1), *pods)["d/g"]
    assert (where(decision), len(decision.victims)) == ({"b": {"r1"}}, 2)


def test_a_part_that_needs_no_member_joins_in_a_domain_of_its_own() -> None:
    """Its members start with the others or later, all in one rack; as many as fit where one rack cannot hold all."""
    parts = [Part("a", 2, topology=(RACK,)), Part("b", 0, topology=(RACK,))]
    decision = plan(*racks(r1=[1, 1], r2=[1], r3=[1, 1]), made_of(*parts), *members("a", 2), *members("b", 2))["d/g"]
    assert len(placed(decision)) == 4
    assert all(len(found) == 1 for found in where(decision).values())
    running = [each.on(f"r1-{i}") for i, each in enumerate(members("a", 2))]
    later = plan(*racks(r1=[1, 1], r2=[1]), made_of(*parts), *running, *members("b", 2))["d/g"]
    assert where(later) == {"b": {"r2"}}
