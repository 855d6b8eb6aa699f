"""How many random cases the suite plays: a share of them by default, all with ``GANGSCHED_TESTS=all``.

A case that is played is judged as strictly either way; fewer seeds are looked at while somebody waits for the answer.
"""

from __future__ import annotations

import os

VARIABLE = "GANGSCHED_TESTS"


def amount(every: int, share: int) -> int:
    """How many cases a test plays: ``every`` one when all are asked for, else a ``share`` of them."""
    return every if os.environ.get(VARIABLE) == "all" else share
