"""What is, by the conditions that a leading scheduler writes, and what a command would decide, are two things."""

from __future__ import annotations

import pytest

from gangsched.api import load
from gangsched.cli.contracts import Planned
from gangsched.cli.decisions import State
from gangsched.cli.explanation import explain
from gangsched.cli.said import said_instead
from gangsched.core.decision import Headline, Unschedulable
from gangsched.messages import answers
from gangsched.model.records import GangId
from tests.cli.gpu_cluster import CLASSES, LABEL, NODES, group, pod

WEB = [pod(f"web-{n}", f"gpu-{n}", priorityClassName="night") for n in range(4)]
PAUSED = "waits: until 2026-01-01T00:01:30Z, when it may evict others: why. 0/4 nodes are available"


def member(n, said, reason="Unschedulable", **more):
    """A member of a gang of two, of which a scheduler says this."""
    made = pod(f"train-{n}", labels={LABEL: "train"}, priorityClassName="research", **more)
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": said}
    made["status"]["conditions"] = [condition] if said else []
    return made


def state_with(said, *others, reason="Unschedulable", leads=True):
    """What is known where a scheduler says this of a gang that would evict others."""
    members = [group(), *(member(n, said, reason) for n in range(2))]
    loaded = load([{"apiVersion": "v1", **each} for each in (*NODES, *CLASSES, *others, *members)]).loaded
    return State(loaded.events, load([{"apiVersion": "v1", **NODES[0]}]).options, 1767225660.0, leads=leads)


@pytest.mark.parametrize(
    ("word", "why", "more"),
    [
        ("never fits", "each pod asks for 16 gpus; the largest node has 8", "0/4 nodes are available: 4 too small."),
        ("not now", "0 of 2 members fit", ""),
        ("waits", "until 2026-01-01T00:01:30Z, when it may evict others: why", "0/4 nodes. preemption: not yet"),
    ],
)
def test_what_is_written_is_read_as_it_was_meant(word, why, more):
    """The text of a condition is taken apart into the word, the sentence and the rest of which it was made."""
    decision = Unschedulable(GangId("", "d", "a", "s"), "Pod", (), 0, 1, message=more, headline=Headline(word, why))
    assert answers.taken_apart(decision.said) == (word, why, more)


@pytest.mark.parametrize("text", ["LocalQueue q: it is stopped", "3 of 4 members exist", "never fits"])
def test_any_other_text_has_no_word(text):
    """What none of the words begins is a sentence as it stands."""
    assert answers.taken_apart(text)[:2] == ("", text)


@pytest.mark.parametrize(
    ("said", "reason", "head"),
    [
        (PAUSED, "Unschedulable", ("waits", "until 2026-01-01T00:01:30Z, when it may evict others: why")),
        ("1 of 2 members exist; 1 missing", "GangNotReady", ("waits", "1 of 2 members exist; 1 missing")),
        ("plug-in Curfew failed", "SchedulerError", ("unschedulable", "plug-in Curfew failed")),
    ],
)
def test_what_is_comes_first(said, reason, head):
    """A gang that the scheduler does not start is answered with its words; what would be decided stands below it, in
    the text and in the JSON, and the action is to wait.
    """
    state = state_with(said, *WEB, reason=reason)
    found = explain(state, "default", "train")
    assert found.head == head
    assert (found.sections[0].label, found.sections[0].lines[0]) == (
        "would decide",
        "PREEMPT: 2 members can start after 2 pods are evicted",
    )
    (action,) = [each for each in found.sections if each.label == "would help"]
    then = "it can start after 2 pods are evicted (default/web-0, default/web-1)"
    assert action.lines == [f"wait until it is decided again: as it is now {then}"]
    assert found.own is not None
    assert found.own.outcome == "preempt"


@pytest.mark.parametrize(
    "said",
    ["", "needs to evict 2 pods of 2 units to start 2 members", "something of an earlier version"],
)
def test_what_says_nothing_else_changes_no_answer(said):
    """Where nothing is written, or what is written does not say that the gang may not start, the decision is it."""
    state = state_with(said, *WEB)
    assert explain(state, "default", "train").head == ("preempt", "2 members can start after 2 pods are evicted")


def test_words_of_a_scheduler_that_does_not_lead_are_no_answer():
    """They are what was; nothing is known of what is."""
    state = state_with(PAUSED, *WEB, leads=False)
    assert explain(state, "default", "train").head[0] == "preempt"


def test_what_both_say_is_said_once():
    """Nothing stands beside an answer with the same word: numbers in it are those of the scheduler."""
    said = "not now: 0 of 2 members fit; the next asks for 8 nvidia.com/gpu, which no node has free. 0/4 nodes"
    full = [pod(f"web-{n}", f"gpu-{n}", priorityClassName="research") for n in range(4)]
    found = explain(state_with(said, *full), "default", "train")
    assert found.head[0] == "not now"
    assert "would decide" not in [each.label for each in found.sections]


@pytest.mark.parametrize(
    ("changed", "head", "beside"),
    [
        (False, ("waits", "until 2026-01-01T00:01:30Z, when it may evict others: why"), "would decide"),
        (True, None, "is now"),
    ],
)
def test_a_plan_says_both(changed, head, beside):
    """Of the cluster as it is, what is comes first; of one that is changed by what is given, what would be decided."""
    state = state_with(PAUSED, *WEB)
    (decision,) = [decision for decision, _ in state.decisions]
    said = said_instead(state, decision)
    assert said is not None
    planned = Planned(state.decisions, said={decision.gang: said}, changed=changed)
    assert planned.head(decision) == head
    assert [label for label, _ in planned.beside(decision)] == [beside]
    (told,) = planned.plan().decisions
    assert told.said == "waits: until 2026-01-01T00:01:30Z, when it may evict others: why"
    assert told.outcome == "preempt"
