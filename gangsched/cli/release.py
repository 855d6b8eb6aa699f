"""``gangsched release``: takes the taint off the nodes that were held for gangs, when no scheduler is left to do so."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from gangsched.cli import answers
from gangsched.cli.inputs import add_cluster_arguments, connect
from gangsched.messages import leaving
from gangsched.messages.text import join_names, pluralize

if TYPE_CHECKING:
    from gangsched.cluster.kube.client import Client
    from gangsched.cluster.kube.connection import Connection
    from gangsched.runtime.settings import Configuration

#: Writes of a scheduler that has just ended may still arrive. So nodes are read again after so many seconds, at most so
#: often.
_AGAIN_SECONDS, _LOOKS = 1.0, 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--yes", action="store_true", help="do it, instead of printing what would be done")
    parser.add_argument("--all", action="store_true", help="the nodes that any scheduler holds, not only this one")
    parser.add_argument(
        "--scheduler-name", metavar="NAME", action="append", help="whose nodes (default: the names of the leader)"
    )
    parser.add_argument("--config", metavar="FILE", help="a GangSchedulerConfiguration (default: the leader's)")
    add_cluster_arguments(parser, "")
    parser.epilog = "Exit code: 0 if all is done or printed, 1 if a node failed, 2 if the cluster cannot be read."


def run(args: argparse.Namespace) -> int:
    """Print the nodes, and give them back with ``--yes``."""
    configuration, connection, runs = connect(args)
    names = () if args.all else configuration.core_options().scheduler_names
    if runs.holder:
        answers.complain([leaving.HELD_AND_LEADS(leader=runs.holder)])
    return asyncio.run(_release(connection, configuration, names, yes=args.yes))


async def _release(connection: Connection, configuration: Configuration, names: Collection[str], *, yes: bool) -> int:
    from gangsched.cluster.kube.client import ApiError, UnreachableError  # noqa: PLC0415 - see cli.inputs
    from gangsched.runtime.connecting import client_to  # noqa: PLC0415

    async with client_to(connection, configuration.client_connection) as client:
        try:
            return await release(client, names, yes=yes)
        except (ApiError, UnreachableError) as error:
            raise answers.UsageError(leaving.NOT_READ(what="nodes", error=error)) from None


async def release(client: Client, names: Collection[str], *, yes: bool, quiet: bool = False) -> int:
    """Print which nodes schedulers of these names hold, and take the taint off with ``yes``; the exit code. With
    ``quiet`` nothing is printed if there are none. Raises what the client raises if nodes cannot be read.
    """
    from gangsched.cluster.kube.held_nodes import held_nodes, release_nodes  # noqa: PLC0415 - see cli.inputs

    held, who = await held_nodes(client, names), join_names(sorted(names), 3) or leaving.ANY_SCHEDULER
    if not held:
        if not quiet:
            print(leaving.NONE_HELD(names=who))
        return answers.OK
    print(leaving.HELD_HEAD(nodes=pluralize(len(held), "node"), names=who))
    answers.print_lines([(each.node.name, leaving.HELD_FOR(plan=each.value)) for each in held])
    if not yes:
        print(leaving.HELD_DRY)
        return answers.OK
    done, problems = set[str](), dict[str, str]()
    for _ in range(_LOOKS):
        problems = await release_nodes(client, held)
        done |= {each.node.name for each in held} - problems.keys()
        await asyncio.sleep(_AGAIN_SECONDS)
        held = await held_nodes(client, names)
        if not held:
            break
    answers.complain([leaving.FAILED(what=name, error=why) for name, why in problems.items()])
    still = sorted(each.node.name for each in held if each.node.name not in problems)
    answers.complain([leaving.HELD_STILL(nodes=join_names(still, 5))] if still else [])
    print(leaving.HELD_DONE(nodes=pluralize(len(done.difference(still)), "node")))
    return answers.FAILED if problems or still else answers.OK
