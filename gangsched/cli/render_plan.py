"""A plan for people: per gang what happens, where its members go, who leaves, who stays, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from gangsched.cli.decisions import STARTS, WOULD_HELP, sentence
from gangsched.cli.plan_view import Plan
from gangsched.cli.screen import block, headline, labelled, limited, make_console, most_rows, printed, sections
from gangsched.cli.words import clean
from gangsched.core.decision import (
    BIND,
    GATHERING,
    PREEMPT,
    UNSCHEDULABLE,
    WAIT,
    Decision,
    Gathering,
    QuotaUse,
    UnitRef,
    Unschedulable,
    Victim,
)
from gangsched.core.preemption.drained import Leaving
from gangsched.messages.text import are, counted, listed

_STYLES = {
    BIND: "bold green",
    WAIT: "bold cyan",
    PREEMPT: "bold yellow",
    UNSCHEDULABLE: "bold red",
    GATHERING: "bold magenta",
}
#: So many names with the same text are shown.
_FEW = 3
_REASONS = {"LowerPriority": "lower priority"}
_METHODS = {"evict": "through the Eviction API", "suspend": "by suspending its owner"}


def render(plan: Plan, console: Console | None = None) -> None:
    """Print what is decided, and a hint when nothing is."""

    def write(out: Console) -> None:
        most = most_rows(out)
        for each in plan.drained:
            out.print(_drained(each, most))
            out.print()
        for decision, milliseconds in plan.decisions:
            eta = plan.etas[decision.gang] if plan.etas is not None else None
            when = [(STARTS, [Text(clean(line)) for line in eta.lines()])] if eta is not None else []
            out.print(gang_panel(decision, milliseconds, most, when))
            out.print()
        out.print(_summary(plan))

    printed(console or make_console(), write)


def _drained(found: Leaving, most: int) -> RenderableType:
    """A workload that is drained, or should be."""
    word, style = ("held up", "bold red") if found.blocked else ("drained", "bold yellow")
    lines = [Text(clean(f"it stays for now: {found.blocked}"))] if found.blocked else _victims(found.victims)
    head = labelled(word, style, f"{found.stop} is stopped (HoldAndDrain)")
    return block(headline(found.name), head, *limited(lines, most))


def gang_panel(
    decision: Decision, milliseconds: float, most: int, explained: Iterable[tuple[str, Sequence[Text]]] = ()
) -> RenderableType:
    """One decision with everything that is known about it; lists have at most so many rows. What is ``explained`` goes
    between the outcome and the lists, what would help behind them.
    """
    title = headline(decision.gang.key, f"  {decision.kind} · priority {decision.priority}")
    body: list[RenderableType] = [
        labelled(decision.outcome, _STYLES.get(decision.outcome, "bold"), sentence(decision)),
    ]
    if decision.group:
        body.append(Text(clean(f"decided together with {', '.join(decision.group)}"), style="dim"))
    given = list(explained)
    first, last = ([each for each in given if (each[0] == WOULD_HELP) == is_last] for is_last in (False, True))
    body += sections([*first, *_sections(decision), *last], most)
    foot = f"planned in {milliseconds:.1f} ms"
    if decision.proof:
        foot += f"; {decision.proof}"
    if decision.stopped:
        foot += "; the search was cut short at its limit"
        foot += "" if decision.optimal else ", so a less harmful choice may exist"
    return block(title, *body, Text(foot, style="dim"))


def _sections(decision: Decision) -> Iterable[tuple[str, list[Text]]]:
    if decision.message and isinstance(decision, Unschedulable | Gathering):
        yield "because", [Text(clean(decision.message))]
    if decision.quota is not None:
        yield "quota", [Text(clean(_quota(decision.quota)))]
    if decision.topology_domain:
        yield "within", [Text(clean(decision.topology_domain))]
    yield "members", _two_columns((p.key, f"→ {p.node}") for p in decision.placements)
    yield "victims", _victims(decision.victims)
    yield "awaited", _two_columns((a.pod, f"is leaving {a.node}" + _for(a.plan)) for a in decision.awaiting)
    yield "spared", _grouped((f"{s.unit.kind} {s.unit.name}", _words(s.reason)) for s in decision.spared)
    if isinstance(decision, Unschedulable) and set(decision.blockers) != {u.pod for u in decision.unplaced}:
        yield "blockers", [Text(clean(b)) for b in decision.blockers]
    own = ((u.pod, (reason for reason in u.reasons if reason != decision.message)) for u in decision.unplaced)
    yield "not placed", _grouped((pod, "; ".join(reasons)) for pod, reasons in own)
    yield "warnings", [Text(clean(w), style="yellow") for w in decision.warnings]


def _for(plan: str | None) -> str:
    """For whom a pod leaves, where that is known."""
    return f" for {clean(plan)}" if plan else ""


def _quota(use: QuotaUse) -> str:
    """``team-a-cq: cpu of default-flavor (7 borrowed)``."""
    borrowed = dict(use.borrowed)
    parts = [f"{r} of {f}" + (f" ({borrowed[r]} borrowed)" if r in borrowed else "") for r, f in use.flavors]
    return f"{use.queue or 'no ClusterQueue'}{': ' if parts else ''}{', '.join(parts)}"


def _victims(victims: Sequence[Victim]) -> list[Text]:
    """A line per unit that goes, and below it its pods when they are not the unit itself."""
    units: dict[UnitRef, list[Victim]] = {}
    for victim in victims:
        units.setdefault(victim.unit, []).append(victim)
    out = []
    for unit, pods in units.items():
        first = pods[0]
        if unit.kind == "Pod" and len(pods) == 1:
            out.append(_unit_line(unit, f"on {first.node}, {_why(first)}", first.over_budget))
            continue
        extent = f"{len(pods)} of its pods" if first.partial else f"all of it, {counted(len(pods), 'pod')}"
        out.append(_unit_line(unit, f"{extent}, {_why(first)}"))
        width = max(len(p.key) for p in pods)
        for pod in pods:
            line = Text(clean(f"  {pod.key:<{width}}  on {pod.node}, priority {pod.priority}"), style="yellow")
            out.append(_with_budget_mark(line, pod.over_budget))
    return out


def _why(victim: Victim) -> str:
    # The line begins with the unit's name: once is enough.
    why = victim.why.replace(f"{victim.unit.kind} {victim.unit.name}", "it")
    text = why or f"priority {victim.priority}, {_words(victim.reason)}"
    return f"{text}, removed {_METHODS[victim.method]}" if victim.method in _METHODS else text


def _words(reason: str) -> str:
    return _REASONS.get(reason, reason)


def _unit_line(unit: UnitRef, text: str, over_budget: bool = False) -> Text:
    line = Text(clean(f"{unit.kind} {unit.name}"), style="bold")
    line.append(clean(f"  {text}"), style="not bold")
    return _with_budget_mark(line, over_budget)


def _with_budget_mark(line: Text, over_budget: bool) -> Text:
    if over_budget:
        line.append("  beyond its PodDisruptionBudget", style="bold red")
    return line


def _two_columns(rows: Iterable[tuple[str, str]]) -> list[Text]:
    pairs = [(clean(left), clean(right)) for left, right in rows]
    width = min(max((len(left) for left, _ in pairs), default=0), 60)
    return [Text(f"{left:<{width}}  {right}") for left, right in pairs]


def _grouped(rows: Iterable[tuple[str, str]]) -> list[Text]:
    """The text for each name; a text that more than a few names share stands once."""
    by_text: dict[str, list[str]] = {}
    for name, text in rows:
        by_text.setdefault(text, []).append(name)
    out: list[tuple[str, str]] = []
    for text, names in by_text.items():
        if len(names) <= _FEW:
            out += [(name, text) for name in names]
        else:
            out.append((listed(names, _FEW), text))
    return _two_columns(out)


def _summary(plan: Plan) -> Text:
    decisions = [decision for decision, _ in plan.decisions]
    if decisions:
        counts = Counter(d.outcome for d in decisions)
        parts = [f"{counts[o]} {o}" for o in _STYLES if counts[o]]
        victims = {v.key for d in decisions for v in d.victims}
        tail = f", {counted(len(victims), 'victim')}" if victims else ""
        return Text(f"{counted(len(decisions), 'gang')}: {', '.join(parts)}{tail}", style="bold")
    text = Text(clean(f"No pod of {' or '.join(plan.scheduler_names)} is waiting for a node in this input."))
    if plan.others:
        name, count = min(plan.others.items(), key=lambda item: (-item[1], item[0]))
        text.append(clean(f" {counted(count, 'pod')} of {name} {are(count)}: --scheduler-name {name} plans for them."))
    return text
