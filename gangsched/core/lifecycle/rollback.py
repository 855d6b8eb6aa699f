"""Gangs that are bound in part: members whose binding is refused, and gangs that leave as a whole for that.

Rollback: a gang that was bound in part, and whose other members have no place, leaves as a whole and starts anew.

There is no unbind: a bound pod can only be deleted. So this is off unless it is asked for, touches only members that
their controllers create again, and only when all bound members are of this kind and nothing of the gang ran before.

Members whose binding was refused for good go to other nodes. Why it was refused is not known here: an admission plug-in
may mind the node, the pod, or both. So another node is tried where there is room; no pod is evicted to find out. When
no other is left, all of them are tried again: whatever minded may have changed its mind. Nor is any pod evicted when
weaker work has got the room meanwhile, for the member would be refused again, and whoever has left would come back: not
before a pause is over, which doubles when the member is refused once more after it. Members are kept off as if they had
asked for that, and a spread constraint leaves out nodes that its pod does not ask for. They count all the same: the
place has to do for the members as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gangsched.core.actions import Bind, Report
from gangsched.core.decision import BIND, WAIT, UnitRef, Unschedulable, Verdict, Victim
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.failures import TRIES, Refusal, pause
from gangsched.core.lifecycle.failures import Cause as Failed
from gangsched.core.lifecycle.healing import Losses
from gangsched.core.lifecycle.run import Run
from gangsched.core.planning.cycle import Pause
from gangsched.core.planning.decider import Decider
from gangsched.core.preemption.explain import warnings
from gangsched.messages import notes
from gangsched.model.preemptible import protected

if TYPE_CHECKING:
    from gangsched.core.groups import Group
    from gangsched.core.world.world import World
    from gangsched.model.records import Pod


def leaving(run: Run, group: Group, verdict: Verdict) -> list[Victim]:
    """The members to remove; none when the gang has to go on as it is.

    It is rolled back when its other members have no place, or when their bindings fail again and again; only so often
    in a row.
    """
    membership = run.world.membership
    if not run.options.rollback or not group.failures.begun:
        return []
    if not membership.half_bound(group.gangs):
        group.failures.begun.clear()
        return []
    failing = group.failures.count(Failed.BINDING) >= TRIES
    if not (failing or hopeless(verdict)) or group.failures.count(Failed.ROLLBACK) >= TRIES:
        return []
    members = [membership.census(gang) for gang in group.gangs]
    bound = [pod for census in members for pod in census.bound]
    if any(census.succeeded for census in members) or not all(_may_go(group, pod) for pod in bound):
        return []
    found = [_as_victim(pod) for pod in bound]
    return [] if warnings(found, run.world) else found  # a Job would count them as failed, and end


def hopeless(verdict: Verdict) -> bool:
    """Have the other members no place, and will they have none either when time has passed, gangs ahead have had their
    turn, quota is given back, a plug-in works again, or the gang may evict again?
    """
    why = verdict.first
    if not isinstance(why, Unschedulable):
        return False
    return not (why.failed_plugin or why.retry_at is not None or why.behind or why.short_of_quota)


def _may_go(group: Group, pod: Pod) -> bool:
    return pod.uid in group.failures.begun and pod.owner is not None and not protected(pod, evict_daemonset_pods=False)


def _as_victim(pod: Pod) -> Victim:
    unit = UnitRef("PodGroup", pod.gang.key)
    return Victim(pod.namespace, pod.name, pod.uid, pod.node, unit, False, pod.priority, False, reason="Rollback")


def removed(run: Run, group: Group, members: Iterable[Victim]) -> Iterator[Report]:
    """The removal of these members has been accepted: say so on them."""
    for victim in members:
        pod = run.world.pods.get(victim.uid)
        if pod is not None and pod.owner is not None:
            yield report.rolled_back(victim, pod.owner, group.name, group.message)


def mark_text(run: Run, group: Group) -> str:
    """What the marks of its members say: a restart finds out by it that this was under way, and takes it back."""
    pending = [pod for gang in group.gangs for pod in run.world.membership.census(gang).pending]
    trigger = min((pod.key for pod in pending), default=group.gangs[0].key)
    return report.rollback_message(group.gangs[0].scheduler, group.name, trigger)


# -- members whose binding was refused --------------------------------------------------------------------

#: Seconds in which a gang evicts no pod after a member was refused; twice as long each time it is refused after that.
FIRST_PAUSE_SECONDS = 120.0


def refused(run: Run, group: Group, action: Bind, losses: Losses) -> None:
    """This binding of a member has been refused."""
    uid = action.pod.uid
    group.failures.refused_on.setdefault(uid, set()).add(action.node)
    pod = run.world.pods.get(uid)
    if pod is None:
        return
    known = group.failures.refusals.get(uid)
    pauses = known.pauses if known is not None and known.asked == _asked(pod) else 0
    first = not pauses or known is None or known.until <= run.now
    if first:
        until = run.now + pause(FIRST_PAUSE_SECONDS, pauses + 1)
        group.failures.refusals[uid] = Refusal(pauses + 1, until, _asked(pod))
    losses.refused(pod, action.node, run.now, first=first)


def bound(group: Group, action: Bind) -> None:
    """This binding of a member has succeeded."""
    group.failures.refusals.pop(action.pod.uid, None)


def pause_of(world: World, group: Group) -> Pause:
    """When the group may evict others (again), and why not before."""
    for uid, refusal in list(group.failures.refusals.items()):
        pod = world.pods.get(uid)
        if pod is None or pod.node or not pod.live or _asked(pod) != refusal.asked:
            del group.failures.refusals[uid]
    refused = max((refusal.until for refusal in group.failures.refusals.values()), default=0.0)
    rounds = group.failures.count(Failed.ROUND)
    many = notes.rounds(rounds) if rounds > 1 else notes.ONE_ROUND
    paused = Pause(group.failures.paused_until, notes.pauses(many))
    return max(Pause(refused, notes.BINDING_REFUSED), paused)


def _asked(pod: Pod) -> object:
    return pod.shape, pod.labels, pod.hints, pod.priority


def other_nodes(decider: Decider, group: Group, now: float) -> Verdict | None:
    """The decision to go where no binding of the same member has been refused; None when there is no such room."""
    if not group.failures.refused_on:
        return None
    verdict = decider.decide(
        group.gangs,
        group.key,
        now,
        may_preempt=False,
        pause=pause_of(decider.world, group),
        keep_off=group.failures.refused_on,
    )
    given = {uid: found for d in verdict.decisions if d.quota is not None for uid, found in d.quota.by_pod.items()}
    if verdict.outcome in (BIND, WAIT) and decider.still_holds(
        group.gangs, group.key, now, verdict.placements, (), terminating_leave=verdict.outcome == WAIT, flavors=given
    ):
        return verdict
    group.failures.refused_on.clear()
    return None
