"""How all commands write names, times and amounts."""

from __future__ import annotations

import re

from gangsched.model.errors import one_line
from gangsched.model.quantity import render


def natural(name: str) -> list[str | int]:
    """For sorting: ``node-10`` after ``node-9``."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", name)]


def clean(text: str) -> str:
    """Names come from strangers: nothing of them may steer the terminal."""
    return "".join(c if c.isprintable() else one_line(c) or " " for c in text)


def clock(seconds: float) -> str:
    """``0:05.010``: minutes, seconds and milliseconds of virtual time."""
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    return f"{minutes}:{rest // 1000:02d}.{rest % 1000:03d}"


def quantity(resource: str, units: int) -> str:
    """``3 CPU``, ``16Gi memory``, ``2 nvidia.com/gpu``."""
    return f"{render(resource, units)} {'CPU' if resource == 'cpu' else resource}"
