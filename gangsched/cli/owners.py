"""The controllers above the pods of a gang, and those that have no pods: whose Events may say why pods are missing."""

from __future__ import annotations

from collections.abc import Iterator

from gangsched.cli.decisions import State
from gangsched.core.world.owner_gangs import key_in_labels
from gangsched.core.world.world import World
from gangsched.model.jobsets import JOBSET
from gangsched.model.records import JOB, SINGLE, GangId, Owner, Pod

#: Kind, namespace, name and UID.
Controller = tuple[str, str, str, str]


def controllers_of(state: State, gang: GangId) -> list[Controller]:
    """The controllers above the members that there are, the nearest first; with a JobSet its Jobs, and the owner that a
    gang without a group object stands for.
    """
    world, found = state.world, dict[Controller, None]()
    for pod in world.membership.pods(gang):
        found |= dict.fromkeys(_above(world, pod.owner, gang.namespace))
    spec = world.membership.spec(gang)
    if gang.family != SINGLE and spec is not None and spec.uid:
        found[spec.kind, gang.namespace, gang.name, spec.uid] = None
    for kind, namespace, name, _ in list(found):
        jobset = world.jobs.find(JOBSET, namespace, name) if kind == JOBSET else None
        jobs = world.jobs.jobs_of(jobset) if jobset is not None else ()
        found |= {(JOB, job.namespace, job.name, job.uid): None for job in jobs}
    return list(found)


def above(world: World, pod: Pod) -> Iterator[tuple[str, str]]:
    """Kind and name of what owns a pod, as far up as that is known, by references and by the labels of operators."""
    for kind, _, name, _ in _above(world, pod.owner, pod.namespace):
        yield kind.partition(".")[0], name
    named = key_in_labels(pod)
    if named is not None:
        yield named[0], named[2]
        for kind, _, name, _ in _above(world, Owner(named[0], named[2], ""), pod.namespace):
            yield kind.partition(".")[0], name


def _above(world: World, owner: Owner | None, namespace: str) -> Iterator[Controller]:
    seen: set[Controller] = set()
    while owner is not None:
        each = owner.kind, namespace, owner.name, owner.uid
        if each in seen:  # references of users may form a circle
            return
        seen.add(each)
        yield each
        link = world.ownership.find(owner, namespace)
        owner = link.owner if link is not None else None


def owners_without_pods(state: State, namespace: str, name: str, kind: str) -> list[Controller]:
    """The Job or JobSet of this name, which may have no pod because none could be created."""
    found = []
    for each in (JOB, JOBSET):
        owner = state.world.jobs.find(each, namespace, name) if kind in ("", each) else None
        if owner is not None:
            found.append((each, namespace, name, owner.uid))
    return found
