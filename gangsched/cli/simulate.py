"""``gangsched simulate``: the whole life of gangs on a virtual clock.

The scheduler is the real one; the cluster is in memory. The same input gives the same output, byte for byte.
"""

from __future__ import annotations

import argparse
import sys

import msgspec

from gangsched.cli import answers, render_html
from gangsched.cli.answers import Contract
from gangsched.cli.inputs import add_input_arguments, read_options
from gangsched.cli.simulation import Simulation, fields_of, simulate
from gangsched.cluster.manifests import load
from gangsched.cluster.manifests.objects import Source
from gangsched.cluster.manifests.traces import FORMATS, read_trace
from gangsched.cluster.sim.arrival import InvalidHintError
from gangsched.cluster.sim.faults import SeededFaults
from gangsched.core.options import Options
from gangsched.messages import failures, invalid
from gangsched.model.errors import InputError, Problem
from gangsched.model.times import LONGEST_SECONDS, duration_seconds

DEFAULT_UNTIL = "10m"
FILE_ORDER = "file-order"

#: With a seed, writes and watch events are late by up to so many seconds.
_JITTER_SECONDS = 0.02


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_input_arguments(parser, required=False)
    parser.add_argument(
        "--trace",
        nargs=2,
        metavar=("FORMAT", "FILE"),
        help="play the jobs of a public trace of GPU clusters (philly, openb or gfs), on the nodes of -f, if any",
    )
    parser.add_argument("--jobs", type=_jobs, metavar="N", help="with --trace: only the first N jobs to arrive")
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="virtual time to play, such as 90s or 2h (default: 10m; with --trace: to the end)",
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
    return CONTRACT.run(args, _played)


def _render(simulation: Simulation, form: str) -> None:
    if form == "html":
        sys.stdout.write(render_html.page(simulation))
        return
    from gangsched.cli.render_simulation import render  # noqa: PLC0415 - rich takes longer than the run

    render(simulation)


CONTRACT: Contract[Simulation] = Contract(
    "gangsched.dev/simulate/v1", {"events": [], "pods": {}, "summary": {}}, fields_of, _render
)


def _played(args: argparse.Namespace) -> tuple[Simulation, list[Problem]]:
    options = read_options(args)
    if args.trace is not None:  # in a simulation only events can help
        options = msgspec.structs.replace(options, flush_seconds=LONGEST_SECONDS)
    if args.until is None and args.trace is not None:
        until_seconds = LONGEST_SECONDS
    else:
        until_seconds = _until(args.until or DEFAULT_UNTIL)
    loaded = load(args.sources or (), skip_invalid=args.skip_invalid, made=_trace(args, options))
    faults = None
    if args.seed is not None:
        faults = SeededFaults(args.seed, write_delay_seconds=_JITTER_SECONDS, watch_delay_seconds=_JITTER_SECONDS)
    try:
        simulation = simulate(
            loaded.events,
            options,
            until_seconds=until_seconds,
            start=loaded.now,
            file_order=args.arrival == FILE_ORDER,
            group_hints=loaded.group_hints,
            faults=faults,
        )
    except InvalidHintError as error:
        raise InputError(loaded.places[error.position], error.field, error.message) from None
    if args.trace is None:
        return simulation, loaded.warnings
    from gangsched.cli.trace_figures import figures_of  # noqa: PLC0415 - for traces alone

    return msgspec.structs.replace(simulation, trace=figures_of(simulation.history)), loaded.warnings


def _trace(args: argparse.Namespace, options: Options) -> list[Source]:
    """The manifests that a trace is made into, if one is asked for. Raises :class:`UserError`."""
    if args.trace is None:
        if not args.sources:
            raise answers.UsageError(failures.NOTHING_TO_SIMULATE)
        if args.jobs is not None:
            raise answers.UsageError(failures.JOBS_WITHOUT_TRACE)
        return []
    form, path = args.trace
    if form not in FORMATS:
        raise answers.UsageError(f"--trace: {invalid.none_of(value=form, allowed=', '.join(FORMATS))}")
    return [read_trace(form, path, options.scheduler_names[0], most=args.jobs, nodes=not args.sources)]


def _jobs(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(failures.not_a_number_of_jobs(text=text))
    return int(text)


def _until(raw: str) -> float:
    seconds = duration_seconds(raw)
    if not seconds:
        raise answers.UsageError(failures.until_no_duration(raw=raw))
    return seconds
