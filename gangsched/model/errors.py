"""Errors that a user can act on: each names the object and the field that is wrong, and its file if it has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypedDict

from gangsched.messages import invalid

#: So many errors are shown.
_MOST_LINES = 50


class Mistake(NamedTuple):
    """What is wrong with an object that is known all the same: the field, and what it should be."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class UserError(ValueError):
    """A problem that the user can correct. Commands end with its ``lines`` and without a traceback."""

    @property
    def lines(self) -> list[str]:
        """The lines for people, without control characters."""
        return [one_line(str(self))]


class FieldError(UserError):
    """A value that cannot be understood.

    ``field`` is a dotted path below the object (``spec.containers[0].resources.requests.cpu``);
    ``message`` says what is wrong and what would be right, without repeating the path.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message

    @property
    def mistake(self) -> Mistake:
        """The same as a value that a record can hold."""
        return Mistake(self.field, self.message)

    @property
    def remark(self) -> Mistake:
        """The same of a value without which the object is understood all the same."""
        return Mistake(self.field, invalid.and_is_ignored(message=self.message))

    def under(self, prefix: str) -> FieldError:
        """The same error seen from the object that holds the field."""
        return FieldError(f"{prefix}.{self.field}" if self.field else prefix, self.message)


class Problem(TypedDict):
    """An error or a warning about the input, as the contracts have it.

    In an error, what lies outside of any document, object or field has None there. In a warning ``field`` is empty when
    the whole object is meant.
    """

    file: str
    document: int | None
    object: str | None
    field: str | None
    message: str


class Place(NamedTuple):
    """One object of the input: its file, the document in it (from 1), and its kind and name for people.

    Without an object it is a document, and without a document a file.
    """

    file: str
    document: int | None = None
    object: str | None = None

    def __str__(self) -> str:
        return f"{self.file}, document {self.document}"

    def warning(self, field: str, message: str) -> Problem:
        """A warning about one field."""
        return {
            "file": one_line(self.file),
            "document": self.document,
            "object": one_line(self.object) if self.object else None,
            "field": one_line(field),
            "message": one_line(message),
        }

    @contextmanager
    def named(self) -> Iterator[None]:
        """A :class:`FieldError` inside becomes an :class:`InputError` about this object."""
        try:
            yield
        except FieldError as error:
            raise InputError(self, error.field, error.message) from None


class InputError(UserError):
    """A place of the input that cannot be understood.

    ``str()`` is one line without control characters, whatever the input held.
    """

    def __init__(self, place: Place, field: str, message: str) -> None:
        self.problem: Problem = {**place.warning(field, message), "field": one_line(field) or None}
        super().__init__(render_problem(self.problem))


class InvalidInputError(InputError):
    """All places of the input that cannot be understood; ``problem`` and ``str()`` are those of the first."""

    def __init__(self, found: Sequence[InputError]) -> None:
        ValueError.__init__(self, str(found[0]))
        self.problem = found[0].problem
        self._found = found

    @property
    def lines(self) -> list[str]:
        """A line for each, but not for thousands."""
        more = len(self._found) - _MOST_LINES
        return [str(each) for each in self._found[:_MOST_LINES]] + [invalid.and_more(count=more)] * (more > 0)


def render_problem(problem: Problem) -> str:
    """``file: document 3 (Pod ns/name): field: message``, without the parts that are not known."""
    where = problem["object"] or "" if not problem["file"] else ""  # it is not in a file
    if problem["document"] is not None:
        where = f"document {problem['document']}" + (f" ({problem['object']})" if problem["object"] else "")
    return ": ".join(part for part in (problem["file"], where, problem["field"], problem["message"]) if part)


def one_line(text: str) -> str:
    """The text without line breaks and control characters, which in a terminal could hide or fake output."""
    spaced = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in spaced)
