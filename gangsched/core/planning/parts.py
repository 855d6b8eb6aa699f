"""The parts of the gangs that are decided together: the domains in which they are tried, and what may join them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from gangsched.core.placement.placer import Placer, Want
from gangsched.core.planning.part_costs import RoomPrices, Shortage
from gangsched.core.planning.part_table import PartTable
from gangsched.core.planning.part_tree import Assignment, Keys, Labels, Leaf, PartTree, Wanted, tree_of
from gangsched.core.planning.topology import MAX_PLACEMENTS
from gangsched.core.state.census import Census
from gangsched.core.state.simulation import Classes, Simulation
from gangsched.core.world.world import World
from gangsched.model.constraints import PodShape
from gangsched.model.dialects import role_of
from gangsched.model.parts import constrained, further
from gangsched.model.records import Gang, GangId, Pod

#: So many assignments are tried for each part that joins.
_JOINS = 4
_NO_ROWS: Mapping[str, int] = {}


def is_made_of_parts(spec: Gang | None) -> bool:
    """Return True if some part of the gang has a topology of its own."""
    return spec is not None and spec.parts is not None and constrained(spec.parts) is not None


class Lack(NamedTuple):
    """A part that does not fit: its name, the keys and the label of the domain that comes nearest, and how many of its
    members find room there.
    """

    part: str
    keys: str
    domain: str
    found: int
    members: int


class Parts:
    """The parts of gangs, with the members of these ``wants`` in a ``tree``. ``around`` are the constraints of all
    gangs together. ``census`` has their members: those pending are replaced by :meth:`assign`.
    """

    def __init__(
        self,
        world: World,
        placer: Placer,
        census: Mapping[GangId, Census],
        around: Sequence[tuple[str, bool]],
        wants: Sequence[Want],
    ) -> None:
        self._world = world
        self._placer = placer
        self._census = census
        self._around = around
        self.wants = wants
        self._asked = [pod for want in wants for pod in want.members]
        self._unassigned = {gang: found.pending for gang, found in census.items()}
        self._shapes: dict[object, tuple[PodShape, PodShape]] = {}
        self.assignment: Assignment | None = None
        self.tree = self._tree(self._asked)
        #: True if not all assignments were tried.
        self.left_out = False

    def _tree(self, members: Iterable[Pod], placed: Mapping[str, int] = _NO_ROWS) -> PartTree:
        """The tree with these members to be placed. Those ``placed`` (UIDs) count as bound."""
        member, table = self._world.membership, self._world.snapshot.table
        asked = {p.uid for p in members}
        wanted = []
        for gang, census in self._census.items():
            spec = member.spec(gang)
            if spec is None:
                continue
            rows = ((p, int(table.row[table.slot_of[p.uid]])) for p in census.bound if p.uid in table.slot_of)
            bound = [(p, row) for p, row in rows if row >= 0]
            bound += [(p, placed[p.uid]) for p in census.pending if p.uid in placed]
            wanted.append(Wanted(gang, spec, [p for p in census.pending if p.uid in asked], bound))
        return tree_of(self._world.snapshot, member, wanted, self._around)

    @cached_property
    def _everybody(self) -> PartTree:
        return self._tree(pod for census in self._census.values() for pod in census.pending)

    def allow(self, rows: Mapping[str, int]) -> bool:
        """Return True if members (UIDs) may be in these rows, beside those that are bound."""
        return self._everybody.at(rows) is not None

    # -- members in domains --------------------------------------------------------------------------------

    @property
    def fingerprint(self) -> Hashable:
        """Equal for choices of parts that differ in names only."""
        return self.tree.root.fingerprint()

    def assign(self, assignment: Assignment | None) -> dict[str, Pod]:
        """From now on pending members are in these domains; None: anywhere. Returns them by UID."""
        self.assignment = assignment
        now: dict[str, Pod] = {}
        for gang, census in self._census.items():
            spec = self._world.membership.spec(gang)
            if spec is not None and assignment is not None:
                labels = ((pod, self._labels_of(gang, role_of(pod, spec))) for pod in self._unassigned[gang])
                census.pending = [self._inside(pod, found or ()) for pod, found in labels]
            else:
                census.pending = self._unassigned[gang]
            now.update((pod.uid, pod) for pod in census.pending)
        return now

    def _labels_of(self, gang: GangId, role: str) -> Labels | None:
        """The node labels for members of a role; None while their part is in no domain."""
        if self.assignment is None:
            return ()
        found = self.assignment.within.get((gang, role))
        if found is None and not role:  # of no part: where the parts are together
            found = next(iter(self.assignment.within.values()), ())[: len(self.tree.root.keys)]
        return found

    def _inside(self, pod: Pod, labels: Labels) -> Pod:
        """A member as it is in the domain with these labels."""
        if not labels:
            return pod
        key = id(pod.shape), labels
        if key not in self._shapes:  # the shape is kept beside it so that its id cannot become another's
            self._shapes[key] = msgspec.structs.replace(pod.shape, within=labels), pod.shape
        return msgspec.structs.replace(pod, shape=self._shapes[key][0])

    def may_join(self, pod: Pod) -> bool:
        """Return True if a further member may join by itself: its part is in its domain."""
        spec = self._world.membership.spec(pod.gang)
        return spec is None or self._labels_of(pod.gang, role_of(pod, spec)) is not None

    # -- assignments ---------------------------------------------------------------------------------------

    def assignments(self, sim: Simulation, wishes: Mapping[str, int]) -> Iterator[Assignment]:
        """Where to try the parts: where all are nominated to, then those in which least room is left over."""
        if self._asked and all(pod.uid in wishes for pod in self._asked):
            home = self.tree.at({pod.uid: wishes[pod.uid] for pod in self._asked})
            if home is not None:
                yield home
        tried = 0
        table = PartTable(self.tree, RoomPrices(self._placer.pipeline, sim, self._asked))
        for candidate in table.cheapest(MAX_PLACEMENTS):
            tried += 1
            yield candidate.assignment
        self.left_out |= tried == MAX_PLACEMENTS

    def nearest(self, sim: Simulation) -> tuple[Assignment | None, bool]:
        """The domains in which fewest members lack room, and whether some do; None if there are too few domains."""
        table = PartTable(self.tree, Shortage(self._placer.pipeline, sim, self._asked))
        found = next(table.cheapest(1), None)
        return (None, True) if found is None else (found.assignment, found.price.real > 0)

    def lack(self, members: Sequence[Pod], sim: Simulation) -> Lack | None:
        """The part of which most members have no room in the domain that it is tried in; None if all have."""
        if self.assignment is None:
            return None
        mark = sim.mark()
        rows = self._placer.extras(members, sim, {}).rows
        sim.rollback(mark)
        asked, found = Counter[Leaf](), Counter[Leaf]()
        for pod in members:
            spec = self._world.membership.spec(pod.gang)
            leaf = pod.gang, role_of(pod, spec) if spec is not None else ""
            asked[leaf] += 1
            found[leaf] += pod.uid in rows
        worst = min(asked, key=lambda leaf: (found[leaf] - asked[leaf], leaf), default=None)
        if worst is None or found[worst] == asked[worst]:
            return None
        labels = self._labels_of(*worst) or ()
        keys = ", ".join(key for key, _ in labels)
        domain = ",".join(f"{key}={value}" for key, value in labels)
        return Lack(worst[1] or worst[0].name, keys, domain, found[worst], asked[worst])

    def domains(self) -> list[str]:
        """The labels of the domains of all parts."""
        within = self.assignment.within.values() if self.assignment is not None else ()
        return sorted({",".join(f"{key}={value}" for key, value in labels) for labels in within if labels})

    @property
    def levels(self) -> tuple[str, int]:
        """The narrowest level that parts need, and how many domains it has."""
        return ", ".join(self.narrowest), len(self.tree.level(self.narrowest).names)

    @property
    def narrowest(self) -> Keys:
        """The keys of the narrowest level that parts need."""
        return max((leaf.keys for leaf in self.tree.root.leaves()), key=len, default=())

    # -- parts that join -----------------------------------------------------------------------------------

    def further(
        self, sim: Simulation, classes: Classes, placed: Mapping[str, int], wishes: Mapping[str, int]
    ) -> tuple[dict[str, int], Assignment | None]:
        """Place whole parts beyond those that must start, where there is room for them beside those ``placed``. Returns
        the rows of their members, and the assignment with them.
        """
        rows, assignment = dict[str, int](), self.assignment
        for gang, census in self._census.items() if assignment is not None else ():
            spec = self._world.membership.spec(gang)
            if spec is None or spec.parts is None:
                continue
            free = [pod for pod in census.pending if pod.uid not in placed]
            there = Counter(role_of(pod, spec) for pod in (*census.bound, *census.pending))
            done = there - Counter(role_of(pod, spec) for pod in free)
            for wanted in further(spec.parts, there, done):
                left = Counter({role: count - done[role] for role, count in wanted.items()})
                some = [pod for pod in free if pod.uid not in rows and _takes(left, role_of(pod, spec))]
                complete = some and not any(left.values())
                found = self._joined(gang, spec, some, sim, classes, {**placed, **rows}, wishes) if complete else None
                if found is not None and assignment is not None:
                    rows |= found[0]
                    assignment = Assignment({**assignment.within, **found[1].within}, assignment.misses)
        return rows, assignment

    def _joined(
        self,
        gang: GangId,
        spec: Gang,
        some: Sequence[Pod],
        sim: Simulation,
        classes: Classes,
        placed: Mapping[str, int],
        wishes: Mapping[str, int],
    ) -> tuple[dict[str, int], Assignment] | None:
        """Where these members of a part go, and in which domains; None if there is no room for all of them."""
        tree = self._tree(some, placed)
        roles = {(gang, role_of(pod, spec)) for pod in some}
        prices = RoomPrices(self._placer.pipeline, sim, some)
        for candidate in PartTable(tree, prices).cheapest(_JOINS) if not tree.problem else ():
            within = {leaf: labels for leaf, labels in candidate.assignment.within.items() if leaf in roles}
            members = tuple(self._inside(pod, within.get((gang, role_of(pod, spec)), ())) for pod in some)
            classes.forget(members)
            found = self._placer.required([Want(members, len(members))], sim, wishes)
            if found.complete:
                return found.rows, Assignment(within)
        classes.forget(some)
        return None


def _takes(left: Counter[str], role: str) -> bool:
    """Return True if one more of this role is needed, and count it."""
    if left[role] <= 0:
        return False
    left[role] -= 1
    return True
