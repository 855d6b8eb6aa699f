"""``gangsched simulate``: the whole life of gangs on a virtual clock.

The scheduler is the real one; the cluster is in memory. The same input gives the same output, byte for byte.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from gangsched.cli import answers
from gangsched.cli.answers import Contract
from gangsched.cli.inputs import add_default_namespace_argument, add_input_arguments, read_options
from gangsched.cli.rehearsal import rehearse
from gangsched.cli.simulation import Simulation, fields_of
from gangsched.cli.trace_figures import figures_of
from gangsched.cluster.manifests import load
from gangsched.cluster.manifests.objects import Source
from gangsched.cluster.manifests.traces import form_of, read_trace
from gangsched.cluster.sim.arrival import InvalidHintError
from gangsched.cluster.sim.faults import SeededFaults
from gangsched.core.options import Options
from gangsched.messages import failures, pictures
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
        metavar="FILE",
        help="play the jobs of a trace of a GPU cluster, a CSV file, on the nodes of -f, if any",
    )
    parser.add_argument("--jobs", type=_jobs, metavar="N", help="with --trace: only the first N jobs to arrive")
    add_default_namespace_argument(parser)
    parser.add_argument(
        "--until",
        metavar="TIME",
        help=f"virtual time to play, such as 90s or 2h (default: {DEFAULT_UNTIL}; a trace: to its end)",
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
        contract = contract._replace(show=lambda simulation, _: _write_page(simulation, _names(args)))
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
    if args.trace is not None:  # Only events can help a gang that waits; a trace lasts for months.
        options = msgspec.structs.replace(options, flush_seconds=LONGEST_SECONDS)
    until_seconds = LONGEST_SECONDS if args.trace is not None and args.until is None else _until(args.until)
    sources = [*(args.sources or ()), *_trace(args, options)]
    loaded = load(sources, skip_invalid=args.skip_invalid, namespace=args.namespace or "")
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
    if args.trace is not None:
        simulation = msgspec.structs.replace(simulation, trace=figures_of(simulation.history))
    return simulation, loaded.warnings


def _trace(args: argparse.Namespace, options: Options) -> list[Source]:
    """Return the manifests of the trace, if one is asked for. Raises :class:`~gangsched.model.errors.UserError`."""
    if args.trace is not None:
        form, scheduler = form_of(args.trace), options.scheduler_names[0]
        return [read_trace(form, args.trace, scheduler, most=args.jobs, nodes=not args.sources)]
    if not args.sources:
        raise answers.UsageError(failures.NOTHING_TO_SIMULATE)
    if args.jobs is not None:
        raise answers.UsageError(failures.JOBS_WITHOUT_TRACE)
    return []


def _names(args: argparse.Namespace) -> list[str]:
    """Return what the input is called."""
    return [*(args.sources or ()), *([args.trace] if args.trace is not None else [])]


def _jobs(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(failures.not_a_number_of_jobs(text=text))
    return int(text)


def _until(given: str | None) -> float:
    raw = given or DEFAULT_UNTIL
    seconds = duration_seconds(raw)
    if not seconds:
        raise answers.UsageError(failures.until_no_duration(raw=raw))
    return seconds
