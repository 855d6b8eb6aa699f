"""Answers about gangs of all sizes and causes fit into few lines of a terminal, and begin with the reason."""

from __future__ import annotations

import io
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gangsched.cli.contracts import Planned
from gangsched.cli.decisions import State, sentence
from gangsched.cli.explanation import Explanation, explain, first_action
from gangsched.cli.render import render_explanation, render_plan
from gangsched.cluster.manifests import load
from gangsched.core.decision import Gathering, Unschedulable
from gangsched.core.events import Changed, records
from gangsched.core.options import Options
from gangsched.messages.advice import NONE_FOUND
from gangsched.model.records import SINGLE, Pod
from tests import builders, generators
from tests.amounts import amount
from tests.bench.families.catalogue import FAMILIES, cluster
from tests.bench.families.site import SMALL
from tests.oracle.case import NOW

#: As many lines of as many columns as a person reads at a glance.
LINES, COLUMNS = 15, 80
ROOT = Path(__file__).parents[2]
EXAMPLES = ("koordinator", "workload", "quota-gpu", "coscheduling", "jobset", "kai", "volcano", "kueue-pod-group")
GANG = "training-of-a-model-with-a-long-name"
ONE_RACK = {"topology": (("rack", True),)}


def on_a_terminal(render, *things, width=COLUMNS, **more):
    """What is printed, line by line."""
    file = io.StringIO()
    out = Console(
        file=file, width=width, force_terminal=True, color_system=None, highlight=False, markup=False, emoji=False
    )
    render(*things, console=out, **more)
    return file.getvalue().splitlines()


def judged(state):
    """Ask about every gang and about a pod of each that is on nodes: what is wrong with the answers."""
    wrong = []
    for decision, spent in state.decisions:
        gang = decision.gang
        found = explain(state, gang.namespace, gang.name)
        wrong += _judged(found, on_a_terminal(render_explanation, found, spent), gang.key)
        actions = {gang: first_action(state, decision)}
        lines = on_a_terminal(render_plan, Planned([(decision, spent)], actions=actions))
        if len(lines) > LINES + 2 or max(map(len, lines)) > COLUMNS:  # an empty line and the sum of the plan
            wrong.append(("plan", gang.key, lines))
    asked: dict[tuple[object, int], Pod] = {}
    for pod in records(state.events, Pod):
        if pod.node:
            asked.setdefault((pod.gang if pod.gang.family != SINGLE else "", pod.priority), pod)
    for pod in list(asked.values())[:6]:
        found = explain(state, pod.namespace, pod.name, "Pod")
        wrong += _judged(found, on_a_terminal(render_explanation, found), pod.key)
    return wrong


def _judged(found: Explanation, lines, name):
    text = " ".join(" ".join(lines).split())
    if len(lines) > LINES or max(map(len, lines)) > COLUMNS:
        yield "long", name, lines
    word = found.word.upper() + "  " if found.own is None else "  "
    first = found.sentence if found.own is None else sentence(found.own)
    if word not in lines[1] or " ".join(first.split())[:60] not in text:
        yield "no reason in line 1", name, lines
    waits = isinstance(found.own, Unschedulable | Gathering)
    if (waits or found.word == "victim") and "  do  " not in "\n".join(lines) and NONE_FOUND[:40] not in text:
        yield "nothing to do", name, lines


@pytest.mark.parametrize("family", [*FAMILIES])
def test_families(family):
    """Gangs that need victims, budgets, volumes, domains, quota, in clusters of 20 to 40 nodes."""
    made = cluster(family, 0, SMALL)
    assert judged(State(made.events(), made.options, NOW)) == []


def test_random_clusters():
    """Gangs of which some cannot start, for all causes that the generator knows."""
    for seed in range(amount(12, 6)):
        made = generators.cluster(seed)
        assert judged(State(made.events, made.options, 1000.0)) == [], seed


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    """The manifests of the documentation, with queues and dialects."""
    loaded = load([str(ROOT / "examples" / name)])
    assert judged(State(loaded.events, Options(), loaded.now)) == []


#: Members of the largest gang.
MOST = amount(2000, 500)
#: What keeps a gang of each size from starting at once.
CAUSES: dict[str, dict[str, Any]] = {
    "victims": {"running": 1},
    "victims of several gangs and namespaces": {"running": 1, "unit": 5},
    "priority": {"running": 5},
    "taints, labels and cordons": {"closed": True},
    "a request that no node has": {"gpus": 9},
    "more than there is": {"more": 7},
    "a rack": {"one_rack": True},
    "members that are missing": {"missing": 3},
}


@pytest.mark.parametrize(
    ("cause", "size"),
    [*product(CAUSES, (1, 8, 256)), ("victims of several gangs and namespaces", MOST), ("more than there is", MOST)],
)
def test_sizes(cause, size):
    """From one member to hundreds and more, with long names: victims, priorities, several refusals of nodes, racks,
    members that are not there.
    """
    assert judged(State([*_world(size, **CAUSES[cause])], Options(), NOW)) == []


def _world(size, *, running=0, unit=0, closed=False, gpus=1, more=0, one_rack=False, missing=0):
    """A gang of so many members of priority 3, and nodes with 8 GPUs each that it would fill."""
    nodes = [f"gpu-node-of-a-pool-with-a-name-that-is-long-{n}" for n in range(-(-size // 8))]
    for n, name in enumerate(nodes):
        made = builders.node(name).cpu(64).gpu(8).label(rack=f"r{n // 2}")
        if closed:
            (partial(made.taint, "team", "research"), made.cordoned, made.not_ready)[n % 3]()
        yield Changed(made.obj())
    for n in range(size if running else 0):
        held = builders.pod(f"v-{n}", f"team-{n % 7 if unit else 0}").gpu(1).priority(running).on(nodes[n // 8])
        yield Changed((held.gang(f"old-{n // unit}") if unit else held).obj())
    members = size + more * 8
    gang = builders.gang(GANG, "team-0").min(members)
    yield Changed((gang.field(**ONE_RACK) if one_rack else gang).obj())
    for n in range(members - min(missing, size)):
        member = builders.pod(f"worker-of-a-training-with-a-long-name-{n:04}", "team-0").gang(GANG)
        yield Changed(member.gpu(gpus).priority(3).obj())
