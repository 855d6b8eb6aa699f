"""What the pod templates of a Job or JobSet are to say when it goes on: the labels and tolerations of its flavors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangsched.core.quota.flavored_pods import in_flavors
from gangsched.core.quota.usage import Flavors
from gangsched.model.records import NO_DIRECTIVES, Directives, Job, PodShape

if TYPE_CHECKING:
    from gangsched.core.groups import Group
    from gangsched.core.lifecycle.steps import Steps
    from gangsched.core.state.suspended import Suspendable


def changed(steps: Steps, group: Group, owner: Suspendable) -> tuple[Directives, ...] | None:
    """What each template is to have beside its own, in the order of ``replicatedJobs``; None if it says so already.

    What it has of an earlier flavor goes. Templates of which no pod starts now stay as they are.
    """
    use = next((d.quota for d in group.decisions if d.quota is not None), None)
    by_pod = use.by_pod if use is not None else {}
    pods = steps.world.pods
    chosen = {_template_of(pods[uid].name, owner): flavors for uid, flavors in by_pod.items() if uid in pods}
    jobs = [owner] if isinstance(owner, Job) else [each.job for each in owner.replicated]
    out = []
    for job in jobs:
        if job.template is None or (use is not None and job.name not in chosen):
            out.append(job.added)
        else:
            out.append(_added(steps, job.template.shape, chosen.get(job.name, ())))
    return None if out == [job.added for job in jobs] else tuple(out)


def _template_of(stand_in: str, owner: Suspendable) -> str:
    """The name of the Job, or of the Jobs of a JobSet without their index, to whose template a stand-in is made."""
    return owner.name if isinstance(owner, Job) else stand_in.rsplit("-", 2)[0]


def _added(steps: Steps, shape: PodShape, flavors: Flavors) -> Directives:
    known = steps.world.managed.quota.flavors
    names = dict.fromkeys(name for _, name in flavors)
    there = in_flavors(shape, [known[name] for name in names if name in known])
    if there is shape:
        return NO_DIRECTIVES
    selector = tuple(pair for pair in there.node_selector if pair not in shape.node_selector)
    return Directives(selector, tuple(dict.fromkeys(there.tolerations[len(shape.tolerations) :])))
