"""Labels and annotations that make gangs or give quota, and keys that are nearly one of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

from gangsched.model.dialects import DIALECTS
from gangsched.model.dialects.owners import GANG
from gangsched.model.queues import QUEUE_LABEL

_KEY = re.compile(r"`([a-z0-9.-]+\.[a-z0-9.-]+(?:/[\w.-]+)?)`")
#: Labels and annotations that make gangs.
KEYS = frozenset(
    (
        GANG,
        QUEUE_LABEL,
        *(key for each in DIALECTS for part in each.documented for text in part.others for key in _KEY.findall(text)),
    )
)
#: How near a key has to be to one of them to be a mistake.
_NEAR = 0.9


class Misspelt(NamedTuple):
    """A key, and the one that is meant."""

    found: str
    meant: str


def misspelt(keys: Iterable[str]) -> Misspelt | None:
    """Return the first of these keys that is nearly one of :data:`KEYS`, and none of them; None if there is none."""
    for key in sorted(set(keys) - KEYS):
        close = difflib.get_close_matches(key, sorted(KEYS), 1, _NEAR)
        if close:
            return Misspelt(key, close[0])
    return None
