"""The decisions of now, gang after gang, each on the state after the earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice

from gangsched.core.decision import (
    Decision,
    Fits,
    Gathering,
    Order,
    Unschedulable,
    Verdict,
    Victim,
    group_key,
    names_of,
)
from gangsched.core.devices.index import Assumed
from gangsched.core.events import Event
from gangsched.core.ledger.condemned import Cause, Eviction, Grounds
from gangsched.core.options import Options
from gangsched.core.planning.context import Question
from gangsched.core.planning.cycle import Decider
from gangsched.core.planning.outcomes import refused, with_more, with_what_is_bound
from gangsched.core.preemption.drain_plan import DrainPlan, all_leaving
from gangsched.core.preemption.removal import suspended_for
from gangsched.core.queue.blocked_gang import block
from gangsched.core.queue.rounds import Rounds, charged
from gangsched.core.queue.signature import Refusal, Signature, signature_of, speaks_for_others
from gangsched.core.scheduler import Scheduler
from gangsched.core.volumes.binding import assign
from gangsched.core.world.kept_room import keep_announced, keep_room
from gangsched.core.world.obstacles import obstacle
from gangsched.core.world.world import World, for_its_minimum, queue_order, share_of, surplus_waits
from gangsched.messages import notes
from gangsched.model.records import GangId


def forecast(
    events: Iterable[Event], options: Options, now: float, drained: list[DrainPlan] | None = None
) -> Iterator[Decision]:
    """Yield one decision per pending gang of our scheduler names, in queue order.

    For later decisions, placed members hold their room and victims are condemned, in a ledger like that of ``run``.
    Under the strict queue policy, gangs that do not fit keep their nodes. No room is reserved for gangs that starve:
    how long they have been waiting cannot be seen from outside. Nothing is decided twice and nothing is executed; the
    gangs of a GangGroup follow one another.

    Before all that those leave whose queue is drained: their pods are condemned for every decision. They are put into
    ``drained``, if it is given, with those that cannot leave now.
    """
    scheduler = Scheduler(options)
    scheduler.world.snapshot.devices.foresees_claims = True
    scheduler.handle([*events], now)  # without leadership: what is under way is neither finished nor taken back
    yield from foretell(scheduler, drained)


def foretell(scheduler: Scheduler, drained: list[DrainPlan] | None = None) -> Iterator[Decision]:
    """The decisions of :func:`forecast` on what a scheduler knows that does not lead. What they intend stays in its
    ledger until it learns again that it does not lead.
    """
    decider, condemned = scheduler.decider, scheduler.ledger.condemned
    scheduler.world.snapshot.devices.foresees_claims = True  # until it leads
    for each in list(all_leaving(scheduler.world, condemned, scheduler.options)):
        if drained is not None:
            drained.append(each)
        drain = Eviction(f"drain {each.uid}", Grounds(Cause.DRAIN, "", "", ""))
        condemned.begin(drain)
        _condemn(decider, f"drain {each.uid}", each.victims)
    refusals: dict[Signature, Refusal] = {}
    for _, level in groupby(_queue_order(scheduler.world), key=lambda each: each[0][0]):
        yield from _of_one_priority(decider, refusals, [*level])


def _of_one_priority(
    decider: Decider, refusals: dict[Signature, Refusal], waiting: list[tuple[Order, tuple[GangId, ...]]]
) -> Iterator[Decision]:
    """The decisions about these groups in their order. Members beyond a minimum have their turn when all groups have
    had theirs; from the first group on of which that is so, decisions come when they are complete.
    """
    world, rounds = decider.world, Rounds()
    held: list[tuple[tuple[GangId, ...], Verdict, list[GangId]]] = []
    for gangs, after in _in_turn(decider, waiting, rounds):
        others = world.surplus_after and any(map(for_its_minimum, after))
        minimum_first = others and surplus_waits(world, gangs)
        decider.begin()
        found = obstacle(world, decider.ledger.condemned, gangs)
        if found is None:
            verdict = _as_told(world, gangs, _decide(decider, refusals, gangs, minimum_first=minimum_first))
        else:
            verdict = refused(Gathering, world, gangs, found.text)
        if isinstance(verdict.first, Unschedulable):
            rounds.refused(share_of(world, gangs), charged(decider.steps, world.membership.size(gangs)))
        decider.watchdog.finish()
        told = [d.gang for d in verdict.decisions if world.membership.waits(d.gang)]
        _leave(gangs, verdict, decider)
        if held or (minimum_first and isinstance(verdict.first, Fits)):
            held.append((gangs, verdict, told))
        else:
            yield from (d for d in verdict.decisions if d.gang in told)
    for gangs, verdict, told in held:
        if isinstance(verdict.first, Fits) and any(world.membership.waits(gang) for gang in gangs):
            more = decider.decide(Question(gangs))
            _leave(gangs, more, decider)
            if isinstance(more.first, Fits):
                refusals.clear()
            verdict = with_more(verdict, more)
        yield from (d for d in verdict.decisions if d.gang in told)


def _in_turn(
    decider: Decider, waiting: list[tuple[Order, tuple[GangId, ...]]], rounds: Rounds
) -> Iterator[tuple[tuple[GangId, ...], list[Order]]]:
    """The groups as their turn comes, each with the place of the next one behind it, if there is any."""
    left = dict(waiting)
    while left:
        first = next(iter(left))
        if not decider.ledger.turns.strict:
            first = rounds.first(first, lambda: left, lambda order: share_of(decider.world, left[order]))
        gangs = left.pop(first)
        yield gangs, list(islice((order for order in left if order > first), 1))


def _as_told(world: World, gangs: tuple[GangId, ...], verdict: Verdict) -> Verdict:
    """The verdict with the message that ``run`` writes on the members."""
    first = verdict.first
    if not isinstance(first, Unschedulable) or first.failed_plugin:
        return verdict
    return verdict.but(message=with_what_is_bound(world, gangs, verdict.message, notes.BEFORE_WEAKER_WORK))


def _decide(
    decider: Decider, refusals: dict[Signature, Refusal], gangs: tuple[GangId, ...], *, minimum_first: bool
) -> Verdict:
    """The decision about these gangs. Equal ones get the same message until one has a place."""
    world = decider.world
    signature = signature_of(world, decider.ledger, gangs, group_key(gangs))
    if signature in refusals:
        return refusals[signature].said_of(world, gangs)
    verdict = decider.decide(Question(gangs, minimum_first=minimum_first))
    if not isinstance(verdict.first, Unschedulable):
        refusals.clear()  # room that others leave for it may do for another, or it may be welcome company
    elif speaks_for_others(verdict.first):
        refusals[signature] = Refusal(verdict)
    return verdict


def _condemn(decider: Decider, key: str, victims: Iterable[Victim]) -> None:
    """These pods are to leave for a plan, or for a queue that is drained."""
    world = decider.world
    for victim in victims:
        pod = world.pods[victim.uid]
        decider.ledger.condemned.add(pod, key, suspended_for(world, victim))
        world.membership.changed.add(pod.gang)


def _leave(gangs: tuple[GangId, ...], verdict: Verdict, decider: Decider) -> None:
    """Intend what the verdict says: victims are to leave, members are being bound or their room is held."""
    world, ledger = decider.world, decider.ledger
    for decision in verdict.decisions:
        if decision.quota is not None:
            world.managed.choose(decision.quota.by_pod, world.now)
    priority = world.membership.preemptor_priority(gangs)
    key = group_key(gangs)
    if isinstance(verdict.first, Unschedulable) and not verdict.first.short_of_quota:
        block(world, ledger.turns, gangs, decider.pipeline(gangs[0].scheduler))
    grounds = Grounds(Cause.PREEMPTION, names_of(gangs), gangs[0].scheduler, "", priority=priority)
    eviction = Eviction(key, grounds, verdict.victims)
    ledger.condemned.begin(eviction, for_gang=True)
    _condemn(decider, key, verdict.victims)
    fits = isinstance(verdict.first, Fits)
    claims = assign(world.snapshot, world.members, verdict.placements) if fits else ()
    for binding in claims if not isinstance(claims, str) else ():
        world.snapshot.volumes.assume(binding.key, binding.target)
    if fits:
        for place, n, each in ((p, n, each) for p in verdict.placements for n, each in enumerate(p.claims)):
            given = Assumed(each.uid, each.allocation, each.consumers)
            name = each.name or f"{place.name}/{n}"  # of a claim that is not made yet
            world.snapshot.devices.assume((each.namespace, name), given)
        for place in verdict.placements:
            world.assume(place.uid, place.node)
    elif verdict.placements:
        keep_room(world, ledger, key, gangs, [(world.members[p.uid], p.node) for p in verdict.placements])
    if verdict.announced:
        keep_announced(world, ledger, gangs, verdict.announced, decider.options.announced_share)


def _queue_order(world: World) -> list[tuple[Order, tuple[GangId, ...]]]:
    """Groups with pending members: priority first, then those without their minimum, then age, then namespace/name."""
    membership = world.membership
    groups = {
        membership.group(gang)[0] for gang in membership.gangs() if membership.is_ours(gang) and membership.waits(gang)
    }
    return sorted(((queue_order(world, group), group) for group in groups), key=lambda each: each[0])
