"""``gangsched run``: the scheduler, until told to stop."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from gangsched.cli import errors
from gangsched.controllers.operator import GroupControllers
from gangsched.http.connection import Connection
from gangsched.runtime import config, logs
from gangsched.runtime.connecting import StartError, connect
from gangsched.runtime.process import Process
from gangsched.runtime.settings import Configuration, GroupStatus
from gangsched.runtime.status import MakeSink


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_connection_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="decide and log, but never write anything")
    parser.add_argument(
        "--once", action="store_true", help="decide all that is pending, once, print the decisions, and exit"
    )
    parser.epilog = (
        "Exit code: 0 when it was told to stop (or is done, with --once), 1 after a failure that a restart may cure,"
        " 2 when it cannot start. A second signal ends it at once."
    )


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that ``run`` shares with ``controllers``."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="a kubeconfig (default: $KUBECONFIG, ~/.kube/config, or the service account inside a cluster)",
    )
    parser.add_argument("--context", metavar="NAME", help="a context of the kubeconfig (default: its current one)")
    parser.add_argument("--config", metavar="FILE", help="a GangSchedulerConfiguration (default: built-in defaults)")
    parser.add_argument(
        "--scheduler-name",
        metavar="NAME",
        action="append",
        help="serve pods of this spec.schedulerName, instead of the profiles of the configuration; can be repeated",
    )
    parser.add_argument(
        "--port", metavar="N", type=_port, help="port of /healthz and /metrics, instead of http.port; 0 for none"
    )
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), help="instead of logging.level (default: info)"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Run the command; the exit code."""
    configuration = configure(args)
    make_sink = None
    if configuration.group_status.enabled and not args.dry_run and not args.once:
        make_sink = sink_maker(configuration.group_status)
    told = partial(announce, configuration=configuration, dry_run=args.dry_run)
    try:
        connection = connect(configuration, elects=not args.dry_run, announce=told)
        running = Process(configuration, connection, dry_run=args.dry_run, once=args.once, make_sink=make_sink)
        code = running.run()
    except StartError as error:
        raise errors.UsageError(str(error)) from None
    if args.once:
        _print_decisions(running.last_decisions.by_gang.values(), configuration)
    return code


def sink_maker(wanted: GroupStatus) -> MakeSink:
    """Makes the controllers, as fast as the settings allow."""
    return partial(GroupControllers, qps=wanted.qps, burst=wanted.burst)


def _print_decisions(decisions: Iterable[Any], configuration: Configuration) -> None:
    from gangsched.cli.render_plan import render  # noqa: PLC0415 - only here is anything drawn

    render(list(decisions), [profile.scheduler_name for profile in configuration.profiles])


def announce(connection: Connection, configuration: Configuration, *, dry_run: bool) -> None:
    """Say on standard error what is about to be touched, before anything is."""
    names = ", ".join(profile.scheduler_name for profile in configuration.profiles)
    print(f"gangsched: {connection}", file=sys.stderr)
    print(
        f"gangsched: scheduling pods of {names}{' (dry run: nothing is written)' if dry_run else ''}", file=sys.stderr
    )


def configure(args: argparse.Namespace) -> Configuration:
    """The configuration file with the options over it; sets up logging. Raises what :mod:`errors` knows."""
    configuration = config.load(Path(args.config)) if args.config else Configuration()
    connection = configuration.client_connection
    if args.kubeconfig:
        connection = msgspec.structs.replace(connection, kubeconfig=args.kubeconfig)
    if args.context:
        connection = msgspec.structs.replace(connection, context=args.context)
    http, logging = configuration.http, configuration.logging
    if args.port is not None:
        http = msgspec.structs.replace(http, port=args.port)
    if args.log_level is not None:
        logging = msgspec.structs.replace(logging, level=args.log_level)
    configuration = msgspec.structs.replace(configuration, client_connection=connection, http=http, logging=logging)
    if args.scheduler_name:
        configuration = configuration.serving(args.scheduler_name)
    logs.configure(configuration.logging.format, configuration.logging.level)
    return configuration
