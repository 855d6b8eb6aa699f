"""What one process intends as long as it leads, beside the ledger, and what it has to say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from gangsched.core.actions import Action
from gangsched.core.actuation import desired
from gangsched.core.actuation.actuator import Actuator, Aspect
from gangsched.core.agenda import Page
from gangsched.core.decision import Verdict
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.ledger import Kind, Reservation
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.group import Failed, Group, Plan
from gangsched.core.options import Options
from gangsched.core.queue.scheduling_queue import Queue
from gangsched.core.state.simulation import Phantom
from gangsched.core.world.world import World, queue_order
from gangsched.model.records import GangId, Pod


class Run:
    """What is intended for the gangs under way, and what follows; it never changes a gang's state.

    ``deadlines`` are when the time of groups is over, by key. ``actuator`` knows what has been asked for and is not
    settled, ``reporter`` what was reported of gangs. ``check`` are the keys of groups whose phase may be over,
    ``taken_from`` those whose held room a gang of higher priority may have taken, ``changes`` is what may help gangs
    that do not fit.
    """

    def __init__(self, world: World, options: Options, ids: Iterator[int]) -> None:
        self.world = world
        self.options = options
        agenda = world.ledger.agenda
        self.deadlines: Page[str] = agenda.page()
        self.queue = Queue(agenda.page(), options.flush_seconds)
        self.actions: list[Action] = []
        self.reporter = Reporter(world, options, self.actions)
        again = partial(desired.again, world, options)
        owners = world.ledger.condemned.named
        self.actuator = Actuator(self.actions.append, ids, options.backoff, agenda.page(), again, owners)
        self.changes: list[Change] = []
        self.check = self.actuator.check
        self.taken_from: set[str] = set()

    def follow(self, group: Group, verdict: Verdict) -> None:
        """The group's members are going to run where, and in the flavors in which, this verdict has them."""
        group.decisions = verdict.decisions
        for use in (d.quota for d in verdict.decisions if d.quota is not None):
            self.world.managed.choose(use.by_pod, self.world.now)
        for stand_in, _ in verdict.announced:
            self.world.managed.gone(stand_in.uid)  # its flavors are known as long as its room is kept

    def still(self, group: Group) -> bool:
        """Is nothing of an earlier plan of this gang on its way any more, and no nomination of it left? Until then it
        is not decided again: what arrives late, or a nomination that leaves late, would look like one of the new plan.
        A mark may stay for a while: it names its plan.
        """
        if self.actuator.any_of(group.key):
            return False
        withdrawn = self.actuator.kept(Aspect.NOMINATION)
        return not withdrawn or not any(pod.uid in withdrawn for pod in self.unplaced(group))

    def unplaced(self, group: Group) -> Iterator[Pod]:
        """The members that wait, those that may not be scheduled yet included."""
        for gang in group.gangs:
            census = self.world.membership.census(gang)
            yield from (*census.pending, *census.gated)

    def give_back(self, key: str) -> None:
        """Room is no longer held under a key, nor are volumes, which others may use elsewhere."""
        given = self.world.ledger.release(key)
        self.changes += [Change(Hint.ROOM, p.node) for p in given]
        if any(p.pod.volumes is not None for p in given):
            self.changes.append(Change(Hint.VOLUMES))

    def enqueue(self, group: Group) -> None:
        """It is to be decided."""
        self.queue.push(queue_order(self.world, group.gangs))

    def park(self, group: Group) -> None:
        """It does not fit: it waits for an event that may help, at least for its backoff."""
        group.failures.record(Failed.ATTEMPT)
        not_before = self.world.now + self.backoff(group)
        order = queue_order(self.world, group.gangs)
        self.queue.park(order, self.world.now, not_before, group.look_again_at)

    def retry(self, group: Group) -> None:
        """It is tried again after its backoff."""
        group.failures.record(Failed.ATTEMPT)
        self.queue.rest(group.key, self.world.now + self.backoff(group))

    def backoff(self, group: Group) -> float:
        """Seconds; doubles with every attempt that did not help."""
        return self.options.backoff(group.failures.count(Failed.ATTEMPT))

    def look_around(self, plan: Plan) -> None:
        """Remember who is on the plan's nodes when it is made."""
        nodes = set(plan.node_of.values())
        plan.neighbours = {p.uid for node in nodes for p in self.world.snapshot.pods_on(node)}

    def may_have_taken(self, taker: str, nodes: Iterable[str], priority: int) -> None:
        """Room held by gangs of lower priority than the one of this key, on these nodes, may be gone now."""
        self.taken_from.update(key for key in self.world.ledger.weaker(priority, nodes) if key != taker)

    # -- room ---------------------------------------------------------------------------------------------

    def hold(self, group: Group, plan: Plan) -> None:
        """Keep the room for the members until the pods that are in the way are gone, for as long as the gang has: that
        begins when the victims' notice is over.
        """
        for uid in (*plan.victims, *plan.awaited):
            self.world.ledger.wait_for(uid, group.key)
        self.deadlines.at(group.key, max(self.world.now, plan.eviction.begins) + self.time_of(group))
        self.keep(group.key, group.gangs, [(self.world.pods[place.uid], place.node) for place in plan.placements])

    def keep(
        self, key: str, gangs: Sequence[GangId], places: Sequence[tuple[Pod, str]], kind: Kind = Kind.NOMINATED
    ) -> None:
        """From now on exactly this room is held under a key: for such pods on these nodes, with the gangs' priority."""
        world = self.world
        priority = world.membership.preemptor_priority(gangs)
        nodes = {node for _, node in places}
        left = {p.node for p in world.ledger.pods_of(key)} - nodes
        self.changes += [Change(Hint.ROOM, name) for name in sorted(left)]
        pods = tuple(Phantom(world.snapshot.class_of(pod), pod.uid, node) for pod, node in places)
        world.ledger.hold(Reservation(key, kind, pods, priority))
        if world.managed.active:
            self.changes += [Change(Hint.PROMISED, pod=pod) for pod, _ in places[:1]]
        self.may_have_taken(key, nodes, priority)

    def time_of(self, group: Group) -> float:
        """Seconds that the gang has from nomination to binding."""
        specs = [self.world.membership.spec(g) for g in group.gangs]
        times = [s.timeout_seconds for s in specs if s is not None and s.timeout_seconds]
        return min(times, default=self.options.timeout_seconds)
