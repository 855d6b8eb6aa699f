"""Whether a marked pod may still be evicted for a gang: what made it a victim is asked again before it goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gangsched.model.preemptible import protected
from gangsched.model.records import PREEMPT_NEVER, GangId, Pod

if TYPE_CHECKING:
    from gangsched.core.state.world import World


def may_leave(world: World, pod: Pod, gangs: Sequence[GangId], evict_daemonset_pods: bool) -> bool:
    """Does the pod run, of a lower priority than these gangs, no member of them and not protected?"""
    membership = world.membership
    return (
        pod.live
        and pod.bound
        and pod.gang not in gangs
        and (pod.priority < membership.preemptor_priority(gangs) or _for_quota(world, pod, gangs))
        and membership.policy(gangs) != PREEMPT_NEVER
        and not protected(pod, evict_daemonset_pods)
    )


def _for_quota(world: World, pod: Pod, gangs: Sequence[GangId]) -> bool:
    """Do both need quota? Then it is not the pods' priority that has made one the victim of the other."""
    managed = world.managed
    return managed.is_managed(gangs) and managed.is_managed(world.membership.group(pod.gang)[0])
