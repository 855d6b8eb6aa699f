"""Errors that a user can act on: each names the object and the field that is wrong."""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """What is wrong with an object that is known all the same: the field, and what it should be."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class FieldError(ValueError):
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
        return Mistake(self.field, f"{self.message}; it counts as not said")

    def under(self, prefix: str) -> FieldError:
        """The same error seen from the object that holds the field."""
        return FieldError(f"{prefix}.{self.field}" if self.field else prefix, self.message)
