"""Why a gang with pending members starts, waits or evicts, and what would change that."""

from __future__ import annotations

from collections.abc import Iterator

from gangsched.cli.advice import advice, gathering_advice
from gangsched.cli.pod_explanation import MANY, Section, choice, conditions, under
from gangsched.cli.what_if import State
from gangsched.core.decision import Decision, Fits, FitsWhenFreed, Gathering, Preempt, Unschedulable
from gangsched.model.records import PREEMPT_NEVER, SINGLE, SYSTEM_CRITICAL_PRIORITY, GangId, Pod
from gangsched.model.words import counted, listed


def gang_sections(state: State, decision: Decision, asked: Pod | None) -> Iterator[Section]:
    """What there is to say beside the decision itself; ``asked`` is the member that was asked for, if one was."""
    if asked is not None and asked.gang.family != SINGLE:
        yield from under("asked for", [_member(asked, decision)])
    yield from under("needs", _needs(state, decision))
    yield from under("because", _because(decision))
    if isinstance(decision, Unschedulable):
        yield from under("would help", _would_help(state, decision))
    if isinstance(decision, Gathering):
        yield from under("would help", [gathering_advice(decision)])
    census = state.world.membership.census(decision.gang)
    yield from conditions([asked] if asked is not None else [*census.pending, *census.gated])


def _member(pod: Pod, decision: Decision) -> str:
    where = next((p.node for p in decision.placements if p.key == pod.key), None)
    if where is not None:
        return f"{pod.key} is a member of {decision.kind} {decision.gang.key} and goes to {where}"
    why = next(("; ".join(u.reasons) for u in decision.unplaced if u.pod == pod.key), "")
    text = f"{pod.key} is a member of {decision.kind} {decision.gang.key} and has no node"
    return f"{text}: {why}" if why else text


def _needs(state: State, decision: Decision) -> Iterator[str]:
    membership = state.world.membership
    spec = membership.spec(decision.gang)
    census = membership.census(decision.gang)
    if decision.gang.family != SINGLE and spec is not None:
        yield (
            f"{counted(spec.min_member, 'member')} to run (from {spec.source or spec.kind});"
            f" {len(census.bound)} on nodes, {len(census.pending)} pending"
            + (f", {len(census.gated)} held by scheduling gates" if census.gated else "")
        )
    if len(decision.group) > 1:
        yield f"the GangGroup {', '.join(decision.group)} starts together or not at all"
    gangs = _gangs(state, decision)
    own = spec is not None and spec.priority is not None
    whose = "its own" if own or decision.gang.family == SINGLE else "the lowest of its members'"
    text = f"it preempts with priority {decision.priority} ({whose})"
    if membership.policy(gangs) == PREEMPT_NEVER:
        text = f"priority {decision.priority}, but preemptionPolicy Never: it evicts nobody"
    yield text


def _because(decision: Decision) -> Iterator[str]:
    match decision:
        case Fits():
            yield "there is room for them now: no pod is evicted"
        case FitsWhenFreed():
            yield "they fit in room that pods on their way out give up already: nobody is evicted for them"
        case Preempt():
            yield "they do not fit now, and fit when the victims are gone"
            yield from choice(decision, "the victims are")
            broken = sum(v.over_budget for v in decision.victims)
            if broken:
                yield f"{broken} of them beyond a PodDisruptionBudget: no choice without that was found"
        case _ if not decision.message:  # otherwise the decision says it
            yield "it has its minimum; there is no room for further members"


def _would_help(state: State, decision: Unschedulable) -> Iterator[str]:
    """What would make an unschedulable gang fit, tried out."""
    if decision.failed_plugin:
        yield f"a plug-in {decision.failed_plugin} that does not fail, or a profile without it"
        return
    if not decision.required:
        yield "room for one more member; nobody is evicted for members beyond the minimum"
        return
    patient = state.without_patience(decision.gang)
    if isinstance(patient, Preempt):
        yield f"time: without minimum run times and preemption delay it would evict {_victims(patient)} now"
    yield from _priority(state, decision)
    if decision.quota is None or decision.quota.flavors:
        yield from advice(state, decision)
    else:
        yield "quota in its queue"


def _priority(state: State, decision: Decision) -> Iterator[str]:
    gangs = _gangs(state, decision)
    highest = state.with_priority(gangs, decision.gang, SYSTEM_CRITICAL_PRIORITY)
    if highest is None:
        return
    if isinstance(highest, Fits | FitsWhenFreed):
        yield "a place further ahead in the queue: gangs of higher priority take the room first"
    if not isinstance(highest, Preempt):
        return
    enough = max(v.priority for v in highest.victims) + 1
    if enough <= decision.priority:
        if state.world.membership.policy(gangs) == PREEMPT_NEVER:
            yield f"a preemptionPolicy other than Never: it would evict {_victims(highest)}"
        return
    tried = state.with_priority(gangs, decision.gang, enough)
    if isinstance(tried, Preempt):
        yield f"a priority of {enough} or more: it would evict {_victims(tried)}"


def _victims(decision: Preempt) -> str:
    return listed([v.key for v in decision.victims], MANY)


def _gangs(state: State, decision: Decision) -> tuple[GangId, ...]:
    return state.world.membership.group(decision.gang)[0]
