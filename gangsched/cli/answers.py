"""How all commands answer: exit codes, complaints, documents, and lines for people."""

from __future__ import annotations

import argparse
import codecs
import os
import re
import shutil
import stat
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TextIO, TypeAlias, TypeVar

from gangsched.messages import failures
from gangsched.model.errors import InputError, InvalidInputError, Place, Problem, UserError, one_line, render_problem

V = TypeVar("V")
#: Finds what a command answers, and what of the input was not understood.
Read: TypeAlias = Callable[[argparse.Namespace], tuple[V, Sequence[Problem]]]

#: Exit codes: done; failed, as when the disk is full; input, configuration or arguments that were not understood;
#: interrupted; the output is not read.
OK, FAILED, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141

PROGRAM = "gangsched"
_DOCUMENTS = ("json", "yaml")
_AGES = ((86400, 2, "d"), (3600, 3, "h"), (60, 3, "m"))


#: How streams take what their encoding does not have: see :func:`_stand_in`.
STAND_INS = "gangsched.stand-ins"
_OF = dict(zip("█▓▒░│─·•’×", "#%+/|--*'x", strict=True)) | {"→": "->", "…": "..."}


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    """Where only ASCII can be written, the typographic characters used here have stand-ins; others are escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_OF.get(c) or c.encode("ascii", "backslashreplace").decode() for c in missing), error.end


codecs.register_error(STAND_INS, _stand_in)


class UsageError(UserError):
    """Arguments that cannot be used, found after they were parsed."""


def open_private(path: Path, mode: Literal["w", "x"]) -> TextIO:
    """Open a file to be written that only its owner may read: what clusters hold is not for all users of a machine.
    Raises OSError.
    """
    out = open(path, mode, encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
    if stat.S_ISREG(os.fstat(out.fileno()).st_mode):  # it may have been there before, for others to read
        os.fchmod(out.fileno(), 0o600)
    return out


def program() -> str:
    """Return the words before the name of a command: the path of this program if it is not on PATH."""
    called = sys.argv[0]
    if Path(called).name.startswith("kubectl-"):
        return "kubectl gangsched"
    found = Path(called).name != PROGRAM or called == PROGRAM or shutil.which(PROGRAM) is not None
    return PROGRAM if found else called


def complain(lines: Iterable[str]) -> None:
    """Say it on stderr: a line each, which a terminal gets in lines of its width."""
    width = _width_of_stderr()
    for line in lines:
        text = f"gangsched: {line}"
        print("\n".join(_within(text, width)) if width else text, file=sys.stderr)


def _width_of_stderr() -> int:
    """Its columns; 0: it is no terminal. Output may go elsewhere, where lines have another width or none."""
    if sys.stderr is None or not sys.stderr.isatty():
        return 0
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return 80


def _within(text: str, width: int) -> Iterator[str]:
    """The lines of a text, broken between words."""
    for line in text.splitlines():
        ahead = " " * (len(line) - len(line.lstrip()) + 2)
        yield from textwrap.wrap(
            line, width, subsequent_indent=ahead, break_long_words=False, break_on_hyphens=False
        ) or [""]


class Contract(NamedTuple, Generic[V]):
    """The answer of a read-only command, as the JSON of a contract or as text.

    ``fields`` makes the fields of the document, which are ``empty`` when there is an error; ``show`` prints it for
    people, in the form of ``-o``.
    """

    api_version: str
    empty: Mapping[str, Any]
    fields: Callable[[V], Mapping[str, Any]]
    show: Callable[[V, str], None]

    def run(self, args: argparse.Namespace, read: Read[V]) -> int:
        """Print what is read, or what the user has to mend; the exit code."""
        return BAD_INPUT if self.answer(args, read) is None else OK

    def answer(self, args: argparse.Namespace, read: Read[V]) -> V | None:
        """Print the same; None when the user has to mend something."""
        try:
            view, warnings = read(args)
        except UserError as error:
            refuse(error, args)
            if args.output in _DOCUMENTS:
                print_document(args.output, self.document(self.empty, error=_problem(error, args)))
            return None
        if args.output in _DOCUMENTS:
            print_document(args.output, self.document(self.fields(view), warnings))
        else:
            self.show(view, args.output)
            complain(f"warning: {render_problem(each)}" for each in warnings)
        return view

    def document(
        self, fields: Mapping[str, Any], warnings: Sequence[Problem] = (), error: Problem | None = None
    ) -> dict[str, Any]:
        """The whole answer."""
        return {"apiVersion": self.api_version, **fields, "warnings": list(warnings), "error": error}


class Past(NamedTuple):
    """An eviction of the past: of which objects, why in a word and in a sentence, and how long ago."""

    kind: str
    names: Sequence[str]
    reason: str
    note: str
    ago: str


def refuse(error: UserError, args: argparse.Namespace) -> None:
    """Say what is wrong with the input, and by which option of the command it would be left out."""
    skips = isinstance(error, InvalidInputError) and hasattr(args, "skip_invalid")
    complain([*error.lines, *([failures.SKIPPABLE] if skips else [])])


def _problem(error: UserError, args: argparse.Namespace) -> Problem:
    if isinstance(error, InputError):
        return error.problem
    file = "" if isinstance(error, UsageError) else args.config or ""
    return InputError(Place(file), "", "; ".join(error.lines)).problem


def print_document(form: str, document: Mapping[str, Any]) -> None:
    """Print the answer of a contract, as ``json`` or ``yaml``."""
    if form == "json":
        import json  # noqa: PLC0415 - nothing else here needs it, and --help is to be quick

        text = json.dumps(document, indent=2) + "\n"
    else:
        import yaml  # noqa: PLC0415 - only for this form

        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    sys.stdout.write(text)


class Columns:
    """Lines in columns, as kubectl prints them. Later lines keep the columns of earlier ones.

    ``width`` is that of the terminal, if the last column holds sentences that have to fit into it. Nothing is cut off
    otherwise.
    """

    def __init__(self, width: int | None = None) -> None:
        self._widths: list[int] = []
        self._width = width

    def print(self, lines: Sequence[tuple[str, ...]]) -> None:
        """Print these lines, each column as wide as its widest cell so far."""
        cleaned = [[one_line(cell) for cell in line] for line in lines]
        for line in cleaned:
            self._widths = [max(pair) for pair in zip_longest(self._widths, map(len, line), fillvalue=0)]
        for line in cleaned:
            if self._width is not None:
                before = sum(self._widths[: len(line) - 1]) + len(_GAP) * (len(line) - 1)
                line[-1] = first_clause(line[-1], max(self._width - before, _LEAST))
            print(_GAP.join(cell.ljust(width) for cell, width in zip(line, self._widths, strict=True)).rstrip())


_GAP = "   "
#: Sentences get so many columns even where a terminal has fewer left.
_LEAST = 16


def terminal_width() -> int | None:
    """The width of the terminal that is written to; None for a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def first_clause(text: str, width: int) -> str:
    """The first clause of a sentence, cut off after a word where it is longer than ``width``."""
    clause = re.split(r"[;.](?= )", text, maxsplit=1)[0].rstrip(".")
    if len(clause) <= width:
        return clause
    head = clause[: width - 1]
    return f"{head[: head.rfind(' ')] if ' ' in head[width // 2 :] else head}…"


def print_lines(lines: Sequence[tuple[str, ...]]) -> None:
    """Print a table of its own."""
    Columns().print(lines)


def age_of(seconds: float) -> str:
    """``45s``, ``119m``, ``5h``, ``12d``: in the largest unit of which there are some, as kubectl prints it."""
    for unit, least, letter in _AGES:
        if seconds >= unit * least:
            return f"{int(seconds // unit)}{letter}"
    return f"{max(0, int(seconds))}s"


def natural(name: str) -> list[str | int]:
    """For sorting: ``node-10`` after ``node-9``."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", name)]


def clean(text: str) -> str:
    """Names come from strangers: nothing of them may steer the terminal."""
    return "".join(c if c.isprintable() else one_line(c) or " " for c in text)
