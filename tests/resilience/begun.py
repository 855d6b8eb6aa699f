"""Lists of victims of which some were removed and others let off, in an audit log.

Who has begun to evict finishes, also when another process takes over in between: half a list has made room for nobody
and cost somebody. Whatever may have made the rest needless, or the plan impossible, is an excuse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tests.resilience.audit import MARK, Write
from tests.resilience.load import Life

#: The watch shows what has happened so late at most: a plan may not have known of it when it was made.
KNOWN_SECONDS = 2.0


def let_off(
    listed: Collection[str],
    removed: Mapping[str, Write],
    marks_of: Callable[[str], Sequence[Write]],
) -> list[Write]:
    """The writes with which victims of a list lost their mark again, although ``removed`` (by UID, the first removals)
    says that others of it had gone by then. ``marks_of`` has the marks of a pod and their ends, in order.
    """
    gone = [removed[uid].received for uid in listed if uid in removed]
    if not gone:
        return []
    out = []
    for uid in sorted(set(listed) - removed.keys()):
        ends = [w for w in marks_of(uid) if w.kind != MARK and w.received > min(gone)]
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
