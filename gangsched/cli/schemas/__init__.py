"""The published JSON Schemas of what the commands print."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def read_schema(name: str) -> dict[str, Any]:
    """A schema by its file name without the ending, such as ``plan-v1``. Raises FileNotFoundError."""
    text = files(__package__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
