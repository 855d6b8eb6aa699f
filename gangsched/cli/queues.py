"""``gangsched queues``: who uses how much of which quota, in manifests or in a cluster. Reads, and changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from typing import Any

from gangsched.cli.answers import Contract
from gangsched.cli.decisions import State
from gangsched.cli.inputs import add_cluster_arguments, add_input_arguments, read_either
from gangsched.cli.queue_rows import Row, rows
from gangsched.core.quota.workloads import quantity
from gangsched.model.errors import Problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_input_arguments(parser, required=False)
    add_cluster_arguments(parser)
    parser.add_argument(
        "-n", "--namespace", metavar="NS", help="only the ClusterQueues of this namespace's LocalQueues, with cohorts"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.epilog = (
        "With -f the queues of the manifests are shown with what their bound pods use; without, those of a cluster,"
        " which is read once. Exit code: 0, or 2 if some input was not understood."
    )


def run(args: argparse.Namespace) -> int:
    """Print the queues; 2 when some input was not understood."""
    return CONTRACT.run(args, _read)


def entry(row: Row) -> dict[str, Any]:
    """One queue or cohort in the words of the contract."""
    return {
        "name": row.name,
        "kind": "ClusterQueue" if row.is_queue else "Cohort",
        "depth": row.depth,
        "pending": row.pending,
        "reserving": row.reserving,
        "admitted": row.admitted,
        "problem": row.problem,
        "usage": [
            {"flavor": u.flavor, "resource": u.resource}
            | {name: quantity(u.resource, getattr(u, name)) for name in ("used", "reserved", "quota", "borrowed")}
            for u in row.usages
        ],
    }


def _fields(found: Sequence[Row]) -> dict[str, Any]:
    return {"queues": [entry(row) for row in found]}


def _render(found: Sequence[Row], _: str) -> None:
    from gangsched.cli.render import render_queues  # noqa: PLC0415 - rich takes longer to import than queues to count

    render_queues(found)


CONTRACT: Contract[Sequence[Row]] = Contract("gangsched.dev/queues/v1", {"queues": []}, _fields, _render)


def _read(args: argparse.Namespace) -> tuple[Sequence[Row], list[Problem]]:
    """What is known of quota once all objects have been seen, and what was not understood; nothing is decided."""
    read = read_either(args)
    state = State(read.events, read.options, read.now, decides=False)
    managed = state.world.managed
    managed.update_holdings()
    found = list(rows(managed.quota, managed.tally))
    if args.namespace is not None:
        local = managed.quota.local_queues.values()
        found = _with_cohorts(found, {queue.cluster_queue for queue in local if queue.namespace == args.namespace})
    return found, [*read.warnings, *state.faults]


def _with_cohorts(found: Sequence[Row], names: Collection[str]) -> list[Row]:
    """The rows of these ClusterQueues and of the cohorts above them; a row follows those of its cohorts."""
    kept: list[Row] = []
    above: list[Row] = []
    for row in found:
        del above[row.depth :]
        above.append(row)
        if row.is_queue and row.name in names:
            kept += [each for each in above if each not in kept]
    return kept
