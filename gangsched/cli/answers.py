"""How commands that only look answer: one view of what they found, shown as the JSON of a contract or as text."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from gangsched.cli import errors
from gangsched.model.errors import InputError, Place, Problem, UserError

V = TypeVar("V")


class Contract(NamedTuple, Generic[V]):
    """What a command answers. ``empty`` are the fields of the document when there is an error, ``fields`` makes those
    of a view, ``render`` prints it for people, in the form of ``-o``.
    """

    api_version: str
    empty: Mapping[str, Any]
    fields: Callable[[V], Mapping[str, Any]]
    render: Callable[[V, str], None]

    def document(
        self, fields: Mapping[str, Any], warnings: Sequence[Problem] = (), error: Problem | None = None
    ) -> dict[str, Any]:
        """The whole answer."""
        return {"apiVersion": self.api_version, **fields, "warnings": list(warnings), "error": error}

    def answer(self, args: argparse.Namespace, find: Callable[[], tuple[V, Sequence[Problem]]]) -> V | None:
        """Print what ``find`` returns with its warnings, or what the user has to mend; None in the latter case."""
        try:
            view, warnings = find()
        except UserError as error:
            errors.complain(error.lines)
            if args.output in _DOCUMENTS:
                print_document(args.output, self.document(self.empty, error=_problem(error, args)))
            return None
        if args.output in _DOCUMENTS:
            print_document(args.output, self.document(self.fields(view), warnings))
        else:
            self.render(view, args.output)
            errors.warn(warnings)
        return view


_DOCUMENTS = ("json", "yaml")


def _problem(error: UserError, args: argparse.Namespace) -> Problem:
    if isinstance(error, InputError):
        return error.problem
    file = "" if isinstance(error, errors.UsageError) else args.config or ""
    return InputError(Place(file), "", "; ".join(error.lines)).problem


def print_document(form: str, document: Mapping[str, Any]) -> None:
    """Print the answer of a contract, as ``json`` or ``yaml``."""
    if form == "json":
        text = json.dumps(document, indent=2) + "\n"
    else:
        import yaml  # noqa: PLC0415 - only for this form

        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    sys.stdout.write(text)
