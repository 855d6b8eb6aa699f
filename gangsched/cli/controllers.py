"""``gangsched controllers``: only the controllers, beside a scheduler that runs elsewhere, to look at what they do."""

from __future__ import annotations

import argparse

from gangsched.cli.inputs import add_connection_arguments, configure
from gangsched.cli.run import announce, sink_maker
from gangsched.runtime.connecting import connect
from gangsched.runtime.process import Process


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_connection_arguments(parser)
    parser.epilog = (
        "Follows the cluster, decides nothing, and writes nothing but the status of PodGroups and queues. Meant for"
        " debugging: set groupStatus.enabled to false in the configuration of the scheduler meanwhile."
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; the exit code."""
    configuration = configure(args)
    connection = connect(configuration)
    announce(connection, configuration, dry_run=False)
    make_sink = sink_maker(configuration.group_status)
    return Process(configuration, connection, decide=False, make_sink=make_sink).run()
