"""Advice for a gang that is not complete or cannot be decided, from its state and not from its texts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from gangsched.cli import without_pods
from gangsched.cli.decisions import State
from gangsched.core.decision import Decision
from gangsched.core.events import Reading
from gangsched.core.state.census import Census
from gangsched.core.state.incomplete import missing
from gangsched.core.world.obstacles import Kind, obstacle
from gangsched.messages import absent
from gangsched.model.dialects import group_api, minimum_key, needs_object
from gangsched.model.records import SINGLE, GangId

#: How near a name has to be to be the one that was meant.
_NEAR = 0.7


def gathering_advice(state: State, decision: Decision) -> str:
    """Return advice for a gang that cannot be scheduled yet."""
    gangs, _ = state.world.membership.group(decision.gang)
    found = obstacle(state.world, state.scheduler.ledger.condemned, gangs)
    return ADVICE[found.kind](state, gangs) if found is not None else absent.LEAVES


def _of_group(state: State, gangs: Sequence[GangId]) -> str:
    """Return advice for the first of these gangs that lacks something, or for their GangGroup."""
    membership = state.world.membership
    if membership.group(gangs[0])[1]:
        return absent.LIST_ALIKE
    for gang in gangs:
        census = membership.census(gang)
        if missing(membership, gang, census):
            return _of_gang(state, gang, census)
    return absent.LEAVES


#: The advice for each kind of obstacle. A test holds that every kind has one.
ADVICE: dict[Kind, Callable[[State, Sequence[GangId]], str]] = {
    Kind.TWO_ADMITTERS: lambda _state, _gangs: absent.ONE_ADMITTER,
    Kind.NAMESPACE_DELETED: lambda _state, gangs: absent.other_namespace_needed(namespace=gangs[0].namespace),
    Kind.QUEUE_API_MISSING: lambda _state, _gangs: absent.QUEUE_API,
    Kind.GROUP_API_MISSING: _of_group,
    Kind.INVALID: _of_group,
    Kind.INCOMPLETE: _of_group,
    Kind.MEMBERS_LEAVE: lambda _state, _gangs: absent.LEAVES,
}


def _of_gang(state: State, gang: GangId, census: Census) -> str:
    """Return advice for what this gang lacks."""
    spec = state.world.membership.spec(gang)
    if spec is None:
        return _without_group(state, gang)
    if spec.mistake is not None:
        return absent.mend(what=f"{spec.kind} {gang.key}")
    if spec.unowned or any(pod.unowned for pod in census.gated):
        return absent.OWNER
    what = absent.REMOVE_GATES if any(pod.gates for pod in census.gated) else _missing_pods(state, gang)
    return absent.nothing_before(what=what)


def _without_group(state: State, gang: GangId) -> str:
    """Return advice for a gang whose minimum is unknown."""
    pods = list(state.world.membership.pods(gang))
    if gang.family == SINGLE:
        return absent.start_grouper(gang=gang.key)
    if not any(map(needs_object, pods)):
        return absent.say_minimum(annotation=minimum_key(gang.family))
    if state.world.ownership.readings.get(group_api(gang.family)) is Reading.ABSENT:
        return absent.install(api=group_api(gang.family))
    return _group_meant(state, gang)


def _group_meant(state: State, gang: GangId) -> str:
    """Return the missing group, and a group with a similar name, or with that name in another namespace."""
    known = state.world.membership.objects
    here = sorted(name for family, space, name in known if (family, space) == (gang.family, gang.namespace))
    close = difflib.get_close_matches(gang.name, here, 1, _NEAR)
    if close:
        label = without_pods.LABELS.get(gang.family, "")
        return absent.other_label(label=label, name=close[0], gang=gang.key)
    membership = state.world.membership
    elsewhere = sorted(
        space
        for family, space, name in known
        if (family, name) == (gang.family, gang.name) and not membership.pods_of_group(family, space, name)
    )
    if elsewhere:
        return absent.other_namespace(gang=gang.key, namespace=elsewhere[0])
    return absent.create_group(gang=gang.key)


def _missing_pods(state: State, gang: GangId) -> str:
    """How there come to be as many pods as are needed."""
    pods = list(state.world.membership.pods(gang))
    owner = state.world.jobs.job_of(pods[0]) if pods else None
    spec = state.world.membership.spec(gang)
    if owner is None or owner.suspended or spec is None or owner.parallelism >= spec.min_member:
        return absent.CREATE_PODS
    most = owner.parallelism
    return absent.more_pods(owner=f"Job {owner.key}", needed=spec.min_member, found=most)
