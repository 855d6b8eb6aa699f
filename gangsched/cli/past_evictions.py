"""What the record of evictions says to the owner of victims: when they left, for which gang, what holds their room, and
what would protect them next time.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gangsched.cli import without_pods
from gangsched.cli.contracts import Section
from gangsched.cli.decisions import WOULD_HELP
from gangsched.cli.explanation import Explanation
from gangsched.messages import absent
from gangsched.messages.text import are, join_names, pluralize
from gangsched.model.times import clock_time, parse_time, render_duration

if TYPE_CHECKING:
    from gangsched.cluster.kube.client import Client
    from gangsched.cluster.kube.history import Line
    from gangsched.runtime.settings import Configuration

#: The label of what is on record.
EVICTED = "evicted"
#: Older evictions are left to the command that lists them.
RECENT_SECONDS = 24 * 3600
#: Pods that are evicted for one gang are on record within so many seconds.
_TOGETHER_SECONDS = 60.0
_FEW = 4
_PREEMPTOR = re.compile(r"for gang (\S+?)(?: \(|,|;|$)|by gang (\S+) \(")
_PRIORITY = re.compile(r"\(priority (-?\d+)")


class Past(NamedTuple):
    """The last eviction of something: its moment (seconds), the pods and their nodes, the gang, and its priority."""

    at: float
    pods: Sequence[str]
    nodes: Collection[str]
    gang: str
    priority: int | None
    note: str


def is_of(line: Line, space: str, kind: str, name: str) -> list[tuple[str, str, str]]:
    """Return the objects of a line that have this name, or are pods of a controller of this name."""
    return [
        each
        for each in line.objects
        if each[0] == space
        and (
            (each[1] == name and kind in ("", line.kind))
            or (line.kind == "Pod" and kind != "Pod" and each[1].startswith(f"{name}-"))
        )
    ]


def last_of(lines: Sequence[Line], space: str, kind: str, name: str, now: float) -> Past | None:
    """Return the last eviction that is on record of this object; None if there was none recently."""
    found = [(line, mine) for line in lines if gang_of(line.note) and (mine := is_of(line, space, kind, name))]
    if not found:
        return None
    last = found[-1][0]
    at = parse_time(last.time, "time")
    if at < now - RECENT_SECONDS:
        return None
    gang, level = gang_of(last.note), _PRIORITY.search(last.note)
    objects = {
        each
        for line, mine in found
        if gang_of(line.note) == gang and parse_time(line.time, "time") >= at - _TOGETHER_SECONDS
        for each in mine
    }
    pods = sorted(f"{each[0]}/{each[1]}" for each in objects)
    return Past(at, pods, {each[2] for each in objects if each[2]}, gang, int(level[1]) if level else None, last.note)


def gang_of(note: str) -> str:
    """Return the gang (``namespace/name``) for which pods were evicted; empty where a message names none."""
    found = _PREEMPTOR.search(note)
    return (found[1] or found[2]) if found is not None else ""


class Holds(NamedTuple):
    """The nodes that are held for gangs, and for how many seconds at most."""

    nodes: Collection[str]
    seconds: float


def with_past(found: Explanation, past: Past, held: Holds, now: float) -> Explanation:
    """The answer with its last eviction: first where nothing is decided about it, because its pods are others' now."""
    told = sentence(past, held, now)
    if found.word == without_pods.NOT_OURS:
        sections = [each for each in found.sections if each.label != WOULD_HELP]
        return msgspec.structs.replace(
            found,
            word=EVICTED,
            sentence=told,
            sections=(Section(WOULD_HELP, [protection(past)]), Section("waits", [found.sentence]), *sections),
        )
    return msgspec.structs.replace(found, sections=(Section(EVICTED, [told, protection(past)]), *found.sections))


def of_gone(past: Past, title: str, held: Holds, now: float) -> Explanation:
    """The answer about a pod that is gone, by the record alone."""
    lines = (Section(WOULD_HELP, [protection(past)]), Section("because", [past.note]))
    return Explanation(title, EVICTED, sentence(past, held, now), lines)


def sentence(past: Past, held: Holds, now: float) -> str:
    """Which pods were evicted when, for which gang, and which of their nodes are held for it, for how long."""
    pods = pluralize(len(past.pods), "pod")
    text = absent.made_room(pods=pods, gang=past.gang, time=clock_time(past.at, now))
    kept = sorted(set(held.nodes) & set(past.nodes))
    if kept:
        most = render_duration(held.seconds)
        text += absent.and_held(nodes=join_names(kept, _FEW), are=are(len(kept)), gang=past.gang, most=most)
    return text


def protection(past: Past) -> str:
    """What would keep the gang from evicting it again."""
    if past.priority is None:
        return absent.PROTECT
    return absent.protect(priority=past.priority)


async def evictions_on_record(client: Client, configuration: Configuration, space: str) -> list[Line]:
    """The lines of the record of a cluster, else what the namespace ``space`` shows; none where neither may be read."""
    # What talks to a cluster takes long to import.
    from gangsched.cluster.kube.client import ApiError, UnreachableError  # noqa: PLC0415
    from gangsched.cluster.kube.evictions_here import evictions_in  # noqa: PLC0415
    from gangsched.cluster.kube.history import recorded  # noqa: PLC0415

    try:
        return await recorded(client.get, configuration.leader_election.resource_namespace)
    except UnreachableError:
        return []
    except ApiError:
        with contextlib.suppress(ApiError, UnreachableError):
            return await evictions_in(client, space)
        return []
