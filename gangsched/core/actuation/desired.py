"""What is to stand on a pod, Job or JobSet, as a function of what is intended: the one author of marks and nominations.

Nothing here remembers or asks. A write is made of what is desired at the moment in which it is asked for, for the first
time or again, and is not made where what is known to be there, or on its way, is that already.

Two things are no function of what is intended now. A binding cannot be taken back: once it was asked for it stands,
whatever becomes of the plan, as long as its node takes the pod. And a removal that is not wanted any more may still
have been carried out, so what was asked for is kept by its eviction until it is answered, wanted or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from gangsched.core.actions import (
    JobRef,
    Mark,
    Nominate,
    PodRef,
    Remove,
    SuspendJob,
    Unmark,
    WithdrawNomination,
    reference,
)
from gangsched.core.actuation.records import Intent, Owner, Owners, written
from gangsched.core.ledger.condemned import Eviction
from gangsched.core.quota.preemption import REASON_TEXT
from gangsched.messages import notes
from gangsched.model.records import Pod
from gangsched.model.times import render_time

#: Writes of which the opposite can be asked for later.
Revocable: TypeAlias = Mark | Unmark | WithdrawNomination


class Marked(NamedTuple):
    """What stands on a victim: its owners as data, and message and reason of its DisruptionTarget condition. Without a
    message its eviction is only announced, and it does not have that condition yet.
    """

    owners: str
    message: str = ""
    reason: str = ""


class Desired(NamedTuple):
    """What is to stand on a pod; None: nothing of ours, and what is there is taken back."""

    nomination: Intent | None = None
    mark: Marked | None = None


def desired(uid: str, intent: Intent | None, named: Iterable[Eviction], now: float) -> Desired:
    """What is to stand on the pod ``uid``. ``intent`` is where the plan of its gang has it, ``named`` are the evictions
    that it has to name: each owner is written down, and the strongest of those whose notice is over marks it.
    """
    evictions = list(named)
    if not evictions:
        return Desired(intent)
    owners = written(Owners.of(owner(each, uid) for each in evictions))
    begun = [each for each in evictions if each.begins <= now]
    if not begun:
        return Desired(intent, Marked(owners))
    strongest = max(begun, key=lambda each: each.priority)
    return Desired(intent, Marked(owners, _text(strongest, uid), strongest.reason))


def owner(eviction: Eviction, uid: str) -> Owner:
    """An eviction as the owner of one of its victims."""
    victim = eviction.victims.get(uid)
    found = Owner(eviction.ident, eviction.cause.value, eviction.scheduler, eviction.owner, eviction.trigger)
    if victim is not None:
        unit = {"kind": victim.unit.kind, "unit": victim.unit.name}
        found = msgspec.structs.replace(found, **unit, partial=victim.partial, method=victim.method)
    if eviction.begins:
        found = msgspec.structs.replace(found, not_before=render_time(eviction.begins))
    return found


def _text(eviction: Eviction, uid: str) -> str:
    """The message of the DisruptionTarget condition; where quota decides who may be taken, in the words of Kueue."""
    victim = eviction.victims.get(uid)
    if victim is None or victim.reason not in REASON_TEXT:
        return eviction.mark
    return eviction.mark.replace(notes.HIGHER_PRIORITY, notes.workload_due_to(REASON_TEXT[victim.reason]), 1)


# -- the writes -------------------------------------------------------------------------------------------


def nominate(action_id: int, pod: PodRef, intent: Intent) -> Nominate:
    """Nominate a member to where its plan has it."""
    return Nominate(action_id, pod, intent.node, intent.plan, written(intent))


def mark(action_id: int, pod: Pod, wanted: Marked) -> Mark:
    """Let a victim bear this."""
    if not wanted.message:
        return Mark(action_id, reference(pod), "", owners=wanted.owners)
    return Mark(action_id, reference(pod), wanted.message, wanted.reason, wanted.owners)


def remove(action_id: int, eviction: Eviction, pod: Pod, evict: bool) -> Remove:
    """Let a victim go, through its budgets if ``evict``; an eviction overwrites its mark, which is restored then."""
    return Remove(action_id, reference(pod), evict, _text(eviction, pod.uid), eviction.reason)


def suspend(action_id: int, eviction: Eviction, job: JobRef, version: str) -> SuspendJob:
    """Let victims go with their Job."""
    return SuspendJob(action_id, job, version, eviction.scheduler, eviction.owner, eviction.ident)


def again(
    action_id: int, asked: Mark | Unmark | WithdrawNomination, pod: Pod, wanted: Desired
) -> Mark | Unmark | WithdrawNomination | None:
    """What is to be asked for instead of this, which had no effect that is known; None: nothing any more."""
    if isinstance(asked, WithdrawNomination):
        return None if pod.node else msgspec.structs.replace(asked, id=action_id)
    if not pod.live:
        return None
    if wanted.mark is not None:
        return mark(action_id, pod, wanted.mark)
    return msgspec.structs.replace(asked, id=action_id) if isinstance(asked, Unmark) else None


def nominated_elsewhere(pods: Iterable[Pod], asked: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[Pod]:
    """Those of these pods that are nominated to a node (by UID in ``asked``, or else as their record says) to which
    they are not ``wanted`` to be: to another one, or to none.
    """
    for pod in pods:
        node = asked.get(pod.uid, pod.nominated_node if pod.on_record else None)
        if node is not None and wanted.get(pod.uid) != node:
            yield pod
