"""``gangsched history`` and ``why-evicted``: what the record of evictions in a cluster says. They change nothing."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from gangsched.cli import answers
from gangsched.cli.answers import Contract, age_of, print_lines
from gangsched.cli.inputs import add_cluster_arguments, connect
from gangsched.messages import failures
from gangsched.messages.text import join_names
from gangsched.model.errors import Problem
from gangsched.model.times import parse_duration, parse_time

if TYPE_CHECKING:
    from gangsched.cluster.kube.connection import Connection
    from gangsched.cluster.kube.history import Line
    from gangsched.runtime.settings import Configuration

Wanted: TypeAlias = "Callable[[str, str, str], bool]"
#: So many names of a line are shown on a terminal.
_NAMES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--since", metavar="6h", help="only what happened in this time (default: all on record)")
    parser.add_argument("-n", "--namespace", metavar="NS", help="only objects of this namespace (default: of all)")
    add_record_arguments(parser)


def add_record_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the record is, and how it is shown."""
    add_cluster_arguments(parser, "")
    parser.add_argument(
        "--config", metavar="FILE", help="a GangSchedulerConfiguration that says in which namespace the Lease is"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.epilog = (
        "The record is the ConfigMap gangsched-history in the namespace of the Lease: evictions of the past, the oldest"
        " are dropped beyond 512 KiB. Exit code: 0, or 2 if nothing is on record that was asked for by name, or the"
        " record cannot be read."
    )


def run(args: argparse.Namespace) -> int:
    """Print the record; 2 when it cannot be read."""
    return CONTRACT.run(args, _read)


class Record(NamedTuple):
    """Lines of the record, the oldest first, at a moment in seconds since the epoch."""

    lines: Sequence[Line]
    now: float = 0.0

    def fields(self) -> dict[str, Any]:
        """The fields of the contract."""
        return {"lines": [_entry(line) for line in self.lines]}

    def rows(self, most: int) -> Iterator[tuple[str, ...]]:
        """A line of the table for each, with so many names of objects at most; its head first."""
        yield "AGE", "TIME", "REASON", "KIND", "OBJECTS", "MESSAGE"
        for line in self.lines:
            names = [f"{space}/{name}" + (f" ({node})" if node else "") for space, name, node in line.objects]
            age = age_of(self.now - parse_time(line.time, "time"))
            yield age, line.time, line.reason, line.kind, join_names(names, most), line.note

    def print(self, _: str = "") -> None:
        """Print the table, as kubectl does it; on a terminal without most of the names of many objects."""
        if not self.lines:
            answers.complain([failures.NOTHING_ON_RECORD])
            return
        print_lines(list(self.rows(_NAMES if sys.stdout.isatty() else sys.maxsize)))


CONTRACT: Contract[Record] = Contract("gangsched.dev/history/v1", {"lines": []}, Record.fields, Record.print)


def _read(args: argparse.Namespace) -> tuple[Record, list[Problem]]:
    since = parse_duration(args.since, "--since") if args.since is not None else None
    lines, _ = read_record(args, args.namespace)
    now = time.time()
    recent = [line for line in lines if since is None or parse_time(line.time, "time") >= now - since]
    return Record(list(only(recent, lambda _, space, __: args.namespace in (None, space))), now), []


def only(lines: Iterable[Line], wanted: Wanted) -> Iterator[Line]:
    """The lines with those of their objects that are ``wanted``, by kind, namespace and name."""
    for line in lines:
        objects = [each for each in line.objects if wanted(line.kind, each[0], each[1])]
        if objects:
            yield msgspec.structs.replace(line, objects=objects)


def read_record(args: argparse.Namespace, namespace: str | None) -> tuple[list[Line], str]:
    """Return the lines of the record, and the namespace of the context. Without the right to read the record, return
    what this namespace shows (by default that of the context).

    Raises :class:`~gangsched.model.errors.UserError` when it cannot be read.
    """
    configuration, connection, _ = connect(args)
    space = namespace or connection.namespace or "default"
    return asyncio.run(lines_in(configuration, connection, space)), connection.namespace


async def lines_in(configuration: Configuration, connection: Connection, space: str) -> list[Line]:
    """The lines of the record of a cluster, else what there is in the namespace ``space``.

    Raises :class:`~gangsched.model.errors.UserError` when neither can be read.
    """
    # Modules for a cluster take long to import, and --help does not need them.
    from gangsched.cluster.kube.client import ApiError, UnreachableError  # noqa: PLC0415
    from gangsched.cluster.kube.evictions_here import evictions_in  # noqa: PLC0415
    from gangsched.cluster.kube.history import NAME, recorded  # noqa: PLC0415
    from gangsched.runtime.connecting import READER, client_to  # noqa: PLC0415

    namespace = configuration.leader_election.resource_namespace
    async with client_to(connection, configuration.client_connection) as client:
        try:
            return await recorded(client.get, namespace)
        except ApiError as error:
            if error.status == 403:
                with contextlib.suppress(ApiError):  # else the error names the record
                    found = await evictions_in(client, space)
                    answers.complain([failures.record_of_namespace(namespace=space, role=READER)])
                    return found
            raise answers.UsageError(failures.record_unreadable(name=NAME, namespace=namespace, error=error)) from None
        except UnreachableError as error:
            raise answers.UsageError(failures.unreadable(source=connection, error=error)) from None


def _entry(line: Line) -> dict[str, Any]:
    objects = [{"namespace": space, "name": name, "node": node or None} for space, name, node in line.objects]
    return {"time": line.time, "reason": line.reason, "kind": line.kind, "objects": objects, "message": line.note}
