"""How the members of a plan come to their nodes: nominations with their intent records, volumes, and bindings.

PreBind: the volumes of all members are bound before the first member is.

The members' room is held like that of nominated ones, so a gang of higher priority may have it; their volumes are
assumed from the decision on. Claims that the cluster already knows about (after a restart, or when the gang had to give
way) are not asked for again, only waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gangsched.core.actions import Bind, BindVolume, Nominate, PodRef, SelectNode, WithdrawNomination
from gangsched.core.actuation.actuator import Aspect, Failure, no_longer_nominated
from gangsched.core.decision import Placement
from gangsched.core.events import Outcome
from gangsched.core.hints import Change, Hint
from gangsched.core.lifecycle import conditions, report, suspension
from gangsched.core.lifecycle.ownership import Intent, written
from gangsched.core.lifecycle.run import Run
from gangsched.core.volumes.binding import ClaimBinding, assign, progress
from gangsched.messages import causes
from gangsched.messages.text import listed

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.model.records import Pod


# -- nominations ------------------------------------------------------------------------------------------


def nominate(run: Run, group: Group) -> None:
    """Nominate every placed member."""
    plan = group.plan
    if plan is None:
        return
    run.actuator.begin(group.key)
    if group.without_pods:
        return  # that it waits stands on the Job itself, and for whom its victims leave on them
    plan.nominated = dict(plan.node_of)
    for place in plan.placements:
        text = written(Intent(plan.ident, len(plan.victims), place.node, len(plan.awaited)))
        action = Nominate(run.new_id(), report.reference(place), place.node, plan.ident, text)
        run.actuator.ask(group.key, action)
    conditions.tell(run, group, report.UNSCHEDULABLE, group.message, report.waiting_on_preemption)


def withdraw(run: Run, group: Group) -> None:
    """Clear nominations: those of the plan, and any that an earlier plan or process has left behind. Members whose
    bindings were not sent take no room any more.
    """
    for uid, outcome, _ in run.actuator.failures(group.key):
        if outcome is Outcome.OUTDATED and run.world.assumed(uid):
            run.changes.append(Change(Hint.ROOM, run.world.assumed_on(uid)))
            run.world.forget(uid)
    clear(run, group, {}, group.message or group.problem or "plan withdrawn")


def clear(run: Run, group: Group, wanted: Mapping[str, str], text: str) -> None:
    """Clear the nominations of members that are not to these nodes (by UID). A mark or a removal that is on its way is
    never without a record: the last answer is waited for.
    """
    asked = group.plan.nominated if group.plan is not None else {}
    pods = (*run.unplaced(group), *_mistaken(run, group))
    for pod in no_longer_nominated(pods, asked, wanted):
        if pod.uid not in run.actuator.kept(Aspect.NOMINATION):
            action = WithdrawNomination(run.new_id(), report.reference(pod), "Withdrawn", text)
            run.actuator.keep_up(action, after=group.key)


def _mistaken(run: Run, group: Group) -> Iterator[Pod]:
    """Members of its plan that have left it, because they cannot be understood any more, and still wait."""
    nominated = group.plan.nominated if group.plan is not None else {}
    for pod in map(run.world.pods.get, sorted(nominated)):
        if pod is not None and pod.mistake is not None and pod.gang not in group.gangs and not pod.node:
            yield pod


# -- volumes ----------------------------------------------------------------------------------------------


def prebind(run: Run, group: Group) -> None:
    """Hold the members' room, assume their volumes, and ask for those that have not been asked for yet."""
    plan = group.plan
    if plan is None:
        return
    world, index = run.world, run.world.snapshot.volumes
    run.actuator.begin(group.key)
    found = assign(world.snapshot, world.pods, plan.placements)
    for place in plan.placements:
        suspension.take_room(run, world.pods[place.uid], place.node)
    run.give_back(group.key)
    run.hold(group, plan)
    run.deadlines.at(group.key, run.now + run.options.bind_timeout_seconds)
    if isinstance(found, str):
        # What the decision counted on is gone: the phase fails before it has written anything.
        run.actuator.fail(group.key, Failure(plan.placements[0].uid, Outcome.CONFLICT, found))
        return
    plan.claims = found
    group.message = _waiting(found)
    for binding in found:
        if binding.ours:
            index.assume(binding.key, binding.target)
        if not binding.asked:
            _ask(run, group, binding)


def _ask(run: Run, group: Group, binding: ClaimBinding) -> None:
    claim = binding.claim
    pod = run.world.pods[binding.pod]
    ref = PodRef(pod.namespace, pod.name, pod.uid)
    if binding.target.volume:
        volume = run.world.snapshot.volumes.volumes[binding.target.volume]
        action: BindVolume | SelectNode = BindVolume(
            run.new_id(),
            ref,
            volume.name,
            volume.uid,
            volume.version,
            claim.name,
            claim.uid,
            reserved=volume.claim is not None,
        )
    else:
        action = SelectNode(run.new_id(), ref, claim.name, claim.uid, binding.target.node)
    run.actuator.ask(group.key, action)


def volumes_bound(run: Run, plan: Plan) -> tuple[bool, str]:
    """Are all claims bound, and is there a reason why one will not be?"""
    everything = True
    for binding in plan.claims:
        bound, problem = progress(run.world.snapshot, binding)
        if problem:
            return False, causes.binding_volumes(problem)
        everything = everything and bound
    return everything, ""


def whole(run: Run, group: Group, plan: Plan) -> bool:
    """Are the plan's members as many as the gangs need? While volumes were bound, members that ran may have gone."""
    membership = run.world.membership
    for gang in group.gangs:
        census = membership.census(gang)
        if sum(p.uid in plan.node_of for p in census.pending) < membership.required(gang, census):
            return False
    return True


def forget_claims(run: Run, plan: Plan) -> None:
    """What the cluster shows of the plan's claims is what counts again."""
    for binding in plan.claims:
        if binding.ours:
            run.world.snapshot.volumes.forget(binding.key)
            run.changes.append(Change(Hint.VOLUMES))
    plan.claims = []


def _waiting(bindings: list[ClaimBinding]) -> str:
    names = sorted("/".join(b.key) for b in bindings)
    return causes.waits_for_volumes(listed(names, 5))


# -- bindings ---------------------------------------------------------------------------------------------


def bind_all(run: Run, group: Group) -> None:
    """Bind every placed member."""
    plan = group.plan
    if plan is None:
        return
    run.actuator.begin(group.key)
    _assume(run, group, plan)
    bind(run, group, plan.placements)


def bind(run: Run, group: Group, places: Iterable[Placement]) -> None:
    """Ask for the bindings of members that are assumed where they are placed."""
    for place in places:
        run.actuator.ask(group.key, Bind(run.new_id(), report.reference(place), place.node))


def _assume(run: Run, group: Group, plan: Plan) -> None:
    """From now on the members take room on their nodes as if they were bound."""
    priority = run.world.membership.preemptor_priority(group.gangs)
    run.give_back(group.key)
    for place in plan.placements:
        run.world.assume(place.uid, place.node)
        suspension.take_room(run, run.world.pods[place.uid], place.node)
        run.changes.append(Change(Hint.PODS, place.node, run.world.pods[place.uid]))
    run.may_have_taken(group.key, set(plan.node_of.values()), priority)
