"""Statements of owners about evictions, in every dialect: pods excluded from preemption, costs of an eviction, and how
long a class tolerates preemption.

Excluded: Koordinator ``scheduling.koordinator.sh/disable-preemptible`` and
``quota.scheduling.koordinator.sh/preemptible`` (labels); Volcano ``volcano.sh/preemptable`` (the annotation wins
over the label, an unreadable value means "false"); Godel ``godel.bytedance.com/can-be-preempted`` (annotation);
KAI ``kai.scheduler/preemptibility`` (label), and that of its PodGroups;
Koordinator's ``scheduling.koordinator.sh/eviction-cost``, of which the largest number says never.

Costs are annotations of a pod, its group, or its Job or JobSet. Ours are ``gangsched.dev/last-checkpoint`` (RFC 3339),
``gangsched.dev/restart-cost`` (a duration) and, for forecasts, ``gangsched.dev/expected-run-time`` (a duration);
Volcano's ``volcano.sh/last-checkpoint-time`` stands where ours is absent (volcano-sh/volcano#5998). On pods alone
Koordinator's ``scheduling.koordinator.sh/eviction-cost`` (int32), and where that is absent Kubernetes' own
``controller.kubernetes.io/pod-deletion-cost`` (int32). Kueue's ``kueue.x-k8s.io/priority-boost`` (int32) is added to
the priority of a workload as a victim (KEP-7990, where it stands on the Workload).

Toleration, in annotations of a PriorityClass: those of the plug-in PreemptionToleration of
kubernetes-sigs/scheduler-plugins (``pkg/preemptiontoleration``), whose older versions have another prefix.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from typing import TypeVar

import msgspec

from gangsched.messages import causes, invalid
from gangsched.model.constraints import Labels
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.jobsets import JobSet
from gangsched.model.records import NO_STAKES, Gang, Job, Pod, Stakes
from gangsched.model.times import LONGEST_SECONDS, parse_duration, parse_time

_TRUE = ("true", "True", "TRUE", "t", "T", "1")

#: Why a pod may never be a victim.
STATIC = causes.STATIC_POD
OF_DAEMONSET = causes.DAEMON_SET_POD
COSTS_TOO_MUCH = causes.EVICTION_COST_NEVER
MARKED = causes.NOT_PREEMPTIBLE
#: Of these those that owners decide.
BY_OWNER = (MARKED, COSTS_TOO_MUCH)


#: Marks by which a pod is excluded, each with a kind whose API shows if their vendor is installed; empty if no kind of
#: it is read.
_KOORDINATOR, _KAI = "ClusterNetworkTopology.scheduling.koordinator.sh", "PodGroup.scheduling.run.ai"
DISABLE, PREEMPTIBLE = "scheduling.koordinator.sh/disable-preemptible", "quota.scheduling.koordinator.sh/preemptible"
VOLCANO, GODEL = "volcano.sh/preemptable", "godel.bytedance.com/can-be-preempted"
KAI = "kai.scheduler/preemptibility"
MARKS = {
    DISABLE: _KOORDINATOR,
    PREEMPTIBLE: _KOORDINATOR,
    "scheduling.koordinator.sh/eviction-cost": _KOORDINATOR,
    VOLCANO: "PodGroup.scheduling.volcano.sh",
    KAI: _KAI,
    GODEL: "",
}


#: The claim that a DaemonSet owns a pod, as a key beside those of the marks, and what is known of all of them.
DAEMON_SET, DAEMON_SETS = "DaemonSet", "DaemonSet.apps"


def protection(pod: Pod, evict_daemonset_pods: bool = False) -> str:
    """Why the pod may never be a victim, whatever its priority; empty if it may."""
    if pod.static:
        return STATIC
    if claims_daemon_set(pod) and DAEMON_SET not in pod.unheeded and not evict_daemonset_pods:
        return OF_DAEMONSET
    if _marked(pod):
        return MARKED
    return COSTS_TOO_MUCH if pod.stakes.never else ""


def claims_daemon_set(pod: Pod, namespace: str = "", name: str = "") -> bool:
    """Return whether the pod says that a DaemonSet owns it; if one is given, that one."""
    claims = pod.owner is not None and pod.owner.kind == DAEMON_SET
    return claims and (not name or (pod.owner is not None and (pod.namespace, pod.owner.name) == (namespace, name)))


def _marked(pod: Pod) -> bool:
    return any(key not in pod.unheeded for key in _marks(pod))


def _marks(pod: Pod) -> Iterator[str]:
    """The keys of the marks that exclude it, as far as they count."""
    labels, hints = pod.labels, pod.hints
    if pod.kept or labels.get(KAI) == "non-preemptible":
        yield KAI
    if labels.get(DISABLE) == "true":
        yield DISABLE
    if labels.get(PREEMPTIBLE) == "false":
        yield PREEMPTIBLE
    volcano = hints.get(VOLCANO, labels.get(VOLCANO))
    if volcano is not None and volcano not in _TRUE:
        yield VOLCANO
    if hints.get(GODEL) in ("false", "False", "0"):
        yield GODEL


def marked(pod: Pod) -> bool:
    """Return whether the pod has a mark, or claims an owner, by which it would be excluded, if that counts."""
    return claims_daemon_set(pod) or pod.stakes.never or next(_marks(pod), None) is not None


def protected(pod: Pod, evict_daemonset_pods: bool = False) -> bool:
    """True when the pod may never be a victim, whatever its priority."""
    return bool(protection(pod, evict_daemonset_pods))


LAST_CHECKPOINT = "gangsched.dev/last-checkpoint"
RESTART_COST = "gangsched.dev/restart-cost"
EXPECTED_RUN_TIME = "gangsched.dev/expected-run-time"
VOLCANO_CHECKPOINT = "volcano.sh/last-checkpoint-time"
EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
#: All of them, as annotations are looked for.
KEYS = frozenset(
    {
        LAST_CHECKPOINT,
        RESTART_COST,
        EXPECTED_RUN_TIME,
        VOLCANO_CHECKPOINT,
        EVICTION_COST,
        DELETION_COST,
        PRIORITY_BOOST,
    }
)
#: An eviction cost that says never.
NEVER = 2**31 - 1

#: A checkpoint may be so many seconds ahead of the scheduler's clock.
SKEW_SECONDS = 10.0

Saved = TypeVar("Saved", bound=Pod | Gang | Job | JobSet)

_INT32 = re.compile(r"0|-?[1-9][0-9]{0,9}")


def stakes_of(notes: Labels | None, *, of_pod: bool = False) -> tuple[Stakes, Mistake | None]:
    """Return the values of these annotations, and the first invalid one, which is ignored."""
    if not notes or KEYS.isdisjoint(notes):
        return NO_STAKES, None
    wrong: list[Mistake] = []
    checkpoint, cost, boost = None, 0, None
    durations: dict[str, float] = {}
    for key in (VOLCANO_CHECKPOINT, LAST_CHECKPOINT):
        if notes.get(key):
            try:
                checkpoint = parse_time(notes[key], _field(key))
            except FieldError as error:
                wrong.append(error.remark)
    for key in (RESTART_COST, EXPECTED_RUN_TIME):
        if notes.get(key):
            try:
                durations[key] = parse_duration(notes[key], _field(key))
            except FieldError as error:
                wrong.append(error.remark)
    for key in (PRIORITY_BOOST, *((DELETION_COST, EVICTION_COST) if of_pod else ())):
        if key in notes:
            try:
                value = int32(notes[key], key)
            except FieldError as error:
                wrong.append(error.remark)
                continue
            if key == PRIORITY_BOOST:
                boost = value
            else:
                cost = value
    never = of_pod and notes.get(EVICTION_COST) == str(NEVER)
    restart, expected = durations.get(RESTART_COST), durations.get(EXPECTED_RUN_TIME)
    return Stakes(checkpoint, restart, cost, never, boost, expected), wrong[0] if wrong else None


def as_of(record: Saved, now: float, ignored: Collection[str] = ()) -> Saved:
    """The record without a checkpoint that has not been yet, which is ignored; it may be a little ahead, for
    clocks differ. It says never, and more than its priority, by no annotation that is ``ignored``.
    """
    off: dict[str, object] = {}
    if isinstance(record, Pod):
        unheeded = frozenset(key for key in (*MARKS, DAEMON_SET) if key in ignored)
        if record.unheeded != unheeded and (record.unheeded or marked(record)):
            record = msgspec.structs.replace(record, unheeded=unheeded)
    if record.stakes.never and EVICTION_COST in ignored and isinstance(record, Pod):
        off["never"] = False
    if record.stakes.boost is not None and PRIORITY_BOOST in ignored:
        off["boost"] = None
    if off:
        record = msgspec.structs.replace(record, stakes=msgspec.structs.replace(record.stakes, **off))
    checkpoint = record.stakes.checkpoint
    if checkpoint is None or checkpoint <= now + SKEW_SECONDS:
        return record
    stakes = msgspec.structs.replace(record.stakes, checkpoint=None)
    wrong = FieldError(_field(LAST_CHECKPOINT), invalid.IN_THE_FUTURE).remark
    return msgspec.structs.replace(record, stakes=stakes, remark=record.remark or wrong)


def int32(raw: str, key: str) -> int:
    """A whole number of 32 bits. Raises :class:`FieldError`."""
    value = int(raw) if _INT32.fullmatch(raw) else 2**31
    if not -(2**31) <= value < 2**31:
        raise FieldError(_field(key), invalid.not_whole_between(value=repr(raw[:40]), low=-2147483648, high=2147483647))
    return value


def _field(key: str) -> str:
    return f"metadata.annotations[{key}]"


PREFIXES = ("preemption-toleration.scheduling.x-k8s.io/", "preemption-toleration.scheduling.sigs.k8s.io/")
SECONDS, PRIORITY = "toleration-seconds", "minimum-preemptable-priority"
#: The annotation that may say for ever.
TOLERATION_SECONDS = PREFIXES[0] + SECONDS


def preemption_toleration(notes: Labels, priority: int) -> tuple[int, float]:
    """Return the priority from which on pods of a class of this ``priority`` may be preempted at once, and the seconds
    of protection from lower ones: infinite for a number below 0. Raises :class:`FieldError`.
    """
    least, seconds = priority + 1, 0.0
    for prefix in reversed(PREFIXES):
        if prefix + PRIORITY in notes:
            least = int32(notes[prefix + PRIORITY], prefix + PRIORITY)
        if prefix + SECONDS in notes:
            seconds = _seconds(notes[prefix + SECONDS], prefix + SECONDS)
    return least, seconds


def _seconds(raw: str, key: str) -> float:
    if not re.fullmatch(r"-?[0-9]{1,18}", raw):
        raise FieldError(f"metadata.annotations[{key}]", invalid.not_whole_seconds(raw=raw[:40]))
    return math.inf if int(raw) < 0 else min(float(raw), LONGEST_SECONDS)
