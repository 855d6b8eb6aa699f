"""What commands that only look share: a cluster, read once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from gangsched.cli import errors
from gangsched.core.events import Event
from gangsched.core.options import Options

if TYPE_CHECKING:
    from gangsched.http.connection import Connection
    from gangsched.runtime.settings import Configuration


class Live(NamedTuple):
    """A cluster as it was read: an event for each object, the options of its scheduler, the moment, and the namespace
    of the context.
    """

    events: list[Event]
    options: Options
    now: float
    namespace: str


def add_cluster_arguments(parser: argparse.ArgumentParser, when: str = "without -f") -> None:
    """Which cluster is read, ``when`` one is."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help=f"{when}: a kubeconfig (default: $KUBECONFIG, ~/.kube/config, or the service account inside a cluster)",
    )
    parser.add_argument("--context", metavar="NAME", help=f"{when}: a context of it (default: its current one)")


def refuse_both(args: argparse.Namespace) -> None:
    """Raises :class:`~gangsched.cli.errors.UsageError` if manifests and a cluster are given."""
    if args.sources and (args.kubeconfig or args.context):
        raise errors.UsageError("-f reads manifests, --kubeconfig and --context a cluster: give one of them")


def read_cluster(args: argparse.Namespace) -> Live:
    """The cluster that arguments and configuration name, read once.

    Raises :class:`~gangsched.cli.errors.UsageError` with what cannot be read.
    """
    options, namespace, batches = follow_cluster(args)
    with closing(batches):
        events, now = next(batches)
    return Live(events, options, now, namespace)


def follow_cluster(args: argparse.Namespace) -> tuple[Options, str, Generator[tuple[list[Event], float]]]:
    """``(options, namespace of the context, batches)``: of the cluster that arguments and configuration name, and
    batches as :func:`gangsched.runtime.reading.follow` has them, to be closed.

    Raises :class:`~gangsched.cli.errors.UsageError`, and so do the batches, with what cannot be read.
    """
    from gangsched.runtime.outside import StartError  # noqa: PLC0415 - as in connect
    from gangsched.runtime.reading import follow  # noqa: PLC0415

    configuration, connection = connect(args)

    def batches() -> Generator[tuple[list[Event], float]]:
        try:
            yield from follow(configuration, connection)
        except StartError as error:
            raise errors.UsageError(str(error)) from None

    return configuration.core_options(), connection.namespace, batches()


def connect(args: argparse.Namespace) -> tuple[Configuration, Connection]:
    """The configuration, and the connection to the cluster that it and the arguments name.

    Raises :class:`~gangsched.cli.errors.UsageError`.
    """
    # What talks to a cluster takes long to import; manifests do without.
    from gangsched.cli.run import configure  # noqa: PLC0415
    from gangsched.runtime import outside  # noqa: PLC0415

    configuration = configure(argparse.Namespace(**vars(args), port=None, log_level="error"))
    try:
        connection = outside.connect(configuration)
    except outside.StartError as error:
        raise errors.UsageError(str(error)) from None
    print(f"gangsched: reading {connection}", file=sys.stderr)
    return configuration, connection
