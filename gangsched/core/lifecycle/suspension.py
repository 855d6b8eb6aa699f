"""Jobs (and JobSets) without pods: the end of their suspension, the room that is kept until their pods come,
and what their pod templates are to say: the labels and tolerations of their flavors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangsched.core.actions import JobRef, ResumeJob
from gangsched.core.hints import Change, Hint
from gangsched.core.lifecycle.run import Run
from gangsched.core.quota.assignment import in_flavors
from gangsched.core.quota.usage import Flavors
from gangsched.core.state.jobs import Suspendable, family_of
from gangsched.core.world.suspended import held
from gangsched.messages import causes
from gangsched.model.records import NO_DIRECTIVES, Directives, GangId, Job, Pod, PodShape

if TYPE_CHECKING:
    from gangsched.core.groups import Group


def owner(run: Run, gang: GangId) -> Suspendable | None:
    """The Job or JobSet that a gang without pods stands for."""
    return run.world.jobs.find(gang.family, gang.namespace, gang.name)


def reference(job: Suspendable) -> JobRef:
    """The incarnation of a Job or JobSet that a write means."""
    return JobRef(job.namespace, job.name, job.uid, family_of(job))


# -- going on -------------------------------------------------------------------------------------------------


def let_go_on(run: Run, group: Group) -> None:
    """End the suspension; the room that the stand-ins hold is now for the pods that will come."""
    gang = group.gangs[0]
    job = owner(run, gang)
    run.actuator.begin(group.key)
    if group.plan is None or job is None:
        return
    run.hold(group, group.plan)
    group.message = causes.waits_for_pods_of(gang.family, job.key)
    run.world.ledger.resume(group.key, job.uid)
    waits, templates = held(run.world, job), _changed_templates(run, group, job)
    action = ResumeJob(run.new_id(), reference(job), job.version, gang.scheduler, held=waits, templates=templates)
    run.actuator.ask(group.key, action)


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
