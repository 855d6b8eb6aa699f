"""What gangs have in common that the same events help."""

from __future__ import annotations

import msgspec

from gangsched.core.state.podclass import PodClass


class Likeness(msgspec.Struct, frozen=True, eq=False):
    """``classes`` are those of the pending members, each once; ``needs`` are the required ones of each gang.
    Classes count by their number. ``queue`` is that of a gang that needs quota: LocalQueue, priority there, and the
    root of the cohort tree.
    """

    classes: tuple[PodClass, ...]
    needs: tuple[int, ...]
    scheduler: str
    priority: int
    preempts: bool
    topology: tuple[tuple[tuple[str, bool], ...], ...]
    queue: tuple[str, int, str] | None = None

    def _key(self) -> tuple[object, ...]:
        idents = tuple(c.ident for c in self.classes)
        return idents, self.needs, self.scheduler, self.priority, self.preempts, self.topology, self.queue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Likeness) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
