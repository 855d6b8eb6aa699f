"""What becomes of a JobSet whose Jobs fail, as its controller decides it."""

from __future__ import annotations

import itertools
import random

import pytest

from gangsched.model.jobset_survival import (
    BY_DEFAULT,
    BY_RESTARTS,
    BY_RULE,
    FAIL_JOBSET,
    RESTART_JOB,
    RESTART_JOB_FREE,
    RESTART_JOBSET,
    RESTART_JOBSET_FREE,
    JobSetFate,
    JobSetPolicy,
    JobSetRule,
    fate_of_jobset,
)
from gangsched.model.survival import BY_LIMIT, BY_POLICY, REASONS

ONE, TWO = ("w", BY_LIMIT), ("ps", BY_POLICY)


def policy(*rules: JobSetRule, most: int = 0, counted: int = 0) -> JobSetPolicy:
    """A policy with these rules."""
    return JobSetPolicy(most, rules, counted)


def test_without_a_policy_a_failed_job_is_the_end() -> None:
    """Whatever the reason is."""
    assert {fate_of_jobset(None, [("w", reason)]) for reason in REASONS} == {JobSetFate(BY_DEFAULT)}


@pytest.mark.parametrize(
    ("found", "failed", "expected"),
    [
        (policy(), [ONE], JobSetFate(BY_RESTARTS)),
        (policy(most=1), [ONE], JobSetFate(restarted=True)),
        (policy(most=1), [ONE, ONE, TWO], JobSetFate(restarted=True)),  # one restart, for all of them
        (policy(most=3, counted=3), [ONE], JobSetFate(BY_RESTARTS)),
        (policy(JobSetRule(RESTART_JOBSET_FREE), most=3, counted=3), [ONE], JobSetFate(restarted=True)),
        (policy(JobSetRule(FAIL_JOBSET), most=3), [ONE], JobSetFate(BY_RULE)),
        (policy(JobSetRule(FAIL_JOBSET, (BY_POLICY,)), most=3), [ONE], JobSetFate(restarted=True)),
        (policy(JobSetRule(FAIL_JOBSET, (BY_POLICY,)), most=3), [ONE, TWO], JobSetFate(BY_RULE)),
        (policy(JobSetRule(FAIL_JOBSET, jobs=("ps",)), most=3), [ONE], JobSetFate(restarted=True)),
        (policy(JobSetRule(FAIL_JOBSET, jobs=("ps",)), most=3), [TWO], JobSetFate(BY_RULE)),
        (policy(JobSetRule(RESTART_JOB), most=2), [ONE, ONE], JobSetFate()),  # each counts
        (policy(JobSetRule(RESTART_JOB), most=2), [ONE, ONE, ONE], JobSetFate(BY_RESTARTS)),
        (policy(JobSetRule(RESTART_JOB_FREE)), [ONE, ONE, TWO], JobSetFate()),
        (policy(JobSetRule(RESTART_JOB_FREE, jobs=("w",)), most=1), [ONE, TWO], JobSetFate(restarted=True)),
        (policy(JobSetRule(FAIL_JOBSET, patterns=True), most=1), [ONE], JobSetFate(BY_RULE)),  # it may match
        (policy(JobSetRule(RESTART_JOB_FREE, patterns=True)), [ONE], JobSetFate(BY_RESTARTS)),  # or not
        (policy(JobSetRule("Later"), most=5), [ONE], JobSetFate(BY_RULE)),  # an action that is not known
        (policy(JobSetRule(FAIL_JOBSET)), [], JobSetFate()),
    ],
)
def test_the_first_rule_that_matches_counts(
    found: JobSetPolicy, failed: list[tuple[str, str]], expected: JobSetFate
) -> None:
    """Without one the JobSet is restarted; restarts that count are maxRestarts at most."""
    assert fate_of_jobset(found, failed)[:2] == expected[:2]


def played(found: JobSetPolicy, failed: list[tuple[str, str]]) -> tuple[bool, bool]:
    """Does a JobSet end, and is all of it restarted, when its controller sees these Jobs failed, one after another?"""
    counted, restarted = found.counted, False
    for name, reason in failed:
        action = RESTART_JOBSET
        for rule in found.rules:
            if (not rule.reasons or reason in rule.reasons) and (not rule.jobs or name in rule.jobs):
                action = rule.action
                break
        if action == FAIL_JOBSET:
            return True, restarted
        if action in (RESTART_JOBSET, RESTART_JOB):
            if counted >= found.max_restarts:
                return True, restarted
            counted += 1
        if action in (RESTART_JOBSET, RESTART_JOBSET_FREE):
            return False, True  # the other Jobs are replaced, however they ended
    return False, restarted


def test_it_is_the_worst_that_follows_in_some_order() -> None:
    """The controller sees failed Jobs in any order: the JobSet ends in one of them exactly if that is said here."""
    chance = random.Random(7)
    names, actions = ("w", "ps"), (FAIL_JOBSET, RESTART_JOBSET, RESTART_JOBSET_FREE, RESTART_JOB, RESTART_JOB_FREE)
    for _ in range(2000):
        rules = [
            JobSetRule(
                chance.choice(actions),
                tuple(chance.sample(REASONS, chance.randrange(3))),
                tuple(chance.sample(names, chance.randrange(2))),
            )
            for _ in range(chance.randrange(4))
        ]
        found = policy(*rules, most=chance.randrange(4), counted=chance.randrange(3))
        failed = [(chance.choice(names), chance.choice(REASONS)) for _ in range(chance.randrange(1, 4))]
        orders = [played(found, list(order)) for order in itertools.permutations(failed)]
        fate = fate_of_jobset(found, failed)
        assert fate.ends == any(ends for ends, _ in orders), (found, failed)
        if not fate.ends:
            assert fate.restarted == any(restarted for _, restarted in orders), (found, failed)
