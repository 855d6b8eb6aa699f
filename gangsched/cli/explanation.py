"""Why a gang starts or waits, and why a pod is evicted or may stay, in words. Facts in, text out; no I/O."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gangsched.cli.errors import UsageError
from gangsched.cli.gang_explanation import gang_sections
from gangsched.cli.pod_explanation import Section, conditions, drained_sections, pod_sections
from gangsched.cli.what_if import State
from gangsched.core.decision import Decision
from gangsched.core.preemption.drained import Leaving
from gangsched.messages.text import and_nearest
from gangsched.model.children import JOBSET_NAME
from gangsched.model.records import SINGLE, GangId, Pod


class Explanation(msgspec.Struct, frozen=True):
    """What is known about one gang or pod.

    ``title`` names it, ``word`` and ``sentence`` say how it stands. ``decisions`` are those that concern it.
    ``own`` is the decision about itself, None for something that is not decided about now. ``drained`` is the workload
    that it leaves with because of a stopped queue.
    """

    title: str
    word: str
    sentence: str
    sections: tuple[Section, ...]
    decisions: tuple[Decision, ...] = ()
    own: Decision | None = None
    drained: tuple[Leaving, ...] = ()


def explain(state: State, namespace: str, name: str, kind: str = "") -> Explanation:
    """Explain the gang or the pod of this name (a gang goes first), else a pod of what has it; ``kind`` if only that.

    Raises :class:`UsageError` if there is none.
    """
    for decision, _ in state.decisions:
        if (decision.gang.namespace, decision.gang.name) == (namespace, name) and kind in ("", decision.kind):
            return _gang(state, decision, None)
    pod = state.world.find(namespace, name) if kind in ("", "Pod") else None
    if pod is not None:
        return _pod(state, pod)
    named = (g for g in sorted(state.world.membership.members) if (g.namespace, g.name) == (namespace, name))
    gang = next((g for g in named if g.family != SINGLE), None) if kind != "Pod" else None
    if gang is not None:
        return _running_gang(state, gang)
    owned = [p for p in state.world.pods.values() if p.namespace == namespace and _owns(kind, name, p)]
    if owned:  # the question is about what has no node yet
        return _pod(state, min(owned, key=lambda p: (not p.live, bool(p.node), p.name)))
    raise UsageError(_unknown(state, f"{namespace}/{name}"))


def _owns(kind: str, name: str, pod: Pod) -> bool:
    """Is this the owner of the pod, or the JobSet of its Job?"""
    if kind in ("", "JobSet") and pod.labels.get(JOBSET_NAME) == name:
        return True
    return pod.owner is not None and pod.owner.name == name and kind in ("", pod.owner.kind)


def _gang(state: State, decision: Decision, asked: Pod | None) -> Explanation:
    return Explanation(
        title=decision.gang.key,
        word=decision.outcome,
        sentence="",
        sections=tuple(gang_sections(state, decision, asked)),
        decisions=(decision,),
        own=decision,
    )


def _pod(state: State, pod: Pod) -> Explanation:
    own = state.decision(pod.gang)
    if own is not None and not pod.node and pod.live:
        return _gang(state, own, pod)
    title = f"{pod.key}  Pod · priority {pod.priority}"
    if pod.node:
        title += f" · on {pod.node}"
    if pod.finished:
        return Explanation(title, pod.phase.lower(), "it has finished and takes no room", tuple(conditions([pod])))
    if not pod.node:
        names = " or ".join(state.options.scheduler_names)
        ours = (
            f"it is handled by {pod.scheduler}: for this scheduler set spec.schedulerName to {names}"
            f" (--scheduler-name {pod.scheduler} decides as if it were ours)"
        )
        sentence = "its gang is not decided now" if pod.scheduler in state.options.scheduler_names else ours
        return Explanation(title, "pending", sentence, tuple(conditions([pod])))
    return _placed(state, title, [pod])


def _running_gang(state: State, gang: GangId) -> Explanation:
    """A gang without pending members: what happens to its pods."""
    census = state.world.membership.census(gang)
    spec = state.world.membership.spec(gang)
    placed = [*census.bound, *census.terminating]
    title = f"{gang.key}  {spec.kind if spec is not None else 'PodGroup'} · {len(placed)} pods on nodes"
    if not placed:
        return Explanation(title, "finished" if census.succeeded else "empty", "none of its pods takes room", ())
    return _placed(state, title, placed)


def _placed(state: State, title: str, pods: Sequence[Pod]) -> Explanation:
    """Pods that have a node: whose victims they are, and why."""
    uids = {p.uid for p in pods}
    gangs = {p.gang for p in pods}
    for each in state.drained:
        if uids & {v.uid for v in each.victims} or (each.blocked and gangs & set(each.gangs)):
            return _drained(state, title, pods[0], each)
    taking = [d for d, _ in state.decisions if any(v.uid in uids for v in d.victims)]
    sections = tuple(s for p in _interesting(pods, taking) for s in pod_sections(state, p, taking))
    if not taking:
        if all(p.deleting_since is not None for p in pods):
            return Explanation(title, "leaving", "it is terminating already", sections)
        return Explanation(title, "stays", "no plan evicts it", sections)
    first = taking[0]
    taken = sum(1 for v in first.victims if v.uid in uids)
    what = "it" if len(pods) == 1 else f"{taken} of its {len(pods)} pods" if taken < len(pods) else "all of it"
    sentence = f"{what} is evicted for {first.kind} {first.gang.key} (priority {first.priority})"
    return Explanation(title, "victim", sentence, sections, tuple(taking))


def _drained(state: State, title: str, pod: Pod, found: Leaving) -> Explanation:
    """A pod whose queue is drained, or one of a gang with such a queue."""
    sections = tuple(drained_sections(state, pod, found))
    word, sentence = "drained", f"it is evicted because {found.stop} is stopped (HoldAndDrain)"
    if found.blocked:
        word, sentence = "held up", f"{found.stop} is drained, and it is evicted as soon as it can be"
    return Explanation(title, word, sentence, sections, drained=(found,))


def _interesting(pods: Sequence[Pod], taking: Sequence[Decision]) -> list[Pod]:
    """One pod to explain in detail: of a gang, the first that is evicted."""
    gone = {v.uid for d in taking for v in d.victims}
    return [next((p for p in pods if p.uid in gone), pods[0])]


def _unknown(state: State, key: str) -> str:
    known = {g.key for g in state.world.membership.members} | {p.key for p in state.world.pods.values()}
    return f"there is no gang or pod {key} among {len(state.world.pods)} pods{and_nearest(key, known, 0.6)}"
