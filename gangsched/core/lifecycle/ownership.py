"""What this scheduler writes down on pods for a process that comes after: as data with a schema, not as sentences.

On a nominated member the message of ``gangsched.dev/Nominated`` is an :class:`Intent`. Every eviction that needs a
victim to leave stands on it by name, whatever the cause: the condition ``gangsched.dev/EvictedFor`` names every
:class:`Owner`, the message of ``DisruptionTarget`` is that of the strongest, in words. Both are written with one PATCH,
the first alone for as long as the eviction is only announced.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

import msgspec

from gangsched.core.actions import MARK_REASON, Mark
from gangsched.core.lifecycle import report
from gangsched.core.quota.stop_policy import CLUSTER_QUEUE, LOCAL_QUEUE
from gangsched.model.errors import FieldError
from gangsched.model.records import Condition, Pod
from gangsched.model.times import parse_time

#: The version of both schemas.
VERSION: Literal[1] = 1


class Cause(enum.Enum):
    """Why pods are made to leave."""

    PREEMPTION = "preemption"  # a gang of higher priority, or with a right to their quota, needs their room
    DRAIN = "drain"  # their queue is stopped
    ROLLBACK = "rollback"  # their own gang is bound in part and cannot be whole


class Intent(msgspec.Struct, frozen=True, order=True):
    """The plan by which a member was nominated to a node: its id, how many victims it had when it was made, and how
    many pods it waits for besides. Of a node that is empty nothing is known.
    """

    plan: str
    victims: int
    node: str = ""
    awaited: int = 0
    version: Literal[1] = VERSION


_KEYS = {"name": "for", "unit": "unitName", "kind": "unitKind", "not_before": "notBefore"}


class Owner(msgspec.Struct, frozen=True, rename=_KEYS):
    """An eviction that makes a pod leave: the id of its plan, its cause, the scheduler that decided it, the gang
    (``ns/name``, joined by commas for a GangGroup) or queue for which the pod leaves, the pod that represents the gang,
    the unit with which it leaves, whether live members of that stay, by which method, and, if that was announced, the
    time (RFC 3339) before which it is neither marked nor removed.
    """

    plan: str
    cause: str
    scheduler: str
    name: str
    trigger: str = ""
    kind: str = ""
    unit: str = ""
    partial: bool = False
    method: str = "delete"
    not_before: str = ""


class Owning(NamedTuple):
    """An owner, with what the victim's DisruptionTarget says if it is the strongest, from the time ``begins`` on."""

    owner: Owner
    mark: str
    reason: str
    priority: float
    begins: float = 0.0


class Owners(msgspec.Struct, frozen=True):
    """All of them."""

    owners: tuple[Owner, ...]
    version: Literal[1] = VERSION


_intent, _owners = msgspec.json.Decoder(Intent), msgspec.json.Decoder(Owners)


def written(what: Intent | Owners) -> str:
    """The message of the condition."""
    return msgspec.json.encode(what).decode()


def read_intent(message: str) -> Intent | None:
    """What :func:`written` has written; None for other texts, and for schemas that are not known here."""
    try:
        return _intent.decode(message)
    except msgspec.MsgspecError:
        return None


def read_owners(message: str) -> tuple[Owner, ...] | None:
    """The same for a victim; None also where a time in it is none."""
    try:
        found = _owners.decode(message).owners
        for owner in found:
            parse_time(owner.not_before, "notBefore")
    except (msgspec.MsgspecError, FieldError):
        return None
    return found


def owners(found: Iterable[Owner]) -> Owners:
    """These, in the order in which they are written."""
    return Owners(tuple(sorted(found, key=lambda owner: (owner.name, owner.plan))))


def owners_of(pod: Pod) -> tuple[Owner, ...]:
    """The evictions that a pod bears as its owners, by whatever process; of those whose mark does not stand (any more)
    only what was announced.
    """
    said = pod.evicted_for
    found = read_owners(said.message) if said is not None and said.status == "True" else None
    if pod.disruption is None or not pod.disruption_target:
        return tuple(owner for owner in found or () if owner.not_before)
    if found is not None:
        return found
    old = _owner_in_words(pod.disruption)
    return (old,) if old is not None else ()


def intent_of(pod: Pod) -> Intent | None:
    """The intent record that stands on a pod; None without one, or without a node that it could be for."""
    said = pod.intent
    if said is None or not pod.on_record or not pod.nominated_node:
        return None
    return read_intent(said.message) or _intent_in_words(said.message)


class Ownership:
    """What victims bear, or are about to: by UID, and by the key of its writes, each eviction that owns them."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Owning]] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._of

    def own(self, uid: str, key: str, owning: Owning) -> None:
        """This eviction needs the pod to leave."""
        self._of.setdefault(uid, {})[key] = owning

    def disown(self, uid: str, key: str) -> Owner | None:
        """It needs the pod no longer to leave. Returns what it was as an owner, if it was one."""
        known = self._of.get(uid, {})
        found = known.pop(key, None)
        if not known:
            self._of.pop(uid, None)
        return found.owner if found is not None else None

    def forget(self, uid: str) -> None:
        """The pod bears nothing any more, or is gone."""
        self._of.pop(uid, None)

    def keys(self, uid: str) -> Collection[str]:
        """The evictions that own a pod, by key."""
        return self._of.get(uid, {}).keys()

    def names(self, uid: str) -> set[tuple[str, str]]:
        """The same: for whom each is, and its plan."""
        return {(each.owner.name, each.owner.plan) for each in self._of.get(uid, {}).values()}

    def mark(self, pod: Pod, action_id: int, now: float) -> Mark:
        """What a pod that has owners is to bear. While all of these have only announced that it will leave, it is not
        marked.
        """
        owning = self._of[pod.uid].values()
        data = written(owners(each.owner for each in owning))
        begun = [each for each in owning if each.begins <= now]
        if not begun:
            return Mark(action_id, report.reference(pod), "", owners=data)
        strongest = max(begun, key=lambda each: each.priority)
        return Mark(action_id, report.reference(pod), strongest.mark, strongest.reason, data)


# -- in sentences, as version 0.1 wrote; understood for those who upgrade, to be removed in 0.3 --------------

_PREEMPTION = re.compile(
    r"(\S+): preempting to accommodate higher priority pods, preemptor: (\S+), triggerpod: ([^\s,]+)"
)
_ROLLBACK = re.compile(r"(\S+): rolling back a gang that is bound in part: (\S+), triggerpod: ([^\s,]+)")
_DRAIN = re.compile(rf"(\S+): draining ((?:{CLUSTER_QUEUE}|{LOCAL_QUEUE}) \S+), which is stopped: (\S+) leaves")
_INTENT = re.compile(r"plan (\S+): nominated to (\S+); waiting for ([0-9]+) victims")


def _owner_in_words(mark: Condition) -> Owner | None:
    """For whom a pod leaves that bears this DisruptionTarget condition, by an unknown plan; None if others wrote it."""
    if mark.status != "True":
        return None
    drain = _DRAIN.fullmatch(mark.message)
    if drain is not None:
        return Owner("", Cause.DRAIN.value, drain[1], drain[2])
    for cause, pattern in ((Cause.PREEMPTION, _PREEMPTION), (Cause.ROLLBACK, _ROLLBACK)):
        found = pattern.fullmatch(mark.message) if mark.reason == MARK_REASON else None
        if found is not None:
            return Owner("", cause.value, found[1], found[2], found[3])
    return None


def _intent_in_words(message: str) -> Intent | None:
    """The intent record of a nominated member."""
    found = _INTENT.match(message)
    return Intent(found[1], int(found[3]), found[2]) if found else None
