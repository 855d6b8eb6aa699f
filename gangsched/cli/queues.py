"""``gangsched queues``: who uses how much of which quota, in manifests or in a cluster. Reads, and changes nothing."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from gangsched.cli import errors
from gangsched.cli.live import add_cluster_arguments, read_cluster, refuse_both
from gangsched.cli.plan import add_input_arguments, read_options
from gangsched.cluster.manifests import load
from gangsched.core.quota.managed import Managed
from gangsched.core.quota.workloads import quantity
from gangsched.core.scheduler import Scheduler

API_VERSION = "gangsched.dev/queues/v1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_input_arguments(parser, required=False)
    add_cluster_arguments(parser)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.epilog = (
        "With -f the queues of the manifests are shown with what their bound pods use; without, those of a cluster,"
        " which is read once. Exit code: 0, or 2 if some input was not understood."
    )


def run(args: argparse.Namespace) -> int:
    """Print the queues; 2 when some input was not understood."""
    try:
        managed = _managed(args)
    except (ValueError, OSError) as error:
        errors.complain_of(error)
        return errors.BAD_INPUT
    # rich takes longer to import than queues to count.
    from gangsched.cli.render_plan import make_console  # noqa: PLC0415
    from gangsched.cli.render_queues import render, rows  # noqa: PLC0415

    found = list(rows(managed.quota, managed.waiting()))
    if args.output == "table":
        render(found, make_console())
        return errors.OK
    listed = [
        {
            "name": row.name,
            "kind": "ClusterQueue" if row.is_queue else "Cohort",
            "depth": row.depth,
            "pending": row.pending,
            "admitted": row.admitted,
            "problem": row.problem,
            "usage": [
                {"flavor": u.flavor, "resource": u.resource}
                | {
                    name: quantity(u.resource, units)
                    for name, units in (("used", u.used), ("quota", u.quota), ("borrowed", u.borrowed))
                }
                for u in row.usages
            ],
        }
        for row in found
    ]
    document: dict[str, Any] = {"apiVersion": API_VERSION, "queues": listed}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return errors.OK


def _managed(args: argparse.Namespace) -> Managed:
    """What is known of quota once all objects have been seen; nothing is decided."""
    refuse_both(args)
    if args.sources:
        options, loaded = read_options(args), load(args.sources)
        events, now = loaded.events, loaded.now
    else:
        events, options, now = read_cluster(args)
    scheduler = Scheduler(options)
    scheduler.handle(events, now)
    managed = scheduler.world.managed
    managed.settle()
    return managed
