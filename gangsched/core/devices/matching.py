"""Whether a device matches selectors, evaluated once for all devices that do not differ in what these read.

What a selector reads is known if it is a plain comparison of fields by name, as most are. Others are evaluated for each
device.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache

from gangsched.model import cel
from gangsched.model.devices import Device

#: Answers that are kept.
_LIMIT = 100_000
_FIELD = re.compile(r"device\.(attributes|capacity)\[(?:'([^'\"\\]*)'|\"([^'\"\\]*)\")\]\.([A-Za-z_]\w*)")
#: All that a plain comparison consists of beside fields.
_REST = re.compile(
    r"device\.driver(?!\w)|'[^'\"\\]*'|\"[^'\"\\]*\"|quantity\(|semver\(|\.(?:compareTo|isLessThan|isGreaterThan)\("
    r"|\btrue\b|\bfalse\b|\b\d+\b|&&|\|\||[=!<>]=|[<>!()\s-]"
)


@lru_cache(maxsize=4096)
def read_by(text: str) -> tuple[tuple[str, str, str], ...] | None:
    """Return the fields that a selector reads beside the driver: kind, domain and name; None if that is unknown."""
    if _REST.sub("", _FIELD.sub("", text)):
        return None
    return tuple((kind, one or other, name) for kind, one, other, name in _FIELD.findall(text))


class Matches:
    """Answers for pairs of selector and device."""

    def __init__(self) -> None:
        self._known: dict[Hashable, bool | str] = {}

    def all(self, selectors: tuple[str, ...], device: Device) -> bool | str:
        """Return whether all selectors match, the first that does not ends it; or why one has failed."""
        for text in selectors:
            found = self._one(text, device)
            if found is not True:
                return found
        return True

    def _one(self, text: str, device: Device) -> bool | str:
        fields = read_by(text)
        if fields is None:
            return _evaluated(text, device)
        key = (text, device.seen.driver, *(_value(device, *field) for field in fields))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _LIMIT:
                self._known.clear()
            found = self._known[key] = _evaluated(text, device)
        return found


def _value(device: Device, kind: str, domain: str, name: str) -> str:
    """The value of a field, with its type."""
    seen = device.seen
    named = seen.attributes if kind == "attributes" else seen.capacity
    found = named.get(f"{domain}/{name}")
    if found is None and domain == seen.driver:
        found = named.get(name)
    return repr(found)


def _evaluated(text: str, device: Device) -> bool | str:
    try:
        return cel.compile_selector(text).matches(device.seen)
    except (cel.ExpressionError, cel.EvaluationError) as error:
        return str(error) or type(error).__name__
