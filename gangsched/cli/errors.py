"""Errors of people who type commands: a message on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from gangsched.model.errors import Problem, UserError, told

#: Exit codes: done; failed, as when the disk is full; input, configuration or arguments that were not understood;
#: interrupted; the output is not read.
OK, FAILED, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


class UsageError(UserError):
    """Arguments that cannot be used, found after they were parsed."""


def complain(lines: Iterable[str]) -> None:
    """Say it on stderr."""
    for line in lines:
        print(f"gangsched: {line}", file=sys.stderr)


def warn(warnings: Iterable[Problem]) -> None:
    """Say on stderr what of the input was not understood, or not as its author may think."""
    complain(f"warning: {told(each)}" for each in warnings)
