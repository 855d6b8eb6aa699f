"""``gangsched get``: one line for each gang, of manifests or of a cluster. Reads, and changes nothing."""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import msgspec

from gangsched.cli import answers, without_pods
from gangsched.cli.answers import Columns, Contract, age_of, natural
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
from gangsched.cli.owners import above
from gangsched.cli.pod_explanation import leaving
from gangsched.cli.said import INCOMPLETE, condition_of
from gangsched.core.decision import Decision
from gangsched.core.scheduler import Scheduler
from gangsched.core.state.census import Census
from gangsched.core.state.jobs import family_of
from gangsched.core.world.obstacles import obstacle
from gangsched.core.world.world import World
from gangsched.messages import absent, failures, standing
from gangsched.messages.text import are, pluralize
from gangsched.model.dialects.upstream import FAMILY as UPSTREAM
from gangsched.model.errors import Problem
from gangsched.model.records import SINGLE, GangId, Job, Pod
from gangsched.model.times import render_time
from gangsched.runtime.boundary import Boundary

_WATCH_SECONDS = 1.0
DEFAULT_SCHEDULER = "default-scheduler"
#: How near to ours the name of a scheduler has to be to be a mistake.
_NEAR = 0.8


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
    """The requested gangs, at a moment in seconds since the epoch."""

    rows: Sequence[Row]
    now: float = 0.0

    def fields(self) -> dict[str, Any]:
        """The fields of the contract."""
        return {"gangs": [_entry(row, self.now) for row in self.rows]}


def _render(gangs: Gangs, form: str) -> None:
    width = _width(form)
    table = lines(form, gangs.rows, gangs.now)
    Columns(width).print(table if width is None else _without(table, width))
    if not gangs.rows:
        answers.complain([failures.NO_GANGS])


#: Columns that narrow terminals go without, in this order, until sentences have so many columns.
_LEFT_OUT, _FOR_REASONS = ("PRIORITY", "AGE", "NAMESPACE"), 40


def _without(table: list[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """The table without the columns that leave too little room for the reasons. Several namespaces always stay."""
    for title in _LEFT_OUT:
        widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
        if width - sum(widths[:-1]) - 3 * (len(widths) - 1) >= _FOR_REASONS or not any(row[-1] for row in table[1:]):
            break
        at = table[0].index(title)
        if title != "NAMESPACE" or len({row[at] for row in table[1:]}) == 1:
            table = [(*row[:at], *row[at + 1 :]) for row in table]
    return table


def _width(form: str) -> int | None:
    """The width into which the lines have to fit; None where nothing is cut off."""
    return answers.terminal_width() if form == "table" else None


CONTRACT: Contract[Gangs] = Contract("gangsched.dev/get/v1", {"gangs": []}, Gangs.fields, _render)


def _read(args: argparse.Namespace) -> tuple[Gangs, list[Problem]]:
    read = read_either(args, _within(args))
    state = State(read.events, read.options, read.now, decides=not read.partial, leads=read.leads)
    space = "" if args.sources else read.namespace or "default"
    decisions = {decision.gang: decision for decision, _ in state.decisions}
    found = list(_chosen(args, rows(state.scheduler, decisions, state.now, as_said=read.partial or read.leads), space))
    if args.name is not None and not found:
        raise answers.UsageError(failures.no_gang(name=args.name))
    return Gangs(found, state.now), [*read.warnings, *state.faults]


def _watch(args: argparse.Namespace) -> int:
    """Print what changes; ends with Ctrl-C. Nothing is decided here: reasons are what a scheduler writes on pods."""
    if args.sources or args.output in ("json", "yaml"):
        raise answers.UsageError(failures.WATCH_FORMS)
    options, space, running, batches, _ = follow_cluster(args, _within(args))
    space, leads = space or "default", bool(running.holder)
    contained = Boundary(partial(Scheduler, options), answered=False)  # an object may fail it
    shown: dict[tuple[str, str, str], Row] = {}
    columns, above = Columns(_width(args.output)), 0
    with closing(batches):
        for events, now, scope in batches:
            if not shown and not scope.whole:
                answers.complain([scope.notice])
            contained.handle(events, now)
            found = {
                (row.namespace, row.kind, row.name): row
                for row in _chosen(args, rows(contained.core, {}, now, as_said=leads or not scope.whole), space)
            }
            changed = [row for key, row in found.items() if shown.get(key) != row]
            columns.print(lines(args.output, changed, now)[above:])
            shown, above = found, 0 if args.output == "name" else 1
            sys.stdout.flush()
            time.sleep(_WATCH_SECONDS)
    return answers.OK


def _within(args: argparse.Namespace) -> str | None:
    """The namespace that will do where not all may be read; None: no single one does."""
    if args.all_namespaces and args.namespace is None:
        return None
    given = named(args.name, args.namespace)[0] if args.name else args.namespace
    return given or ""


def _chosen(args: argparse.Namespace, found: Iterable[Row], space: str) -> Iterator[Row]:
    """The requested rows; ``space`` is the namespace where none is given, empty for all."""
    given, kind, name = named(args.name, args.namespace) if args.name else (args.namespace or "", "", "")
    space = given or ("" if args.all_namespaces else space)
    for row in found:
        owns = kind and (kind, name) in row.owners
        if space in ("", row.namespace) and (owns or (name in ("", row.name) and kind in ("", row.kind))):
            yield row


def lines(form: str, found: Sequence[Row], now: float) -> list[tuple[str, ...]]:
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


#: States, from arrival to end: see :func:`_state`; of the first three nothing runs.
GATHERING, QUEUED, NOMINATED, BINDING = "Gathering", "Queued", "Nominated", "Binding"
STARTING, RUNNING, LEAVING, FINISHED = "Starting", "Running", "Leaving", "Finished"
WAITS = (GATHERING, QUEUED, NOMINATED)


class Row(msgspec.Struct, frozen=True):
    """One gang. ``bound`` of ``needed`` members have a node (None: the group that says so is missing), ``pending``
    have none; ``created`` is in seconds since the epoch (0 where it is not known). ``reason`` says why it waits or
    leaves and is empty when it does neither. ``owners`` are kind and name of what is above its pods.
    """

    namespace: str
    name: str
    kind: str
    state: str
    bound: int
    needed: int | None
    pending: int
    priority: int
    created: float
    reason: str
    scheduler: str
    nodes: tuple[str, ...]
    owners: tuple[tuple[str, str], ...] = ()

    @property
    def ready(self) -> str:
        """``2/4``; ``2/?`` where it is not known how many are needed."""
        return f"{self.bound}/{'?' if self.needed is None else self.needed}"


def rows(
    scheduler: Scheduler, decisions: Mapping[GangId, Decision], now: float, *, as_said: bool = False
) -> Iterator[Row]:
    """All gangs of our scheduler names by namespace and name, where ``10`` follows ``9``. ``decisions`` are what would
    be decided, for gangs whose pods have no condition of any scheduler. It is ``as_said`` there where the scheduler
    leads, or knows more than what is here: what is missing may be there for it.
    """
    world, condemned = scheduler.world, scheduler.ledger.condemned
    membership = world.membership
    found = [*(filter(membership.is_ours, membership.gangs())), *_unserved(world), *_without_pods(world)]
    for gang in sorted(found, key=_order):
        if not membership.has_members(gang) or not membership.is_ours(gang):
            yield _idle(world, gang)
            continue
        spec, census = membership.spec(gang), membership.census(gang)
        needed = spec.min_member if spec is not None else None if gang.family != SINGLE else 1
        gangs = membership.group(gang)[0]
        waits = membership.waits(gang)
        hindered = obstacle(world, condemned, gangs) if waits else None
        problem = hindered.text if hindered is not None else ""
        if as_said and (said := condition_of(census.pending)) is not None:
            problem = said.message if said.reason in INCOMPLETE else ""
        state = _state(census, needed, problem)
        reason = leaving(census.terminating, now) if state == LEAVING else ""
        if waits:
            reason = problem or _said(census.pending) or _decided(decisions.get(gang))
        yield Row(
            namespace=gang.namespace,
            name=gang.name,
            kind=spec.kind if spec is not None else "PodGroup",
            state=state,
            bound=len(census.bound) + census.succeeded,
            needed=needed,
            pending=len(census.pending) + len(census.gated),
            priority=membership.preemptor_priority((gang,)),
            created=membership.created((gang,)),
            reason=reason,
            scheduler=gang.scheduler,
            nodes=tuple(sorted({pod.node for pod in census.bound if pod.node}, key=natural)),
            owners=tuple(above(world, next(iter(membership.kinds(gang))))),
        )


def _without_pods(world: World) -> Iterator[GangId]:
    """Groups and gangs by owner of which there is no pod, and that have not ended. What is above pods that are another
    gang has some.
    """
    membership = world.membership
    named = {(gang.family, gang.namespace, gang.name) for gang in membership.gangs()}
    over = {(kind, pod.namespace, name) for pod in world.pods.values() for kind, name in above(world, pod)}
    for (family, namespace, name), spec in membership.objects.items():
        if (family, namespace, name) not in named and (spec.kind, namespace, name) not in over:
            yield GangId(family, namespace, name, "")
    for owner in world.jobs.all():
        key = family_of(owner), owner.namespace, owner.name
        ended = owner.finished or owner.deleting
        if owner.gang and key not in named and not ended and not world.jobs.pods_of(owner):
            yield GangId(*key, "")


def _unserved(world: World) -> Iterator[GangId]:
    """Gangs whose pods name a scheduler that starts no gangs of their kind, or nearly the name of ours."""
    for gang, members in world.membership.members.items():
        if gang.family in (SINGLE, UPSTREAM) or world.membership.is_ours(gang):
            continue
        near = difflib.get_close_matches(gang.scheduler, sorted(world.membership.ours), 1, _NEAR)
        if (near or gang.scheduler == DEFAULT_SCHEDULER) and any(not p.node and p.live for p in members.values()):
            yield gang


def _idle(world: World, gang: GangId) -> Row:
    """A gang that nothing is decided about: it has no pods, or its pods are another scheduler's."""
    spec, census = world.membership.spec(gang), world.membership.census(gang)
    owner = world.jobs.of_gang(gang)
    answer = without_pods.alone(owner, spec)
    reason, kind, needed = (answer[2] if answer is not None else ""), "PodGroup", None
    created = 0.0
    if spec is not None:
        kind, needed, created = spec.kind, spec.min_member, spec.created
    elif owner is not None:
        kind, created = family_of(owner), owner.created
        needed = owner.parallelism if isinstance(owner, Job) else None
    pending = len(census.pending) + len(census.gated)
    if pending:
        reason = absent.not_ours(pods=pluralize(pending, "pod"), are=are(pending), scheduler=gang.scheduler)
    return Row(
        namespace=gang.namespace,
        name=gang.name,
        kind=kind,
        state=GATHERING,
        bound=len(census.bound),
        needed=needed,
        pending=pending,
        priority=0,
        created=created,
        reason=reason,
        scheduler=gang.scheduler,
        nodes=(),
    )


def in_short(states: Mapping[str, int]) -> str:
    """How many gangs are in which state."""
    order = (GATHERING, QUEUED, NOMINATED, BINDING, STARTING, RUNNING, LEAVING, FINISHED)
    return ", ".join(f"{states[state]} {state}" for state in order if states.get(state)) or standing.NO_GANG


def _state(census: Census, needed: int | None, problem: str) -> str:
    if needed is None or len(census.bound) + census.succeeded < needed:
        if census.bound:
            return BINDING
        if census.pending or census.gated:
            nominated = any(pod.on_record for pod in census.pending)
            return GATHERING if problem else NOMINATED if nominated else QUEUED
    if census.bound:
        return RUNNING if all(pod.phase == "Running" for pod in census.bound) else STARTING
    return LEAVING if census.terminating else FINISHED


def _said(pending: Sequence[Pod]) -> str:
    """Return the text that a scheduler has written on the first waiting member, or why it could not."""
    found = condition_of(pending)
    return found.message if found is not None else ""


def _decided(decision: Decision | None) -> str:
    if decision is None:
        return failures.NOT_DECIDED
    return can_start(decision) or decision.said


def _order(gang: GangId) -> tuple[str, list[str | int], str]:
    return gang.namespace, natural(gang.name), gang.family
