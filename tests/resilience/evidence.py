"""What a scheduler under test knew and did, written down by its own process as it happens: so a judge need not guess.

The audit log says what arrived at the API server. It cannot say who was on the list of a plan, when a request's bytes
left their sender, or whether a binding of somebody else was known when a decision was made. These lines say it; each is
one system call, so a process that is killed has written what it had done. Requests are told apart by their Audit-ID,
which the API server takes from the client.
"""

from __future__ import annotations

import itertools
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

from gangsched.cluster.kube.session import Body, Session
from gangsched.core.actions import Action, Bind, Remove
from gangsched.core.actuation.actuator import Actuator
from gangsched.core.events import Changed, Event
from gangsched.core.ledger.condemned import Eviction
from gangsched.core.lifecycle.binding import Bindings
from gangsched.core.lifecycle.evicting import Evictions
from gangsched.model.records import Pod
from gangsched.runtime.observers import DecisionLog

#: Where a process writes its evidence.
VARIABLE = "RESILIENCE_EVIDENCE"


class Listed(msgspec.Struct, tag="plan", frozen=True):
    """The list of victims of a plan, just before its members are nominated."""

    at: float
    plan: str
    victims: tuple[str, ...]


class Removing(msgspec.Struct, tag="remove", frozen=True):
    """The core has asked for the removal of a pod, for this plan of this gang or group."""

    at: float
    pod: str
    plan: str
    preemptor: str


class Sent(msgspec.Struct, tag="sent", frozen=True):
    """The bytes of a request were handed to the operating system between these two moments."""

    begun: float
    ended: float
    audit_id: str


class Known(msgspec.Struct, tag="known", frozen=True):
    """The decision core was told for the first time that a pod is on a node."""

    at: float
    pod: str
    node: str


class Decided(msgspec.Struct, tag="decided", frozen=True):
    """The core has asked for a binding."""

    at: float
    pod: str
    node: str


Entry = Listed | Removing | Sent | Known | Decided


class Evidence:
    """What the processes of one run have written down. Times are seconds since the epoch.

    ``lists`` has the lists of victims by plan, ``sent`` when the bytes of a request left by its Audit-ID, ``known``
    when a pod's node was known first by UID, ``decided`` when the last binding of a pod was asked for by UID.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._lists: dict[str, list[Listed]] = {}
        self._removals: dict[str, list[Removing]] = {}
        self.sent: dict[str, Sent] = {}
        self.known: dict[str, float] = {}
        self.decided: dict[str, float] = {}
        for entry in entries:
            match entry:
                case Listed():
                    self._lists.setdefault(entry.plan, []).append(entry)
                case Removing():
                    self._removals.setdefault(entry.pod, []).append(entry)
                case Sent():
                    self.sent[entry.audit_id] = entry
                case Known():
                    self.known.setdefault(entry.pod, entry.at)
                case Decided():
                    self.decided[entry.pod] = entry.at

    def victims(self, plan: str, at: float) -> frozenset[str] | None:
        """The list of a plan as it stood at a moment; None: nobody has made one."""
        lists = self._lists.get(plan, [])
        position = bisect_right([x.at for x in lists], at)
        return frozenset(lists[position - 1].victims) if position else None

    def purposes(self, pod: str, at: float) -> list[tuple[str, str]]:
        """For which preemptors and plans a pod's removal had been asked for by then, the last one first."""
        asked = [(x.preemptor, x.plan) for x in self._removals.get(pod, ()) if x.at <= at]
        return list(dict.fromkeys(reversed(asked)))


def read(files: Iterable[Path]) -> Evidence:
    """All that has been written, in order of time within each file. A last line that was cut off is left out."""
    decoder = msgspec.json.Decoder(Entry)
    return Evidence(
        decoder.decode(line)
        for file in files
        if file.exists()
        for line in file.read_bytes().split(b"\n")
        if line.endswith(b"}")
    )


def collect(tag: str) -> None:
    """From now on this process, which has this tag, writes down what it does, if it has been told where."""
    file = os.environ.get(VARIABLE)
    if not file:
        return
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    encode = msgspec.json.Encoder().encode

    def put(entry: Entry) -> None:
        os.write(handle, encode(entry) + b"\n")

    _record_requests(tag, put)
    _record_lists(put)
    _record_decisions(put)


def _record_requests(tag: str, put: Callable[[Entry], None]) -> None:
    numbers = itertools.count()
    session: Any = Session
    body: Any = Body
    really_ask, really_write = session.request, body.write_with_length
    asking: ContextVar[str] = ContextVar("asking")

    async def request(self: Any, method: str, target: str, headers: Any, *args: Any, **more: Any) -> Any:
        audit_id = f"{tag}-{next(numbers)}"
        asking.set(audit_id)
        return await really_ask(self, method, target, {**headers, "Audit-ID": audit_id}, *args, **more)

    async def write(self: Any, *args: Any) -> None:
        begun = time.time()
        await really_write(self, *args)
        put(Sent(begun, time.time(), asking.get()))

    session.request, body.write_with_length = request, write


def _record_lists(put: Callable[[Entry], None]) -> None:
    nominating: Any = Bindings
    removing: Any = Evictions
    asked: Any = Actuator
    really_nominate, really_remove, really_want = nominating.nominate, removing.remove, asked.want
    under_way: list[Eviction] = []

    def nominate(self: Any, group: Any) -> None:
        if group.plan is not None:
            put(Listed(time.time(), group.plan.ident, tuple(group.plan.victims)))
        really_nominate(self, group)

    def remove(self: Any, eviction: Eviction) -> Any:
        under_way.append(eviction)
        try:
            return really_remove(self, eviction)
        finally:
            under_way.pop()

    def want(self: Any, action: Any, *args: Any, **more: Any) -> None:
        if isinstance(action, Remove) and under_way:
            why = under_way[-1].grounds
            put(Removing(time.time(), action.pod.uid, why.ident, why.owner))
        really_want(self, action, *args, **more)

    nominating.nominate, removing.remove, asked.want = nominate, remove, want


def _record_decisions(put: Callable[[Entry], None]) -> None:
    told: set[str] = set()

    def bindings(actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Bind):
                put(Decided(time.time(), action.pod.uid, action.node))

    narrator: Any = DecisionLog
    handled, decided = narrator.handled, narrator.decided

    def on_handled(self: Any, events: Sequence[Event], actions: Sequence[Action], *more: float) -> None:
        for event in events:
            if (
                isinstance(event, Changed)
                and isinstance(event.record, Pod)
                and event.record.node
                and event.record.uid not in told
            ):
                told.add(event.record.uid)
                put(Known(time.time(), event.record.uid, event.record.node))
        bindings(actions)
        handled(self, events, actions, *more)

    def on_decided(self: Any, decisions: Any, actions: Sequence[Action], *more: float) -> None:
        bindings(actions)
        decided(self, decisions, actions, *more)

    narrator.handled, narrator.decided = on_handled, on_decided
