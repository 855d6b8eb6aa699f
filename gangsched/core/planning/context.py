"""Where the members of one gang could go: the cluster as they may see it, and the placements tried in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Ints, isin, union
from gangsched.core.decision import Flavors, Placement, group_key
from gangsched.core.ledger.backfill import both, kept_nodes
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.ledger.reservation import Turn, announced_by
from gangsched.core.options import Options
from gangsched.core.placement.placer import Placed, Placer, Want
from gangsched.core.planning.part_tree import Assignment
from gangsched.core.planning.parts import Lack, Parts, is_made_of_parts
from gangsched.core.planning.topology import Domain, DomainDemand, Topology, all_as_nominated
from gangsched.core.preemption.patience import Patience
from gangsched.core.quota.assignment import NO_QUOTA, NoQuota, QuotaAssignment
from gangsched.core.state.podtable import TERMINATING
from gangsched.core.state.simulation import Classes, Restriction, Simulation
from gangsched.core.watchdog import Watchdog
from gangsched.core.world.kept_room import as_now, renew_classes, taken_room
from gangsched.core.world.world import World, queue_order
from gangsched.model.constraints import NOT_IN, NodeTerm, Requirement
from gangsched.model.queues import foreign_queue
from gangsched.model.records import PREEMPT_NEVER, GangId, Pod

#: So many choices of the parts that start are tried.
MAX_CHOICES = 16
#: No slots.
NO_PODS: Ints = np.zeros(0, dtype=np.int64)


class Pause(NamedTuple):
    """A gang evicts no pod ``until`` then (seconds), because of this."""

    until: float
    why: str


NO_PAUSE = Pause(0.0, "")


class Question(msgspec.Struct, frozen=True):
    """Questions about the gangs of one group."""

    gangs: Sequence[GangId]
    may_preempt: bool = True
    #: Before it is over the gang evicts no pod.
    pause: Pause = NO_PAUSE
    #: By UID, the node to try first; without it a member's own nomination is.
    prefer: Mapping[str, str] = {}
    #: When the gang first could not be placed (None: when its oldest pending member was created).
    waiting_since: float | None = None
    #: Only room that is there now will do: nothing is waited for, and no pod evicted.
    at_once: bool = False
    #: It is to use the room that it holds: what is kept for gangs ahead in the queue does not count, nor, where its
    #: plan has its members, what is kept for plans that were made later.
    holding: bool = False
    #: By UID, nodes that a member must not go to.
    keep_off: Mapping[str, Collection[str]] = {}
    #: Members beyond the minimum do not join in room that is free: others of the same priority have their turn first.
    minimum_first: bool = False
    #: What is gone later than this (seconds) is taken to stay.
    wait_until: float = math.inf
    #: Nor is a pod evicted that would be gone later than that.
    spare_slow: bool = False
    #: Before then (seconds) no room is held for it while it waits for pods that leave.
    no_hold_until: float = 0.0
    #: Members that are announced and do not exist yet need their room too.
    announced: bool = True
    #: No member is placed: of those that are no pods yet there is one of each kind.
    kinds: bool = False

    @property
    def plain(self) -> bool:
        """True if the question asks for no special treatment of nodes."""
        return not (self.prefer or self.keep_off or self.holding)


class KnownPlan(msgspec.Struct, frozen=True):
    """A plan to test: these members on these nodes, without the pods ``gone`` (UIDs), and without terminating ones
    unless they count as staying. ``flavors`` are those that members (UIDs) are to be given; others have theirs, or
    those of their node. ``absent`` are expected members.
    """

    gangs: Sequence[GangId]
    placements: Sequence[Placement] = ()
    gone: Collection[str] = ()
    terminating_leave: bool = True
    flavors: Mapping[str, Flavors] = {}
    absent: Sequence[Pod] = ()


class Standing(NamedTuple):
    """Whether the members of a plan still fit on their nodes, in one domain where that is required and within their
    quota. For absent members it has the nodes with room beside them.
    """

    holds: bool
    absent: Sequence[tuple[Pod, str]] = ()


class SchedulingContext:
    """The members of one gang, and the cluster as they may see it. A ``gate`` is what quota makes of them."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        options: Options,
        placer: Placer,
        watchdog: Watchdog,
        asked: Question,
        gate: QuotaAssignment | NoQuota = NO_QUOTA,
    ) -> None:
        self.gate = gate
        self.asked = asked
        self.watchdog = watchdog
        self.world = world
        self.ledger = ledger
        self.options = options
        self.placer = placer
        self.gangs = tuple(asked.gangs)
        self.group = group_key(self.gangs)
        self.now = world.now
        world.snapshot.align_rows()
        member = self.world.membership
        self.priority = member.preemptor_priority(self.gangs)
        spec = member.spec(self.gangs[0])
        queue = foreign_queue(spec.family, spec.queue_name) if spec is not None and spec.queue_name else ""
        self.patience = Patience(member, self.world.classes, options, world.sightings.began_at, self.priority, queue)
        self.census = {g: copy(member.census(g)) for g in self.gangs}
        renew_classes(world, ledger, self.priority, (p for census in self.census.values() for p in census.kinds))
        self._classes = Classes(world.snapshot)
        self._turn: Turn | None = None if asked.holding else queue_order(self.world, self.gangs)
        self.ahead = self.ledger.turns.ahead(self._turn) if self._turn is not None else []
        #: What the gangs ahead keep from it under the strict queue policy.
        self.ahead_restriction: Restriction | None = None
        if self.ahead and self.ledger.turns.strict:
            self.ahead_restriction = kept_nodes(self.ahead, Simulation(world.snapshot))
        self.needs = {g: member.required(g, self.census[g]) for g in self.gangs}
        for census in self.census.values():
            census.pending = [
                kept_off(gate.member(p), asked.keep_off[p.uid]) if p.uid in asked.keep_off else gate.member(p)
                for p in (census.kinds if asked.kinds else census.pending)
            ]
        #: Stand-ins, by UID, for members that a gang announces, none of which runs yet: they need their room too.
        self.announced: dict[str, Pod] = {}
        for gang, census in self.census.items():
            known = member.absent_at_start(gang, kinds=asked.kinds) if asked.announced else []
            absent = [gate.member(pod) for pod in known]
            self.announced.update((pod.uid, pod) for pod in absent)
            census.pending = [*census.pending, *absent]
        self.wants = [] if asked.kinds else self._wants()
        self.required = sum(self.needs.values())
        #: Keys of the groups that hold room for these gangs: their own, and those of Jobs that have just gone on.
        self._mine = {
            self.group,
            announced_by(self.group),
            *world.managed.rooms_of(p for c in self.census.values() for p in c.kinds),
        }
        #: The parts of the gangs, where some part has a topology of its own.
        made_of_parts = any(map(is_made_of_parts, map(member.spec, self.gangs)))
        self.parts = Parts(world, placer, self.census, self._constraints(), self.wants) if made_of_parts else None
        around = self._constraints() if self.parts is None else ()
        self.topology = Topology(self.world.snapshot, around, self._bound())
        if self.parts is not None:
            self.topology.problem = self.parts.tree.problem
        #: Where the gang is being tried; None while that is not settled or is the whole cluster.
        self.domain: Domain | None = None
        self.left_out = False
        self._joining: Sequence[Pod] | None = None
        #: Keys of the plans that take nothing from the gang where it is being tried.
        self._later: frozenset[str] = frozenset()

    def _wants(self) -> list[Want]:
        """The required members of each gang, and those that are announced."""
        return [*(self._want(g) for g in self.gangs if self.needs[g]), *self._wants_announced()]

    def _wants_announced(self) -> list[Want]:
        return [Want(tuple(self.announced.values()), len(self.announced))] if self.announced else []

    def _want(self, gang: GangId) -> Want:
        """The members of which the required ones are chosen."""
        needed = self.needs[gang]
        there = [p for p in self.census[gang].pending if p.uid not in self.announced]
        pending = self.world.membership.chosen(gang, there, needed)
        return Want(tuple(self.gate.choose(pending, needed)), needed)

    def _constraints(self) -> tuple[tuple[str, bool], ...]:
        """The gang's topology constraint; of a GangGroup, that of the first gang that has one."""
        membership = self.world.membership
        specs = map(membership.spec, self.gangs)
        return next((membership.topology(spec) for spec in specs if spec is not None and spec.topology), ())

    def _bound(self) -> list[tuple[str, int]]:
        table = self.world.snapshot.table
        slots = ((p.key, table.slot_of.get(p.uid)) for census in self.census.values() for p in census.bound)
        return [(key, int(table.row[slot])) for key, slot in slots if slot is not None and table.row[slot] >= 0]

    @property
    def in_domains(self) -> bool:
        """True if some members have to be in one domain."""
        return self.topology.constrained or self.parts is not None

    # -- parts ---------------------------------------------------------------------------------------------

    @cached_property
    def choices(self) -> list[Parts]:
        """The parts, with each choice of those that start; of choices that are alike one."""
        if self.parts is None:
            return []
        self.assign(None)
        found = {self.parts.fingerprint: self.parts}
        gang, member = self.gangs[0], self.world.membership
        spec, census = member.spec(gang), self.census[gang]
        if spec is not None and len(self.gangs) == 1 and self.needs[gang]:
            pending = [p for p in census.pending if p.uid not in self.announced]
            for short in member.starting_choices(gang, MAX_CHOICES)[1:]:
                needed = member.required_beside(gang, spec, census, short)
                members = member.chosen(gang, pending, needed, short)[:needed]
                wants = [Want(tuple(members), len(members)), *self.parts.wants[1:]]
                other = Parts(self.world, self.placer, self.census, self._constraints(), wants)
                found.setdefault(other.fingerprint, other)
        return [*found.values()]

    def choose(self, parts: Parts) -> None:
        """From now on these parts are tried, anywhere."""
        self.parts = parts
        self.assign(None)

    def assign(self, assignment: Assignment | None) -> None:
        """From now on each part is tried in the domain that it has by this; None: anywhere."""
        if self.parts is not None:
            now = self.parts.assign(assignment)
            self._joining, self._classes = None, Classes(self.world.snapshot)
            self.announced = {uid: now[uid] for uid in self.announced}
            self.wants = [Want(tuple(now[p.uid] for p in want.members), want.required) for want in self.parts.wants]

    def _in_parts(self, parts: Parts, leaving: Ints, later: frozenset[str]) -> tuple[Simulation, Placed] | None:
        """The members where they would go, each part in a domain of its own."""
        self._later = later
        self.choose(parts)
        sim = self.simulation(leaving)
        wishes = self.nominated(sim)
        for assignment in parts.assignments(sim, wishes):
            self.assign(assignment)
            sim = self.simulation(leaving)
            placed = self.placer.required(self.wants, sim, wishes)
            fits = placed.complete and (not self._later or all_as_nominated(wishes, placed.rows))
            if fits and parts.allow(placed.rows) and self.anything(placed, sim):
                return sim, placed
        self.left_out |= parts.left_out
        return None

    def further_parts(self, sim: Simulation, placed: Mapping[str, int]) -> tuple[dict[str, int], Assignment | None]:
        """The rows of whole parts that may join the members ``placed`` (UIDs), and the assignment with these parts."""
        if self.parts is None:
            return {}, None
        return self.parts.further(sim, self._classes, placed, self.nominated(sim))

    def assign_nearest(self, leaving: Ints) -> bool:
        """Assign the parts to the domains that come nearest to holding them once these pods (slots) are gone. Returns
        whether members lack room even then.
        """
        if self.parts is None:
            return False
        self.choose(self.choices[0])
        assignment, short = self.parts.nearest(self.simulation(leaving))
        self.assign(assignment)
        return short

    def lack(self, leaving: Ints = NO_PODS) -> Lack | None:
        """The part that lacks most room where it is tried, once these pods (slots) are gone."""
        members = [pod for want in self.wants for pod in want.members]
        return self.parts.lack(members, self.simulation(leaving)) if self.parts is not None else None

    # -- simulations ---------------------------------------------------------------------------------------

    def simulation(self, leaving: Ints = NO_PODS) -> Simulation:
        """The cluster as this gang may see it once these pods (slots) are gone. Room held by others of at least its
        priority is taken, and so is what is left to pods of other schedulers.
        """
        restriction = both(self.domain.restriction if self.domain is not None else None, self.ahead_restriction)
        held = taken_room(self.world, self.ledger, self.priority, self._turn, {*self._mine, *self._later})
        sim = Simulation(self.world.snapshot, held, restriction, self.placer.pipeline.unlimited, self._classes)
        if len(leaving):
            sim.lift_all(leaving)
        return sim

    def planned(self, leaving: Ints = NO_PODS) -> Simulation:
        """The same without those that are not there in the planned future."""
        return self.simulation(union(self.terminating(), leaving))

    def at(self, placements: Iterable[tuple[str, str]], leaving: Ints) -> Simulation:
        """Return the simulation for members that are at these places, ``(UID, node)``. If these are the gang's own
        plan, plans that were made after it, with that room taken, take nothing from it, whether or not their victims
        have left: it cannot count on these.
        """
        held = {(place.uid, place.node) for place in self.ledger.pods_of(self.group)}
        self._later = self._later_plans() if held.issuperset(placements) else frozenset()
        return self.simulation(leaving)

    def _later_plans(self) -> frozenset[str]:
        return frozenset(self.ledger.condemned.after(self.group))

    def hold_later(self, sim: Simulation) -> None:
        """Members have their places as planned: for others the room of later plans is taken."""
        rows = sim.snapshot.row_of
        kept = (pod for holder in sorted(self._later) for pod in self.ledger.pods_of(holder))
        for each in as_now(self.world, kept):
            if each.node in rows:
                sim.place(each.pod, rows[each.node])

    def slots(self, uids: Iterable[str]) -> Ints:
        """The slots of these pods, as far as they are known, ascending."""
        slot_of = self.world.snapshot.table.slot_of
        return np.array(sorted({slot_of[uid] for uid in uids if uid in slot_of}), dtype=np.int64)

    def condemned(self, *, weaker: bool = True) -> Ints:
        """Slots of the pods that plans under way remove, as far as this gang may count on them; unless ``weaker``,
        other than for plans whose room it could take. With a plan of its own it has taken what it needs of that.
        """
        known = self.ledger.condemned
        table, uids = self.world.snapshot.table, known.gone_for(self.group, self.priority)
        paused = self.asked.pause.until > self.now
        may_evict = not paused and self.world.membership.policy(self.gangs) != PREEMPT_NEVER
        if weaker and may_evict and self.evicts_for_announced and self.group not in known.evictions:
            # It would own them, and the weaker plans be withdrawn: so it must have the right to take them itself.
            uids = list({*uids, *filter(self._may_own, known.gone_for(self.group))})
        slots = (slot for uid in uids if (slot := table.slot_of.get(uid)) is not None and table.row[slot] >= 0)
        return np.array(sorted(s for s in slots if not table.flags[s] & TERMINATING), dtype=np.int64)

    @property
    def evicts_for_announced(self) -> bool:
        """Return whether pods may be evicted for all members that are asked about, announced ones included.
        Quota is charged for those, and bounds what is evicted for them.
        """
        return self.options.announced_evict or not self.announced or not isinstance(self.gate, NoQuota)

    def _may_own(self, uid: str) -> bool:
        """Return whether the gang could evict a pod that a weaker plan removes. Between two gangs with quota the rules
        of queues decide that, so it names the pod among its own victims or does not get it.
        """
        world, pod = self.world, self.world.pods[uid]
        if world.managed.is_managed(self.gangs) and world.managed.is_managed(world.membership.group(pod.gang)[0]):
            return False
        return pod.priority < self.priority

    def terminating(self, *, ever: bool = False) -> Ints:
        """Slots of the pods that are not there in the planned future: terminating and condemned ones. If they are to be
        gone ``ever``, this includes pods that are not waited for.
        """
        return self.futures(math.inf if ever else None)[-1]

    def futures(self, until: float | None = None) -> list[Ints]:
        """The planned future in two parts. The first has the pods that terminate or whose plans this gang cannot break.
        They are the same to it, since the one becomes the other at any moment. The second has all, if there are more.
        """
        until = self.asked.wait_until if until is None else until
        out = [self._gone_by(until, self._terminating)]
        if self.ledger.condemned.records:
            surely, perhaps = self.condemned(weaker=False), self.condemned()
            out = [np.sort(np.concatenate([out[0], self._gone_by(until, slots)])) for slots in (surely, perhaps)]
        return out if len(out[-1]) > len(out[0]) else out[:1]

    @cached_property
    def _terminating(self) -> Ints:
        """Slots of the pods that are on their way out, and not overdue."""
        table = self.world.snapshot.table
        slots = table.occupied()
        leaving: Ints = slots[(table.flags[slots] & TERMINATING) != 0]
        overdue = self.world.sightings.overdue
        if overdue:
            leaving = leaving[~isin(leaving, [table.slot_of[uid] for uid in overdue if uid in table.slot_of])]
        return leaving

    def _gone_by(self, until: float, leaving: Ints) -> Ints:
        """Return those of these slots whose pods should be gone by then (seconds)."""
        if until == math.inf:
            return leaving
        pods = self.world.snapshot.table.pods
        soon = ((pod := pods[s]) is not None and self.world.leaves_by(pod) <= until for s in leaving.tolist())
        return leaving[np.fromiter(soon, dtype=np.bool_, count=len(leaving))]

    def ignore_turns(self) -> None:
        """From now on as if nothing were kept for gangs ahead of this one."""
        self.ahead, self.ahead_restriction, self._turn = [], None, None

    def nominated(self, sim: Simulation) -> dict[str, int]:
        """Rows that members are already nominated to; they are tried first."""
        rows = sim.snapshot.row_of
        wishes = ((p.uid, self.asked.prefer.get(p.uid) or p.nominated_node) for p in self.pending)
        return {uid: rows[node] for uid, node in wishes if node in rows}

    def anything(self, placed: Placed, sim: Simulation) -> bool:
        """With nothing required, a decision to bind needs at least one further member that fits."""
        if self.required:
            return True
        mark = sim.mark()
        extras = self.placer.extras(self.others(placed), sim, self.nominated(sim))
        sim.rollback(mark)
        found = bool(extras.rows or self.further_parts(sim, placed.rows)[0])
        sim.rollback(mark)
        return found

    @property
    def pending(self) -> list[Pod]:
        """The pending members of all gangs."""
        return [p for g in self.gangs for p in self.census[g].pending]

    def absent(self) -> list[Pod]:
        """Stand-ins for the members that these gangs announce, whether or not they are part of the question."""
        return [self.gate.member(pod) for gang in self.gangs for pod in self.world.membership.absent_at_start(gang)]

    def others(self, placed: Placed) -> list[Pod]:
        """Further members that may join."""
        if self._joining is None:
            asked = {p.uid for want in self.wants for p in want.members}
            free = [p for p in self.pending if p.uid not in asked]
            parts = self.parts
            self._joining = self.gate.joining(free if parts is None else [p for p in free if parts.may_join(p)])
        candidates = [p for want in self.wants for p in want.members] + [*self._joining]
        return [p for p in candidates if p.uid not in placed.rows]

    def usable(self, sim: Simulation) -> Bools:
        """``(N,)``: nodes that some member might use."""
        usable = np.zeros(sim.snapshot.size, dtype=np.bool_)
        classes = {c.ident: c for want in self.wants for c in map(sim.class_of, want.members)}
        for pod_class in classes.values():
            usable |= self.placer.pipeline.static_mask(pod_class, sim)
        return usable

    def cluster(self) -> dict[str, float]:
        """Allocatable of each resource in the whole cluster."""
        snapshot = self.world.snapshot
        return dict(zip(snapshot.resources, snapshot.allocatable.sum(axis=1).tolist(), strict=True))

    # -- placements ----------------------------------------------------------------------------------------

    def fit(self, leaving: Ints) -> tuple[Simulation, Placed] | None:
        """The members where they would go once these pods (slots) are gone; None when they do not fit even then."""
        later = self._later_plans() if self.asked.holding and self.required else frozenset()
        tried = (self._fit(leaving, plans) for plans in ((later, frozenset()) if later else (frozenset(),)))
        return next((found for found in tried if found is not None), None)

    def _fit(self, leaving: Ints, later: frozenset[str]) -> tuple[Simulation, Placed] | None:
        """The same with the room of these ``later`` plans, if there are any just where the gang's own plan has it."""
        if self.parts is not None:
            tried = (self._in_parts(parts, leaving, later) for parts in self.choices)
            return next((found for found in tried if found is not None), None)
        self.domain, self._later = None, later
        sim = self.simulation(leaving)
        wishes = self.nominated(sim)
        for domain, as_wished in self._domains(sim, wishes):
            self.domain = domain
            if self.topology.constrained:
                sim = self.simulation(leaving)
            placed = self.placer.required(self.wants, sim, wishes)
            fits = placed.complete and (not (as_wished or self._later) or all_as_nominated(wishes, placed.rows))
            if fits and self.anything(placed, sim):
                return sim, placed
        return None

    def staying(self, uids: Iterable[str]) -> Ints:
        """The slots of those of these pods that are on a node and not on their way out."""
        table, slots = self.world.snapshot.table, self.slots(uids)
        staying: Ints = slots[(table.row[slots] >= 0) & ((table.flags[slots] & TERMINATING) == 0)]
        return staying

    def holds(
        self,
        placements: Sequence[Placement],
        victims: Iterable[str],
        placed: Callable[[Pod, str], Pod],
        *,
        terminating_leave: bool,
    ) -> bool:
        """Return True if these members fit on these nodes, one after another as ``placed`` there, without the victims
        (UIDs). With ``terminating_leave``, terminating pods are left out, too.
        """
        leaving = self.staying(victims)
        if terminating_leave:
            leaving = union(self.terminating(), leaving)
        sim = self.at(((p.uid, p.node) for p in placements), leaving)
        rows = sim.snapshot.row_of
        found = {p.uid: rows[p.node] for p in placements if p.node in rows}
        if not self.topology.allows([*found.values()]):
            return False
        if self.parts is not None and not self.parts.allow(found):
            return False
        pending = {p.uid: p for p in self.pending}
        if not all(place.uid in pending and place.node in rows for place in placements):
            return False
        class_of = sim.snapshot.class_of
        places = ((rows[place.node], class_of(placed(pending[place.uid], place.node))) for place in placements)
        return self.placer.pipeline.hold(places, sim)

    def stays(self, now: Simulation, placed: Placed) -> bool:
        """Return True if members that fit now still fit where they are in the planned future. They may need a pod
        beside them that leaves.
        """
        pending = {p.uid: p for p in self.pending}
        class_of, pipeline = self.world.snapshot.class_of, self.placer.pipeline
        members = [(row, class_of(pending[uid])) for uid, row in placed.rows.items() if uid in pending]
        classes = {pod.ident: pod for _, pod in members}
        if all(pipeline.only_counts(pod, now) for pod in classes.values()):
            return True
        leaving = self.terminating(ever=True)
        if not len(leaving):
            return True
        return pipeline.hold(members, self.simulation(leaving))

    def _domains(self, sim: Simulation, wishes: Mapping[str, int]) -> Iterator[tuple[Domain, bool]]:
        """Where to try the gang: the domain that it is nominated to, then the narrowest that might hold it, then wider
        ones. With True, only the nominated nodes count: the gang would rather have a narrower domain than others.
        """
        topology = self.topology
        if not topology.constrained:
            yield topology.domain(0, 0), False
            return
        home = topology.home(list(wishes.values()))
        if home is not None:
            yield home, home.level > 0
        demand = self.demand(sim)
        for level in range(len(topology.levels)):
            found, cut = topology.packed(level, demand, sim.free)
            yield from ((domain, False) for domain in found)
            self.left_out |= cut

    def demand(self, sim: Simulation) -> DomainDemand:
        """The demand of pending and announced members, for counting."""
        wants = [w for g in self.gangs if (w := self._want(g)).members]
        return DomainDemand(self.placer.pipeline, sim, [*wants, *self._wants_announced()])


def kept_off(pod: Pod, nodes: Collection[str]) -> Pod:
    """The pod with a node affinity that leaves these nodes (names) out, beside what it asks for anyway."""
    out = Requirement("metadata.name", NOT_IN, tuple(sorted(nodes)))
    asked = pod.shape.node_terms
    # Of terms one must hold, and one without any requirement never does.
    real = (NodeTerm(),) if asked is None else tuple(t for t in asked if t.expressions or t.fields)
    terms = tuple(NodeTerm(t.expressions, (*t.fields, out)) for t in real)
    return msgspec.structs.replace(pod, shape=msgspec.structs.replace(pod.shape, node_terms=terms))
