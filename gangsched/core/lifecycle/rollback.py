"""Rollback: a gang that was bound in part, and whose other members have no place, leaves as a whole and starts anew.

There is no unbind: a bound pod can only be deleted. So this is off by default. It deletes only members that their
controllers create again, and only if all bound members are of this kind and no member of the gang ran before.
"""

from __future__ import annotations

from gangsched.core.decision import UnitRef, Unschedulable, Verdict, Victim
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.lifecycle.group import TRIES, Failed, Group
from gangsched.core.preemption.job_failures import failing
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.model.preemptible import protected
from gangsched.model.records import Pod


def leaving(world: World, condemned: Condemned, group: Group, verdict: Verdict) -> list[Victim]:
    """The members to remove; none when the gang has to go on as it is.

    It is rolled back if its other members have no place, or if their bindings fail repeatedly. This happens only so
    often in a row, and only if its API does not protect its members.
    """
    membership = world.membership
    if not group.failures.begun or not all(map(membership.strict, group.gangs)):
        return []
    if not membership.half_bound(group.gangs):
        group.failures.begun.clear()
        return []
    refused = group.failures.count(Failed.BINDING) >= TRIES
    if not (refused or hopeless(verdict)) or group.failures.count(Failed.ROLLBACK) >= TRIES:
        return []
    members = [membership.census(gang) for gang in group.gangs]
    bound = [pod for census in members for pod in census.bound]
    if any(census.succeeded for census in members) or not all(_may_go(group, pod) for pod in bound):
        return []
    found = [_as_victim(pod) for pod in bound]
    return [] if failing(found, world, condemned) else found  # a Job would count them as failed, and end


def hopeless(verdict: Verdict) -> bool:
    """Return True if the other members have no place now and nothing that is expected gives them one.

    Expected are: time that passes, the turns of gangs ahead, quota that is given back, a plug-in that works again, and
    the permission to evict again.
    """
    why = verdict.first
    if not isinstance(why, Unschedulable):
        return False
    return not (why.failed_plugin or why.retry_at is not None or why.behind or why.short_of_quota)


def _may_go(group: Group, pod: Pod) -> bool:
    return pod.uid in group.failures.begun and pod.owner is not None and not protected(pod, evict_daemonset_pods=False)


def _as_victim(pod: Pod) -> Victim:
    return Victim.of(pod, UnitRef("PodGroup", pod.gang.key), reason="Rollback")


def mark_text(world: World, group: Group) -> str:
    """The text of the marks on its members: a restart recognises a rollback in progress by it, and removes them."""
    pending = [pod for gang in group.gangs for pod in world.membership.census(gang).pending]
    trigger = min((pod.key for pod in pending), default=group.gangs[0].key)
    return notes.rolling_back(scheduler=group.gangs[0].scheduler, gang=group.name, trigger=trigger)
