"""``gangsched snapshot``: a cluster as a file that ``plan``, ``explain``, ``get``, ``queues`` and ``simulate`` read."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gangsched.cli import answers
from gangsched.cli.inputs import add_cluster_arguments, connect
from gangsched.cluster.manifests.objects import SNAPSHOT
from gangsched.messages import failures

if TYPE_CHECKING:
    from gangsched.cluster.kube.connection import Connection
    from gangsched.runtime.settings import Configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("-n", "--namespace", metavar="NS", help="only this namespace, and what is in none")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: stdout")
    parser.add_argument("--config", metavar="FILE", help="a GangSchedulerConfiguration (default: the leader's)")
    add_cluster_arguments(parser, "")
    parser.epilog = (
        "Of each object only what the scheduler reads is written: no environment, arguments, Secrets, ConfigMaps or"
        " other annotations. Names and labels stay: look at them before you share the file."
    )


def run(args: argparse.Namespace) -> int:
    """Write the file; the exit code."""
    configuration, connection, _ = connect(args)
    skipped: list[str] = []
    items = asyncio.run(_read(configuration, connection, skipped))
    if args.namespace:
        items = [each for each in items if each["metadata"].get("namespace") in (None, args.namespace)]
    with answers.open_private(Path(args.output), "w") if args.output else nullcontext(sys.stdout) as out:
        _write(items, out)
    answers.complain(f"warning: {each}" for each in skipped)
    return answers.OK


async def _read(configuration: Configuration, connection: Connection, skipped: list[str]) -> list[dict[str, Any]]:
    from gangsched.cluster.kube.client import ApiError, UnreachableError  # noqa: PLC0415 - see cli.inputs
    from gangsched.cluster.kube.dump import dump  # noqa: PLC0415
    from gangsched.runtime.connecting import client_to  # noqa: PLC0415

    async with client_to(connection, configuration.client_connection) as client:
        try:
            return [each async for each in dump(client, configuration.quota.mode, skipped)]
        except (ApiError, UnreachableError) as error:
            raise answers.UsageError(failures.unreadable(source=connection, error=error)) from None


def _write(items: list[dict[str, Any]], out: TextIO) -> None:
    """A line for each object, so that two snapshots can be compared."""
    begin, end = SNAPSHOT
    out.write(begin)
    out.write(",\n".join(map(json.dumps, items)))
    out.write(end)
