"""What may never happen where queues are drained, checked on a history after the fact: see :mod:`.invariants`.

The marks are the intent: a pod that leaves for a queue bears its mark, all pods of its workload bore theirs before the
first one left, and the queue was being drained then.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, History
from gangsched.cluster.sim.replay import ends_object
from gangsched.model.queues import STOP_DRAIN, ClusterQueue, LocalQueue
from gangsched.model.records import Pod

#: Kind and name of the queue in the message of the DisruptionTarget condition of a pod whose queue is drained, or in
#: what a Job says that is suspended for it.
_DRAINED = re.compile(r"(?:^|draining )((?:Cluster|Local)Queue) ([^,\s]+)(?:, which is stopped: |$)")
#: A queue that is opened is known so late at most, with the writes that are on their way then.
_OPENED_SECONDS = 1.0


def drained_by(entry: Entry) -> tuple[str, str] | None:
    """Kind and name of the queue because of which the scheduler removed a pod, or suspended a Job; None for others."""
    if entry.actor != log.SCHEDULER or entry.verb not in (log.DELETE, log.EVICT, log.SUSPEND):
        return None
    return drained_queue(str(entry.detail.get("preemptor" if entry.verb == log.SUSPEND else "mark", "")))


def drained_queue(message: str) -> tuple[str, str] | None:
    """Kind and name of the queue that a mark names because it is drained; None for other marks."""
    found = _DRAINED.search(message)
    return (found[1], found[2]) if found else None


def marked_so(history: History, removal: Entry) -> bool:
    """Did the pod bear the mark for which it was removed? Another plan may have written its own over it since."""
    marked = False
    for entry in history.entries[: removal.number]:
        if entry.uid == removal.uid and entry.outcome == log.OK and entry.verb in (log.MARK, log.UNMARK):
            same = entry.verb == log.MARK and entry.detail["message"] == removal.detail["mark"]
            marked = same or (marked and entry.verb == log.MARK)
    return marked


def drained_while_open(history: History, lag_seconds: float = _OPENED_SECONDS) -> list[str]:
    """Pods that were removed, and Jobs that were suspended, because of a queue that did not drain then, nor up to
    ``lag_seconds`` before.
    """
    out = []
    for entry, drained_at in _with_queues(history):
        queue = drained_by(entry)
        late = queue is not None and entry.at_seconds - drained_at.get(queue, -math.inf) > lag_seconds
        if queue is not None and late and entry.outcome == log.OK and entry.changed:
            out.append(f"at {entry.at_seconds:.3f} s: {entry.object} left for {' '.join(queue)}, which was not drained")
    return out


def marked_while_open(history: History, lag_seconds: float = 2 * _OPENED_SECONDS) -> list[str]:
    """Pods that stayed, and bore the mark of a drained queue for more than ``lag_seconds`` after it was opened.

    Meant for runs in which a process of the scheduler is alive all the time, and its writes do not fail for long.
    """
    marked: dict[str, tuple[str, str]] = {}
    out: dict[str, str] = {}
    for entry, drained_at in _with_queues(history):
        for uid, queue in marked.items():
            if entry.at_seconds - drained_at.get(queue, -math.inf) > lag_seconds:
                out.setdefault(uid, f"at {entry.at_seconds:.3f} s: {uid} is still marked for {' '.join(queue)}")
        if entry.kind == "Pod" and (isinstance(entry.record, Pod) or ends_object(entry)):
            mark = _mark(entry.record)
            if mark is not None:
                marked[entry.uid] = mark
            else:
                marked.pop(entry.uid, None)
    return list(out.values())


def drained_before_marked(history: History) -> list[str]:
    """Pods that ran when the first of their workload was removed because its queue is drained, and that were marked for
    that only afterwards.
    """
    bound: dict[str, int] = {}
    first: dict[str, int] = {}
    known: set[tuple[str, str]] = set()
    out = []
    for entry in history:
        if isinstance(entry.record, Pod) and entry.record.bound:
            bound.setdefault(entry.uid, entry.number)
        if drained_by(entry) is not None and entry.verb != log.SUSPEND and entry.outcome == log.OK and entry.changed:
            first[str(entry.detail["mark"])] = entry.number
        elif entry.verb == log.MARK and entry.outcome == log.OK:
            text = str(entry.detail["message"])
            before = (entry.uid, text) in known
            known.add((entry.uid, text))
            if not before and text in first and bound.get(entry.uid, len(history)) < first[text]:
                out.append(f"at {entry.at_seconds:.3f} s: {entry.object} was marked after another of {text}")
    return out


def _with_queues(history: History) -> Iterator[tuple[Entry, dict[tuple[str, str], float]]]:
    """Every entry, with the last moment (seconds) at which each queue (kind and name) drained, up to then. A queue that
    does now has no end of that: infinity.
    """
    drained_at: dict[tuple[str, str], float] = {}
    for entry in history:
        name = entry.kind, entry.object
        changed = isinstance(entry.record, ClusterQueue | LocalQueue) or ends_object(entry)
        if isinstance(entry.record, ClusterQueue | LocalQueue) and entry.record.stop == STOP_DRAIN:
            drained_at[name] = math.inf
        elif changed and drained_at.get(name) == math.inf:
            drained_at[name] = entry.at_seconds
        yield entry, drained_at


def _mark(pod: Pod | None) -> tuple[str, str] | None:
    """The queue for which a pod that does not leave yet is marked."""
    if pod is None or not pod.live or pod.disruption is None or pod.disruption.status != "True":
        return None
    return drained_queue(pod.disruption.message)
