"""Units that leave whole although the gang that needed their room has given up, or is gone.

What is left of a gang of which a pod has been removed is of no use to anybody. So an eviction that is *abandoned* goes
on by itself, for the units that it has begun to remove, until all of their pods leave or the API refuses a removal.
"""

from __future__ import annotations

from gangsched.core.decision import Victim
from gangsched.core.lifecycle import evicting
from gangsched.core.lifecycle.eviction import Eviction, Phase, unit_of
from gangsched.core.lifecycle.ownership import Cause
from gangsched.core.lifecycle.run import Run
from gangsched.model.preemptible import protected
from gangsched.model.records import Pod


def give_up(run: Run, eviction: Eviction) -> None:
    """The gang for which an eviction was does not need it any more: what has, or may have, begun goes on without it,
    and its name is taken off the others.
    """
    waiting = {uid for each in run.actuator.removals(eviction.key) for uid in eviction.meant(each.pod.uid)}
    if eviction.phase is Phase.REMOVING:
        eviction.settle(run.actuator.failures(eviction.key))
    begun = eviction.begun_units(run.world, waiting, ()) | {unit_of(eviction.victims[uid]) for uid in waiting}
    units = begun if eviction.cause is Cause.PREEMPTION else set()
    refused = {unit_of(eviction.victims[uid]) for uid in eviction.refused}
    rest = eviction.rest(v for v in eviction.victims.values() if unit_of(v) in units - refused)
    go_on(run, rest)
    for uid in rest.marked:
        run.ownership.disown(uid, eviction.key)
    evicting.withdraw(run, eviction, but=rest.marked)


def go_on(run: Run, rest: Eviction) -> None:
    """From now on this eviction, which is for no gang, goes on by itself. Pods that may not leave any more stay."""
    leaves = [pod.uid for pod in rest.standing(run.world) if _leaves(run, rest.victims[pod.uid], pod)]
    stays = {pod.uid for pod in rest.standing(run.world)}.difference(leaves)
    rest.victims = {uid: victim for uid, victim in rest.victims.items() if uid not in stays}
    if leaves:
        evicting.begin(run, rest)
        run.abandoned[rest.key] = rest
        for uid in leaves:
            evicting.own(run, rest, uid)


def _leaves(run: Run, victim: Victim, pod: Pod) -> bool:
    """Does a victim leave with others, and not with its Job in any case?"""
    job = run.world.jobs.owner_of(pod)
    if protected(pod, run.options.evict_daemonset_pods) or (job is not None and job.suspended):
        return False
    return not victim.partial and victim.unit.kind != "Pod"


def look(run: Run) -> None:
    """Where every write has been answered, what is left of the units of which a pod was removed is removed, too, and
    the others stay.
    """
    for eviction in list(run.abandoned.values()):
        if not run.actuator.settled(eviction.key) or run.actuator.any_of(eviction.former):
            continue
        failures = eviction.settle(run.actuator.take_failures(eviction.key))
        units = eviction.begun_units(run.world, (), ())
        for uid in [uid for uid, victim in eviction.victims.items() if unit_of(victim) not in units]:
            del eviction.victims[uid]
            eviction.marked.discard(uid)
            evicting.disown(run, uid, eviction.key)
        if eviction.fails(failures) or eviction.refused or not eviction.to_go(run.world):
            evicting.withdraw(run, eviction)
            evicting.end(run, eviction)
        else:
            evicting.remove(run, eviction)
