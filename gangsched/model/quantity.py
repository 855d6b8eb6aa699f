"""Kubernetes quantities ("250m", "1.5Gi", 2) as integers in base units.

Rules: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ . The base unit is the
milli-core for ``cpu`` and one (a byte, a device, a pod) for all others. Fractions are rounded up, as by the API server,
so that no request counts as less than it is.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation, localcontext
from typing import TypeAlias

from gangsched.messages import invalid
from gangsched.model.errors import FieldError

RawQuantity: TypeAlias = str | int | float

# The snapshot keeps base units in float64, which is exact up to 2**53. Larger quantities do not occur on real machines
# and are refused, so that later arithmetic is exact.
MAX_BASE_UNITS = 2**53

_SUFFIX = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_FORM = re.compile(
    r"([+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40}))(?:([eE][+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII
)
_INTEGER = re.compile(r"[+-]?\d{1,63}", re.ASCII)
_CANONICAL = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_cache: dict[tuple[bool, RawQuantity], int] = {}
_CACHE_LIMIT = 50_000


def parse(raw: RawQuantity) -> Decimal:
    """The exact value of a quantity. Raises :class:`FieldError` when it is not one."""
    if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
        raise FieldError("", invalid.not_a_quantity(value=raw))
    match = _FORM.fullmatch(str(raw))
    if match is None:
        raise FieldError("", invalid.not_a_quantity(value=raw))
    number, exponent, suffix = match.groups()
    with localcontext() as context:
        context.prec = 120  # the form allows 80 digits; nothing may round before base_units does
        try:
            return Decimal(number + (exponent or "")) * _SUFFIX[suffix or ""]
        except InvalidOperation:  # pragma: no cover - the regular expression admits no such number
            raise FieldError("", invalid.not_a_quantity(value=raw)) from None


def base_units(resource: str, raw: RawQuantity) -> int:
    """The quantity in base units of ``resource`` (milli-cores for cpu, units else), rounded up.

    Raises :class:`FieldError` for something that is no quantity, is negative, or is beyond 2**53 base units.
    """
    key = (resource == "cpu", raw)
    try:
        return _cache[key]
    except KeyError:
        pass
    except TypeError:
        raise FieldError("", invalid.not_a_quantity(value=raw)) from None
    value = parse(raw)
    if value < 0:
        raise FieldError("", invalid.quantity_negative(raw=raw))
    with localcontext() as context:
        context.prec = 120
        scaled = value * 1000 if resource == "cpu" else value
        units = int(scaled)
        if units != scaled:
            units += 1
    if units > MAX_BASE_UNITS:
        raise FieldError("", invalid.quantity_too_large(raw=raw))
    if len(_cache) >= _CACHE_LIMIT:  # hostile input must not grow the process
        _cache.clear()
    _cache[key] = units
    return units


def integer(text: str, *, canonical: bool = False) -> int | None:
    """The integer of 64 bits that the comparing operators (Gt, Lt) read a label or taint value as; None if it is none.

    Taints are read more strictly than labels: ``canonical`` forbids leading zeros and a plus.
    """
    if (_CANONICAL if canonical else _INTEGER).fullmatch(text) is None:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def render(resource: str, units: float) -> str:
    """Base units as a person writes them: ``cpu`` 3500 -> "3.5", ``memory`` 2**30 -> "1Gi"."""
    if resource == "cpu":
        return f"{units / 1000:g}"
    whole = int(units)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            size = int(_SUFFIX[suffix])
            if whole >= size:
                return f"{whole / size:.4g}{suffix}"
    return str(whole)
