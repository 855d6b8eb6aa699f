"""Answers about a Job, a JobSet or a group without pods, and about pods that are no gang."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from gangsched.cli.contracts import Section
from gangsched.cli.decisions import WOULD_HELP, State
from gangsched.core.state.jobs import Suspendable, family_of
from gangsched.messages import absent
from gangsched.messages.text import are, nearest, pluralize
from gangsched.model.dialects import coscheduling, koordinator
from gangsched.model.dialects.keys import misspelt
from gangsched.model.dialects.operators import OPERATORS
from gangsched.model.dialects.owners import GANG
from gangsched.model.jobsets import JOBSET
from gangsched.model.records import JOB, SINGLE, Gang, Job, Pod

#: How an answer begins: title, word, sentence and what to do about it.
Answer: TypeAlias = tuple[str, str, str, str]
_NO_CLASS = re.compile(r"no PriorityClass with name (\S+)")
#: The label by which pods name their group, where that is how they do it.
LABELS = {koordinator.FAMILY: koordinator.GROUP_LABEL, coscheduling.FAMILY: coscheduling.GROUP_LABEL}
#: The word about pods of other schedulers.
NOT_OURS = "not ours"
#: Owners of pods that are replaced one by one, by what people write: ``gangsched init`` refuses these.
_REPLACED = {
    "ReplicaSet": "Deployment",
    "ReplicationController": "ReplicationController",
    "DaemonSet": "DaemonSet",
}


def without_pods(state: State, namespace: str, name: str, kind: str) -> Answer | None:
    """How an owner or a group stands of which there is no pod; None if there is none of that name."""
    for each in (JOB, JOBSET):
        owner = state.world.jobs.find(each, namespace, name) if kind in ("", each) else None
        if owner is not None:
            return _owner(each, owner)
    for (family, space, called), spec in sorted(state.world.membership.objects.items()):
        if (space, called) == (namespace, name) and kind in ("", spec.kind) and family != SINGLE:
            return _group(spec)
    return None


def alone(owner: Suspendable | None, spec: Gang | None) -> Answer | None:
    """The answer about an owner, else about a group, that has no pods."""
    if owner is not None:
        return _owner(family_of(owner), owner)
    return _group(spec) if spec is not None else None


def _owner(kind: str, owner: Suspendable) -> Answer:
    title = absent.title(what=f"{owner.key}  {kind}")
    low, name, space = kind.lower(), owner.name, owner.namespace
    if owner.deleting:
        return title, "leaving", absent.BEING_DELETED, ""
    if owner.finished:
        text = absent.FINISHED
        if isinstance(owner, Job):
            wanted = owner.completions if owner.completions is not None else owner.parallelism
            text = absent.finished(succeeded=owner.succeeded, wanted=wanted)
        return title, "finished", text, ""
    if owner.suspended and owner.suspended_by:
        text = absent.suspended_for(scheduler=owner.suspended_by)
        return title, "suspended", text, absent.why_evicted(kind=low, name=name, namespace=space)
    if owner.suspended and owner.queue.local_queue:
        return title, "suspended", absent.suspended_in_queue(queue=owner.queue.local_queue), absent.SEE_QUEUES
    if owner.suspended:
        return title, "suspended", absent.SUSPENDED, absent.resume(kind=low, name=name, namespace=space)
    if owner.evicted:
        return title, "evicted", absent.EVICTED, absent.why_evicted(kind=low, name=name, namespace=space)
    return title, "waits", absent.NO_PODS, absent.see_events(kind=low, name=name, namespace=space)


def _group(spec: Gang) -> Answer:
    if spec.kind in OPERATORS:
        low = spec.kind.lower()
        action = absent.see_events(kind=low, name=spec.name, namespace=spec.namespace)
        return absent.title(what=f"{spec.key}  {spec.kind}"), "waits", absent.NO_PODS, action
    members = pluralize(spec.min_member, "pod")
    label = f"{LABELS[spec.family]}={spec.name}" if spec.family in LABELS else spec.name
    title = absent.title(what=f"{spec.key}  {spec.kind}")
    action = absent.label_pods(members=members, namespace=spec.namespace, label=label)
    return title, "waits", absent.group_without_pods(members=members), action


def refused(answer: Answer, owner: str, note: str, classes: Sequence[str]) -> Answer:
    """The answer where a controller cannot create pods: ``note`` is what its Events say."""
    missing = _NO_CLASS.search(note)
    action = absent.SEE_REFUSAL
    if missing is not None:
        hint = nearest(missing[1], classes, "", 0.6)
        action = absent.create_class(name=missing[1], nearest=f"; {hint}" if hint else "")
    return answer[0], "waits", absent.refused(owner=owner, note=note), action


def of_others(state: State, pods: Sequence[Pod]) -> Answer | None:
    """The answer where all of these pods that wait are another scheduler's; None where they are not."""
    ours = state.options.scheduler_names
    waiting = [pod for pod in pods if pod.live and not pod.node]
    if not waiting or any(pod.scheduler in ours for pod in waiting):
        return None
    pod, count = waiting[0], len(waiting)
    name = pod.owner.name if pod.owner is not None and count > 1 else pod.name
    title = absent.title_of_others(what=f"{pod.namespace}/{name}", pods=pluralize(count, "pod"))
    sentence = absent.not_ours(pods=pluralize(count, "pod"), are=are(count), scheduler=pod.scheduler)
    names = " or ".join(ours)
    refused = next((_REPLACED[each.owner.kind] for each in waiting if each.owner and each.owner.kind in _REPLACED), "")
    if refused:
        action = absent.start_by_itself(kind=refused, names=names, scheduler=pod.scheduler)
    else:
        action = absent.make_ours(names=names, scheduler=pod.scheduler)
    return title, NOT_OURS, sentence, action


def no_gang(state: State, namespace: str, name: str, annotations: Mapping[str, str]) -> Answer | None:
    """Return the answer about a Job whose pods start one by one although it seems to be meant as a gang, because a
    label of the pods or one of its ``annotations`` is misspelt or invalid. None: nothing of that kind.
    """
    job = state.world.jobs.get((namespace, name))
    pods = list(state.world.jobs.pods_of(job)) if job is not None else []
    if job is None or len(pods) < 2 or any(pod.gang.family != SINGLE for pod in pods):
        return None
    labels = {key for pod in pods for key in pod.labels}
    action = ""
    if near := misspelt(labels):
        action = absent.near_label(found=near.found, meant=near.meant)
    elif near := misspelt(annotations):
        action = absent.near_annotation(found=near.found, meant=near.meant)
    if not action and annotations.get(GANG, "true") not in ("true", "false"):
        action = absent.neither(key=GANG, found=annotations[GANG])
    sentence = absent.no_gang(pods=pluralize(len(pods), "pod"), are=are(len(pods)))
    return (f"{namespace}/{name}  Job", "no gang", sentence, action) if action else None


def action(text: str) -> Iterator[Section]:
    """The section of what to do."""
    if text:
        yield Section(WOULD_HELP, [text])
