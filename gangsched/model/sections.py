"""The base of all parts of the configuration file."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"

#: A duration as Kubernetes writes it: 15s, 1m30s, 500ms.
Duration: TypeAlias = Annotated[str, Meta(pattern=DURATION_PATTERN)]
NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1)]


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of all parts of the configuration."""


def doc(text: str, **bounds: Any) -> Meta:
    """The meaning of a field, for the printed defaults, the JSON Schema and the documentation."""
    return Meta(description=" ".join(text.split()), **bounds)
