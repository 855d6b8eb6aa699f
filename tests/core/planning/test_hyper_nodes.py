"""Gangs in one domain of a tree of HyperNodes."""

from __future__ import annotations

from gangsched.core.events import Changed, Gone
from gangsched.core.scheduler import Scheduler
from gangsched.model.constraints import Labels
from gangsched.model.records import TIER, HyperMember, HyperNode
from tests.builders import gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of, placed, plan, world

RACKS = {"r0": ("n0", "n1"), "r1": ("n2", "n3")}


def tree() -> list[Built]:
    """Two racks of two nodes each, both below one spine."""
    racks = [HyperNode(name, 1, "rack", tuple(HyperMember(name=n) for n in nodes)) for name, nodes in RACKS.items()]
    spine = HyperNode("s", 2, "spine", (HyperMember(hyper=True, pattern="r[0-9]"),))
    return [Changed(each) for each in (*racks, spine)]


def nodes(*cores: float) -> list[Built]:
    """n0 to n3 with so many cores."""
    return [node(f"n{i}").cpu(c) for i, c in enumerate(cores)]


def job(*topology: tuple[str, bool]) -> list[Built]:
    """Two members of one core that want this."""
    return [gang("g").min(2).field(topology=topology), *(pod(f"m{i}").cpu(1).gang("g") for i in range(2))]


def test_all_members_in_one_domain() -> None:
    """The rack that has room for both, though others have room for one each."""
    decision = plan(*nodes(1, 0, 1, 1), *tree(), *job((f"{TIER}1", True)))["d/g"]
    assert set(placed(decision).values()) == {"n2", "n3"}


def test_a_domain_of_a_higher_tier_where_that_is_allowed() -> None:
    """Hard on its own tier they wait; one tier up they start, a lower one being preferred."""
    assert plan(*nodes(1, 0, 1, 0), *tree(), *job((f"{TIER}1", True)))["d/g"].outcome == "unschedulable"
    wish = (f"{TIER}2", True), (f"{TIER}1", False)
    assert plan(*nodes(1, 0, 1, 0), *tree(), *job(*wish))["d/g"].outcome == "bind"
    assert set(placed(plan(*nodes(1, 0, 1, 1), *tree(), *job(*wish))["d/g"]).values()) == {"n2", "n3"}


def test_a_tier_above_the_tree_is_its_top() -> None:
    """A gang that may cross more tiers than there are is kept in one domain of the highest."""
    wish = (f"{TIER}5", True), (f"{TIER}1", False)
    assert plan(*nodes(1, 0, 1, 0), *tree(), *job(*wish))["d/g"].outcome == "bind"
    assert plan(*nodes(1, 0, 0, 0), node("n9").cpu(1), *tree(), *job(*wish))["d/g"].outcome == "unschedulable"


def test_the_tree_comes_before_or_after_nodes_and_changes() -> None:
    """Nodes that are in no domain hold no gang that wants one; they may get into one."""
    seen = job((f"{TIER}1", True))
    cluster = Cluster(*nodes(2, 0, 0, 0), *seen)
    assert nodes_of(cluster.run()) == {}
    cluster.show(*tree())
    assert len(nodes_of(cluster.run())) == 2
    assert plan(*tree(), *nodes(2, 0, 0, 0), *seen)["d/g"].outcome == "bind"


def labels_of(core: Scheduler, name: str) -> Labels:
    """What is known of a node."""
    found = core.world.snapshot.node(name)
    assert found is not None
    return found.labels


def test_labels_go_with_the_domain() -> None:
    """And those of the node itself stay."""
    core = world(*nodes(1, 1, 1, 1), *tree())
    labels = labels_of(core, "n0")
    assert [labels.get(f"{TIER}{n}") for n in range(4)] == [None, "r0", "s", "s"]
    core.handle([Gone("HyperNode", "", name) for name in ("r0", "r1", "s")], 1.0)
    assert labels_of(core, "n0") == {"kubernetes.io/hostname": "n0"}


def test_a_pattern_matches_any_part_of_a_name() -> None:
    """As Go's MatchString, which Volcano uses."""
    rack = HyperNode("r", 1, "", (HyperMember(pattern="^n[23]"),))
    decision = plan(node("n2-x").cpu(1), node("n3-x").cpu(1), Changed(rack), *job((f"{TIER}1", True)))["d/g"]
    assert set(placed(decision).values()) == {"n2-x", "n3-x"}
