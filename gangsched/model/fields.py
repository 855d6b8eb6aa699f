"""The meaning of fields of a gang API, written where they are decoded, as an annotation of their types.

The documentation has tables of them. An Event about what is refused has the same words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

import msgspec

from gangsched.model.errors import FieldError

#: The treatment of an unused field: its object makes the gang wait, or it has no effect.
REFUSED, IGNORED = "refused", "ignored"


def used(meaning: str) -> msgspec.Meta:
    """The meaning of a field."""
    return msgspec.Meta(description=meaning)


def refused(why: str) -> msgspec.Meta:
    """A gang that asks for this waits."""
    return msgspec.Meta(description=why, extra={"treatment": REFUSED})


def ignored(why: str = "") -> msgspec.Meta:
    """A field without effect, and the consequence."""
    return msgspec.Meta(description=why, extra={"treatment": IGNORED})


def in_status(**fields: str) -> dict[str, str]:
    """Return the meaning of fields of a status, for the documentation."""
    return {f"`status.{name}`": text for name, text in fields.items()}


class Documented(NamedTuple):
    """One table of the documentation: the fields of what is decoded as ``decoded``, and others in Markdown."""

    title: str
    decoded: type[msgspec.Struct] | None = None
    others: Mapping[str, str] = {}

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the meaning of each field."""
        if self.decoded is not None:
            for path, text in meanings(self.decoded):
                yield f"`{path}`", text
        yield from self.others.items()


class _Field(NamedTuple):
    attribute: str
    name: str
    text: str
    treatment: str
    inner: type[msgspec.Struct] | None
    many: bool


def meanings(decoded: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The path of each field below what is decoded so, and what it means: of the whole, or of all in it."""
    for each in _fields_of(decoded):
        if each.text or each.treatment:
            yield prefix + each.name, ": ".join(filter(None, (each.treatment, each.text)))
        elif each.inner is not None:
            yield from meanings(each.inner, f"{prefix}{each.name}{'[]' * each.many}.")


def check(value: msgspec.Struct, path: str = "spec") -> None:
    """Raises :class:`FieldError` for the first field that is refused."""
    for each in _checked(type(value)):
        given, where = getattr(value, each.attribute), f"{path}.{each.name}"
        if not given:
            continue
        if each.treatment == REFUSED:
            raise FieldError(where, each.text)
        if not each.many:
            check(given, where)
            continue
        for number, one in enumerate(given):
            check(one, f"{where}[{number}]")


@functools.cache
def _checked(decoded: type[msgspec.Struct]) -> tuple[_Field, ...]:
    """The fields that are refused, and those that have such in them."""
    return tuple(
        each
        for each in _fields_of(decoded)
        if each.treatment == REFUSED or (each.inner is not None and not each.text and _checked(each.inner))
    )


@functools.cache
def _fields_of(decoded: type[msgspec.Struct]) -> tuple[_Field, ...]:
    found = []
    for each in msgspec.structs.fields(decoded):
        parts = [*_parts(each.type)]
        said = next((part for part in parts if isinstance(part, msgspec.Meta)), msgspec.Meta())
        inner = next((part for part in parts if isinstance(part, type) and issubclass(part, msgspec.Struct)), None)
        treatment = (said.extra or {}).get("treatment", "")
        text, many = said.description or "", list in [getattr(part, "__origin__", None) for part in parts]
        found.append(_Field(each.name, each.encode_name, text, treatment, inner, many))
    return tuple(found)


def _parts(kind: Any) -> Iterator[Any]:
    """A type, and all that it is made of."""
    yield kind
    for part in get_args(kind):
        yield from _parts(part)
