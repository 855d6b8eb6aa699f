"""Removals of pods that may not be evicted, judged by what their process knew when it asked for them.

A removal is sent some time after that, if it has to wait for its turn. Nothing is promised for what becomes known
meanwhile, nor about a list that has begun: both are counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, drained_by, ends_object, preemptor_of
from gangsched.core.actions import Remove, SuspendJob
from gangsched.model.children import JOBSET_NAME
from gangsched.model.records import PREEMPT_NEVER, SINGLE, Pod
from tests.chaos.play import Played
from tests.chaos.told import AT_ONCE, Told
from tests.judge import invariants


def forbidden(played: Played) -> list[str]:
    """Removals of pods that had ended, whose priority is not below that of the gang for which they leave, or for a gang
    that lacks nobody or does not preempt. In drains and rollbacks only a pod that had ended is forbidden.
    """
    out = []
    knows: dict[int, Told] = {}
    for batch in played.batches:
        told = knows.setdefault(batch.process, Told())
        for event in batch.events:
            told.hear(event, batch.at_seconds)
        for action in batch.actions:
            texts: list[str] = []
            if isinstance(action, Remove):
                text = _may_not(told, told.pods.get(action.pod.uid), preemptor_of(action.mark))
                texts = [f"{action.pod.key}: {text}"] if text else []
            elif isinstance(action, SuspendJob):
                texts = _of_job(told, action)
            out += [f"at {batch.at_seconds:.3f} s: {text}" for text in texts]
            told.asked(action)
    return out


# -- what is counted ----------------------------------------------------------------------------------------------


def outdated(played: Played) -> int:
    """Removals that took effect though their process had been told, before they were sent, that the pod may not be
    evicted.
    """
    return sum(bool(_may_not(told, told.pods.get(e.uid), _preemptor(e))) for e, told in _with_knowledge(played))


def let_off(played: Played) -> int:
    """Victims whose mark the scheduler took back after others of their list had been removed."""
    history = played.world.history
    count = 0
    for each in invariants.rounds(history):
        first = min(each.removed.values(), default=len(history))
        standing = set(each.marked) - set(each.removed)
        for entry in history.entries[first + 1 :]:
            if entry.uid not in standing or entry.kind != "Pod":
                continue
            if ends_object(entry) or (isinstance(entry.record, Pod) and not entry.record.live):
                standing.discard(entry.uid)
            elif entry.verb == log.UNMARK and entry.outcome == log.OK and entry.actor == log.SCHEDULER:
                standing.discard(entry.uid)
                count += 1
    return count


def _preemptor(entry: Entry) -> str:
    said = str(entry.detail.get("mark", ""))
    return "" if drained_by(entry) is not None else preemptor_of(said)


def _with_knowledge(played: Played) -> Iterator[tuple[Entry, Told]]:
    """Each removal of a pod that took effect, with what its process knew when it was sent."""
    delay = played.world.timing.write_seconds
    removals = played.world.history.of(log.DELETE, log.EVICT, actor=log.SCHEDULER)
    waiting = deque(sorted((e.at_seconds - delay, e.number, e) for e in removals if e.outcome == log.OK and e.changed))
    told, process = Told(), 0
    for batch in played.batches:
        while waiting and waiting[0][0] < batch.at_seconds - AT_ONCE:
            yield waiting.popleft()[2], told
        if batch.process != process:
            told, process = Told(), batch.process
        for event in batch.events:
            told.hear(event, batch.at_seconds)
        for action in batch.actions:
            told.asked(action)
    yield from ((entry, told) for _, _, entry in waiting)


# -- may it leave? ------------------------------------------------------------------------------------------------


def _may_not(told: Told, victim: Pod | None, preemptor: str) -> str:
    """Why this pod may not be evicted for this gang (empty: for none), as far as is known; empty when it may."""
    ended = _ended(victim)
    if victim is None or ended or not preemptor:
        return ended
    if victim.gang.family != SINGLE and told.lacking(victim.gang):
        return ""  # what is left of a gang that has lost a member is finished
    gang = told.named(preemptor)
    namespace, _, name = preemptor.partition("/")
    job = told.jobs.get((namespace, name))
    if job is not None and job.template is not None and (gang is None or job.queue.local_queue):
        both = bool(job.queue.local_queue) and told.queued(victim)
        return "" if both else _not_lower(victim, job.template.priority)
    if preemptor in told.jobsets:
        return ""  # its Jobs are its members, and its templates their priority: that is not looked at
    if gang is None:
        return "nobody is left of that gang"
    if victim.gang == gang:
        return "it is one of them"
    members = told.members(gang)
    known = told.group(gang)
    policies = [*(p.preemption_policy for p in members if p.live), known.preemption_policy if known else None]
    if PREEMPT_NEVER in policies:
        return "that gang does not preempt"
    if not told.lacking(gang):
        return "that gang lacks nobody"
    if not any(p.live and not p.node for p in members):
        return "nobody of that gang waits"
    both = told.queued(victim) and any(map(told.queued, members))
    return "" if both else _not_lower(victim, told.priority(gang))


def _ended(victim: Pod | None) -> str:
    """Why nobody can be evicted there any more; empty when somebody can."""
    if victim is None:
        return "it was known to be gone"
    if victim.finished or not victim.node:
        return "it was known to have ended" if victim.finished else "it was not bound"
    return ""


def _not_lower(victim: Pod, priority: int) -> str:
    return "" if victim.priority < priority else f"its priority {victim.priority} is not below {priority}"


def _of_job(told: Told, action: SuspendJob) -> list[str]:
    """Why pods that run may not leave with a Job or JobSet that is suspended."""
    job, mine = action.job, list[Pod]()
    for pod in told.pods.values():
        if pod.namespace != job.namespace or not pod.bound or not pod.live:
            continue
        of_job = pod.owner is not None and pod.owner.uid == job.uid
        if of_job or (job.kind == "JobSet" and pod.labels.get(JOBSET_NAME) == job.name):
            mine.append(pod)
    queue = not action.preemptor or " " in action.preemptor
    texts = ((pod, _may_not(told, pod, "" if queue else action.preemptor)) for pod in mine)
    return [f"{pod.key}: {text}" for pod, text in texts if text]
