"""Nominations and their intent records: put on the members of a plan, and cleared when they mean nothing any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gangsched.core.actions import Nominate, WithdrawNomination
from gangsched.core.actuation import desired
from gangsched.core.events import Outcome
from gangsched.core.hints import Change, Hint
from gangsched.core.lifecycle import report, suspension, telling
from gangsched.core.lifecycle.intent import Intent, written

if TYPE_CHECKING:
    from gangsched.core.groups import Group
    from gangsched.core.lifecycle.steps import Steps
    from gangsched.model.records import Pod


def nominate(steps: Steps, group: Group) -> None:
    """Nominate every placed member."""
    plan = group.plan
    if plan is None:
        return
    steps.actuator.begin(group.key)
    if suspension.is_suspended_job(group):
        return  # that it waits stands on the Job itself, and for whom its victims leave on them
    victims = len(plan.victims)
    plan.nominated = dict(plan.node_of)
    for place in plan.placements:
        steps.actuator.drop(WithdrawNomination, place.uid)
        text = written(Intent(plan.ident, victims, place.node, len(plan.waiting) - victims))
        action = Nominate(steps.new_id(), report.reference(place), place.node, plan.ident, text)
        steps.actuator.ask(group.key, action)
    telling.tell(steps, group, report.UNSCHEDULABLE, group.message, report.failed_scheduling)


def on_record(steps: Steps, group: Group) -> bool:
    """Does a member that is not placed bear an intent record?"""
    return any(map(desired.on_record, unplaced(steps, group)))


def unplaced(steps: Steps, group: Group) -> Iterator[Pod]:
    """The members that wait, those that may not be scheduled yet included."""
    for gang in group.gangs:
        census = steps.world.membership.census(gang)
        yield from (*census.pending, *census.gated)


def withdraw(steps: Steps, group: Group) -> None:
    """Clear nominations: those of the plan, and any that an earlier plan or process has left behind. Members whose
    bindings were not sent take no room any more.
    """
    for uid, outcome, _ in steps.actuator.failures(group.key):
        if outcome is Outcome.OUTDATED and steps.world.assumed(uid):
            steps.changes.append(Change(Hint.ROOM, steps.world.assumed_on(uid)))
            steps.world.forget(uid)
    clear(steps, group, {}, group.message or group.problem or "plan withdrawn")


def clear(steps: Steps, group: Group, wanted: Mapping[str, str], text: str) -> None:
    """Clear the nominations of members that are not to these nodes (by UID). A mark or a removal that is on its way is
    never without a record: the last answer is waited for.
    """
    asked = group.plan.nominated if group.plan is not None else {}
    pods = (*unplaced(steps, group), *_mistaken(steps, group))
    for pod in desired.no_longer_nominated(pods, asked, wanted):
        if pod.uid not in steps.actuator.kept(WithdrawNomination):
            action = WithdrawNomination(steps.new_id(), report.reference(pod), "Withdrawn", text)
            steps.actuator.keep_up(action, after=group.key)


def _mistaken(steps: Steps, group: Group) -> Iterator[Pod]:
    """Members of its plan that have left it, because they cannot be understood any more, and still wait."""
    nominated = group.plan.nominated if group.plan is not None else {}
    for pod in map(steps.world.pods.get, sorted(nominated)):
        if pod is not None and pod.mistake is not None and pod.gang not in group.gangs and not pod.node:
            yield pod
