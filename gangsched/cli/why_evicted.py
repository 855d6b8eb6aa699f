"""``gangsched why-evicted``: why one pod, or the pods of one owner, had to leave, after they are gone."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from gangsched.cli import answers
from gangsched.cli.answers import Past, age_of
from gangsched.cli.history import CONTRACT, Record, add_record_arguments, only, read_record
from gangsched.cli.inputs import add_namespace_argument, named
from gangsched.messages import failures
from gangsched.model.errors import Problem
from gangsched.model.times import parse_time

if TYPE_CHECKING:
    from gangsched.cluster.kube.history import Line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "name", metavar="[KIND/]NAME", help="a pod, or a Job, a ReplicaSet and so on: pods that are called after it"
    )
    add_namespace_argument(parser)
    add_record_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is on record; 2 when nothing is, or the record cannot be read."""
    return CONTRACT._replace(show=_show).run(args, _read)


def _show(record: Record, form: str) -> None:
    """On a terminal the last of the evictions, and the earlier ones in a line each; elsewhere the table."""
    if not sys.stdout.isatty():
        record.print(form)
        return
    from gangsched.cli.render import render_past  # noqa: PLC0415 - rich takes longer to import than to show a table

    last, *earlier = reversed(record.lines)
    render_past(_past_of(last, record.now), [_past_of(each, record.now) for each in earlier])


def _past_of(line: Line, now: float) -> Past:
    names = [f"{space}/{name}" + (f" on {node}" if node else "") for space, name, node in line.objects]
    return Past(line.kind, names, line.reason, line.note, age_of(now - parse_time(line.time, "time")))


def _read(args: argparse.Namespace) -> tuple[Record, list[Problem]]:
    given, kind, name = named(args.name, args.namespace)
    lines, of_context = read_record(args, given or None)
    space = given or of_context or "default"

    def wanted(of_kind: str, namespace: str, found: str) -> bool:
        if namespace != space:
            return False
        same = found == name and kind in ("", of_kind)
        # The pods of a controller are called after it: a Job's, a Deployment's, a StatefulSet's.
        return same or (of_kind == "Pod" and kind != "Pod" and found.startswith(f"{name}-"))

    record = Record(list(only(lines, wanted)), time.time())
    if not record.lines:
        begins = failures.begins_at(time=lines[0].time) if lines else "is empty"
        raise answers.UsageError(failures.no_eviction(kind=kind or "pod", space=space, name=name, begins=begins))
    return record, []
