"""Equal gangs are decided once: what a decision depends on of the gangs themselves.

A refusal holds for every gang with the same signature behind in the queue: such a gang asks for the same, and
sees no more room. It stands until something happens that may help (:class:`.scheduling_queue.UnschedulableGangs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from gangsched.core.decision import Unplaced, Unschedulable, Verdict
from gangsched.core.state.podtable import PodClass
from gangsched.core.world.world import World
from gangsched.model.records import PREEMPT_NEVER, GangId


class Signature(msgspec.Struct, frozen=True, eq=False):
    """What gangs have in common that are refused alike, and helped by the same events.

    ``members`` are the classes of the pending members of each gang in name order (classes count by their number), then
    of those that each announces, ``needs`` how many of them are required. ``queue`` is that of gangs that need quota:
    LocalQueue, priority there, the
    root of the cohort tree, and a WorkloadPriorityClass that is missing. ``own`` is the key of a group of which more
    matters than this, so that it is equal to no other; empty for the rest.
    """

    members: tuple[tuple[PodClass, ...], ...]
    needs: tuple[int, ...]
    scheduler: str
    priority: int
    preempts: bool
    topology: tuple[tuple[tuple[str, bool], ...], ...]
    queue: tuple[str, int, str, str] | None = None
    own: str = ""
    #: The classes of all members, each once.
    classes: tuple[PodClass, ...] = ()
    #: All of the above, and its hash: made once, since gangs are looked up by it again and again.
    key: tuple[object, ...] = ()
    number: int = 0

    def __post_init__(self) -> None:
        found = {c.ident: c for classes in self.members for c in classes}
        idents = tuple(tuple(c.ident for c in classes) for classes in self.members)
        rest = self.needs, self.scheduler, self.priority, self.preempts, self.topology, self.queue, self.own
        force_setattr(self, "classes", tuple(found[ident] for ident in sorted(found)))
        force_setattr(self, "key", (idents, *rest))
        force_setattr(self, "number", hash(self.key))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Signature) and self.key == other.key)

    def __hash__(self) -> int:
        return self.number


def signature_of(world: World, gangs: Sequence[GangId], key: str, *, apart: bool = False) -> Signature:
    """The signature of the gangs of the group with this key. It is ``apart`` if more has happened to it than a
    signature has; so it is when it has members or room already of which a decision takes account.
    """
    membership, class_of = world.membership, world.snapshot.class_of
    census = [membership.census(g) for g in gangs]
    needs = tuple(map(membership.required, gangs, census))
    topology = tuple(membership.topology(spec) for g in gangs if (spec := membership.spec(g)) is not None)
    pending = [p for found in census for p in found.pending]
    members = [*(found.pending for found in census), *map(membership.absent_at_start, gangs)]
    bound = any(found.bound for found in census) and (any(needs) or any(topology))
    gated = any(found.gated for found in census)
    held = key in world.ledger.holders() or any(p.nominated_node for p in pending)
    own = apart or bound or gated or held or world.managed.rooms_of(pending)
    return Signature(
        tuple(tuple(map(class_of, found)) for found in members),
        needs,
        gangs[0].scheduler,
        membership.preemptor_priority(gangs),
        membership.policy(gangs) != PREEMPT_NEVER,
        topology,
        world.managed.signature(gangs),
        key if own else "",
    )


def speaks_for_others(refusal: Unschedulable) -> bool:
    """Is it about nothing but what the signature has? Not if it is one for some time, or tells of a mistake."""
    return refusal.retry_at is None and not refusal.failed_plugin and not refusal.warnings


def said_of(world: World, found: Verdict, gangs: Sequence[GangId]) -> Verdict:
    """A refusal as it reads for other gangs that are equal: their pending members, in name order, stand for those of
    the gangs that it was decided for.
    """
    membership, names = world.membership, dict[str, str]()
    for decision, gang in zip(found.decisions, gangs, strict=True):
        mine = (p.key for p in membership.census(gang).pending)
        names.update(zip((u.pod for u in decision.unplaced), mine, strict=True))
    decisions = []
    for decision, gang in zip(found.decisions, gangs, strict=True):
        spec = membership.spec(gang)
        said: dict[str, Any] = {
            "gang": gang,
            "kind": spec.kind if spec is not None else decision.kind,
            "group": () if len(gangs) == 1 else tuple(g.key for g in gangs),
            "unplaced": tuple(Unplaced(names[u.pod], u.reasons) for u in decision.unplaced),
        }
        if isinstance(decision, Unschedulable):
            said["blockers"] = tuple(sorted(names[pod] for pod in decision.blockers))
        decisions.append(msgspec.structs.replace(decision, **said))
    return Verdict(tuple(decisions))
