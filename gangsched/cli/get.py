"""``gangsched get``: one line for each gang, of manifests or of a cluster. Reads, and changes nothing."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import msgspec

from gangsched.cli import answers
from gangsched.cli.answers import Contract, age_of, natural, print_lines
from gangsched.cli.decisions import State, can_start
from gangsched.cli.inputs import (
    add_cluster_arguments,
    add_input_arguments,
    add_namespace_argument,
    follow_cluster,
    name_of,
    named,
    read_either,
)
from gangsched.core.decision import Decision
from gangsched.core.scheduler import Scheduler
from gangsched.core.state.membership import Census
from gangsched.core.world.obstacles import obstacle
from gangsched.core.world.world import World
from gangsched.messages import failures
from gangsched.model.errors import Problem
from gangsched.model.records import GangId, Pod
from gangsched.model.times import render_time

_WATCH_SECONDS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("name", nargs="?", metavar="[KIND/]NAME", help="only this gang")
    add_namespace_argument(parser)
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces (default with -f)")
    add_input_arguments(parser, required=False)
    add_cluster_arguments(parser)
    parser.add_argument(
        "-o", "--output", choices=("table", "wide", "json", "yaml", "name"), default="table", help="default: table"
    )
    parser.add_argument(
        "-w", "--watch", action="store_true", help="go on, and print the line of a gang whenever it changes"
    )
    parser.epilog = (
        "States: Gathering (members are missing), Queued, Nominated (its nodes are held while victims leave), Binding,"
        " Starting, Running, Leaving, Finished. READY is members on nodes of members needed. Exit code: 0, or 2 if"
        " there is no gang of that name or some input was not understood."
    )


def run(args: argparse.Namespace) -> int:
    """Print the gangs; 2 when there is none of the name or some input was not understood."""
    args.name = name_of(args)
    if args.watch:
        return _watch(args)
    return CONTRACT.run(args, _read)


class Gangs(NamedTuple):
    """The gangs that are asked for, at a moment in seconds since the epoch."""

    rows: Sequence[Row]
    now: float = 0.0

    def fields(self) -> dict[str, Any]:
        """The fields of the contract."""
        return {"gangs": [_entry(row, self.now) for row in self.rows]}


def _render(gangs: Gangs, form: str) -> None:
    print_lines(_lines(form, gangs.rows, gangs.now))
    if not gangs.rows:
        answers.complain([failures.NO_GANGS])


CONTRACT: Contract[Gangs] = Contract("gangsched.dev/get/v1", {"gangs": []}, Gangs.fields, _render)


def _read(args: argparse.Namespace) -> tuple[Gangs, list[Problem]]:
    read = read_either(args)
    state = State(read.events, read.options, read.now)
    space = "" if args.sources else read.namespace or "default"
    decisions = {decision.gang: decision for decision, _ in state.decisions}
    found = list(_chosen(args, rows(state.world, decisions), space))
    if args.name is not None and not found:
        raise answers.UsageError(failures.no_gang(name=args.name))
    return Gangs(found, state.now), read.warnings


def _watch(args: argparse.Namespace) -> int:
    """Print what changes; ends with Ctrl-C. Nothing is decided here: reasons are what a scheduler writes on pods."""
    if args.sources or args.output in ("json", "yaml"):
        raise answers.UsageError(failures.WATCH_FORMS)
    options, space, _, batches, _ = follow_cluster(args)
    scheduler = Scheduler(options)
    shown: dict[tuple[str, str, str], Row] = {}
    with closing(batches):
        for events, now in batches:
            scheduler.handle(events, now)
            found = {
                (row.namespace, row.kind, row.name): row
                for row in _chosen(args, rows(scheduler.world, {}), space or "default")
            }
            changed = [row for key, row in found.items() if shown.get(key) != row]
            print_lines(_lines(args.output, changed, now)[1 if shown and args.output != "name" else 0 :])
            shown = found
            sys.stdout.flush()
            time.sleep(_WATCH_SECONDS)
    return answers.OK


def _chosen(args: argparse.Namespace, found: Iterable[Row], space: str) -> Iterator[Row]:
    """The rows that are asked for; ``space`` is the namespace where none is given, empty for all."""
    given, kind, name = named(args.name, args.namespace) if args.name else (args.namespace or "", "", "")
    space = given or ("" if args.all_namespaces else space)
    for row in found:
        if space in ("", row.namespace) and name in ("", row.name) and kind in ("", row.kind):
            yield row


def _lines(form: str, found: Sequence[Row], now: float) -> list[tuple[str, ...]]:
    """The table, its header first; for names only them."""
    if form == "name":
        return [(f"{row.kind.lower()}/{row.name}",) for row in found]
    head = ("NAMESPACE", "NAME", "KIND", "STATE", "READY", "PRIORITY", "AGE")
    wide = ("PENDING", "SCHEDULER", "NODES") if form == "wide" else ()
    lines: list[tuple[str, ...]] = [(*head, *wide, "REASON")]
    for row in found:
        age = age_of(now - row.created) if row.created else "<unknown>"
        cells = (row.namespace, row.name, row.kind, row.state, row.ready, str(row.priority), age)
        more = (str(row.pending), row.scheduler, ",".join(row.nodes) or "<none>") if wide else ()
        lines.append((*cells, *more, row.reason))
    return lines


def _entry(row: Row, now: float) -> dict[str, Any]:
    return {
        "namespace": row.namespace,
        "name": row.name,
        "kind": row.kind,
        "state": row.state,
        "bound": row.bound,
        "needed": row.needed,
        "pending": row.pending,
        "priority": row.priority,
        "created": render_time(row.created) if row.created else None,
        "ageSeconds": round(max(0.0, now - row.created)) if row.created else None,
        "reason": row.reason,
        "scheduler": row.scheduler,
        "nodes": list(row.nodes),
    }


#: States, from arrival to end: see :func:`_state`.
GATHERING, QUEUED, NOMINATED, BINDING = "Gathering", "Queued", "Nominated", "Binding"
STARTING, RUNNING, LEAVING, FINISHED = "Starting", "Running", "Leaving", "Finished"


class Row(msgspec.Struct, frozen=True):
    """One gang. ``bound`` of ``needed`` members have a node, ``pending`` have none; ``created`` is in seconds since the
    epoch (0 where it is not known). ``reason`` says why it waits and is empty when it does not.
    """

    namespace: str
    name: str
    kind: str
    state: str
    bound: int
    needed: int
    pending: int
    priority: int
    created: float
    reason: str
    scheduler: str
    nodes: tuple[str, ...]

    @property
    def ready(self) -> str:
        """``2/4``."""
        return f"{self.bound}/{self.needed}"


def rows(world: World, decisions: Mapping[GangId, Decision]) -> Iterator[Row]:
    """All gangs of our scheduler names by namespace and name, where ``10`` follows ``9``. ``decisions`` are what would
    be decided, for gangs whose pods have no condition of any scheduler.
    """
    membership = world.membership
    for gang in sorted(filter(membership.is_ours, membership.members), key=_order):
        spec, census = membership.spec(gang), membership.census(gang)
        needed = spec.min_member if spec is not None else 1
        gangs = membership.group(gang)[0]
        waits = membership.waits(gang)
        found = obstacle(world, gangs) if waits else None
        problem = found.text if found is not None else ""
        yield Row(
            namespace=gang.namespace,
            name=gang.name,
            kind=spec.kind if spec is not None else "PodGroup",
            state=_state(census, needed, problem),
            bound=len(census.bound) + census.succeeded,
            needed=needed,
            pending=len(census.pending) + len(census.gated),
            priority=membership.preemptor_priority((gang,)),
            created=membership.created((gang,)),
            reason=(problem or _said(census.pending) or _decided(decisions.get(gang))) if waits else "",
            scheduler=gang.scheduler,
            nodes=tuple(sorted({pod.node for pod in census.bound if pod.node}, key=natural)),
        )


def _state(census: Census, needed: int, problem: str) -> str:
    if len(census.bound) + census.succeeded < needed:
        if census.bound:
            return BINDING
        if census.pending or census.gated:
            nominated = any(pod.on_record for pod in census.pending)
            return GATHERING if problem else NOMINATED if nominated else QUEUED
    if census.bound:
        return RUNNING if all(pod.phase == "Running" for pod in census.bound) else STARTING
    return LEAVING if census.terminating else FINISHED


def _said(pending: list[Pod]) -> str:
    """What a scheduler has written on the first member that waits, or why it could not."""
    conditions = (pod.scheduled_condition for pod in pending)
    return next((c.message for c in conditions if c is not None and c.status == "False" and c.message), "")


def _decided(decision: Decision | None) -> str:
    if decision is None:
        return failures.NOT_DECIDED
    return can_start(decision) or decision.said


def _order(gang: GangId) -> tuple[str, list[str | int], str]:
    return gang.namespace, natural(gang.name), gang.family
