"""The scheduler's statements about a waiting gang, from the conditions of its members.

While one leads, that is how it is. A command may decide differently, because only the scheduler knows its pauses, held
room and plans in progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gangsched.cli.decisions import State, can_start, sentence, word
from gangsched.core.decision import UNSCHEDULABLE, Decision
from gangsched.core.lifecycle.report import SCHEDULER_ERROR
from gangsched.core.state.census import Census
from gangsched.core.world.obstacles import GANG_NOT_READY, REFUSED, TWO_ADMITTERS
from gangsched.messages import answers, standing
from gangsched.model.records import Condition, Pod

#: Reasons of conditions that say that a gang cannot be decided yet.
INCOMPLETE = (GANG_NOT_READY, REFUSED, TWO_ADMITTERS)
#: Words for a gang of which the condition has none: its nodes are held while victims leave, or nothing more is known.
NOMINATED, PENDING = "nominated", "pending"


class SchedulerCondition(NamedTuple):
    """A condition: its word, why in a sentence, what it says beside that, and since when it stands."""

    word: str
    why: str
    more: str
    since: float
    text: str

    @property
    def first(self) -> str:
        """As people read it."""
        return answers.first_sentence(word=self.word, why=self.why)

    def differing_decision(self, decision: Decision) -> Sequence[str]:
        """What is decided here, where that is another word."""
        if self.word == word(decision):
            return ()
        return f"{word(decision).upper()}: {sentence(decision)}", standing.ONLY_IT_KNOWS


def condition_of(pods: Iterable[Pod]) -> Condition | None:
    """Return the text that a scheduler has written on the first waiting pod, or why it could not be written."""
    conditions = (pod.scheduled_condition for pod in pods)
    return next((c for c in conditions if c is not None and c.status == "False" and c.message), None)


def said_of(census: Census) -> SchedulerCondition | None:
    """Return the scheduler's statement about the gang with these members; None where it says nothing."""
    found = condition_of(census.pending) or condition_of(census.gated)
    if found is None:
        return None
    known, why, more = answers.taken_apart(found.message)
    if not known:
        nominated = any(pod.on_record for pod in census.pending)
        known = NOMINATED if nominated else PENDING
        known = {**dict.fromkeys(INCOMPLETE, answers.WAITS), SCHEDULER_ERROR: UNSCHEDULABLE}.get(found.reason, known)
    return SchedulerCondition(known, why, more, found.since, found.message)


def said_instead(state: State, decision: Decision) -> SchedulerCondition | None:
    """How it is with a gang, where that is not what is decided here; None where nothing is known of that."""
    found = said_of(state.world.membership.census(decision.gang)) if state.leads else None
    if found is None or found.text == decision.said or found.word == PENDING:
        return None
    return None if found.word == NOMINATED and can_start(decision) else found
