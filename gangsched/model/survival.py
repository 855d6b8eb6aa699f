"""The rules of the Job controller for lost pods: the end of the Job, or of one of its indexes.

A plan uses them before it evicts pods, and the simulated Job controller when it has lost some. Read from
pkg/controller/job of Kubernetes 1.36; https://kubernetes.io/docs/concepts/workloads/controllers/job/ describes it. The
order counts: first the rules of its podFailurePolicy in turn, then backoffLimit, then the failed indexes.

The exit code of an evicted pod's containers is not known before: 143 after SIGTERM, 137 if they are killed after that,
and any code if they handle the signal. The first two are both taken to be possible. A pod that ends with 0 has
succeeded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from gangsched.model.records import FailureRule, Intervals, Job, Pod, SuccessRule

IGNORE, COUNT, FAIL_INDEX, FAIL_JOB = "Ignore", "Count", "FailIndex", "FailJob"
_BY_SEVERITY = (IGNORE, COUNT, FAIL_INDEX, FAIL_JOB)

#: The exit codes of containers that get SIGTERM, and of those that are killed.
STOPPED, KILLED = 143, 137
EVICTED = (STOPPED, KILLED)

#: The conditions of a pod that was marked, deleted, and ended by its kubelet.
_AT_ITS_END = frozenset(
    [
        ("DisruptionTarget", "True"),
        ("PodScheduled", "True"),
        ("Initialized", "True"),
        ("Ready", "False"),
        ("ContainersReady", "False"),
        ("PodReadyToStartContainers", "False"),
    ]
)
_UNMARKED = _AT_ITS_END - {("DisruptionTarget", "True")}

BY_POLICY, BY_LIMIT = "PodFailurePolicy", "BackoffLimitExceeded"
BY_INDEXES, ALL_INDEXES = "MaxFailedIndexesExceeded", "FailedIndexes"
#: For which a Job fails by the loss of pods.
REASONS = (BY_POLICY, BY_LIMIT, BY_INDEXES, ALL_INDEXES)


class Fate(msgspec.Struct, frozen=True):
    """The result for a Job: how many of its pods, and which indexes, have failed then.

    ``cause`` is the reason for which its controller fails it at once, if it does; ``lost`` are the indexes that fail
    with these pods. ``doomed``: it goes on, but cannot complete any more as it could before.
    """

    failed: int
    indexes: Intervals
    cause: str = ""
    lost: tuple[int, ...] = ()
    doomed: bool = False

    @property
    def ends(self) -> bool:
        """True if the Job has failed then, now or as soon as its other indexes are done."""
        return bool(self.cause) or self.doomed

    @property
    def reason(self) -> str:
        """The reason in its condition ``Failed``."""
        return self.cause or ALL_INDEXES


class Allowance(NamedTuple):
    """Any ``most`` of the pods that are ``free`` (UIDs) may be deleted without ending the Job."""

    free: Collection[str]
    most: int


def fate(job: Job, lost: Iterable[Pod], *, codes: Sequence[int] = EVICTED, counted: int = 0) -> Fate:
    """Return the result for a Job that loses these pods beside those it has counted. So many of them may be
    ``counted``, too.

    Their containers end with one of these exit codes: the worst that may follow is taken to follow. Live pods are
    marked as disrupted before they are deleted. The state of the others is known.
    """
    number, by_policy = 0, False
    failing: set[int] = set()
    for pod in lost:
        marked, started = pod.live or pod.disruption_target, pod.phase != "Pending"
        action = action_on(job.failure_rules, codes, marked=marked, started=started)
        by_policy |= action == FAIL_JOB
        if action == IGNORE or (job.indexed and not _valid(job, pod.completion_index)):
            continue
        number += 1
        if _fails_index(job, pod, action) and not _within(job.failed_indexes, pod.completion_index):
            failing.add(pod.completion_index)
    number, indexes = job.failed + max(0, number - counted), with_numbers(job.failed_indexes, failing)
    cause = BY_POLICY if by_policy else BY_LIMIT if number > job.backoff_limit else ""
    if not cause and indexes and job.limit_per_index is not None:
        if job.max_failed_indexes is not None and size(indexes) > job.max_failed_indexes:
            cause = BY_INDEXES
        elif size(indexes) + size(job.completed_indexes) >= (job.completions or 0):
            cause = ALL_INDEXES
    doomed = bool(failing) and _slack(job, job.failed_indexes) >= 0 > _slack(job, indexes)
    return Fate(number, indexes, cause, tuple(sorted(failing)), doomed)


def allowance(job: Job, leaving: Sequence[Pod], pods: Sequence[Pod]) -> Allowance | None:
    """Return which of these pods may be deleted, and how many, while others are ``leaving`` and not counted yet; None:
    all of them.

    No choice of so many ends the Job. Of the sets of pods that may be free together, return the one from which most may
    be deleted: all pods, those whose loss fails no index, or those beside the indexes that a success policy needs.
    """
    action = action_on(job.failure_rules, EVICTED)
    if action == IGNORE:
        return None
    so_far = fate(job, leaving)
    if so_far.ends or action == FAIL_JOB:
        return Allowance((), 0)
    most = max(0, job.backoff_limit - so_far.failed)
    risky = {p.uid for p in pods if _valid(job, p.completion_index) and _fails_index(job, p, action)}
    indexes = _indexes_left(job, so_far.indexes) if risky else 0
    choices = [(pods, indexes), ([p for p in pods if p.uid not in risky], 0)]
    choices += _beside_rules(job, so_far.indexes, risky, pods) if risky else []
    found = []
    for some, may_fail in choices:
        free = [p.uid for p in some]
        number = min(most, len(free)) if may_fail >= len(risky.intersection(free)) else min(most, may_fail)
        found.append(Allowance(free, number))
    return max(found, key=lambda each: each.most)


def ignores_evictions(job: Job) -> bool:
    """Return whether its podFailurePolicy ignores an evicted pod, however that ends."""
    return action_on(job.failure_rules, EVICTED) == IGNORE


def may_complete(job: Job) -> bool:
    """Return whether a Job that goes on can complete as far as its indexes are concerned."""
    return _slack(job, job.failed_indexes) >= 0


def succeeds(job: Job) -> bool:
    """Return whether its completed indexes meet its success policy."""
    return any(_lacking(job, rule) == 0 for rule in job.success_rules) and bool(job.completed_indexes)


def action_on(rules: Sequence[FailureRule], codes: Sequence[int], *, marked: bool = True, started: bool = True) -> str:
    """The worst that a podFailurePolicy may do about an evicted pod: the action of the first rule that it matches.

    Each of its containers ends with one of these ``codes``. A rule about an init container that ends before the others
    start concerns only a pod that has not ``started``.
    """
    conditions = _AT_ITS_END if marked else _UNMARKED
    out: list[str] = []
    left = list(codes)  # those of which no rule before says that no container has ended so
    for rule in rules:
        if rule.codes is None:
            met = left if any(each in conditions for each in rule.conditions) else []
        elif rule.of_init and started:
            continue
        else:
            met = [code for code in left if code != 0 and (code in rule.codes) == rule.within]
        if met:
            out.append(rule.action)
        if len(met) == len(left):
            return max(out, key=_severity)
        if not rule.of_one:
            left = [code for code in left if code not in met]
    return max([*out, COUNT], key=_severity)


def _severity(action: str) -> int:
    return _BY_SEVERITY.index(action) if action in _BY_SEVERITY else 1


def _valid(job: Job, index: int) -> bool:
    return 0 <= index < (job.completions or 0)


def _fails_index(job: Job, pod: Pod, action: str) -> bool:
    if not job.indexed or job.limit_per_index is None:
        return False
    return action == FAIL_INDEX or pod.index_failures >= job.limit_per_index


def _indexes_left(job: Job, failed: Intervals) -> int:
    """How many more indexes may fail, whichever they are."""
    left, slack = _before_it_fails(job, failed), _slack(job, failed)
    return max(0, left if slack < 0 else min(left, slack))


def _before_it_fails(job: Job, failed: Intervals) -> int:
    """How many more indexes may fail before the Job does at once, whichever they are."""
    left = (job.completions or 0) - size(failed) - size(job.completed_indexes) - 1
    return left if job.max_failed_indexes is None else min(left, job.max_failed_indexes - size(failed))


def _beside_rules(
    job: Job, failed: Intervals, risky: Collection[str], pods: Sequence[Pod]
) -> Iterator[tuple[list[Pod], int]]:
    """Yield for each rule of the success policy that can be met: the pods whose indexes it does not need, with those
    whose loss fails no index, and how many of these indexes may fail.
    """
    for rule in job.success_rules:
        among, (there, at_all) = _among(job, rule), _slack_of(job, rule, failed)
        if there >= 0 and at_all > 0:
            some = [p for p in pods if p.uid not in risky or not _within(among, p.completion_index)]
            yield some, max(0, min(at_all, _before_it_fails(job, failed)))


def _slack(job: Job, failed: Intervals) -> int:
    """How many more indexes may fail, whichever they are, so that the Job can complete; negative: it cannot now.

    With failed indexes it completes by its success policy only, and only before the last index is done: then it fails.
    """
    found = -1 if failed else 0
    for rule in job.success_rules:
        found = max(found, min(_slack_of(job, rule, failed)))
    return found


def _slack_of(job: Job, rule: SuccessRule, failed: Intervals) -> tuple[int, int]:
    """How many more of the indexes that a rule is about, and of all indexes, may fail so that it can be met."""
    among, done, more = _among(job, rule), job.completed_indexes, _lacking(job, rule)
    open_there = size(among) - _overlap(among, done) - _overlap(among, failed)
    open_at_all = (job.completions or 0) - size(done) - size(failed)
    return open_there - more, open_at_all - more - 1


def _lacking(job: Job, rule: SuccessRule) -> int:
    """How many more indexes must succeed to meet a rule."""
    among = _among(job, rule)
    needed = size(among) if rule.count is None else min(size(among), rule.count)
    return max(0, needed - _overlap(among, job.completed_indexes))


def _among(job: Job, rule: SuccessRule) -> Intervals:
    """The indexes that a rule is about."""
    every = ((0, (job.completions or 0) - 1),)
    if rule.indexes is None:
        return every
    return tuple((first, min(last, every[0][1])) for first, last in rule.indexes if first <= every[0][1])


# -- intervals ---------------------------------------------------------------------------------------------------------


def size(intervals: Intervals) -> int:
    """How many indexes these are."""
    return sum(last - first + 1 for first, last in intervals)


def _within(intervals: Intervals, index: int) -> bool:
    return any(first <= index <= last for first, last in intervals)


def _overlap(one: Intervals, other: Intervals) -> int:
    """How many indexes are in both."""
    return sum(max(0, min(b, d) - max(a, c) + 1) for a, b in one for c, d in other)


def with_numbers(intervals: Intervals, numbers: Iterable[int]) -> Intervals:
    """These indexes and those of the intervals, ascending."""
    out: list[tuple[int, int]] = []
    for first, last in sorted([*intervals, *((n, n) for n in numbers)]):
        if out and out[-1][1] >= first - 1:
            out[-1] = out[-1][0], max(out[-1][1], last)
        else:
            out.append((first, last))
    return tuple(out)


def parse_indexes(text: str | None) -> Intervals:
    """``1,3-5`` as intervals; what is no number is left out, as the Job controller does."""
    out = []
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()) and int(last or first) >= int(first):
            out.append((int(first), int(last or first)))
    return with_numbers(tuple(out), ())
