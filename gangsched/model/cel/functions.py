"""The functions and operators of selectors, one table: name -> overloads, for checking types and for running.

Strings are those of cel-go's ext.Strings 2; quantities, versions, lists, sets and regular expressions are those of
k8s.io/apiserver/pkg/cel/library. Functions beyond this table are refused by name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from gangsched.model import quantity
from gangsched.model.cel import values
from gangsched.model.cel.regex import compile_regex
from gangsched.model.cel.values import DYN, NONE, EvaluationError, ExpressionError, Optional, Quantity, Semver, UInt
from gangsched.model.errors import FieldError

BOOL, INT, UINT, DOUBLE, STRING, LIST, MAP = "bool", "int", "uint", "double", "string", "list", "map"
QUANTITY, SEMVER, OPTIONAL, TYPE = "kubernetes.Quantity", "kubernetes.Semver", "optional_type", "type"
#: Names of types that are values.
TYPES = (BOOL, INT, UINT, DOUBLE, STRING, "bytes", LIST, MAP, "null_type", TYPE)


class Overload(NamedTuple):
    """``params`` are types (``dyn``: any); of a method the first is the target."""

    params: tuple[str, ...]
    result: str
    run: Callable[..., Any]


def fits(kind: str, param: str) -> bool:
    """Whether an argument of a static type may be one of the parameter's type."""
    return DYN in {kind, param} or kind == param or (param == LIST and kind.startswith("list("))


def alike(one: str, other: str) -> bool:
    """Whether values of two static types may be equal."""
    if one.startswith("list") and other.startswith("list"):
        return DYN in {one[5:-1], other[5:-1]} or LIST in {one, other} or one == other
    return DYN in {one, other} or one == other


def _signed(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda a, b: values.checked_int(function(a, b))


def _unsigned(function: Callable[[int, int], int]) -> Callable[[int, int], UInt]:
    return lambda a, b: values.checked_uint(function(int(a), int(b)))


def _divided(a: int, b: int) -> int:
    if b == 0:
        raise EvaluationError("division by zero")
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise EvaluationError("modulus by zero")
    return a - b * _divided(a, b)


def _float_divided(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def _compared(function: Callable[[Any, Any], bool]) -> list[Overload]:
    numbers = [(a, b) for a in (INT, UINT, DOUBLE) for b in (INT, UINT, DOUBLE)]
    return [Overload(p, BOOL, function) for p in ((STRING, STRING), (BOOL, BOOL), *numbers)]


def _arithmetic(whole: Callable[[int, int], int], real: Callable[[float, float], float] | None) -> list[Overload]:
    found = [Overload((INT, INT), INT, _signed(whole)), Overload((UINT, UINT), UINT, _unsigned(whole))]
    return found if real is None else [*found, Overload((DOUBLE, DOUBLE), DOUBLE, real)]


def _to_int(value: Any) -> int:
    if type(value) is str:
        if not value.lstrip("+-").isdecimal() or not value.isascii() or len(value) > 20 or value[:2] in {"+-", "-+"}:
            raise EvaluationError(f"type conversion error from 'string' to 'int': {value}")
        return values.checked_int(int(value))
    if type(value) is float and not math.isfinite(value):
        raise EvaluationError("integer overflow")
    return values.checked_int(int(value))


def _to_uint(value: Any) -> UInt:
    if type(value) is str and not (value.isascii() and value.isdecimal() and len(value) <= 20):
        raise EvaluationError(f"type conversion error from 'string' to 'uint': {value}")
    if type(value) is float and not math.isfinite(value):
        raise EvaluationError("unsigned integer overflow")
    return values.checked_uint(int(value))


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise EvaluationError(f"type conversion error from 'string' to 'double': {value}") from None


def _to_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    found = {"1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True}.get(value)
    if found is None and value in {"0", "f", "F", "false", "FALSE", "False"}:
        found = False
    if found is None:
        raise EvaluationError(f"type conversion error from 'string' to 'bool': {value}")
    return found


def _to_string(value: Any) -> str:
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is float:
        return f"{value:.15g}"
    return str(value)


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(quantity.parse(text))
    except FieldError:
        raise EvaluationError(f"{text!r} is no quantity") from None


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except FieldError:
        return False
    return True


def _whole(value: Quantity) -> int:
    found = value.value
    if found != found.to_integral_value():
        raise EvaluationError("cannot convert value to integer")
    return values.checked_int(int(found))


def _semver(text: str, lax: bool = False) -> Semver:
    found = Semver.parse(text, lax=lax)
    if found is None:
        raise EvaluationError(f"{text!r} is no semantic version")
    return found


def _order(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def _at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise EvaluationError(f"index out of range: {start}, {end}")
    return text[start:end]


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    parts = list(text) if not by else text.split(by, most - 1 if most > 0 else -1)
    return [*parts[: most - 1], "".join(parts[most - 1 :])] if not by and 0 < most < len(parts) else parts


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    if (len(text) + 1) * max(len(new), 1) > 1_000_000:
        raise EvaluationError("the replacement is too long")
    return text.replace(old, new, most)


def _join(parts: list[Any], by: str = "") -> str:
    if any(type(part) is not str for part in parts):
        raise EvaluationError("no such overload: join of a list of other values than strings")
    return by.join(parts)


def _matches(text: str, pattern: str) -> bool:
    return _regex(pattern).find(text) is not None


def _find(text: str, pattern: str) -> str:
    found = _regex(pattern).find(text)
    return text[slice(*found)] if found is not None else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    compiled, at = _regex(pattern), 0
    out: list[str] = []
    while at <= len(text) and len(out) != most and (found := compiled.find(text, at)) is not None:
        out.append(text[slice(*found)])
        at = found[1] + (found[0] == found[1])
    return out


def _regex(pattern: str) -> Any:
    try:
        return compile_regex(pattern)
    except ExpressionError as error:
        raise EvaluationError(str(error)) from None


def _position(items: list[Any], value: Any, order: Iterable[int]) -> int:
    return next((i for i in order if values.equal(items[i], value)), -1)


def _includes(items: Any, value: Any) -> bool:
    return values.contains(value, items) if type(items) is list else values.equal(items, value)


def _within(some: list[Any], others: list[Any]) -> bool:
    return all(values.contains(each, others) for each in some)


def _value_of(found: Optional) -> Any:
    if not found.present:
        raise EvaluationError("optional.none() dereference")
    return found.value


def _non_zero(value: Any) -> Optional:
    zero = value is None or (type(value) in {bool, int, UInt, float, str, list, dict, values.Domains} and not value)
    return NONE if zero else Optional(value)


_SIZES = [Overload((kind,), INT, len) for kind in (STRING, LIST, MAP)]
_REGEX = [Overload((STRING, STRING), BOOL, _matches)]

#: Functions and operators without a target.
FUNCTIONS: dict[str, list[Overload]] = {
    "!": [Overload((BOOL,), BOOL, operator.not_)],
    "+": [
        *_arithmetic(operator.add, operator.add),
        Overload((STRING, STRING), STRING, operator.add),
        Overload((LIST, LIST), LIST, operator.add),
    ],
    "-": [
        *_arithmetic(operator.sub, operator.sub),
        Overload((INT,), INT, lambda a: values.checked_int(-a)),
        Overload((DOUBLE,), DOUBLE, operator.neg),
    ],
    "*": _arithmetic(operator.mul, operator.mul),
    "/": _arithmetic(_divided, _float_divided),
    "%": _arithmetic(_remainder, None),
    "<": _compared(operator.lt),
    "<=": _compared(operator.le),
    ">": _compared(operator.gt),
    ">=": _compared(operator.ge),
    "in": [Overload((DYN, LIST), BOOL, values.contains), Overload((DYN, MAP), BOOL, values.contains)],
    "size": _SIZES,
    "matches": _REGEX,
    "int": [Overload((kind,), INT, _to_int) for kind in (INT, UINT, DOUBLE, STRING)],
    "uint": [Overload((kind,), UINT, _to_uint) for kind in (INT, UINT, DOUBLE, STRING)],
    "double": [Overload((kind,), DOUBLE, _to_double) for kind in (INT, UINT, DOUBLE, STRING)],
    "bool": [Overload((kind,), BOOL, _to_bool) for kind in (BOOL, STRING)],
    "string": [Overload((kind,), STRING, _to_string) for kind in (BOOL, INT, UINT, DOUBLE, STRING)],
    "dyn": [Overload((DYN,), DYN, lambda value: value)],
    "type": [Overload((DYN,), TYPE, lambda value: values.TypeName(values.type_of(value)))],
    "quantity": [Overload((STRING,), QUANTITY, _quantity)],
    "isQuantity": [Overload((STRING,), BOOL, _is_quantity)],
    "semver": [Overload((STRING,), SEMVER, _semver), Overload((STRING, BOOL), SEMVER, _semver)],
    "isSemver": [
        Overload((STRING,), BOOL, lambda text: Semver.parse(text) is not None),
        Overload((STRING, BOOL), BOOL, lambda text, lax: Semver.parse(text, lax=lax) is not None),
    ],
    "sets.contains": [Overload((LIST, LIST), BOOL, lambda a, b: _within(b, a))],
    "sets.equivalent": [Overload((LIST, LIST), BOOL, lambda a, b: _within(a, b) and _within(b, a))],
    "sets.intersects": [Overload((LIST, LIST), BOOL, lambda a, b: any(values.contains(each, b) for each in a))],
    "optional.of": [Overload((DYN,), OPTIONAL, Optional)],
    "optional.none": [Overload((), OPTIONAL, lambda: NONE)],
    "optional.ofNonZeroValue": [Overload((DYN,), OPTIONAL, _non_zero)],
}


def _numbers(kind: str) -> dict[str, list[Overload]]:
    """Comparing, which quantities and versions share."""
    return {
        "isLessThan": [Overload((kind, kind), BOOL, lambda a, b: _order(a, b) < 0)],
        "isGreaterThan": [Overload((kind, kind), BOOL, lambda a, b: _order(a, b) > 0)],
        "compareTo": [Overload((kind, kind), INT, _order)],
    }


_OF_QUANTITIES = {
    name: [Overload(o.params, o.result, lambda a, b, run=o.run: run(a.value, b.value)) for o in found]
    for name, found in _numbers(QUANTITY).items()
}
_ADDED: tuple[tuple[str, Callable[[Decimal, Decimal], Decimal]], ...] = (("add", operator.add), ("sub", operator.sub))

#: Functions with a target.
METHODS: dict[str, list[Overload]] = {
    **{name: [*found, *_OF_QUANTITIES[name]] for name, found in _numbers(SEMVER).items()},
    **{
        name: [
            Overload((QUANTITY, QUANTITY), QUANTITY, lambda a, b, run=run: Quantity(run(a.value, b.value))),
            Overload((QUANTITY, INT), QUANTITY, lambda a, b, run=run: Quantity(run(a.value, Decimal(b)))),
        ]
        for name, run in _ADDED
    },
    "sign": [Overload((QUANTITY,), INT, lambda a: _order(a.value, 0))],
    "isInteger": [Overload((QUANTITY,), BOOL, lambda a: a.value == a.value.to_integral_value())],
    "asInteger": [Overload((QUANTITY,), INT, _whole)],
    "asApproximateFloat": [Overload((QUANTITY,), DOUBLE, lambda a: float(a.value))],
    "major": [Overload((SEMVER,), INT, lambda v: v.major)],
    "minor": [Overload((SEMVER,), INT, lambda v: v.minor)],
    "patch": [Overload((SEMVER,), INT, lambda v: v.patch)],
    "size": _SIZES,
    "matches": _REGEX,
    "contains": [Overload((STRING, STRING), BOOL, operator.contains)],
    "startsWith": [Overload((STRING, STRING), BOOL, str.startswith)],
    "endsWith": [Overload((STRING, STRING), BOOL, str.endswith)],
    "charAt": [Overload((STRING, INT), STRING, _at)],
    "indexOf": [
        Overload((STRING, STRING), INT, _index_of),
        Overload((STRING, STRING, INT), INT, _index_of),
        Overload((LIST, DYN), INT, lambda items, value: _position(items, value, range(len(items)))),
    ],
    "lastIndexOf": [
        Overload((STRING, STRING), INT, _last_index_of),
        Overload((STRING, STRING, INT), INT, _last_index_of),
        Overload((LIST, DYN), INT, lambda items, value: _position(items, value, reversed(range(len(items))))),
    ],
    "substring": [Overload((STRING, INT), STRING, _substring), Overload((STRING, INT, INT), STRING, _substring)],
    "lowerAscii": [Overload((STRING,), STRING, lambda text: "".join(c.lower() if c.isascii() else c for c in text))],
    "upperAscii": [Overload((STRING,), STRING, lambda text: "".join(c.upper() if c.isascii() else c for c in text))],
    "trim": [Overload((STRING,), STRING, str.strip)],
    "split": [Overload((STRING, STRING), LIST, _split), Overload((STRING, STRING, INT), LIST, _split)],
    "replace": [
        Overload((STRING, STRING, STRING), STRING, _replace),
        Overload((STRING, STRING, STRING, INT), STRING, _replace),
    ],
    "join": [Overload((LIST,), STRING, _join), Overload((LIST, STRING), STRING, _join)],
    "find": [Overload((STRING, STRING), STRING, _find)],
    "findAll": [Overload((STRING, STRING), LIST, _find_all), Overload((STRING, STRING, INT), LIST, _find_all)],
    "includes": [Overload((DYN, DYN), BOOL, _includes)],
    "hasValue": [Overload((OPTIONAL,), BOOL, lambda found: found.present)],
    "value": [Overload((OPTIONAL,), DYN, _value_of)],
}
