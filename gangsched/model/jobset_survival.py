"""The rules of the JobSet controller for failed Jobs: the JobSet ends or restarts.

Read from pkg/controllers/failure_policy.go of JobSet 0.12. Without a failurePolicy a failed Job is the end. With one,
the first rule that the Job matches says what happens, and where none does the JobSet is restarted. Restarts that count
are ``maxRestarts`` at most, those of single Jobs among them.

The message with which a Job will fail is not known beforehand: a rule with patterns for it is taken to match or not,
whichever is worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gangsched.model.constraints import Record

FAIL_JOBSET, RESTART_JOBSET, RESTART_JOB = "FailJobSet", "RestartJobSet", "RestartJob"
RESTART_JOBSET_FREE, RESTART_JOB_FREE = "RestartJobSetAndIgnoreMaxRestarts", "RestartJobAndIgnoreMaxRestarts"
_OF_ONE_JOB = (RESTART_JOB, RESTART_JOB_FREE)
#: Why it ends.
BY_DEFAULT, BY_RULE, BY_RESTARTS = "NoFailurePolicy", "FailJobSetAction", "ReachedMaxRestarts"


class JobSetRule(Record, frozen=True):
    """One rule: what happens when a Job fails for one of these ``reasons``, of one of these replicated ``jobs``.

    Without any of them it is about all. ``patterns``: it asks for the message, too.
    """

    action: str
    reasons: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    patterns: bool = False


class JobSetPolicy(Record, frozen=True):
    """A failurePolicy, and how many restarts have been ``counted`` so far."""

    max_restarts: int = 0
    rules: tuple[JobSetRule, ...] = ()
    counted: int = 0


class JobSetFate(NamedTuple):
    """The result for a JobSet: it ends for a ``cause``, or continues, all of it ``restarted`` or single Jobs.

    So many of these restarts are ``counted``.
    """

    cause: str = ""
    restarted: bool = False
    counted: int = 0

    @property
    def ends(self) -> bool:
        """True if it has failed then."""
        return bool(self.cause)


def fate_of_jobset(policy: JobSetPolicy | None, failed: Iterable[tuple[str, str]]) -> JobSetFate:
    """Return the result for a JobSet with failed Jobs: the name of each one's replicated Job, and the reason of its
    end.

    The worst that may follow is taken to follow.
    """
    if policy is None:
        return JobSetFate(BY_DEFAULT)
    found = [set(_actions(policy, name, reason)) for name, reason in failed]
    actions = set[str]().union(*found)
    if not actions <= {RESTART_JOBSET, RESTART_JOBSET_FREE, *_OF_ONE_JOB}:
        return JobSetFate(BY_RULE)
    counted = sum(RESTART_JOB in each for each in found) + (RESTART_JOBSET in actions)
    if counted and policy.counted + counted > policy.max_restarts:
        return JobSetFate(BY_RESTARTS)
    restarted = not actions.issubset(_OF_ONE_JOB)
    return JobSetFate(restarted=restarted, counted=counted)


def _actions(policy: JobSetPolicy, name: str, reason: str) -> Iterator[str]:
    """The possible actions for one Job."""
    for rule in policy.rules:
        if (rule.reasons and reason not in rule.reasons) or (rule.jobs and name not in rule.jobs):
            continue
        yield rule.action
        if not rule.patterns:
            return
    yield RESTART_JOBSET
