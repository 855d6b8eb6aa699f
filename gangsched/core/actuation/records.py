"""What this scheduler writes down on pods for a process that comes after: as data with a schema, not as sentences.

On a nominated member the message of ``gangsched.dev/Nominated`` is an :class:`Intent`. Every eviction that needs a
victim to leave stands on it by name, whatever the cause: the condition ``gangsched.dev/EvictedFor`` names every
:class:`Owner`, the message of ``DisruptionTarget`` is that of the strongest, in words. Both are written with one PATCH,
the first alone for as long as the eviction is only announced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from gangsched.core.actions import MARK_REASON
from gangsched.core.ledger.condemned import Cause
from gangsched.core.quota.stop_policy import CLUSTER_QUEUE, LOCAL_QUEUE
from gangsched.model.errors import FieldError
from gangsched.model.records import Condition, Pod
from gangsched.model.times import parse_time

#: The version of both schemas.
VERSION: Literal[1] = 1


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


class Owners(msgspec.Struct, frozen=True):
    """All of them."""

    owners: tuple[Owner, ...]
    version: Literal[1] = VERSION

    @classmethod
    def of(cls, found: Iterable[Owner]) -> Owners:
        """These, in the order in which they are written."""
        return cls(tuple(sorted(found, key=lambda owner: (owner.name, owner.plan))))


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


def owners_of(pod: Pod) -> tuple[Owner, ...]:
    """The evictions that a pod bears as its owners, by whatever process, also where others have taken its
    DisruptionTarget back.
    """
    said = pod.evicted_for
    found = read_owners(said.message) if said is not None and said.status == "True" else None
    if found is None:
        old = _owner_in_words(pod.disruption) if pod.disruption is not None and pod.disruption_target else None
        return (old,) if old is not None else ()
    return found


def intent_of(pod: Pod) -> Intent | None:
    """The intent record that stands on a pod; None without one, or without a node that it could be for."""
    said = pod.intent
    if said is None or not pod.on_record or not pod.nominated_node:
        return None
    return read_intent(said.message) or _intent_in_words(said.message)


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
