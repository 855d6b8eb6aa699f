"""``python -m gangsched_conformance module:object``: check one filter or score and say what is wrong with it."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from gangsched_conformance import CHECKS, check, with_manifests

#: Exit codes: it conforms, it does not, it cannot be checked.
OK, BROKEN, UNUSABLE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m gangsched_conformance",
        description="Drive a filter or a score over random clusters and check that it keeps its protocol.",
        epilog="Exit code: 0 if it does, 1 if not, 2 if it cannot be checked.",
    )
    parser.add_argument("object", metavar="MODULE:OBJECT", help="a class, or an instance of one")
    parser.add_argument("--seeds", metavar="N", type=int, default=40, help="how many clusters (default: 40)")
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE|DIR",
        nargs="+",
        action="extend",
        default=[],
        help="manifests whose nodes and pods are in each cluster too; pods without a node are asked about",
    )
    given = parser.parse_args(argv)
    try:
        plugin = _made(given.object)
        found = check(plugin, range(given.seeds), with_manifests(*given.filename))
    except Exception as error:  # noqa: BLE001 - importing and making a plug-in runs code of others
        print(f"{given.object} cannot be checked: {type(error).__name__}: {error}", file=sys.stderr)
        return UNUSABLE
    for finding in found:
        print(finding)
    broken = sorted({finding.check for finding in found})
    for name in broken:
        print(f"{name}: {CHECKS[name]}", file=sys.stderr)
    print(f"{given.object}: {'broken: ' + ', '.join(broken) if broken else f'ok on {given.seeds} clusters'}")
    return BROKEN if broken else OK


def _made(text: str) -> Any:
    """The plug-in that ``module:object`` names, made with its default arguments if it is a class."""
    module, colon, name = text.partition(":")
    if not colon:
        raise ValueError("must be module:object")
    sys.path.insert(0, os.getcwd())  # as with python -m pytest: the package need not be installed  # noqa: PTH109
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not isinstance(found, type):
        return found
    arguments = getattr(found, "Arguments", None)
    return found(arguments()) if arguments is not None else found()


if __name__ == "__main__":
    sys.exit(main())
