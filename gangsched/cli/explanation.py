"""Why a gang starts or waits, and why a pod is evicted or may stay, in words. Facts in, text out; no I/O."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence

import msgspec

from gangsched.cli import contracts, without_pods
from gangsched.cli.advice import Advisor, how_it_starts
from gangsched.cli.answers import UsageError
from gangsched.cli.decisions import WOULD_DECIDE, WOULD_HELP, State, sentence, word
from gangsched.cli.incomplete import gathering_advice
from gangsched.cli.late_pods import cures, is_late, lingering_pod
from gangsched.cli.owners import above
from gangsched.cli.pod_explanation import (
    choice,
    conditions,
    drained_sections,
    evicted_for,
    leaving,
    pod_sections,
    under,
)
from gangsched.cli.said import PENDING, SchedulerCondition, said_instead, said_of
from gangsched.core.decision import SCHEDULER, Decision, Fits, FitsWhenFreed, Gathering, Preempt, Unschedulable
from gangsched.core.events import Changed, Gone
from gangsched.core.preemption.drain_plan import DrainPlan
from gangsched.messages import absent, advice, explanations, failures
from gangsched.messages.text import and_nearest, are, join_names, pluralize
from gangsched.model.children import JOBSET_NAME
from gangsched.model.dialects.upstream import FAMILY as UPSTREAM
from gangsched.model.records import PREEMPT_NEVER, SINGLE, Gang, GangId, Node, Pod
from gangsched.model.times import clock_time, render_time


class Explanation(msgspec.Struct, frozen=True):
    """What is known about one gang or pod.

    ``title`` names it, ``word`` and ``sentence`` say how it stands. ``decisions`` are those that concern it.
    ``own`` is the decision about itself, None for something that is not decided about now. ``drained`` is the workload
    that it leaves with because of a stopped queue. ``said`` is how it is, where that is not what was decided about it.
    """

    title: str
    word: str
    sentence: str
    sections: tuple[contracts.Section, ...]
    decisions: tuple[Decision, ...] = ()
    own: Decision | None = None
    drained: tuple[DrainPlan, ...] = ()
    said: SchedulerCondition | None = None

    @property
    def head(self) -> tuple[str, str]:
        """The word and the sentence with which it begins."""
        if self.own is None or self.said is not None:
            return self.word, self.sentence
        return word(self.own), sentence(self.own)

    def as_contract(self, decisions: Sequence[contracts.Decision] = ()) -> contracts.Explanation:
        """Return this in the words of the contract, with these ``decisions``."""
        return contracts.Explanation(self.title, self.word, self.sentence, list(self.sections), list(decisions))


def explain(state: State, namespace: str, name: str, kind: str = "") -> Explanation:
    """Explain the gang or the pod of this name (a gang goes first), else the pods of the owner that has it.

    Raises :class:`UsageError` if there is none.
    """
    for decision, _ in state.decisions:
        if (decision.gang.namespace, decision.gang.name) == (namespace, name) and kind in ("", decision.kind):
            return _gang(state, decision, None)
    pod = state.world.find(namespace, name) if kind in ("", "Pod") else None
    if pod is not None:
        return _pod(state, pod)
    gangs = [] if kind == "Pod" else _gangs_named(state, namespace, name, kind)
    waiting = next((gang for gang in gangs if state.partial and state.world.membership.waits(gang)), None)
    if waiting is not None:
        census = state.world.membership.census(waiting)
        return _pod(state, min((*census.pending, *census.gated), key=lambda p: p.name))
    placed = next((gang for gang in gangs if state.world.membership.placed(gang)), None)
    if placed is not None:
        return _running_gang(state, placed)
    owned = [p for p in state.world.pods.values() if p.namespace == namespace and _owns(state, kind, name, p)]
    if any(p.live for p in owned):
        return _owner(state, namespace, name, kind, owned)
    alone = None if kind == "Pod" else without_pods.without_pods(state, namespace, name, kind)
    if alone is not None:
        return answered(alone)
    if owned:
        return _owner(state, namespace, name, kind, owned)
    if gangs:
        return _running_gang(state, gangs[0])
    raise UsageError(_unknown(state, f"{namespace}/{name}", kind))


def answered(answer: without_pods.Answer, *more: contracts.Section) -> Explanation:
    """The answer about something that nothing is decided about."""
    title, word, sentence, action = answer
    return Explanation(title, word, sentence, (*without_pods.action(action), *more))


def _gangs_named(state: State, namespace: str, name: str, kind: str) -> list[GangId]:
    """Return the gangs of this name, of this kind if one is given: a Job may have the name of its PodGroup."""
    membership = state.world.membership
    named = [g for g in sorted(membership.gangs()) if (g.namespace, g.name) == (namespace, name) and g.family != SINGLE]
    return [g for g in named if kind in ("", _kind(membership.spec(g)))]


def _kind(spec: Gang | None) -> str:
    return spec.kind if spec is not None else "PodGroup"


def _owner(state: State, namespace: str, name: str, kind: str, owned: Sequence[Pod]) -> Explanation:
    """Return the owner of these pods: the gang of those without a node, because users ask about that, else of all
    others.
    """
    others = without_pods.of_others(state, owned)
    if others is not None:
        return answered(others, *conditions([p for p in owned if not p.node]))
    first = min(owned, key=lambda p: (not p.live, bool(p.node), p.name))
    if not first.node or not first.live:
        return _pod(state, first)
    placed = sorted((p for p in owned if p.node and p.live), key=lambda p: p.name)
    return _placed(state, f"{namespace}/{name}  {kind or 'owner'} · {pluralize(len(placed), 'pod')} on nodes", placed)


def _owns(state: State, kind: str, name: str, pod: Pod) -> bool:
    """Return True if the named object owns the pod, directly or through other owners."""
    if kind in ("", "JobSet") and pod.labels.get(JOBSET_NAME) == name:
        return True
    return any(called == name and kind in ("", of) for of, called in above(state.world, pod))


def _gang(state: State, decision: Decision, asked: Pod | None) -> Explanation:
    said = said_instead(state, decision)
    sections = gang_sections(state, decision, asked, said)
    found = Explanation(decision.gang.key, decision.outcome, sentence(decision), tuple(sections), (decision,), decision)
    return found if said is None else msgspec.structs.replace(found, word=said.word, sentence=said.why, said=said)


def _pod(state: State, pod: Pod) -> Explanation:
    own = state.decision(pod.gang)
    if own is not None and not pod.node and pod.live:
        return _gang(state, own, pod)
    title = f"{pod.key}  Pod · priority {pod.priority}"
    if pod.node:
        title += f" · on {pod.node}"
    if pod.finished:
        return Explanation(title, pod.phase.lower(), explanations.FINISHED, tuple(conditions([pod])))
    if not pod.node:
        others = without_pods.of_others(state, [pod])
        if others is not None:
            return answered((title, *others[1:]), *conditions([pod]))
        return (
            _as_said(state, title, pod)
            if state.partial
            else Explanation(title, PENDING, explanations.GANG_NOT_DECIDED, tuple(conditions([pod])))
        )
    return _placed(state, title, [pod])


def _as_said(state: State, title: str, pod: Pod) -> Explanation:
    """Return the pending pods in the scheduler's words only, because the scheduler knows more than this command."""
    census = state.world.membership.census(pod.gang)
    if pod.gang.family != SINGLE:
        placed, members = len(census.bound), len(census.bound) + len(census.pending) + len(census.gated)
        title = f"{pod.gang.key}  {_kind(state.world.membership.spec(pod.gang))} · {placed} of {members} pods on nodes"
    said = said_of(census)
    if said is None:
        return Explanation(title, PENDING, failures.NOT_DECIDED, tuple(conditions([pod])))
    since = [f"since {render_time(said.since)}"] if said.since else []
    sections = (
        *under("said", [*([said.more] if said.more else []), *since]),
        *conditions([p for p in census.pending if p.nominated_node]),
    )
    return Explanation(title, said.word, said.why, sections)


def _running_gang(state: State, gang: GangId) -> Explanation:
    """A gang without pending members: what happens to its pods."""
    census = state.world.membership.census(gang)
    spec = state.world.membership.spec(gang)
    placed = [*census.bound, *census.terminating]
    title = f"{gang.key}  {_kind(spec)} · {pluralize(len(placed), 'pod')} on nodes"
    if not placed:
        return Explanation(title, "finished" if census.succeeded else "empty", explanations.NO_POD_TAKES_ROOM, ())
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
            return Explanation(title, "leaving", leaving(pods, state.now), sections)
        running = all(p.phase == "Running" for p in pods)
        nodes = sorted({p.node for p in pods})
        where = nodes[0] if len(nodes) == 1 else pluralize(len(nodes), "node")
        return Explanation(title, "running" if running else "starting", absent.on_nodes(where=where), sections)
    first = taking[0]
    taken = sum(1 for v in first.victims if v.uid in uids)
    kind, gang, priority = first.kind, first.gang.key, first.priority
    if len(pods) > 1 and taken == len(pods):
        sentence = explanations.all_evicted_for(kind=kind, gang=gang, priority=priority)
    else:
        some = explanations.some_of_its_pods(taken=taken, pods=len(pods)) if len(pods) > 1 else explanations.IT
        sentence = explanations.evicted_for(what=some, kind=kind, gang=gang, priority=priority)
    return Explanation(title, "victim", sentence, sections, tuple(taking))


def _drained(state: State, title: str, pod: Pod, found: DrainPlan) -> Explanation:
    """A pod whose queue is drained, or one of a gang with such a queue."""
    sections = tuple(drained_sections(state, pod, found))
    word, sentence = "drained", explanations.drained(stop=found.stop)
    if found.blocked:
        word, sentence = "held up", explanations.drain_blocked(stop=found.stop)
    return Explanation(title, word, sentence, sections, drained=(found,))


def _interesting(pods: Sequence[Pod], taking: Sequence[Decision]) -> list[Pod]:
    """One pod to explain in detail: of a gang, the first that is evicted."""
    gone = {v.uid for d in taking for v in d.victims}
    return [next((p for p in pods if p.uid in gone), pods[0])]


def _unknown(state: State, key: str, kind: str) -> str:
    kinds = [_kind(state.world.membership.spec(g)) for g in state.world.membership.gangs() if g.key == key]
    kinds += ["Pod" for pod in state.world.pods.values() if pod.key == key]
    if kind and kinds:
        return absent.of_another_kind(kind=kind, key=key, found=kinds[0])
    known = {g.key for g in state.world.membership.gangs()} | {p.key for p in state.world.pods.values()}
    return explanations.unknown(key=key, pods=len(state.world.pods), nearest=and_nearest(key, known, 0.6))


def gang_sections(
    state: State, decision: Decision, asked: Pod | None, said: SchedulerCondition | None = None
) -> Iterator[contracts.Section]:
    """Yield the facts beside the decision itself. ``asked`` is the member that was asked for, if one was, and ``said``
    what the scheduler says instead.

    On a terminal ``panel.py`` cuts lists from their end and keeps at least one line of each section. A fact that must
    stay needs a section of its own.
    """
    if said is not None:
        yield from under(WOULD_DECIDE, said.differing_decision(decision))
    if asked is not None and asked.gang.family != SINGLE:
        yield from under("asked for", [_member(asked, decision)])
    yield from under("needs", _needs(state, decision))
    stopping = isinstance(decision, FitsWhenFreed)
    why = () if stopping or said is not None else _because(decision)
    yield from under("because", [*_stopping(state, decision), *why])
    if isinstance(decision, Unschedulable):
        yield from under(WOULD_HELP, _would_help(state, decision))
    elif action := first_action(state, decision):
        yield from under(WOULD_HELP, [action])
    census = state.world.membership.census(decision.gang)
    yield from conditions([asked] if asked is not None else [*census.pending, *census.gated])


def _member(pod: Pod, decision: Decision) -> str:
    where = next((p.node for p in decision.placements if p.key == pod.key), None)
    if where is not None:
        return explanations.member_goes_to(pod=pod.key, kind=decision.kind, gang=decision.gang.key, node=where)
    return explanations.member_without_node(pod=pod.key, kind=decision.kind, gang=decision.gang.key)


def _needs(state: State, decision: Decision) -> Iterator[str]:
    membership = state.world.membership
    spec = membership.spec(decision.gang)
    census = membership.census(decision.gang)
    if decision.gang.family != SINGLE and spec is not None:
        members, source = pluralize(spec.min_member, "member"), spec.source or spec.kind
        bound, pending = len(census.bound), len(census.pending)
        gated = explanations.and_gated(gated=len(census.gated)) if census.gated else ""
        yield explanations.needs_members(members=members, source=source, bound=bound, pending=pending, gated=gated)
    if len(decision.group) > 1:
        yield explanations.starts_with_group(gangs=", ".join(decision.group))
    gangs = _gangs(state, decision)
    own = membership.own_priority(decision.gang) is not None
    said = spec.priority if spec is not None else None
    mixed = not own and said is not None and any(pod.priority != said for pod in census.pending)
    whose = explanations.ITS_OWN if own or decision.gang.family == SINGLE else _lowest(state, decision)
    if mixed:
        whose = absent.lower_of(own=said, lowest=min(pod.priority for pod in census.pending))
    text = explanations.preempts(priority=decision.priority, whose=whose)
    if membership.policy(gangs) == PREEMPT_NEVER:
        text = explanations.never_preempts(priority=decision.priority)
    yield text
    if mixed and decision.gang.family == UPSTREAM:
        yield absent.MIXED_IS_REFUSED


def _lowest(state: State, decision: Decision) -> str:
    """Of which members the priority is, where they differ."""
    pods = list(state.world.membership.pods(decision.gang))
    low = [pod for pod in pods if pod.priority == decision.priority]
    if not low or len(low) == len(pods):
        return explanations.OF_ITS_MEMBERS
    named = join_names(sorted(pod.name for pod in low), 3)
    without = absent.WITHOUT_CLASS if not any(pod.priority_class for pod in low) else ""
    highest = max(pod.priority for pod in pods)
    return absent.lowest_of(names=named, without=without, highest=highest)


def _because(decision: Decision) -> Iterator[str]:
    match decision:
        case Fits():
            yield explanations.FITS_NOW
        case Preempt():
            yield explanations.FITS_WITHOUT_VICTIMS
            yield from choice(decision, explanations.THE_VICTIMS)
            broken = sum(v.over_budget for v in decision.victims)
            if broken:
                yield explanations.beyond_budgets(pods=broken)
        case _ if not decision.message:  # otherwise the decision says it
            yield explanations.HAS_ITS_MINIMUM


def _stopping(state: State, decision: Decision) -> Iterator[str]:
    """Yield the terminating pods whose room the gang waits for, and their deadline. Pods that were evicted for the gang
    come first.
    """
    pods = {pod.uid: pod for pod in state.world.pods.values()}
    gang = decision.gang.key
    own = [a for a in decision.awaiting if a.plan == gang or (a.uid in pods and gang in evicted_for(pods[a.uid]))]
    others = [each for each in decision.awaiting if each not in own]
    late = {each.uid for each in decision.awaiting if each.uid in pods and is_late(state, pods[each.uid])}
    for pod in sorted((pods[uid] for uid in late), key=lambda pod: pod.key):
        yield lingering_pod(state, pod)
    for group in filter(None, ([a for a in own if a.uid not in late], [a for a in others if a.uid not in late])):
        ends = [pods[each.uid].deleting_since for each in group if each.uid in pods]
        last = max((end for end in ends if end is not None), default=None)
        until = absent.until(time=clock_time(last, state.now)) if last is not None else ""
        count, names = len(group), join_names([each.pod for each in group], 3)
        if group[0] in own:
            yield absent.stopping_for_it(pods=pluralize(count, "pod"), are=are(count), names=names, until=until)
        else:
            yield absent.stopping(pods=pluralize(count, "pod"), are=are(count), names=names, until=until)


def first_action(state: State, decision: Decision) -> str:
    """Return the first action that makes a gang start; empty if it starts by itself."""
    if isinstance(decision, Unschedulable):
        return next(_would_help(state, decision))
    if isinstance(decision, Gathering):
        return gathering_advice(state, decision)
    return advice.decided_again(then=how_it_starts(decision)) if said_instead(state, decision) is not None else ""


def _would_help(state: State, decision: Unschedulable) -> Iterator[str]:
    """Yield changes that make an unschedulable gang fit. Each was tried."""
    if decision.failed_plugin == SCHEDULER:
        yield explanations.REPORT_ERROR
        return
    if decision.failed_plugin:
        yield explanations.other_plugin(plugin=decision.failed_plugin)
        return
    if not decision.required:
        yield explanations.ROOM_FOR_ONE_MORE
        return
    yield from cures(state, (pod for pod in state.world.pods.values() if decision.gang.key in evicted_for(pod)))
    found = itertools.chain(_nowhere(state, decision), Advisor(state, decision, _nodes(state)).found())
    yield next(found, advice.NONE_FOUND)
    yield from found


def _gangs(state: State, decision: Decision) -> tuple[GangId, ...]:
    return state.world.membership.group(decision.gang)[0]


def _nodes(state: State) -> list[Node]:
    found: dict[str, Node] = {}
    for event in state.events:
        if isinstance(event, Changed) and isinstance(event.record, Node):
            found[event.record.name] = event.record
        elif isinstance(event, Gone) and event.kind == "Node":
            found.pop(event.name, None)
    return list(found.values())


_NEAR_RESOURCE = 0.85


def _nowhere(state: State, decision: Decision) -> Iterator[str]:
    """Yield advice for extended resources that no node has."""
    nodes = _nodes(state)
    pending = state.world.membership.census(decision.gang).pending
    asked = {resource for pod in pending for resource, amount in pod.shape.requests if amount and "/" in resource}
    for resource in sorted(asked) if nodes else ():
        if any(dict(node.allocatable).get(resource) for node in nodes):
            continue
        there = {r for node in nodes for r, amount in node.allocatable if amount and "/" in r}
        if (close := difflib.get_close_matches(resource, sorted(there), 1, _NEAR_RESOURCE)) and (
            then := Advisor(state, decision, nodes).with_resource(resource, close[0])
        ):
            yield absent.other_resource(meant=close[0], found=resource, then=then)
            continue
        served_by = state.world.snapshot.devices.serving_class(resource)
        yield (
            absent.serve_otherwise(found=resource, name=served_by) if served_by else absent.no_node_has(found=resource)
        )
