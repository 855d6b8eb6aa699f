"""``gangsched run``: the scheduler, until a signal stops it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

from gangsched.cli import answers
from gangsched.cli.inputs import add_connection_arguments, configure
from gangsched.cluster.kube.connection import Connection
from gangsched.controllers.operator import GroupControllers
from gangsched.messages import beside, failures
from gangsched.runtime.connecting import connect
from gangsched.runtime.http import Answer, Hosts, Request
from gangsched.runtime.observers import MakeControllers
from gangsched.runtime.process import Live, Process, ShadowOf
from gangsched.runtime.settings import Configuration

#: The other scheduler of nearly every cluster.
DEFAULT = "default-scheduler"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_connection_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="decide and log, but never write anything")
    parser.add_argument(
        "--once", action="store_true", help="decide all that is pending, once, print the decisions, and exit"
    )
    parser.add_argument(
        "--shadow",
        action="store_true",
        help="decide beside another scheduler for its pods, write nothing, and report what would have been different",
    )
    parser.add_argument(
        "--shadow-of",
        metavar="NAME[,NAME]",
        help=f"with --shadow: the spec.schedulerName of the pods that the other one schedules (default: {DEFAULT})",
    )
    parser.add_argument("--report", metavar="DIR", help="with --shadow: write the daily reports to this folder too")
    parser.epilog = (
        "Exit code: 0 when a signal stopped it (or it is done, with --once), 1 after a failure that a restart may cure,"
        " 2 when it cannot start. A second signal ends it at once."
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; the exit code."""
    configuration = configure(args)
    if args.shadow:
        return _shadow(args, configuration)
    if args.shadow_of or args.report:
        raise answers.UsageError(beside.NO_REPORT_WITHOUT)
    make_controllers: MakeControllers | None = None
    if configuration.group_status.enabled and not args.dry_run and not args.once:
        make_controllers = GroupControllers
    report = partial(announce, configuration=configuration, dry_run=args.dry_run)
    connection = connect(configuration, elects=not args.dry_run, announce=report)
    running = Process(
        configuration,
        connection,
        dry_run=args.dry_run,
        once=args.once,
        make_controllers=make_controllers,
        make_page=make_page,
    )
    code = running.run()
    if args.once:
        _print_decisions(running.last_decisions.by_gang.values(), configuration)
        answers.complain(running.faults)
    return code


def _shadow(args: argparse.Namespace, configuration: Configuration) -> int:
    """Run beside another scheduler, and print the last report at the end."""
    if args.once or args.dry_run or args.scheduler_name:
        raise answers.UsageError(beside.NOT_TOGETHER)
    own = configuration.profiles[0].scheduler_name
    names = [name for name in (args.shadow_of or DEFAULT).split(",") if name]
    if own in names:
        raise answers.UsageError(beside.OWN_NAME(name=own))
    folder = Path(args.report) if args.report else None
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise answers.UsageError(beside.CANNOT_WRITE(folder=folder, error=error.strerror)) from None
    configuration = configuration.serving(names)

    def report(connection: Connection) -> None:
        answers.complain([str(connection), beside.RUNNING(names=", ".join(names))])

    connection = connect(configuration, announce=report)
    running = Process(configuration, connection, shadow=ShadowOf(own, folder))
    code = running.run()
    if running.report is not None:
        print(running.report.finish(), end="")
    return code


def make_page(live: Live) -> Callable[[Request], Answer]:
    """Return the handler of requests below /ui. The renderer is imported with the first request."""

    def answer(request: Request) -> Answer:
        return site(live)(request)

    return answer


@cache
def site(live: Live) -> Callable[[Request], Answer]:
    """Return the handler for a process."""
    from gangsched.cli.ui_site import Site  # noqa: PLC0415 - rich takes longer to import than to schedule without it
    from gangsched.cli.ui_sources import Own  # noqa: PLC0415 - as above

    return Site(Own(live), Hosts(live.host, live.configuration.http.hosts)).answer


def _print_decisions(decisions: Iterable[Any], configuration: Configuration) -> None:
    from gangsched.cli.contracts import Planned  # noqa: PLC0415 - only here is anything drawn
    from gangsched.cli.render import render_plan  # noqa: PLC0415

    names = [profile.scheduler_name for profile in configuration.profiles]
    render_plan(Planned(list(decisions), scheduler_names=names))


def announce(connection: Connection, configuration: Configuration, *, dry_run: bool) -> None:
    """Say on standard error what is about to be touched, before anything is."""
    names = ", ".join(profile.scheduler_name for profile in configuration.profiles)
    answers.complain([str(connection)])
    answers.complain([failures.scheduling(names=names, dry_run=failures.DRY_RUN if dry_run else "")])
