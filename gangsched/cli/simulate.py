"""``gangsched simulate``: the whole life of gangs on a virtual clock.

The scheduler is the real one; the cluster is in memory. The same input gives the same output, byte for byte.
"""

from __future__ import annotations

import argparse
import sys

from gangsched.cli import errors, timeline_page
from gangsched.cli.inputs import add_input_arguments, read_options
from gangsched.cli.simulation import Simulation, document, simulate
from gangsched.cluster.manifests import InputError, Loaded, load
from gangsched.cluster.sim.arrival import InvalidHintError, duration_seconds
from gangsched.cluster.sim.faults import SeededFaults
from gangsched.core.options import Options

DEFAULT_UNTIL = "10m"
FILE_ORDER = "file-order"

#: With a seed, writes and watch events are late by up to so many seconds.
_JITTER_SECONDS = 0.02


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_input_arguments(parser)
    parser.add_argument(
        "--until", metavar="TIME", default=DEFAULT_UNTIL, help="virtual time to play, such as 90s or 2h (default: 10m)"
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
        " sim.gangsched.dev/grace-used hold durations such as 90s or 1m30s. Exit code: 0, or 2 if some input was not"
        " understood."
    )


def run(args: argparse.Namespace) -> int:
    """Play and print; 2 when some input was not understood."""
    try:
        options = read_options(args)
        until_seconds = _until(args.until)
        loaded = load(args.sources)
        simulation = _simulate_input(loaded, options, until_seconds, args)
    except (ValueError, OSError) as error:
        return errors.refuse(error, args, lambda record: document(None, [], record))
    match args.output:
        case "json":
            errors.print_document("json", document(simulation, loaded.warnings, None))
        case "html":
            sys.stdout.write(timeline_page.page(simulation, loaded.warnings))
        case _:
            from gangsched.cli.render_simulation import render  # noqa: PLC0415 - rich takes longer than the run

            render(simulation)
            errors.warn(loaded.warnings)
    return errors.OK


def _simulate_input(loaded: Loaded, options: Options, until_seconds: float, args: argparse.Namespace) -> Simulation:
    faults = None
    if args.seed is not None:
        faults = SeededFaults(args.seed, write_delay_seconds=_JITTER_SECONDS, watch_delay_seconds=_JITTER_SECONDS)
    try:
        return simulate(
            loaded.events,
            options,
            until_seconds=until_seconds,
            start=loaded.now,
            file_order=args.arrival == FILE_ORDER,
            group_hints=getattr(loaded, "group_hints", None),
            faults=faults,
        )
    except InvalidHintError as error:
        raise InputError.at(loaded.places[error.position], error.field, error.message) from None


def _until(raw: str) -> float:
    seconds = duration_seconds(raw)
    if not seconds:
        raise errors.UsageError(f"--until: {raw!r} is not a duration such as 90s, 10m or 2h")
    return seconds
