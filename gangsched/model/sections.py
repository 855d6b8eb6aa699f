"""What all parts of the configuration file are made of."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

#: A duration as Kubernetes writes it: 15s, 1m30s, 500ms.
Duration: TypeAlias = Annotated[str, Meta(pattern=DURATION_PATTERN)]
NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1)]


def duration_seconds(text: str) -> float:
    """``1m30s`` as 90.0. The text must match :data:`DURATION_PATTERN`."""
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(text))


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of all parts of the configuration."""


def doc(text: str, **bounds: Any) -> Meta:
    """What a field means, for the printed defaults, the JSON Schema and the documentation."""
    return Meta(description=" ".join(text.split()), **bounds)
