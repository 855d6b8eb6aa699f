"""Equal gangs are decided once: what a decision depends on of the gangs themselves.

A refusal holds for every gang with the same signature behind in the queue: such a gang asks for the same, and
sees no more room. It stands until something happens that may help (:class:`.scheduling_queue.UnschedulableGangs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby, repeat
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from gangsched.core.decision import Decision, Unplaced, Unschedulable, Verdict
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.state.podtable import PodClass
from gangsched.core.world.world import World
from gangsched.model.parts import constrained
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


def signature_of(world: World, ledger: Ledger, gangs: Sequence[GangId], key: str, *, apart: bool = False) -> Signature:
    """The signature of the gangs of the group with this key. It is ``apart`` if more has happened to it than a
    signature has, such as members or room of which a decision takes account.
    """
    membership, class_of = world.membership, world.snapshot.class_of
    census = [membership.census(g) for g in gangs]
    needs = tuple(map(membership.required, gangs, census))
    specs = [spec for g in gangs if (spec := membership.spec(g)) is not None]
    topology = tuple(map(membership.kept_together, specs))
    of_parts = any(spec.parts is not None and constrained(spec.parts) is not None for spec in specs)
    pending = [p for found in census for p in found.kinds]
    members = [*(found.pending for found in census), *map(membership.absent_at_start, gangs)]
    bound = any(found.bound for found in census) and (any(needs) or any(topology))
    gated = any(found.gated for found in census)
    held = key in ledger.holders() or any(p.nominated_node for p in pending)
    own = apart or of_parts or bound or gated or held or world.managed.rooms_of(pending)
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
    """Return True if the refusal depends only on what the signature has. One that holds for some time, or that reports
    a mistake, depends on more.
    """
    return refusal.retry_at is None and not refusal.failed_plugin and not refusal.warnings


class Refusal:
    """A refusal as it is kept for gangs that are equal: their pending members, in name order, stand for those of the
    gangs that it was decided for. Of these it has the numbers, and not the names.
    """

    __slots__ = ("_blockers", "_reasons", "_verdict")

    def __init__(self, verdict: Verdict) -> None:
        at = {u.pod: n for n, u in enumerate(u for d in verdict.decisions for u in d.unplaced)}
        #: Of each decision, of how many members one after another the reasons are the same; and who blocks.
        self._reasons = tuple(
            tuple((why, len([*found])) for why, found in groupby(d.unplaced, lambda u: u.reasons))
            for d in verdict.decisions
        )
        self._blockers = tuple(
            _runs(sorted(at[pod] for pod in d.blockers)) if isinstance(d, Unschedulable) else ()
            for d in verdict.decisions
        )
        self._verdict = Verdict(tuple(_without_names(d) for d in verdict.decisions))

    def said_of(self, world: World, gangs: Sequence[GangId]) -> Verdict:
        """Return the refusal as it reads for these gangs."""
        membership = world.membership
        mine = [[p.key for p in membership.census(gang).pending] for gang in gangs]
        names = [*chain.from_iterable(mine)]
        decisions = []
        for decision, gang, own, reasons, blockers in zip(
            self._verdict.decisions, gangs, mine, self._reasons, self._blockers, strict=True
        ):
            spec = membership.spec(gang)
            each = chain.from_iterable(repeat(why, count) for why, count in reasons)
            said: dict[str, Any] = {
                "gang": gang,
                "kind": spec.kind if spec is not None else decision.kind,
                "group": () if len(gangs) == 1 else tuple(g.key for g in gangs),
                "unplaced": tuple(Unplaced(name, why) for name, why in zip(own, each, strict=True)),
            }
            if isinstance(decision, Unschedulable):
                said["blockers"] = tuple(sorted(names[n] for run in blockers for n in run))
            decisions.append(msgspec.structs.replace(decision, **said))
        return Verdict(tuple(decisions))


def _without_names(decision: Decision) -> Decision:
    bare = msgspec.structs.replace(decision, unplaced=())
    return msgspec.structs.replace(bare, blockers=()) if isinstance(bare, Unschedulable) else bare


def _runs(numbers: Sequence[int]) -> tuple[range, ...]:
    """Ascending numbers as ranges."""
    out: list[range] = []
    for number in numbers:
        if out and out[-1].stop == number:
            out[-1] = range(out[-1].start, number + 1)
        else:
            out.append(range(number, number + 1))
    return tuple(out)
