"""What gangs have in common that the same events help."""

from __future__ import annotations

import msgspec
from msgspec.structs import force_setattr

from gangsched.core.state.podclass import PodClass


class Likeness(msgspec.Struct, frozen=True, eq=False):
    """``classes`` are those of the pending members, each once; ``needs`` are the required ones of each gang.
    Classes count by their number. ``queue`` is that of a gang that needs quota: LocalQueue, priority there, the root
    of the cohort tree, and a WorkloadPriorityClass that is missing.
    """

    classes: tuple[PodClass, ...]
    needs: tuple[int, ...]
    scheduler: str
    priority: int
    preempts: bool
    topology: tuple[tuple[tuple[str, bool], ...], ...]
    queue: tuple[str, int, str, str] | None = None
    #: All of the above, and its hash: made once, since all parked gangs are compared by it again and again.
    key: tuple[object, ...] = ()
    number: int = 0

    def __post_init__(self) -> None:
        idents = tuple(c.ident for c in self.classes)
        key = idents, self.needs, self.scheduler, self.priority, self.preempts, self.topology, self.queue
        force_setattr(self, "key", key)
        force_setattr(self, "number", hash(key))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Likeness) and self.key == other.key)

    def __hash__(self) -> int:
        return self.number
