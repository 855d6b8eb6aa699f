"""How messages write numbers of things, and lists of names."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, what: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and how many there are beside them."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
