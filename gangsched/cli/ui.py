"""``gangsched ui``: pages about a cluster, or about manifests, on a port of this machine. It changes nothing."""

from __future__ import annotations

import argparse
import secrets
import sys

from gangsched.cli import answers
from gangsched.cli.inputs import add_cluster_arguments, add_input_arguments, port_number
from gangsched.cli.ui_site import TOKEN, Site, Source
from gangsched.cli.ui_sources import Cluster, Files
from gangsched.messages import failures, ui
from gangsched.runtime.http import Hosts
from gangsched.runtime.http_server import Server, raise_file_limit

_HOST = "127.0.0.1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--port", metavar="N", type=port_number, default=0, help="the port on 127.0.0.1 (default: one that is free)"
    )
    add_input_arguments(parser, required=False)
    add_cluster_arguments(parser)
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NS",
        help="without -f: the namespace that is read if you may not read the whole cluster (default: that of the"
        " context, else default)",
    )
    parser.epilog = (
        "It serves until Ctrl-C, on this machine only. The address that it prints has a secret: without it nothing is"
        " shown. With -f the manifests are shown, and read anew for each page; without, a cluster is followed with your"
        " rights. Exit code: 130 after Ctrl-C, 2 if it cannot start."
    )


def run(args: argparse.Namespace) -> int:
    """Serve until it is interrupted."""
    raise_file_limit()
    secret = secrets.token_urlsafe(24)
    source: Source = Files(args) if args.sources else Cluster(args)
    try:
        server = Server(_HOST, args.port, Site(source, Hosts(_HOST), secret=secret).answer)
    except OSError as error:
        raise answers.UsageError(failures.port_of_ui(port=args.port, error=error.strerror or error)) from None
    print(ui.served(url=f"http://{_HOST}:{server.server_address[1]}/ui?{TOKEN}={secret}"))
    sys.stdout.flush()
    with server:
        server.serve_forever()
    return answers.OK
