"""Plug-ins of others in the core: each profile has its own, and what goes wrong in one fails its gang alone."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any

import msgspec
import numpy as np
import pytest

from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, Unschedulable
from gangsched.core.events import Hint
from gangsched.core.framework.arguments import NodeAffinityArgs, NodeResourcesFitArgs, ScoringStrategy
from gangsched.core.framework.registry import Plugin, PluginSet
from gangsched.core.plugins.base import Bools, Failure, NodeFilter
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import CPU, Floats
from tests.builders import OTHERS, OURS, gang, node, pod, required_affinity
from tests.core.harness import Built, Cluster, placed, plan, reports, texts, victims
from tests.core.plugins.profiles import OTHER, Strict, plugin_options, with_filter

MOST_ALLOCATED = ("NodeResourcesFit", NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="MostAllocated")))


class Last:
    """Prefers the last node by name; ``wrong`` and ``answer`` as above."""

    name = "Last"
    local = True

    def __init__(self, wrong: str = "", answer: Any = None) -> None:
        self.wrong, self.answer = wrong, answer

    def _ask(self, method: str, right: Any) -> Any:
        if method == self.wrong:
            if self.answer is None:
                raise KeyError("no such thing")
            return self.answer
        return right

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Floats:
        found: Floats = self._ask("prepare", np.arange(sim.snapshot.size, dtype=np.float64))
        return found

    def values(self, state: Floats) -> Floats:
        found: Floats = self._ask("values", state)
        return found

    def value(self, state: Floats, row: int) -> float:
        found: float = self._ask("value", float(state[row]))
        return found


def with_score(made: object) -> dict[str, Any]:
    """The same for a score, which alone counts."""
    plugin = Plugin("Last", score=lambda _: made, foreign=True)  # type: ignore[arg-type,return-value]
    return plugin_options(PluginSet(scores=(("Last", 1.0),), foreign=(plugin,)))


# ------------------------------------------------------------------------------------------------------------ profiles


def test_each_scheduler_name_has_its_own_filters() -> None:
    """A gang is decided with the filters of its schedulerName, whoever else waits."""
    busy = [pod(f"b{i}").cpu(1).on("n0") for i in range(2)]
    ours, theirs = pod("ours").cpu(1), pod("theirs").cpu(1).scheduler(OTHER)
    found = plan(node("n0"), *busy, ours, theirs, **with_filter(Strict()))
    assert (found["d/ours"].outcome, found["d/theirs"].outcome) == (BIND, UNSCHEDULABLE)
    assert "node(s) were busy" in found["d/theirs"].message


def test_each_scheduler_name_has_its_own_scores() -> None:
    """The same pod goes elsewhere under another name."""
    nodes = [node(f"n{i}").cpu(9 - i) for i in range(3)]
    options = with_score(Last())
    assert placed(plan(*nodes, pod("a").cpu(1), **options)["d/a"]) == {"a": "n0"}
    assert placed(plan(*nodes, pod("a").cpu(1).scheduler(OTHER), **options)["d/a"]) == {"a": "n2"}


def test_filters_of_others_are_asked_in_the_search_for_victims() -> None:
    """A pod leaves for the sake of a filter that only the preemptor's profile has."""
    busy = [pod(f"b{i}").cpu(1).priority(i).on("n0") for i in range(2)]
    found = plan(node("n0"), *busy, pod("new").cpu(1).priority(9).scheduler(OTHER), **with_filter(Strict()))["d/new"]
    assert (found.outcome, victims(found)) == (PREEMPT, ["b0"])


def test_ignored_resources_are_never_short() -> None:
    """With ignoredResources a gang starts although nobody has what it asks for, and no pod leaves for it."""
    fit = NodeResourcesFitArgs(ignored_resources=("example.com/token",), ignored_resource_groups=("example.org",))
    options = plugin_options(PluginSet(arguments=(("NodeResourcesFit", fit),)))
    wanted = {"example.com/token": 3, "example.org/seat": 1}
    builders = [pod(f"m{i}").cpu(1).scheduler(OTHER).gang("g") for i in range(3)]
    for builder in builders:
        builder._requests.update(wanted)
    found = plan(node("n0"), gang("g").min(3), *builders, pod("low").cpu(1).on("n0"), **options)["d/g"]
    assert found.outcome == BIND
    strict = pod("p").cpu(1)
    strict._requests.update(wanted)
    found = plan(node("n0"), strict, **options)["d/p"]
    assert isinstance(found, Unschedulable)
    assert {r.text for r in found.reasons} == {"Insufficient example.com/token", "Insufficient example.org/seat"}


def test_victims_are_found_for_what_is_not_ignored() -> None:
    """The search counts the other resources as ever."""
    fit = NodeResourcesFitArgs(ignored_resources=("example.com/token",))
    options = plugin_options(PluginSet(arguments=(("NodeResourcesFit", fit),)))
    new = pod("new").cpu(3).priority(5).scheduler(OTHER)
    new._requests["example.com/token"] = 7
    running = [pod(f"r{i}").cpu(2).priority(i).on("n0") for i in range(2)]
    found = plan(node("n0").cpu(4), *running, new, **options)["d/new"]
    assert (found.outcome, victims(found)) == (PREEMPT, ["r0", "r1"])


def test_added_affinity_has_words_of_its_own() -> None:
    """Nodes that the profile's addedAffinity excludes are told apart from those that the pod excludes."""
    options = plugin_options(PluginSet(arguments=(("NodeAffinity", required_affinity("batch")),)))
    nodes = [node("n0").label(pool="batch"), node("n1").label(pool="web")]
    assert placed(plan(*nodes, pod("a").cpu(1).scheduler(OTHER), **options)["d/a"]) == {"a": "n0"}
    found = plan(*nodes, pod("b").cpu(1).selector(pool="web").scheduler(OTHER), **options)["d/b"]
    assert found.message.startswith(
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector,"
        " 1 node(s) didn't match scheduler-enforced node affinity"
    )


def test_preferred_added_affinity_ranks() -> None:
    """What addedAffinity prefers counts like a preference of the pod."""
    in_batch = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["batch"]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": in_batch}]}
    given = msgspec.convert({"addedAffinity": wish}, NodeAffinityArgs)
    plugins = PluginSet(arguments=(("NodeAffinity", given),), scores=(("NodeAffinity", 1.0),))
    nodes = [node("n0").label(pool="web"), node("n1").label(pool="batch")]
    found = plan(*nodes, pod("a").cpu(1).scheduler(OTHER), **plugin_options(plugins))["d/a"]
    assert placed(found) == {"a": "n1"}


def test_disabled_filters_are_really_off() -> None:
    """Without the filter, anti-affinity keeps nobody apart, not even in the search for victims."""
    plugins = PluginSet(filters=tuple(n for n in PluginSet().filters if n not in ("TaintToleration", "NodePorts")))
    tainted = node("n0").cpu(2).taint("team")
    running = [pod("r0").cpu(1).port(80).priority(1).on("n0"), pod("r1").cpu(1).priority(2).on("n0")]
    new = [pod(f"m{i}").cpu(1).port(80).priority(9).gang("g").scheduler(OTHER) for i in range(2)]
    found = plan(tainted, *running, gang("g").min(2), *new, **plugin_options(plugins))["d/g"]
    assert (found.outcome, victims(found)) == (PREEMPT, ["r0", "r1"])


class OnlyRed(NodeFilter):
    """Lets pods run where their label ``app`` is that of the node."""

    name = "Strict"
    text = "node(s) had another app"
    pod_labels = ("app",)

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return "app" in pod.labels

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        return np.array([n.labels.get("app") == pod.labels["app"] for n in sim.snapshot.nodes], dtype=np.bool_)


def test_filters_may_read_labels_of_pods() -> None:
    """Pods that differ in a label that a plug-in reads are not taken for alike."""
    nodes = [node("n0").label(app="red"), node("n1").label(app="blue")]
    members = [pod(f"m{i}").cpu(1).label(app=app).gang("g").scheduler(OTHER) for i, app in enumerate(("blue", "red"))]
    found = plan(*nodes, gang("g").min(2), *members, **with_filter(OnlyRed()))["d/g"]
    assert placed(found) == {"m0": "n1", "m1": "n0"}


class Large(NodeFilter):
    """Looks at the size of nodes, and at nothing that changes with pods."""

    name = "Strict"
    text = "node(s) were small"

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        return np.asarray(sim.snapshot.allocatable[CPU] >= 32000)


def test_answers_about_nodes_do_not_outlive_a_change_of_them() -> None:
    """What is remembered of a filter that sees no pods is forgotten when a node grows."""
    cluster = Cluster(node("n0").cpu(8), pod("a").cpu(1).scheduler(OTHER), **with_filter(Large()))
    cluster.run()
    assert not cluster.pod("a").node
    cluster.now += 60.0
    cluster.show(node("n0").cpu(64))
    cluster.run()
    assert cluster.pod("a").node == "n0"


class NodesOnly(OnlyRed):
    """The same, and says that only new labels of nodes can help."""

    hints = Hint.NODE_LABELS

    def __init__(self) -> None:
        self.asked = 0

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        self.asked += 1
        return super().prepare(pod, sim)


def test_hints_say_what_wakes_a_gang() -> None:
    """A gang that such a filter has refused is not tried again over what its hints leave out."""
    rule = NodesOnly()
    wanted = pod("a").cpu(1).label(app="red").scheduler(OTHER)
    cluster = Cluster(node("n0").label(app="blue").cpu(64), wanted, **with_filter(rule))
    cluster.run()
    before = len(cluster.decisions)
    cluster.now += 60.0
    cluster.show(pod("passing").cpu(1).on("n0"))
    cluster.run()
    cluster.delete("passing")
    cluster.run()
    assert len(cluster.decisions) == before
    cluster.show(node("n0").label(app="red").cpu(64))
    cluster.run()
    assert cluster.pod("a").node == "n0"


def test_the_pods_of_kube_scheduler() -> None:
    """A profile called default-scheduler serves the pods that ask for nobody, each name with its own plug-ins."""
    options: dict[str, Any] = {
        "scheduler_names": (OTHERS, OURS),
        "profiles": ((OURS, PluginSet(scores=(("NodeResourcesFit", 1.0),), arguments=(MOST_ALLOCATED,))),),
    }
    nodes = [node("n0").cpu(4), node("n1").cpu(4)]
    running = pod("r").cpu(1).on("n1")
    found = plan(*nodes, running, pod("a").cpu(1).priority(9).scheduler(OTHERS), pod("b").cpu(1), **options)
    assert (placed(found["d/a"]), placed(found["d/b"])) == ({"a": "n0"}, {"b": "n0"})
    found = plan(*nodes, running, pod("b").cpu(1), **options)
    assert placed(found["d/b"]) == {"b": "n1"}


# ------------------------------------------------------------------------------------------------------------ failures

_SHAPES = [
    (
        "mask",
        np.ones(7, dtype=np.bool_),
        "mask: answered an array of bool of shape (7,), not an array of bool of shape",
    ),
    ("mask", np.ones(1), "mask: answered an array of float64 of shape (1,), not an array of bool of shape (1,)"),
    ("mask", [True], "mask: answered list, not an array of bool of shape (1,)"),
    ("failures", ["busy"], "failures: answered str, not a Failure with a text"),
    (
        "failures",
        [Failure("busy", np.ones(3, dtype=np.bool_), True)],
        "failures: answered an array of bool of shape (3,)",
    ),
    ("failures", None, "failures: TypeError: 'NoneType' object is not iterable"),
]


@pytest.mark.parametrize(("method", "answer", "words"), _SHAPES, ids=[words for _, _, words in _SHAPES])
def test_wrong_answers_of_a_filter(method: str, answer: Any, words: str) -> None:
    """An answer of another form than promised fails the gang and says what was wrong with it."""
    busy = [pod(f"b{i}").cpu(1).on("n0") for i in range(2)]
    wanted = pod("new").cpu(1).scheduler(OTHER)
    found = plan(node("n0"), *busy, wanted, **with_filter(Strict(method, answer=answer)))["d/new"]
    assert isinstance(found, Unschedulable)
    assert found.failed_plugin == "Strict"
    assert found.message.startswith(f"plug-in Strict failed in {words}")
    assert found.unplaced[0].reasons == (found.message,)


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("prepare", None, "prepare: KeyError: 'no such thing'"),
        ("values", np.full(1, np.nan), "values: answered nan, not a score between 0 and 100"),
        ("values", np.full(1, 101.0), "values: answered 101.0, not a score between 0 and 100"),
        (
            "values",
            np.zeros(3),
            "values: answered an array of float64 of shape (3,), not an array of float64 of shape",
        ),
        ("values", np.zeros(1, dtype=np.int64), "values: answered an array of int64 of shape (1,)"),
        ("value", float("inf"), "value: answered inf, not a score between 0 and 100"),
        ("value", "much", "value: ValueError: could not convert string to float: 'much'"),
    ],
)
def test_wrong_answers_of_a_score(method: str, answer: Any, words: str) -> None:
    """The same for scores; the value of one node is asked for within gangs."""
    members = [pod(f"m{i}").cpu(1).gang("g").scheduler(OTHER) for i in range(3)]
    found = plan(node("n0"), gang("g").min(3), *members, **with_score(Last(method, answer)))["d/g"]
    assert found.message.startswith(f"plug-in Last failed in {words}")


@pytest.mark.parametrize("after", range(0, 24, 3))
@pytest.mark.parametrize("method", ["applies", "prepare", "mask", "failures", "apply"])
def test_a_filter_that_raises_fails_its_gang_alone(method: str, after: int) -> None:
    """Whenever and wherever it raises, in the middle of a search for victims too, others are decided as without it."""
    nodes = [node(f"n{i}").cpu(4) for i in range(3)]
    busy = [pod(f"b{i}-{k}").cpu(1).priority(k).on(f"n{i}") for i in range(3) for k in range(2)]
    members = [pod(f"m{i}").cpu(1).priority(9).gang("g").scheduler(OTHER) for i in range(3)]
    others = [pod(f"o{i}").cpu(1).priority(i).gang("h") for i in range(3)]
    world: list[Built] = [*nodes, *busy, gang("g").min(3), *members, gang("h").min(3), *others]
    right = plan(*world, **with_filter(Strict()))
    found = plan(*world, **with_filter(Strict(method, after)))
    assert right["d/g"].outcome == PREEMPT
    if isinstance(found["d/g"], Unschedulable) and found["d/g"].failed_plugin:
        assert found["d/g"].message == f"plug-in Strict failed in {method}: ZeroDivisionError: by zero"
        assert (found["d/g"].outcome, found["d/g"].victims, found["d/g"].placements) == (UNSCHEDULABLE, (), ())
    else:
        assert found["d/g"] == right["d/g"]  # it is never asked so often
    assert found["d/h"].outcome == BIND


@pytest.mark.parametrize("failure", [SystemExit(3), GeneratorExit("3"), CancelledError("3")], ids=repr)
def test_a_filter_that_wants_to_end_everything_fails_its_gang_alone(failure: BaseException) -> None:
    """A plug-in that calls sys.exit() ends neither the process nor, in silence, the thread that decides."""
    rule = Strict("mask", answer=failure)
    found = plan(node("n0"), pod("a").cpu(1).scheduler(OTHER), pod("b").cpu(1), **with_filter(rule))
    assert found["d/a"].message == f"plug-in Strict failed in mask: {type(failure).__name__}: 3"
    assert (found["d/a"].outcome, found["d/b"].outcome) == (UNSCHEDULABLE, BIND)


def test_who_interrupts_a_simulation_does_not_mean_the_plugin() -> None:
    """What comes of ^C passes through."""
    with pytest.raises(KeyboardInterrupt):
        plan(node("n0"), pod("a").cpu(1).scheduler(OTHER), **with_filter(Strict("mask", answer=KeyboardInterrupt())))


def test_a_failure_is_told_once_and_the_gang_goes_on_when_it_is_over() -> None:
    """Event and condition say SchedulerError with the plug-in's name, once; the process and other gangs go on."""
    broken = Strict("mask", after=0, answer=RuntimeError("at <object 0x7f3a12>\n  twice"))
    cluster = Cluster(node("n0"), pod("a").cpu(1).scheduler(OTHER), pod("b").cpu(1), **with_filter(broken))
    cluster.run()
    for _ in range(4):
        cluster.now += 400.0
        cluster.run()
    assert cluster.pod("b").node == "n0"
    assert not cluster.pod("a").node
    message = "plug-in Strict failed in mask: RuntimeError: at <object 0x…> twice"
    assert [r.note for r in reports(cluster.log, "SchedulerError")] == [message]
    assert texts(cluster.log, "a") == [("SchedulerError", message)]
    broken.wrong = ""
    cluster.now += 400.0
    cluster.run()
    assert cluster.pod("a").node == "n0"


def test_a_plan_is_given_up_when_its_filter_fails() -> None:
    """A gang whose victims are leaving is not bound while its plug-in fails; it is told, and tried again."""
    rule = Strict()
    busy = [pod(f"b{i}").cpu(1).priority(i).on("n0") for i in range(2)]
    new = pod("new").cpu(1).priority(9).scheduler(OTHER)
    cluster = Cluster(node("n0"), *busy, new, **with_filter(rule))
    cluster.run()
    assert cluster.pod("b0").deleting_since is not None
    rule.wrong, rule.left = "mask", 0
    cluster.leave("b0")
    cluster.run()
    assert not cluster.pod("new").node
    assert len(reports(cluster.log, "SchedulerError")) == 1
    rule.wrong = ""
    cluster.now += 400.0
    cluster.run()
    assert cluster.pod("new").node == "n0"


@pytest.mark.parametrize("attribute", [{"hints": "ANY"}, {"hints": None}, {"pod_labels": "team"}, {"pod_labels": (1,)}])
def test_attributes_of_the_wrong_kind_are_refused_at_once(attribute: dict[str, Any]) -> None:
    """Not when the first event comes by that they are asked about."""
    rule = Strict()
    vars(rule).update(attribute)
    with pytest.raises(TypeError, match=f"{next(iter(attribute))} of plug-in Strict must be"):
        plan(node("n1"), **with_filter(rule))
