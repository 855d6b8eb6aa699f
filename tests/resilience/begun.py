"""Lists of victims of which some were removed and others let off, in an audit log.

Who has begun to evict finishes, also when another process takes over in between: half a list has made room for nobody
and cost somebody. Whatever may have made the rest needless, or the plan impossible, is an excuse.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence

from tests.resilience.audit import Write
from tests.resilience.load import Life

#: The watch shows what has happened so late at most: a plan may not have known of it when it was made.
KNOWN_SECONDS = 2.0


def let_off(owner: tuple[str, str], began: float, marks: Iterable[Sequence[Write]]) -> list[Write]:
    """The writes with which pods that stay lost their mark for a gang and its plan again, after others had ``began`` to
    leave for these. Of each pod its marks and their ends, in order.
    """
    out = []
    for written in marks:
        pairs = itertools.pairwise(written)
        ends = [w for before, w in pairs if owner in before.owners and owner not in w.owners and w.received > began]
        out += ends[:1]
    return out


def excused(begun: float, ended: float, listed: Collection[str], preemptor: str, lives: Iterable[Life]) -> bool:
    """Has anything happened meanwhile that a plan could not know of: room that turned up or was taken, members that
    went, victims that left by themselves?
    """

    def then(at: float | None) -> bool:
        return at is not None and begun - KNOWN_SECONDS <= at <= ended

    for life in lives:
        if life.preemptor == preemptor:
            if then(life.gone_at) or then(life.leaving_at):
                return True
        elif life.uid not in listed and (then(life.bound_at) or then(life.leaving_at) or then(life.gone_at)):
            return True
    return False
