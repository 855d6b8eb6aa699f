"""How the members of a plan come to their nodes: nominations with their intent records, volumes, bindings, and Jobs
(and JobSets) without pods, whose suspension ends.

PreBind: the volumes of all members are bound before the first member is. The members' room is held like that of
nominated ones, so a gang of higher priority may have it; their volumes are assumed from the decision on. Claims that
the cluster already knows about (after a restart, or when the gang had to give way) are not asked for again, only waited
for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gangsched.core.actuation import desired
from gangsched.core.actuation.actuator import Aspect
from gangsched.core.decision import Placement
from gangsched.core.events import Change, Failure, Hint, Outcome
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.group import Group, Plan
from gangsched.core.lifecycle.run import Run
from gangsched.core.quota.assignment import in_flavors
from gangsched.core.quota.flavors import Flavors
from gangsched.core.state.jobs import Suspendable
from gangsched.core.volumes.binding import ClaimBinding, assign, progress
from gangsched.core.world.suspended import held
from gangsched.messages import causes
from gangsched.messages.text import listed
from gangsched.model.records import NO_DIRECTIVES, Directives, Job, Pod, PodShape

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
        run.actuator.want(desired.nominate(place, plan.intent(place)), group.key)
    run.reporter.tell(group, report.UNSCHEDULABLE, group.message, report.WAITING_ON_PREEMPTION)


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
    pods = (*run.unplaced(group), *_others_now(run, group))
    for pod in desired.nominated_elsewhere(pods, asked, wanted):
        if pod.uid not in run.actuator.kept(Aspect.NOMINATION):
            run.actuator.want(desired.withdraw(pod, text), after=group.key)


def _others_now(run: Run, group: Group) -> Iterator[Pod]:
    """Members of its plan that belong to another gang by now, or cannot be understood any more, and still wait."""
    nominated = group.plan.nominated if group.plan is not None else {}
    for pod in map(run.world.pods.get, sorted(nominated)):
        if pod is not None and pod.live and not pod.node and pod.gang not in group.gangs:
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
        take_room(run, world.pods[place.uid], place.node)
    run.give_back(group.key)
    run.hold(group, plan)
    run.deadlines.at(group.key, run.world.now + run.options.bind_timeout_seconds)
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
            run.actuator.want(desired.bind_claim(world, binding), group.key)


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
        run.actuator.want(desired.bind(place), group.key)


def _assume(run: Run, group: Group, plan: Plan) -> None:
    """From now on the members take room on their nodes as if they were bound."""
    priority = run.world.membership.preemptor_priority(group.gangs)
    run.give_back(group.key)
    for place in plan.placements:
        run.world.assume(place.uid, place.node)
        take_room(run, run.world.pods[place.uid], place.node)
        run.changes.append(Change(Hint.PODS, place.node, run.world.pods[place.uid]))
    run.may_have_taken(group.key, set(plan.node_of.values()), priority)


# -- going on -------------------------------------------------------------------------------------------------


def let_go_on(run: Run, group: Group) -> None:
    """End the suspension; the room that the stand-ins hold is now for the pods that will come."""
    gang = group.gangs[0]
    job = run.reporter.job_of(gang)
    run.actuator.begin(group.key)
    if group.plan is None or job is None:
        return
    run.hold(group, group.plan)
    group.message = causes.waits_for_pods_of(gang.family, job.key)
    run.world.ledger.resume(group.key, job.uid)
    waits, templates = held(run.world, job), _changed_templates(run, group, job)
    about = report.job_reference(job)
    action = desired.resume(about, job.version, gang.scheduler, held=waits, templates=templates)
    run.actuator.want(action, group.key)


def suspended_anew(run: Run, job: Suspendable) -> bool:
    """Has a Job that was let go on been suspended since, by us or by others? No pods come then. Until the cluster shows
    that it goes on, it only looks so.
    """
    ledger = run.world.ledger
    if not job.suspended and ledger.kept_for(job.uid) is not None:
        ledger.resumed.add(job.uid)
    ours = job.suspended_by or held(run.world, job)
    return job.suspended and (not ours or job.uid in ledger.resumed)


def take_room(run: Run, pod: Pod, node: str) -> None:
    """A pod of a Job takes room on a node: as much is no longer kept for the Job, there if possible."""
    ledger = run.world.ledger
    job = run.world.jobs.owner_of(pod) if ledger.resumes and pod.live else None
    made = ledger.kept_for(job.uid) if job is not None else None
    taken = ledger.adopt(job.uid, pod.uid, node) if job is not None else None
    if made is None or taken is None:
        return
    if taken.node != node:
        run.changes.append(Change(Hint.ROOM, taken.node))
    run.check.add(made.holder)


def _changed_templates(run: Run, group: Group, owner: Suspendable) -> tuple[Directives, ...] | None:
    """What each template is to have beside its own, in the order of ``replicatedJobs``; None if it says so already.

    What it has of an earlier flavor goes. Templates of which no pod starts now stay as they are.
    """
    use = next((d.quota for d in group.decisions if d.quota is not None), None)
    by_pod = use.by_pod if use is not None else {}
    pods = run.world.pods
    chosen = {_template_of(pods[uid].name, owner): flavors for uid, flavors in by_pod.items() if uid in pods}
    jobs = [owner] if isinstance(owner, Job) else [each.job for each in owner.replicated]
    out = []
    for job in jobs:
        if job.template is None or (use is not None and job.name not in chosen):
            out.append(job.added)
        else:
            out.append(_added(run, job.template.shape, chosen.get(job.name, ())))
    return None if out == [job.added for job in jobs] else tuple(out)


def _template_of(stand_in: str, owner: Suspendable) -> str:
    """The name of the Job, or of the Jobs of a JobSet without their index, to whose template a stand-in is made."""
    return owner.name if isinstance(owner, Job) else stand_in.rsplit("-", 2)[0]


def _added(run: Run, shape: PodShape, flavors: Flavors) -> Directives:
    known = run.world.managed.quota.flavors
    names = dict.fromkeys(name for _, name in flavors)
    there = in_flavors(shape, [known[name] for name in names if name in known])
    if there is shape:
        return NO_DIRECTIVES
    selector = tuple(pair for pair in there.node_selector if pair not in shape.node_selector)
    return Directives(selector, tuple(dict.fromkeys(there.tolerations[len(shape.tolerations) :])))
