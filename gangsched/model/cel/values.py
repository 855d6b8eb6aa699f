"""Values of CEL, how they compare, and the errors of expressions.

Python's own values stand for most types of CEL. ``bool`` is no number here, so types are compared exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import total_ordering
from typing import Any

#: The static type of what is known only when an expression runs.
DYN = "dyn"


class ExpressionError(ValueError):
    """The expression is not valid: its syntax, its types, or a name that nothing declares."""


class UnsupportedExpressionError(ExpressionError):
    """The expression may be valid, but uses what is not supported here; the text names it."""


class EvaluationError(Exception):
    """The expression failed for one device. A deciding side of ``&&`` or ``||`` absorbs this."""


class CostExceededError(Exception):
    """The expression took more steps than a selector may. Nothing absorbs this."""


class UInt(int):
    """An unsigned integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A Kubernetes quantity, compared by its exact value."""

    value: Decimal


_SEMVER = re.compile(
    r"(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII
)
_LAX = re.compile(r"v?(\d{1,19})(?:\.(\d{1,19}))?(?:\.(\d{1,19}))?((?:[-+].*)?)", re.ASCII)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A semantic version (https://semver.org): build metadata does not count when versions are compared."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, *, lax: bool = False) -> Semver | None:
        """Return the version, or None if ``text`` is none. ``lax`` allows a leading v, zeros and fewer parts."""
        if lax and (found := _LAX.fullmatch(text)) is not None:
            major, minor, patch, rest = found.groups()
            text = f"{int(major)}.{int(minor or 0)}.{int(patch or 0)}{rest}"
        match = _SEMVER.fullmatch(text)
        if match is None:
            return None
        pre, build = (tuple(part.split(".")) if part is not None else () for part in match.groups()[3:])
        if not all((*pre, *build)) or any(p.isdigit() and len(p) > 1 and p[0] == "0" for p in pre):
            return None
        return cls(int(match[1]), int(match[2]), int(match[3]), pre)

    def _key(self) -> tuple[Any, ...]:
        parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in self.pre)
        return self.major, self.minor, self.patch, not self.pre, parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key() == other._key()

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    value: Any = None
    present: bool = True


NONE = Optional(None, present=False)


class Domains(dict[str, Any]):
    """Attributes or capacities by domain. A domain that is absent reads as an empty map, and is still not ``in``."""


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value, for ``type(x) == int``."""

    name: str


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    Domains: "map",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Optional: "optional_type",
    TypeName: "type",
}
NUMBERS = frozenset({"int", "uint", "double"})
_KEYS = frozenset({"bool", "string", *NUMBERS})


def type_of(value: Any) -> str:
    """Return the name of the value's type."""
    return _NAMES.get(type(value), "object")


def checked_int(value: int) -> int:
    """Return a signed integer. Raises :class:`EvaluationError` if 64 bits cannot hold it."""
    if not -(2**63) <= value < 2**63:
        raise EvaluationError("integer overflow")
    return value


def checked_uint(value: int) -> UInt:
    """Return an unsigned integer. Raises :class:`EvaluationError` if 64 bits cannot hold it."""
    if not 0 <= value < 2**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(value)


def equal(left: Any, right: Any) -> bool:
    """Return whether values are equal. Values of other types differ, except numbers, which compare by value.

    Raises :class:`EvaluationError` if a quantity or a version on the left meets another type.
    """
    kind, other = type_of(left), type_of(right)
    if kind != other:
        if kind in NUMBERS and other in NUMBERS:
            return bool(left == right)
        if kind.startswith("kubernetes."):
            raise EvaluationError(f"no such overload: {kind} == {other}")
        return False
    if kind == "list":
        return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right, strict=True))
    if kind == "map":
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if kind == "optional_type":
        return left.present == right.present and (not left.present or equal(left.value, right.value))
    return bool(left == right)


def contains(value: Any, container: Any) -> bool:
    """Return whether a list has the value, or a map has the key."""
    if isinstance(container, dict):
        if type_of(value) not in _KEYS:
            return False
        return value in container if type(value) is str else _key(value) in {_key(key) for key in container}
    if not isinstance(container, list):
        raise EvaluationError(f"no such overload: {type_of(value)} in {type_of(container)}")
    for each in container:
        try:
            if equal(each, value):
                return True
        except EvaluationError:
            continue
    return False


def lookup(container: Any, key: Any) -> Any:
    """Return the value under a key or index. Raises :class:`EvaluationError` if there is none."""
    if isinstance(container, Domains):
        return container.get(key, {}) if type(key) is str else _missing(key)
    if isinstance(container, dict):
        wanted = _key(key)
        for each, value in container.items():
            if _key(each) == wanted:
                return value
        return _missing(key)
    if isinstance(container, list):
        if type(key) is float and key.is_integer():
            key = int(key)
        if type(key) not in {int, UInt}:
            raise EvaluationError(f"unsupported index type {type_of(key)!r} in list")
        if not 0 <= key < len(container):
            raise EvaluationError(f"index out of bounds: {key}")
        return container[key]
    raise EvaluationError(f"no such overload: {type_of(container)}[{type_of(key)}]")


def _missing(key: Any) -> Any:
    raise EvaluationError(f"no such key: {key}")


def _key(value: Any) -> tuple[str, Any]:
    """A key that is equal for keys that CEL takes as equal: numbers by value, everything else by type and value."""
    kind = type_of(value)
    if kind not in _KEYS:
        raise EvaluationError(f"unsupported key type: {kind}")
    return ("number" if kind in NUMBERS else kind), value
