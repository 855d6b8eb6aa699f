"""Indexes of Indexed Jobs: the lists in their status, and which come next.

A list is written ``0,3-5,7``, with ranges in ascending order
(https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gangsched.messages import invalid
from gangsched.model.errors import FieldError

_RANGE = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)


def ranges(text: str, field: str) -> list[tuple[int, int]]:
    """The first and the last index of each range. Raises :class:`FieldError`."""
    out: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match is not None else (1, 0)
        if first > last or (out and first <= out[-1][1]):
            raise FieldError(field, invalid.not_indexes(value=text))
        out.append((first, last))
    return out


def how_many(found: Iterable[tuple[int, int]]) -> int:
    """How many indexes there are in these ranges."""
    return sum(last - first + 1 for first, last in found)


def others(found: Iterable[tuple[int, int]], end: int) -> Iterator[int]:
    """The indexes below ``end`` that are in none of these ranges."""
    at = 0
    for first, last in sorted(found):
        yield from range(at, min(first, end))
        at = max(at, last + 1)
    yield from range(at, end)
