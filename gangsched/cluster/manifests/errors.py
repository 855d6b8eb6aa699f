"""Where something is in the input, and the error that names it."""

from __future__ import annotations

from typing import TypedDict

import msgspec


class Warned(TypedDict):
    """One warning of the plan contract; ``field`` is empty when the whole object is meant."""

    file: str
    document: int
    object: str
    field: str
    message: str


class ErrorRecord(TypedDict):
    """The error of the plan contract; None where the error lies outside any document, object or field."""

    file: str
    document: int | None
    object: str | None
    field: str | None
    message: str


class Place(msgspec.Struct, frozen=True):
    """One object of the input: its file, the document in it (from 1), and its kind and name for people."""

    file: str
    document: int
    object: str

    def __str__(self) -> str:
        return f"{self.file}, document {self.document}"


class InputError(ValueError):
    """Input that cannot be understood: the first such place of the input.

    ``str()`` is one line without control characters, whatever the input held. ``document``, ``object`` and
    ``field`` are None where the error lies outside of any (a file that is missing, malformed YAML).
    """

    def __init__(self, file: str, document: int | None, subject: str | None, field: str | None, message: str) -> None:
        self.file = one_line(file)
        self.document = document
        self.object = one_line(subject) if subject else None
        self.field = one_line(field) if field else None
        self.message = one_line(message)
        super().__init__(self.text)

    @classmethod
    def at(cls, place: Place, field: str, message: str) -> InputError:
        """An error about one field of one object."""
        return cls(place.file, place.document, place.object, field or None, message)

    @property
    def text(self) -> str:
        """``file: document 3 (Pod ns/name): field: message``, without the parts that are not known."""
        parts = [self.file]
        if self.document is not None:
            parts.append(f"document {self.document}" + (f" ({self.object})" if self.object else ""))
        if self.field:
            parts.append(self.field)
        return ": ".join((*parts, self.message))

    def record(self) -> ErrorRecord:
        """The error as the plan contract has it."""
        return {
            "file": self.file,
            "document": self.document,
            "object": self.object,
            "field": self.field,
            "message": self.message,
        }


def one_line(text: str) -> str:
    """The text without line breaks and control characters, which in a terminal could hide or fake output."""
    spaced = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in spaced)


def warning(place: Place, field: str, message: str) -> Warned:
    """One warning of the plan contract."""
    return {
        "file": place.file,
        "document": place.document,
        "object": place.object,
        "field": one_line(field),
        "message": one_line(message),
    }
