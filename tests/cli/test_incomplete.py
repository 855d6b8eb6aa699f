"""What there is to do for a gang that is not complete, or cannot be decided as it is: by what it is, not by words."""

from __future__ import annotations

import pytest

from gangsched.api import Cluster, load
from gangsched.cli.decisions import State
from gangsched.cli.explanation import explain, first_action
from gangsched.cli.incomplete import ADVICE
from gangsched.core.decision import Gathering
from gangsched.core.world.obstacles import Kind
from tests.cli.gpu_cluster import LABEL, NODES, group, job, pod

KOORDINATOR = "gang.scheduling.koordinator.sh"
MEMBERS = [pod(f"train-{n}", labels={LABEL: "train"}) for n in range(2)]


DELETED_NAMESPACE = {
    "kind": "Namespace",
    "metadata": {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"},
    "status": {"phase": "Terminating"},
}


def test_every_obstacle_has_advice():
    """A new kind of obstacle needs an entry in ADVICE of gangsched/cli/incomplete.py."""
    assert set(ADVICE) == set(Kind)


def told(*objects):
    """The one gang's decision, and what there is to do for it."""
    cluster: Cluster = load([{"apiVersion": "v1", **each} for each in (*NODES, *objects)])
    state = State(cluster.loaded.events, cluster.options, 1767225660.0)
    (decision,) = [decision for decision, _ in state.decisions]
    assert isinstance(decision, Gathering), decision
    found = explain(state, decision.gang.namespace, decision.gang.name)
    assert [each.lines for each in found.sections if each.label == "would help"] == [[first_action(state, decision)]]
    return first_action(state, decision)


@pytest.mark.parametrize(
    ("objects", "action"),
    [
        ([group(members=3), *MEMBERS], "create the missing pods: nothing is scheduled or evicted"),
        ([group(members=3), job(notes={}, labels={LABEL: "train"})], "raise parallelism of Job default/train to 3"),
        (
            [group(), pod("train-0", labels={LABEL: "train"}, schedulingGates=[{"name": "a/b"}])],
            "remove the scheduling",
        ),
        (MEMBERS, "create the PodGroup default/train; its spec.minMember says"),
        ([group(name="trian"), *MEMBERS], "change the label pod-group.scheduling.sigs.k8s.io of the pods to trian"),
        (
            [pod("a", meta={"annotations": {f"{KOORDINATOR}/name": "g"}})],
            f"give its pods the annotation {KOORDINATOR}/min-available",
        ),
        (
            [group(members=2, **{f"{KOORDINATOR}/groups": '["default/train", "default/other"]'}), *MEMBERS],
            "create all gangs of its GangGroup",
        ),
        (
            [group(members=2), *MEMBERS, DELETED_NAMESPACE],
            "create it in another namespace: default is being deleted",
        ),
    ],
)
def test_what_is_missing_says_what_to_do(objects, action):
    """The action follows from what is missing, whatever words the reason has."""
    assert told(*objects).startswith(action)
