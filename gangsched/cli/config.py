"""``gangsched config``: check a configuration file, print the defaults, print the schema."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from gangsched.cli import answers
from gangsched.runtime import config
from gangsched.runtime.config import defaults_text
from gangsched.runtime.profiles import plugin_set


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The sub-commands."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    validate = actions.add_parser(
        "validate",
        help="check a file",
        description="Check a configuration file: say all that is wrong with it, or else which filters and scores its"
        " profiles have.",
    )
    validate.add_argument("file", metavar="FILE", help="a GangSchedulerConfiguration; - for stdin")
    actions.add_parser(
        "defaults",
        help="print all settings with their defaults",
        description="Print a complete configuration file with all defaults and what each setting means.",
    )
    actions.add_parser(
        "schema",
        help="print the JSON Schema",
        description="Print the JSON Schema of the configuration file, for editors and other tools.",
    )
    parser.epilog = "Exit code of validate: 0 if the scheduler would start with the file, 2 if not."


def run(args: argparse.Namespace) -> int:
    """Run the command; the exit code."""
    if args.action == "validate":
        stdin = args.file == "-"
        found = config.parse(sys.stdin.read(), "stdin") if stdin else config.load(Path(args.file))
        print(f"{'stdin' if stdin else args.file}: ok")
        for profile in found.profiles:
            plugins = plugin_set(profile)
            print(f"{profile.scheduler_name}:")
            print(f"  filters: {', '.join(plugins.filters)}")
            print(f"  scores: {', '.join(f'{name} {weight:g}' for name, weight in plugins.scores)}")
    elif args.action == "defaults":
        print(defaults_text(), end="")
    else:
        print(json.dumps(config.schema(), indent=2))
    return answers.OK
