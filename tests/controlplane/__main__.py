"""By hand: `python -m tests.controlplane build` (also `make control-plane`), or `up` for a cluster to play with."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.controlplane import binaries
from tests.controlplane.plane import ControlPlane


def main() -> int:
    """Parse the command line; 0 on success."""
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build what is missing into the user's cache")
    up = commands.add_parser("up", help="start a control plane and keep it until Ctrl-C")
    up.add_argument("--no-group-api", action="store_true", help="as clusters are today: no gang API, no feature gates")
    up.add_argument("--kube-scheduler", metavar="NAME", help="also start kube-scheduler for this schedulerName")
    options = parser.parse_args()

    try:
        found = binaries.find()
    except binaries.BinariesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.command == "build":
        folders = sorted({str(path.parent) for path in found.values()})
        print(f"control plane: {len(found)} binaries in {', '.join(folders)}")
        return 0

    with tempfile.TemporaryDirectory(prefix="control-plane-") as folder:
        plane = ControlPlane(Path(folder), group_api=not options.no_group_api, kube_scheduler=options.kube_scheduler)
        with plane:
            print(f"up in {plane.start_seconds:.1f} s:\n\n  export KUBECONFIG={plane.admin_kubeconfig}\n", flush=True)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


if __name__ == "__main__":
    sys.exit(main())
