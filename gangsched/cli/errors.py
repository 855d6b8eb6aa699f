"""Errors of people who type commands: a message on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gangsched.cluster.manifests.errors import ErrorRecord, Warned

#: Exit codes: done; failed, as when the disk is full; input, configuration or arguments that were not understood;
#: interrupted; the output is not read.
OK, FAILED, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


class UsageError(ValueError):
    """Arguments that cannot be used, found after they were parsed."""


def problems(error: BaseException) -> list[str] | None:
    """What to tell the user, one line each; None for an error that is not the user's."""
    # Nobody who makes no mistake waits for what reads manifests.
    from gangsched.cluster.manifests.errors import InputError, one_line  # noqa: PLC0415
    from gangsched.model.errors import FieldError  # noqa: PLC0415

    if isinstance(error, InputError):
        return [error.text]
    if isinstance(error, (UsageError, FieldError)):
        return [one_line(str(error))]
    if isinstance(error, _configuration_errors()):
        return [one_line(line) for line in str(error).splitlines()]
    return None


def record(error: BaseException, file: str) -> ErrorRecord:
    """A user's error as the plan contract has it; ``file`` is named where the error does not know better."""
    from gangsched.cluster.manifests.errors import InputError, one_line  # noqa: PLC0415

    if isinstance(error, InputError):
        return error.record()
    message = "; ".join(problems(error) or [one_line(str(error))])
    return {"file": file, "document": None, "object": None, "field": None, "message": message}


def complain(lines: Iterable[str]) -> None:
    """Say it on stderr."""
    for line in lines:
        print(f"gangsched: {line}", file=sys.stderr)


def warn(warnings: Iterable[Warned]) -> None:
    """Say on stderr what of the input was not understood, or not as its author may think."""
    from gangsched.cluster.manifests.errors import one_line  # noqa: PLC0415 - as above

    for each in warnings:
        where = f"document {each['document']} ({each['object']})"
        text = ": ".join(part for part in (each["file"], where, each["field"], each["message"]) if part)
        print(f"gangsched: warning: {one_line(text)}", file=sys.stderr)


def complain_of(error: BaseException) -> None:
    """Say on stderr what the user has to mend; raises the error again when it is not the user's."""
    lines = problems(error)
    if lines is None:
        raise error
    complain(lines)


def refuse(error: BaseException, args: argparse.Namespace, document: Callable[[ErrorRecord], Mapping[str, Any]]) -> int:
    """Say what the user has to mend, on stderr and in the document of the contract if one is asked for; the exit code.

    Raises the error again when it is not the user's.
    """
    complain_of(error)
    if args.output in {"json", "yaml"}:
        file = "" if isinstance(error, UsageError) else args.config or ""
        print_document(args.output, document(record(error, file)))
    return BAD_INPUT


def print_document(form: str, document: Mapping[str, Any]) -> None:
    """Print the answer of a contract, as ``json`` or ``yaml``."""
    if form == "json":
        text = json.dumps(document, indent=2) + "\n"
    else:
        import yaml  # noqa: PLC0415 - only for this form

        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    sys.stdout.write(text)


def _configuration_errors() -> type[Exception] | tuple[()]:
    """The errors of configuration files, if that module is in use at all: commands without one start faster."""
    module = sys.modules.get("gangsched.runtime.config")
    return module.ConfigurationError if module is not None else ()
