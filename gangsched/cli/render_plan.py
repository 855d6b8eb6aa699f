"""A plan for people: per gang what happens, where its members go, who leaves, who stays, and why."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from gangsched.cluster.manifests.errors import one_line
from gangsched.core.decision import (
    BIND,
    GATHERING,
    PREEMPT,
    UNSCHEDULABLE,
    WAIT,
    Decision,
    Fits,
    FitsWhenFreed,
    Gathering,
    Preempt,
    QuotaUse,
    UnitRef,
    Unschedulable,
    Victim,
)
from gangsched.core.preemption.drained import Leaving

#: On a terminal longer lists end in "… and 12 more": a gang may have thousands of members.
MAX_ROWS = 40
#: Rules need go no further.
_RULE_WIDTH = 120
#: No line is as long: what goes into a file or a pipe is neither wrapped nor cut off.
_ENDLESS = 100_000

_STYLES = {
    BIND: "bold green",
    WAIT: "bold cyan",
    PREEMPT: "bold yellow",
    UNSCHEDULABLE: "bold red",
    GATHERING: "bold magenta",
}
#: So many names are shown that the same is said of.
_FEW = 3
_REASONS = {"LowerPriority": "lower priority"}
_METHODS = {"evict": "through the Eviction API", "suspend": "by suspending its owner"}


def make_console() -> Console:
    """A console that neither guesses colours into names nor wraps what goes into a file or a pipe."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _ENDLESS
    return console


def most_rows(console: Console, on_terminal: int = MAX_ROWS) -> int:
    """How long a list may be: in a file or a pipe, as long as it is."""
    return on_terminal if console.is_terminal else sys.maxsize


def headline(title: Text) -> RenderableType:
    """A title with a rule behind it."""
    return Constrain(Rule(title, align="left", style="dim"), max(_RULE_WIDTH, title.cell_len + 4))


def render(
    decisions: Sequence[tuple[Decision, float]],
    scheduler_names: Sequence[str],
    others: Counter[str] | None = None,
    console: Console | None = None,
    drained: Sequence[Leaving] = (),
) -> None:
    """Print decisions, with the milliseconds each took.

    ``others`` counts the pending pods of scheduler names that are not ours: a hint when there is no decision.
    ``drained`` are the workloads that leave because their queue is stopped.
    """

    def write(out: Console) -> None:
        for each in drained:
            out.print(_drained(each, most_rows(out)))
            out.print()
        for decision, milliseconds in decisions:
            out.print(gang_panel(decision, milliseconds, most_rows(out)))
            out.print()
        out.print(_summary([d for d, _ in decisions], scheduler_names, others or Counter()))

    printed(console or make_console(), write)


def _drained(found: Leaving, most: int) -> RenderableType:
    """A workload that leaves for nobody's sake, or should."""
    word, style = ("HELD UP", "bold red") if found.blocked else ("DRAINED", "bold yellow")
    head = Text(word, style=style)
    head.append(clean(f"  {found.stop} is stopped (HoldAndDrain)"), style="default")
    lines = [Text(clean(f"it stays for now: {found.blocked}"))] if found.blocked else _victims(found.victims)
    body = Group(head, *_limited(lines, most))
    title = Text(clean(found.name), style="bold")
    return Group(headline(title), Padding(body, (0, 0, 0, 2), expand=False))


def printed(out: Console, write: Callable[[Console], None]) -> None:
    """Let ``write`` print; what does not go to a terminal loses its trailing blanks."""
    if out.is_terminal:
        write(out)
        return
    with out.capture() as captured:
        write(out)
    # Tables are padded to their width; in a file that is noise.
    out.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def gang_panel(
    decision: Decision, milliseconds: float, most: int, explained: Sequence[RenderableType] = ()
) -> RenderableType:
    """One decision with everything that is known about it; lists have at most so many rows. What is ``explained`` goes
    between the outcome and the lists.
    """
    title = Text(clean(decision.gang.key), style="bold")
    title.append(f"  {clean(decision.kind)} · priority {decision.priority}", style="default")
    outcome = Text(decision.outcome.upper(), style=_STYLES.get(decision.outcome, "bold"))
    outcome.append(f"  {_sentence(decision)}", style="default")
    body: list[RenderableType] = [outcome]
    if decision.group:
        body.append(Text(clean(f"decided together with {', '.join(decision.group)}"), style="dim"))
    body.extend(explained)
    grid = Table.grid(padding=(0, 2), expand=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, rows in _sections(decision):
        for i, row in enumerate(_limited(rows, most)):
            grid.add_row(label if i == 0 else "", row)
    if grid.row_count:
        body.append(grid)
    foot = f"planned in {milliseconds:.1f} ms"
    if decision.proof:
        foot += f"; {decision.proof}"
    if decision.stopped:
        foot += "; the search was cut short at its limit"
        foot += "" if decision.optimal else ", so a less harmful choice may exist"
    body.append(Text(foot, style="dim"))
    return Group(headline(title), Padding(Group(*body), (0, 0, 0, 2), expand=False))


def _sentence(decision: Decision) -> str:
    placed, left = len(decision.placements), len(decision.unplaced)
    members = _count(placed, "member")
    more = f"; {_count(left, 'more member')} cannot be placed" if left else ""
    match decision:
        case Fits():
            return f"{members} can start now{more}"
        case FitsWhenFreed():
            leaving = len(decision.awaiting)
            are = "is" if leaving == 1 else "are"
            pods = _count(leaving, "pod" if any(a.plan for a in decision.awaiting) else "terminating pod")
            return f"{members} can start when {pods} {are} gone{more}"
        case Preempt():
            victims = len(decision.victims)
            return f"{members} can start after {_count(victims, 'pod')} {'has' if victims == 1 else 'have'} left{more}"
        case Gathering():
            needed = f": {_count(decision.required, 'member')} must come together" if decision.required else ""
            return f"the gang is not complete yet{needed}"
    if decision.failed_plugin:
        return f"nothing can be decided while the plug-in {decision.failed_plugin} fails"
    if decision.quota is not None and not decision.quota.flavors:
        return f"there is no quota for the {_count(decision.required, 'member')} that must start together"
    if not decision.required:
        return "the gang has its minimum; there is no room for further members"
    return f"there is no room for the {_count(decision.required, 'member')} that must start together"


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
    yield "blockers", [Text(clean(b)) for b in decision.blockers]
    yield "not placed", _grouped((u.pod, "; ".join(u.reasons)) for u in decision.unplaced)
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
        extent = f"{len(pods)} of its pods" if first.partial else f"all of it, {_count(len(pods), 'pod')}"
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
    """What is said of each name; of more than a few names that the same is said of, once."""
    by_text: dict[str, list[str]] = {}
    for name, text in rows:
        by_text.setdefault(text, []).append(name)
    out: list[tuple[str, str]] = []
    for text, names in by_text.items():
        if len(names) <= _FEW:
            out += [(name, text) for name in names]
        else:
            out.append((f"{', '.join(names[:_FEW])} and {len(names) - _FEW} more", text))
    return _two_columns(out)


def _limited(rows: list[Text], most: int) -> list[Text]:
    if len(rows) <= most:
        return rows
    return [*rows[: most - 1], Text(f"… and {len(rows) - most + 1} more (-o json has all)", style="dim")]


def _summary(decisions: Sequence[Decision], scheduler_names: Sequence[str], others: Counter[str]) -> Text:
    if decisions:
        counts = Counter(d.outcome for d in decisions)
        parts = [f"{counts[o]} {o}" for o in _STYLES if counts[o]]
        victims = {v.key for d in decisions for v in d.victims}
        tail = f", {_count(len(victims), 'victim')}" if victims else ""
        return Text(f"{_count(len(decisions), 'gang')}: {', '.join(parts)}{tail}", style="bold")
    text = Text(clean(f"No pod of {' or '.join(scheduler_names)} is waiting for a node in this input."))
    if others:
        name, count = min(others.items(), key=lambda item: (-item[1], item[0]))
        are = "is" if count == 1 else "are"
        text.append(clean(f" {_count(count, 'pod')} of {name} {are}: --scheduler-name {name} plans for them."))
    return text


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def clean(text: str) -> str:
    """Names come from strangers: nothing of them may steer the terminal."""
    return "".join(c if c.isprintable() else one_line(c) or " " for c in text)
