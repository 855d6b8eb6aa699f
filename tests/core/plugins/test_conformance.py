"""The conformance kit: built-in filters and scores keep their protocol, and every way to break it is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gangsched.core.framework.registry import BUILT_IN
from gangsched.core.plugins.base import Bools, Failure, NodeFilter, NodeView, PerNodeFilter, PerNodeScore
from gangsched.core.plugins.inter_pod_affinity import InterPodAffinityScore
from gangsched.core.plugins.node import AddedNodeAffinity, NodeAffinityScore
from gangsched.core.plugins.resources import NodeResourcesBalancedAllocation, NodeResourcesFitScore
from gangsched.core.plugins.topology_spread import PodTopologySpread, SpreadDefaults
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import PODS, Floats
from gangsched.model.constraints import NodeTerm, Requirement, SpreadConstraint
from gangsched_conformance import CHECKS, check, cluster
from gangsched_conformance.__main__ import main
from tests.amounts import amount

SEEDS = range(amount(25, 8))


def built_in() -> list[Any]:
    """Parameters: every built-in filter and score, and those that arguments make very different."""
    found: list[tuple[str, object]] = []
    for plugin in BUILT_IN:
        found += [(f"filter {f.name}", f) for f in (plugin.filters(plugin.arguments) if plugin.filters else ())]
        if plugin.score is not None:
            found.append((f"score {plugin.name}", plugin.score(plugin.arguments)))
    mixed = (("cpu", 1), ("nvidia.com/gpu", 3), ("ephemeral-storage", 2))
    term = NodeTerm((Requirement("disk", "In", ("ssd",)),))
    rules = (SpreadConstraint("disk", 1, None, required=True), SpreadConstraint("disk", 1, None, required=False))
    found += [
        ("fit, most allocated", NodeResourcesFitScore("MostAllocated", mixed)),
        ("fit, by shape", NodeResourcesFitScore("RequestedToCapacityRatio", mixed, ((0, 10), (40, 3), (90, 8)))),
        ("balance of three", NodeResourcesBalancedAllocation([name for name, _ in mixed])),
        ("added affinity", AddedNodeAffinity((term,))),
        ("added preference", NodeAffinityScore(((5, term),))),
        ("spread by default", PodTopologySpread(SpreadDefaults("List", rules))),
        ("affinity, other weights", InterPodAffinityScore(0, True)),
    ]
    return [pytest.param(plugin, id=name) for name, plugin in found]


@pytest.mark.parametrize("plugin", built_in())
def test_what_is_built_in_conforms(plugin: object) -> None:
    """Each filter and score of the project keeps every promise, and was asked."""
    assert check(plugin, SEEDS) == []


# ------------------------------------------------------------------------------------------------------- wrong filters


class Half:
    """At most half of a node's pod slots: right in every respect, the base of what is wrong below."""

    name = "Half"
    sees_pods = True
    monotone = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation) -> dict[str, Any]:
        here = np.zeros(sim.snapshot.size)
        for _, row in sim.present():
            here[row] += 1
        return {"here": here, "room": sim.snapshot.allocatable[PODS] // 2, "sim": sim}

    def mask(self, state: Any) -> Bools:
        return np.asarray(state["here"] < state["room"])

    def failures(self, state: Any) -> list[Failure]:
        return [Failure("too many", ~self.mask(state), resolvable=True)]

    def apply(self, state: Any, pod: PodClass, row: int, sign: int) -> None:
        state["here"][row] += sign


class Raises(Half):
    """Fails over certain pods."""

    def mask(self, state: Any) -> Bools:
        raise ZeroDivisionError("by zero")


class ShortMask(Half):
    """A mask of the wrong shape."""

    def mask(self, state: Any) -> Bools:
        return super().mask(state)[1:]


class FloatMask(Half):
    """A mask of the wrong type."""

    def mask(self, state: Any) -> Any:
        return super().mask(state).astype(float)


class Silent(Half):
    """Refuses nodes without a reason."""

    def failures(self, state: Any) -> list[Failure]:
        return []


class TooMuch(Half):
    """Gives reasons for nodes that pass."""

    def failures(self, state: Any) -> list[Failure]:
        return [Failure("everything", np.ones(len(state["here"]), dtype=np.bool_), resolvable=True)]


class OneWay(Half):
    """Counts pods that come, not pods that leave."""

    def apply(self, state: Any, pod: PodClass, row: int, sign: int) -> None:
        state["here"][row] += max(sign, 0)


class Deaf(Half):
    """Never learns of pods that come and go: what it says can be undone, but is not true."""

    def apply(self, state: Any, pod: PodClass, row: int, sign: int) -> None:
        return


class NotBlind(Half):
    """Says that it looks at nodes only."""

    sees_pods = False


class Hopeless(Half):
    """Says that no eviction can help."""

    def failures(self, state: Any) -> list[Failure]:
        return [Failure("too many", ~self.mask(state), resolvable=False)]


class Company(Half):
    """Wants pods to be there, and says that it does not mind when they leave."""

    def mask(self, state: Any) -> Bools:
        return np.asarray(state["here"] > 0)


class Moody(Half):
    """Remembers how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def prepare(self, pod: PodClass, sim: Simulation) -> dict[str, Any]:
        self.asked += 1
        return {**super().prepare(pod, sim), "room": np.full(sim.snapshot.size, self.asked % 3)}


class Meddler(Half):
    """Takes what it looks at for its own."""

    def prepare(self, pod: PodClass, sim: Simulation) -> dict[str, Any]:
        sim.free[0] -= 1
        return super().prepare(pod, sim)


class Never(Half):
    """Has nothing to say."""

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return False


def test_the_base_of_the_wrong_filters_is_right() -> None:
    """What is found below is what was changed."""
    assert check(Half(), SEEDS) == []


FEW = range(8)

WRONG_FILTERS: dict[str, list[Callable[[], object]]] = {
    "answers": [Raises, ShortMask, FloatMask],
    "failures": [Silent, TooMuch],
    "rollback": [OneWay],
    "rebuilt": [Deaf],
    "blind": [NotBlind],
    "resolvable": [Hopeless],
    "monotone": [Company],
    "deterministic": [Moody],
    "untouched": [Meddler],
    "asked": [Never],
}


@pytest.mark.parametrize(
    ("name", "make"), [pytest.param(n, m, id=f"{n}: {m}") for n, makes in WRONG_FILTERS.items() for m in makes]
)
def test_wrong_filters_are_found(name: str, make: Callable[[], object]) -> None:
    """A filter that breaks a promise is found by the check of that name."""
    found = check(make(), FEW)
    assert name in {finding.check for finding in found}
    assert all(str(finding) for finding in found)


# -------------------------------------------------------------------------------------------------------- wrong scores


class Free:
    """The share of the pod slots that is free: right in every respect."""

    name = "Free"
    local = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Simulation:
        return sim

    def values(self, state: Simulation) -> Floats:
        room = state.snapshot.allocatable[PODS]
        return np.asarray(np.floor(100.0 * np.maximum(state.free[PODS], 0.0) / room))

    def value(self, state: Simulation, row: int) -> float:
        return float(self.values(state)[row])


class TooHigh(Free):
    """Leaves the range."""

    def values(self, state: Simulation) -> Floats:
        return super().values(state) * 2


class NoNumber(Free):
    """Divides zero by zero."""

    def values(self, state: Simulation) -> Floats:
        return np.full(state.snapshot.size, np.nan)


class Whole(Free):
    """Answers in whole numbers."""

    def values(self, state: Simulation) -> Any:
        return super().values(state).astype(np.int64)


class Rounded(Free):
    """One node alone is scored in another way."""

    def value(self, state: Simulation, row: int) -> float:
        return float(round(super().value(state, row) / 10) * 10)


class Relative(Free):
    """Compares nodes with each other, and says that it does not."""

    def values(self, state: Simulation) -> Floats:
        return np.asarray(np.clip(50.0 + super().values(state) - super().values(state).mean(), 0.0, 100.0))


class Stale(Free):
    """Remembers the scores of the beginning."""

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Any:
        return super().values(sim)

    def values(self, state: Any) -> Floats:
        return np.asarray(state)

    def value(self, state: Any, row: int) -> float:
        return float(state[row])


class MoodyScore(Free):
    """Remembers how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0.0

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Simulation:
        self.asked += 1
        return sim

    def values(self, state: Simulation) -> Floats:
        return np.full(state.snapshot.size, self.asked % 100)


class MeddlingScore(Free):
    """Takes what it looks at for its own."""

    def values(self, state: Simulation) -> Floats:
        state.scored += 1
        return super().values(state)


class NeverScored(Free):
    """Has nothing to say."""

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return False


def test_the_base_of_the_wrong_scores_is_right() -> None:
    """What is found below is what was changed."""
    assert check(Free(), SEEDS) == []


WRONG_SCORES: dict[str, list[Callable[[], object]]] = {
    "answers": [TooHigh, NoNumber, Whole],
    "value": [Rounded],
    "local": [Relative, Stale],
    "deterministic": [MoodyScore],
    "untouched": [MeddlingScore],
    "asked": [NeverScored],
}


@pytest.mark.parametrize(
    ("name", "make"), [pytest.param(n, m, id=f"{n}: {m}") for n, makes in WRONG_SCORES.items() for m in makes]
)
def test_wrong_scores_are_found(name: str, make: Callable[[], object]) -> None:
    """A score that breaks a promise is found by the check of that name."""
    assert name in {finding.check for finding in check(make(), FEW)}


def test_every_check_has_a_plugin_that_fails_it() -> None:
    """No check is there that nothing can fail."""
    assert {*WRONG_FILTERS, *WRONG_SCORES} == set(CHECKS)


# ------------------------------------------------------------------------------------------------ one node at a time


class Lonely(PerNodeFilter):
    """A node takes three pods."""

    name = "Lonely"
    text = "node(s) had three pods"

    def passes(self, pod: PodClass, node: NodeView) -> bool:
        return len(node.pods) < 3 and node.free["cpu"] > 0


class Spacious(PerNodeScore):
    """Free cores."""

    name = "Spacious"

    def score(self, pod: PodClass, node: NodeView) -> float:
        return min(100.0, max(0.0, node.free["cpu"] / 1000.0))


class Labelled(NodeFilter):
    """Reads a label of the pod, and says so."""

    name = "Labelled"
    text = "node(s) were not of the pod's colour"
    pod_labels = ("app",)

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return "app" in pod.labels

    def prepare(self, pod: PodClass, sim: Simulation) -> Bools:
        red = pod.labels["app"] == "red"
        return np.array([red == (n.labels.get("disk") == "ssd") for n in sim.snapshot.nodes], dtype=np.bool_)


@pytest.mark.parametrize("make", [Lonely, Spacious, Labelled])
def test_the_slow_adapters_conform(make: Callable[[], object]) -> None:
    """What is built on the adapters keeps the protocol without doing anything for it."""
    assert check(make(), SEEDS) == []


# --------------------------------------------------------------------------------------------------------- how it runs


def test_findings_are_the_same_every_time() -> None:
    """Equal seeds, equal clusters, equal findings."""
    assert check(OneWay(), range(5)) == check(OneWay(), range(5))
    assert cluster(3).wanted == cluster(3).wanted != cluster(4).wanted


def test_neither_nor_is_an_error() -> None:
    """What has no mask and no values cannot be checked."""
    with pytest.raises(TypeError, match="neither a filter"):
        check(object())


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("gangsched.core.plugins.node:NodePorts", 0, "ok on 3 clusters"),
        ("tests.core.plugins.test_conformance:Silent", 1, "broken: failures"),
        ("tests.core.plugins.test_conformance:Gone", 2, "cannot be checked: AttributeError"),
        ("tests.core.plugins.test_conformance", 2, "must be module:object"),
    ],
)
def test_the_command(name: str, code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m gangsched_conformance` says what is wrong, and its exit code whether anything is."""
    assert main([name, "--seeds", "3"]) == code
    said = capsys.readouterr()
    assert words in said.out + said.err


class OnlyOnRed(PerNodeFilter):
    """Has something to say about pods with a label that made-up pods never have."""

    name = "OnlyOnRed"
    pod_labels = ("colour",)

    def applies(self, pod: PodClass, view: Simulation) -> bool:
        return pod.labels.get("colour") == "red"

    def passes(self, pod: PodClass, node: NodeView) -> bool:
        return node.node.labels.get("colour") == "red"


COLOURED = """\
apiVersion: v1
kind: Pod
metadata: {name: mine, labels: {colour: red}}
spec: {schedulerName: py-gang-scheduler, containers: [{resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: red, labels: {colour: red}}
status: {capacity: {cpu: 8, memory: 8Gi, pods: 10}}
"""


def test_pods_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the shell too a plug-in is asked about pods of a file, which are in each cluster with its nodes."""
    path = tmp_path / "pods.yaml"
    path.write_text(COLOURED)
    name = f"{__name__}:OnlyOnRed"
    assert main([name, "--seeds", "2"]) == 1
    assert "broken: asked" in capsys.readouterr().out
    assert main([name, "--seeds", "2", "-f", str(path)]) == 0
    assert capsys.readouterr().out == f"{name}: ok on 2 clusters\n"
    path.write_text("kind: [")
    assert main([name, "-f", str(path)]) == 2
    assert str(path) in capsys.readouterr().err
