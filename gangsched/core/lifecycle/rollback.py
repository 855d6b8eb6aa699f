"""Rollback: a gang that was bound in part, and whose other members have no place, leaves as a whole and starts anew.

There is no unbind: a bound pod can only be deleted. So this is off unless it is asked for, touches only members that
their controllers create again, and only when all bound members are of this kind and nothing of the gang ran before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gangsched.core.actions import Report
from gangsched.core.decision import UNSCHEDULABLE, UnitRef, Verdict, Victim
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.failures import Cause as Failed
from gangsched.core.preemption.explain import warnings
from gangsched.model.preemptible import protected

if TYPE_CHECKING:
    from gangsched.core.groups import Group
    from gangsched.core.lifecycle.steps import Steps
    from gangsched.model.records import Pod


def leaving(steps: Steps, group: Group, verdict: Verdict) -> list[Victim]:
    """The members to remove; none when the gang has to go on as it is.

    It is rolled back when its other members have no place, or when their bindings fail again and again; not more often
    in a row than a gang may evict.
    """
    options, membership = steps.options, steps.world.membership
    if not options.rollback or not group.failures.begun:
        return []
    if not membership.half_bound(group.gangs):
        group.failures.begun.clear()
        return []
    failing = group.failures.count(Failed.BINDING) >= options.max_rounds
    if (
        not (failing or hopeless(group, verdict, options.max_rounds))
        or group.failures.count(Failed.ROLLBACK) >= options.max_rounds
    ):
        return []
    members = [membership.census(gang) for gang in group.gangs]
    bound = [pod for census in members for pod in census.bound]
    if any(census.succeeded for census in members) or not all(_may_go(group, pod) for pod in bound):
        return []
    found = [_as_victim(pod) for pod in bound]
    return [] if warnings(found, steps.world) else found  # a Job would count them as failed, and end


def hopeless(group: Group, verdict: Verdict, max_rounds: int) -> bool:
    """Have the other members no place, and will they have none either when time has passed, gangs ahead have had their
    turn, quota is given back, a plug-in works again, or the gang may evict again?
    """
    passes = verdict.failed_plugin or verdict.retry_at is not None or verdict.behind or verdict.short_of_quota
    return verdict.outcome == UNSCHEDULABLE and not passes and group.failures.count(Failed.ROUND) < max_rounds


def _may_go(group: Group, pod: Pod) -> bool:
    return pod.uid in group.failures.begun and pod.owner is not None and not protected(pod, evict_daemonset_pods=False)


def _as_victim(pod: Pod) -> Victim:
    unit = UnitRef("PodGroup", pod.gang.key)
    return Victim(pod.namespace, pod.name, pod.uid, pod.node, unit, False, pod.priority, False, reason="Rollback")


def removed(steps: Steps, group: Group, members: Iterable[Victim]) -> Iterator[Report]:
    """The removal of these members has been accepted: say so on them."""
    for victim in members:
        pod = steps.world.pods.get(victim.uid)
        if pod is not None and pod.owner is not None:
            yield report.rolled_back(victim, pod.owner, group.name, group.message)


def mark_text(steps: Steps, group: Group) -> str:
    """What the marks of its members say: a restart finds out by it that this was under way, and takes it back."""
    pending = [pod for gang in group.gangs for pod in steps.world.membership.census(gang).pending]
    trigger = min((pod.key for pod in pending), default=group.gangs[0].key)
    return report.rollback_message(group.gangs[0].scheduler, group.name, trigger)
