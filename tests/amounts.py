"""How many random cases the suite plays: a share of them by default, all with ``GANGSCHED_TESTS=all``.

A case that is played is judged as strictly either way; fewer seeds are looked at while somebody waits for the answer.
"""

from __future__ import annotations

import os
import secrets

VARIABLE = "GANGSCHED_TESTS"


def amount(every: int, share: int) -> int:
    """How many cases a test plays: ``every`` one when all are asked for, else a ``share`` of them."""
    return every if os.environ.get(VARIABLE) == "all" else share


def fresh_seed() -> int:
    """Return a seed that no run has played yet, or the one of this commit where EVERYDAY_FIRST says it."""
    given = os.environ.get("EVERYDAY_FIRST")
    return int(given) if given else secrets.randbelow(10**9)
