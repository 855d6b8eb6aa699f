"""Why one pod on a node is evicted, or why it may stay, and what would change that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gangsched.cli.contracts import Section
from gangsched.cli.decisions import SAFE_WITH, State
from gangsched.cli.late_pods import is_late, lateness
from gangsched.cluster.sim.history import preemptor_of
from gangsched.core.actuation.records import owners_of
from gangsched.core.decision import Decision, Preempt, Spared, Unschedulable, Victim
from gangsched.core.preemption.drain_plan import DrainPlan
from gangsched.core.preemption.patience import Patience
from gangsched.core.preemption.removal import budgets_of
from gangsched.core.quota.preemption import REASON_TEXT
from gangsched.core.state.lingering import cure
from gangsched.messages import absent, lingering
from gangsched.messages.text import are, join_names, pluralize
from gangsched.model.preemptible import OF_DAEMONSET, protection
from gangsched.model.records import SINGLE, Pod
from gangsched.model.times import clock_time, render_duration, render_time

#: Longer lists are cut: the plan has all.
MANY = 12
#: So many pods are named where they share a condition.
_NAMES = 3


def under(label: str, lines: Iterable[str]) -> Iterator[Section]:
    """A section of these lines, if there are any."""
    found = list(lines)
    if found:
        yield Section(label, found)


def pod_sections(state: State, pod: Pod, taking: Sequence[Decision]) -> Iterator[Section]:
    """Facts about a pod that has a node; ``taking`` are the decisions that evict pods of its gang."""
    if taking:
        decision = taking[0]
        victim = next((v for v in decision.victims if v.uid == pod.uid), None)
        if victim is not None:
            yield from _victim(state, pod, victim, decision)
    else:
        yield from under("because", _why_it_stays(state, pod))
    yield from under("budgets", _budgets(state, pod, taking))
    yield from conditions([pod])


def drained_sections(state: State, pod: Pod, found: DrainPlan) -> Iterator[Section]:
    """Facts about a pod whose queue is drained."""
    lines = [f"{found.name} leaves as a whole or not at all, and {found.blocked}"]
    if not found.blocked:
        methods = {v.method for v in found.victims}
        lines = [
            f"all of {found.name} leaves: {join_names([v.key for v in found.victims], MANY)}",
            *map(_removed, sorted(methods)),
        ]
    yield from under("because", lines)
    yield from under(SAFE_WITH, [f"stopPolicy None or Hold on {found.stop}; then it is admitted as before"])
    yield from under("budgets", _budgets(state, pod, ()))
    yield from conditions([pod])


# -- victims ---------------------------------------------------------------------------------------------------


def _victim(state: State, pod: Pod, victim: Victim, decision: Decision) -> Iterator[Section]:
    yield from under("because", _why(victim, decision))
    yield from under("not others", _others(decision))
    yield from under("if it stayed", _if_it_stayed(state, pod, decision))
    yield from under(SAFE_WITH, _safe_with(state, pod, victim, decision))
    yield from under("warnings", decision.warnings)


def _why(victim: Victim, decision: Decision) -> Iterator[str]:
    yield f"{victim.key}: {victim.why or victim.reason}"
    if victim.unit.kind != "Pod":
        together = [v.key for v in decision.victims if v.unit == victim.unit]
        if len(together) > 1:
            rest = join_names([k for k in together if k != victim.key], MANY)
            yield f"with it leave {rest} of {victim.unit.kind} {victim.unit.name}"
    here = [p.key for p in decision.placements if p.node == victim.node]
    if here:
        yield f"its node {victim.node} is then taken by {join_names(here, MANY)}"
    yield _removed(victim.method)


def _removed(method: str) -> str:
    how = {"evict": "through the Eviction API", "delete": "by a DELETE"}.get(method, "by suspending its owner")
    return f"it is removed {how}, with its own grace period"


def _others(decision: Decision) -> Iterator[str]:
    """Why the victims are these: the rule, and what was spared."""
    count = len(decision.victims)
    yield from choice(decision, f"evicting {'it alone' if count == 1 else f'these {count} pods'} is")
    if decision.stopped:
        yield "the search was cut short at its limit" + (
            "" if decision.optimal else ": a less harmful choice may exist"
        )
    alike: dict[str, list[str]] = {}
    for spared in decision.spared:
        alike.setdefault(spared.reason, []).append(f"{spared.unit.kind} {spared.unit.name}")
    for reason, names in alike.items():
        yield f"{join_names(names, MANY)} {are(len(names))} spared: {reason}"
    if not decision.spared and decision.quota is None:
        yield "no other pods of lower priority that may be evicted run on nodes that the gang can use"


def choice(decision: Decision, these_are: str) -> Iterator[str]:
    """Why the victims are these, and how good the choice is, as far as that is known."""
    if any(v.reason in REASON_TEXT for v in decision.victims):
        yield "the victims are the first in the order of the queue rules that make room in quota and on nodes"
    else:
        yield (
            f"{these_are} the least harmful choice that was found: budgets count first, then priorities and gangs"
            " interrupted, then work lost"
        )
    if decision.optimal:
        yield "that is optimal: no choice breaks fewer budgets or, from the highest priority down, takes less"
    elif decision.gap is not None:
        yield f"it is not proven that it is the least harmful: {decision.gap.sentence}"


def _if_it_stayed(state: State, pod: Pod, decision: Decision) -> Iterator[str]:
    other = state.if_it_stayed(pod, decision.gang)
    if other is None:
        return
    if not isinstance(other, Preempt):
        yield absent.would_wait(gang=decision.gang.key)
        return
    now, then = {v.key for v in decision.victims}, {v.key for v in other.victims}
    yield f"{decision.gang.key} would evict {join_names(sorted(then), MANY)} instead"
    for text, count in (("pods", len), ("pods beyond a budget", _beyond)):
        before, after = count(decision.victims), count(other.victims)
        if before != after:
            yield f"that is {after} {text} instead of {before}"
    yield f"priorities: {_priorities(other.victims)} instead of {_priorities(decision.victims)}"
    if then == now:
        yield "the same pods: it leaves with them in any case"


def _beyond(victims: Sequence[Victim]) -> int:
    return sum(v.over_budget for v in victims)


def _priorities(victims: Sequence[Victim]) -> str:
    levels = sorted({v.priority for v in victims}, reverse=True)
    return ", ".join(f"{sum(v.priority == level for v in victims)} x {level}" for level in levels)


def _safe_with(state: State, pod: Pod, victim: Victim, decision: Decision) -> Iterator[str]:
    unit = "" if victim.unit.kind == "Pod" else f" (of one member, if {victim.unit.name} leaves whole)"
    if victim.reason in REASON_TEXT:
        text = "quota of its own: its queue uses more than that, or has workloads that go before others"
        yield f"{text} (docs/reference/quota.md)"
    else:
        yield f"a priority of at least {decision.priority}{unit}"
    yield 'label scheduling.koordinator.sh/disable-preemptible: "true", or annotation volcano.sh/preemptable: "false"'
    run = max(0.0, state.now - pod.runs_since)
    where = f"PriorityClass {pod.priority_class}" if pod.priority_class else "its PriorityClass"
    yield (
        f"a minimum run time (gangsched.dev/minimum-run-time of {where}, or preemption.minimumRunTime) of more than"
        f" the {render_duration(round(run))} that it has run"
    )
    if not state.options.strict_budgets:
        yield "a PodDisruptionBudget makes it the last choice, not safe; preemption.pdb: strict makes budgets absolute"


# -- pods that stay --------------------------------------------------------------------------------------------


def _why_it_stays(state: State, pod: Pod) -> Iterator[str]:
    """For every gang that has no room, why this pod is not taken for it."""
    if pod.deleting_since is not None:
        if is_late(state, pod):
            yield lateness(state, pod)
            yield cure(pod, state.world.snapshot.node(pod.node))
        else:
            yield f"it has been deleted and is gone by {render_time(pod.deleting_since)} at the latest"
        waiting = [d.gang.key for d, _ in state.decisions if any(a.uid == pod.uid for a in d.awaiting)]
        if waiting:
            yield f"{join_names(waiting, MANY)} waits for its room"
        return
    never = protection(pod, state.options.evict_daemonset_pods)
    if never:
        yield f"it is never a victim: {never}{' (preemption.evictDaemonSetPods)' if never == OF_DAEMONSET else ''}"
        return
    needy = [d for d, _ in state.decisions if isinstance(d, Preempt | Unschedulable)]
    for decision in needy[:MANY]:
        yield f"for {decision.gang.key} (priority {decision.priority}, {decision.outcome}): {_not_for(pod, decision)}"
    yield from _patience(state, pod)


def _not_for(pod: Pod, decision: Decision) -> str:
    if pod.priority >= decision.priority and decision.quota is None:
        return f"its priority {pod.priority} is not lower"
    spared = _spared(pod, decision.spared)
    if spared is not None:
        return f"{spared.unit.kind} {spared.unit.name}: {spared.reason}"
    if isinstance(decision, Preempt):
        return "the gang fits without its room"
    return "its room would not make the gang fit, or it is nowhere where the gang could run"


def _spared(pod: Pod, listed: Iterable[Spared]) -> Spared | None:
    keys = {pod.key} if pod.gang.family == SINGLE else {pod.key, pod.gang.key}
    return next((s for s in listed if keys.intersection(s.unit.name.split(","))), None)


def _patience(state: State, pod: Pod) -> Iterator[str]:
    world = state.world
    patience = Patience(world.membership, world.classes, state.options, world.sightings.began_at)
    until = patience.spared_until(pod, state.world.membership.spec(pod.gang))
    if until > state.now:
        yield f"its minimum run time ends at {render_time(until)}"


def evicted_for(pod: Pod) -> tuple[str, ...]:
    """Return the gangs (``namespace/name``) for which a pod was evicted, from its marks. The marks outlive the process
    that wrote them.
    """
    names = [owner.name for owner in owners_of(pod)]
    if not names and pod.disruption is not None and pod.disruption.status == "True":
        names = [preemptor_of(pod.disruption.message)]
    return tuple(gang for name in names for gang in name.split(",") if gang)


def leaving(pods: Sequence[Pod], now: float) -> str:
    """For whom pods that terminate were evicted, where their marks say it, and by when they are gone."""
    gangs = dict.fromkeys(name for pod in pods for name in evicted_for(pod))
    last = max(pod.deleting_since or 0.0 for pod in pods)
    until = absent.until(time=clock_time(last, now)) if last > now else ""
    if 0 < last <= now:
        until = lingering.WAS_DUE(time=clock_time(last, now))
    if not gangs:
        return absent.terminating(until=until)
    return absent.evicted_for_gang(gang=join_names(list(gangs), 3), until=until)


# -- both ------------------------------------------------------------------------------------------------------


def _budgets(state: State, pod: Pod, taking: Sequence[Decision]) -> Iterator[str]:
    """The budgets that select the pod, and what they allow."""
    budgets = budgets_of(state.world, state.scheduler.ledger.condemned)
    matching = budgets.matching(pod)
    if not matching:
        yield "no PodDisruptionBudget selects it"
    for budget in matching:
        left = budgets.allowed[budget.key]
        yield f"{budget.key} allows {pluralize(left, 'more disruption')} now"
    if any(v.uid == pod.uid and v.over_budget for d in taking for v in d.victims):
        yield "its eviction goes beyond that: no choice without that was found"


def conditions(pods: Sequence[Pod]) -> Iterator[Section]:
    """Return the statements of the conditions on the pods: nominations and evictions. Equal conditions are one line."""
    lines = []
    alike: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for pod in pods:
        if pod.nominated_node:
            lines.append(f"{pod.key}: nominated to {pod.nominated_node}")
        for name, found in (
            ("gangsched.dev/Nominated", pod.intent),
            ("DisruptionTarget", pod.disruption),
            ("gangsched.dev/EvictedFor", pod.evicted_for),
            ("PodScheduled", pod.scheduled_condition),
        ):
            if found is None or (name == "PodScheduled" and found.status == "True"):
                continue
            said = ": ".join(t for t in (found.reason, found.message) if t)
            alike.setdefault((name, found.status, said), []).append((pod.key, found.since))
    for (name, status, said), on in alike.items():
        keys, first = [key for key, _ in on], min(since for _, since in on)
        whose = keys[0] if len(keys) == 1 else f"{pluralize(len(keys), 'pod')} ({join_names(keys, _NAMES)})"
        since = f" since {render_time(first)}" if first else ""
        lines.append(f"{whose}: {name}={status}{since}{f' ({said})' if said else ''}")
    if len(lines) > MANY:
        lines = [*lines[:MANY], f"… and {len(lines) - MANY} more"]
    yield from under("conditions", lines)
