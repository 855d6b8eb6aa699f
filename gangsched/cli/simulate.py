"""``gangsched simulate``: the whole life of gangs on a virtual clock.

The scheduler is the real one; the cluster is in memory. The same input gives the same output, byte for byte.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gangsched.cli import answers
from gangsched.cli.answers import Contract
from gangsched.cli.inputs import add_default_namespace_argument, add_input_arguments, read_options
from gangsched.cli.rehearsal import rehearse
from gangsched.cli.simulation import Simulation, fields_of
from gangsched.cluster.manifests import load
from gangsched.cluster.sim.arrival import InvalidHintError
from gangsched.cluster.sim.faults import SeededFaults
from gangsched.messages import failures, pictures
from gangsched.model.errors import InputError, Problem
from gangsched.model.times import duration_seconds

DEFAULT_UNTIL = "10m"
FILE_ORDER = "file-order"

#: With a seed, writes and watch events are late by up to so many seconds.
_JITTER_SECONDS = 0.02


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_input_arguments(parser)
    add_default_namespace_argument(parser)
    parser.add_argument(
        "--until",
        metavar="TIME",
        default=DEFAULT_UNTIL,
        help="virtual time to play, such as 90s or 2h (default: %(default)s)",
    )
    parser.add_argument(
        "--arrival",
        choices=(FILE_ORDER,),
        help="file-order: pending gangs arrive one second apart in the order of the input (default: all at the start)",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="delay writes and watch events by small random times that follow from N"
    )
    parser.add_argument("-o", "--output", choices=("table", "json", "html"), default="table", help="default: table")
    parser.epilog = (
        "Annotations of pods: sim.gangsched.dev/arrive-after (also of groups), sim.gangsched.dev/run-for and"
        " sim.gangsched.dev/grace-used hold durations such as 90s or 1m30s. Exit code: 0, 1 after an error of the"
        " scheduler itself, which is printed on stderr, or 2 if some input was not understood."
    )


def run(args: argparse.Namespace) -> int:
    """Play and print; 1 when the scheduler itself has failed, 2 when some input was not understood."""
    contract = CONTRACT
    if args.output == "html":
        contract = contract._replace(show=lambda simulation, _: _write_page(simulation, args.sources))
    simulation = contract.answer(args, _played)
    if simulation is None:
        return answers.BAD_INPUT
    answers.complain(simulation.faults)
    return answers.FAILED if simulation.faults else answers.OK


def _write_page(simulation: Simulation, sources: Sequence[str]) -> None:
    from gangsched.cli import render_html  # noqa: PLC0415 - as below

    sys.stdout.write(render_html.page(simulation, pictures.of_input(sources=", ".join(sources))))


def _render(simulation: Simulation, _: str) -> None:
    from gangsched.cli.render_simulation import render  # noqa: PLC0415 - rich takes longer than the run

    render(simulation)


CONTRACT: Contract[Simulation] = Contract(
    "gangsched.dev/simulate/v1", {"events": [], "pods": {}, "summary": {}}, fields_of, _render
)


def _played(args: argparse.Namespace) -> tuple[Simulation, list[Problem]]:
    options = read_options(args)
    until_seconds = _until(args.until)
    loaded = load(args.sources, skip_invalid=args.skip_invalid, namespace=args.namespace or "")
    faults = None
    if args.seed is not None:
        faults = SeededFaults(args.seed, write_delay_seconds=_JITTER_SECONDS, watch_delay_seconds=_JITTER_SECONDS)
    try:
        simulation = rehearse(
            loaded,
            options,
            until_seconds=until_seconds,
            file_order=args.arrival == FILE_ORDER,
            faults=faults,
            contained=True,
        )
    except InvalidHintError as error:
        raise InputError(loaded.places[error.position], error.field, error.message) from None
    return simulation, loaded.warnings


def _until(raw: str) -> float:
    seconds = duration_seconds(raw)
    if not seconds:
        raise answers.UsageError(failures.until_no_duration(raw=raw))
    return seconds
