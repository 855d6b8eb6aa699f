"""Plans, explanations and queues as text, and its parts: a console, a headline, lines under labels."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import starmap

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from gangsched.cli import summing
from gangsched.cli.answers import Past, clean
from gangsched.cli.contracts import Planned
from gangsched.cli.decisions import SAFE_WITH, STARTS, WOULD_HELP, sentence, word
from gangsched.cli.explanation import Explanation
from gangsched.cli.panel import PANEL_LINES, Evidence, Panel
from gangsched.cli.pictures import Painter, before_and_after, changed
from gangsched.cli.queue_rows import Row, Usage
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
    beyond_budgets,
)
from gangsched.core.preemption.drain_plan import DrainPlan
from gangsched.core.quota.workloads import quantity
from gangsched.messages import advice, failures, pictures, sums
from gangsched.messages.advice import NONE_FOUND
from gangsched.messages.text import are, join_names, pluralize

#: On a terminal longer lists end in "… and 12 more": a gang may have thousands of members.
MAX_ROWS = 40
#: Rules need go no further.
RULE_WIDTH = 120
#: No line is as long: what goes into a file or a pipe is neither wrapped nor cut off.
_ENDLESS = 100_000


def make_console(width: int | None = None) -> Console:
    """A console that guesses no colours into names. What goes into a file or a pipe is as wide as ``width`` says; where
    that is None it is not wrapped, unless COLUMNS asks for it.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and (width is not None or "COLUMNS" not in os.environ):
        console.width = width or _ENDLESS
    return console


def most_rows(console: Console, on_terminal: int = MAX_ROWS) -> int:
    """How long a list may be: in a file or a pipe, as long as it is."""
    return on_terminal if console.is_terminal else sys.maxsize


def printed(out: Console, write: Callable[[Console], None]) -> None:
    """Let ``write`` print; what does not go to a terminal loses its trailing blanks."""
    if out.is_terminal:
        write(out)
        return
    with out.capture() as captured:
        write(out)
    # Tables are padded to their width; in a file that is noise.
    out.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def headline(title: str, more: str = "", width: int = RULE_WIDTH) -> RenderableType:
    """A title with a rule behind it."""
    text = Text(clean(title), style="bold")
    text.append(clean(more), style="default")
    return Constrain(Rule(text, align="left", style="dim"), max(width, text.cell_len + 4))


def labelled(word: str, style: str, sentence: str) -> Text:
    """A word in capitals and what it means here."""
    name = word if word == "do" else word.upper()
    return Text(name, style=style).append(f"  {clean(sentence)}", style="default")


def block(title: RenderableType, *body: RenderableType) -> RenderableType:
    """Things below a headline, indented."""
    return Group(title, Padding(Group(*body), (0, 0, 0, 2), expand=False))


def limited(lines: Sequence[Text], most: int) -> Sequence[Text]:
    """The lines, or the first of them and how many there are beside them."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], Text(failures.rows_left_out(count=len(lines) - most + 1), style="dim")]


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


def _most(out: Console, whole: bool) -> int:
    """Return the most lines of an answer. There is no limit in a file, or if all lines are requested."""
    return sys.maxsize if whole or not out.is_terminal else PANEL_LINES


def render_plan(plan: Planned, console: Console | None = None, *, whole: bool = False) -> None:
    """Print what is decided, and a hint when nothing is. Long lists are summed unless ``whole`` is set."""

    def write(out: Console) -> None:
        most = sys.maxsize if whole else most_rows(out)
        for each in plan.drained:
            out.print(_drained(each, most))
            out.print()
        for decision, milliseconds in plan.decisions:
            eta = plan.etas.get(decision.gang)
            when = [(STARTS, [Text(clean(line)) for line in eta.lines()])] if eta is not None else []
            if action := plan.actions.get(decision.gang):
                when.append((WOULD_HELP, [Text(clean(action))]))
            when += [(label, [Text(clean(line)) for line in lines]) for label, lines in plan.beside(decision)]
            head = plan.head(decision)
            out.print(gang_panel(decision, milliseconds, _most(out, whole), when, head=head, whole=whole))
            out.print()
        if out.is_terminal:
            _draw(out, plan)
        out.print(in_short(plan))

    printed(console or make_console(), write)


def _draw(out: Console, plan: Planned) -> None:
    """Draw the nodes on which something changes, before and after."""
    before, after = before_and_after(plan.events, [decision for decision, _ in plan.decisions])
    nodes = changed(before, after)
    if not nodes:
        return
    painter = Painter([*before.nodes.values(), *before.pods, *after.pods], max(16, min(48, out.width - 46)))
    for caption, now in ((pictures.BEFORE, before), (pictures.AFTER, after)):
        table = painter.nodes(now, out.width // 4, nodes, out.width - 2)
        out.print(Padding(Group(Text(caption, style="italic dim"), table, ""), (0, 0, 0, 2), expand=False))
    if same := len(before.nodes) - len(nodes):
        out.print(Text(f"  {pictures.as_they_are(nodes=pluralize(same, 'node'))}\n", style="dim"))


def _drained(found: DrainPlan, most: int) -> RenderableType:
    """A workload that is drained, or should be."""
    word, style = ("held up", "bold red") if found.blocked else ("drained", "bold yellow")
    lines = [Text(clean(f"it stays for now: {found.blocked}"))] if found.blocked else _victims(found.victims)
    head = labelled(word, style, f"{found.stop} is stopped (HoldAndDrain)")
    return block(headline(found.name), head, *limited(lines, most))


def gang_panel(
    decision: Decision,
    milliseconds: float,
    most: int,
    explained: Iterable[tuple[str, Sequence[Text]]] = (),
    *,
    head: tuple[str, str] | None = None,
    whole: bool = False,
) -> RenderableType:
    """Print one decision with all its facts, in at most so many lines. Long lists are summed unless ``whole`` is set.
    It begins with the ``head``, a word and a sentence, where that is not the decision. What is ``explained`` goes
    between the outcome and the lists, what would help behind them.
    """
    title = headline(decision.gang.key, f"  {decision.kind} · priority {decision.priority}")
    action, given = action_of(explained)
    own = word(decision), sentence(decision)
    first, said = head or own
    style = _STYLES.get(decision.outcome, "bold") if (first, said) == own else _EXPLAINED.get(first, "bold red")
    lines = [labelled(first, style, said), *action]
    if decision.group:
        group = join_names(decision.group, len(decision.group) if whole else _FEW)
        lines.append(Text(clean(f"decided together with {group}"), style="dim"))
    before, after = ([each for each in given if (each[0] == WOULD_HELP) == is_last] for is_last in (False, True))
    evidence = [*starmap(Evidence, before), *evidence_of(decision, whole), *starmap(Evidence, after)]
    foot = f"planned in {milliseconds:.1f} ms"
    if decision.proof:
        foot += f"; {decision.proof}"
    if decision.stopped:
        foot += "; the search was cut short at its limit"
        foot += "" if decision.optimal else ", so a less harmful choice may exist"
    return Panel(title, lines, evidence, foot, most)


def action_of(
    explained: Iterable[tuple[str, Sequence[Text]]],
) -> tuple[list[Text], list[tuple[str, Sequence[Text]]]]:
    """The line of what to do, if there is anything, and the sections without it."""
    given = list(explained)
    found = next((each for each in given if each[0] in (WOULD_HELP, SAFE_WITH) and each[1]), None)
    if found is None:
        return [], given
    first = found[1][0].plain
    rest = [(label, lines[1:] if (label, lines) == found else lines) for label, lines in given]
    if first == NONE_FOUND:
        return [Text(first, style="dim")], rest
    return [labelled("do", "bold green", advice.to_keep(it=first) if found[0] == SAFE_WITH else first)], rest


def evidence_of(decision: Decision, whole: bool) -> Iterable[Evidence]:
    """Return the facts behind a decision. Long lists are summed unless ``whole`` is set."""
    more = decision.message and decision.message not in sentence(decision)
    if more and (decision.headline or isinstance(decision, Unschedulable | Gathering)):
        yield Evidence("because", [Text(clean(decision.message))])
    if decision.quota is not None:
        yield Evidence("quota", [Text(clean(_quota(decision.quota)))])
    if decision.topology_domain:
        yield Evidence("within", [Text(clean(decision.topology_domain))])
    members = _two_columns((p.key, f"→ {p.node}") for p in decision.placements)
    awaited = _two_columns((a.pod, f"is leaving {a.node}" + _for(a.plan)) for a in decision.awaiting)
    yield _short("members", members, summing.members(decision.placements), whole)
    yield _short("victims", _victims(decision.victims), summing.victims(decision.victims), whole)
    yield _short("awaited", awaited, summing.leaving(a.pod for a in decision.awaiting), whole)
    yield Evidence("spared", _grouped((f"{s.unit.kind} {s.unit.name}", _words(s.reason)) for s in decision.spared))
    own = ((u.pod, (reason for reason in u.reasons if reason != decision.message)) for u in decision.unplaced)
    yield Evidence("not placed", _grouped((pod, "; ".join(reasons)) for pod, reasons in own))
    yield Evidence("warnings", [Text(clean(w), style="yellow") for w in decision.warnings])


def _short(label: str, lines: list[Text], summed: Sequence[str], whole: bool) -> Evidence:
    """The lines, or their sums where they are too many to be read."""
    if whole:
        return Evidence(label, lines)
    fewer = [Text(clean(line)) for line in summed]
    return Evidence(label, fewer if len(lines) > summing.MOST_LINES else lines, fewer)


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
        extent = f"{len(pods)} of its pods" if first.partial else f"all of it, {pluralize(len(pods), 'pod')}"
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
        line.append(", beyond its PodDisruptionBudget", style="bold red")
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
            out.append((join_names(names, _FEW), text))
    return _two_columns(out)


def in_short(plan: Planned) -> Text:
    """How many decisions have which outcome; and pods for which there is none, with the name of another scheduler."""
    decisions = [decision for decision, _ in plan.decisions]
    counts = Counter(d.outcome for d in decisions)
    parts = [f"{counts[o]} {o}" for o in _STYLES if counts[o]]
    victims = {v.key for d in decisions for v in d.victims}
    tail = f", {pluralize(len(victims), 'victim')}" if victims else ""
    tail += beyond_budgets({v.key: v for d in decisions for v in d.victims}.values())
    text, again, apart = (
        Text(f"{pluralize(len(decisions), 'gang')}: {', '.join(parts)}{tail}", "bold"),
        " waiting too",
        "\n",
    )
    if not decisions:
        names = " or ".join(plan.scheduler_names)
        text, again, apart = Text(clean(f"No pod of {names} is waiting for a node in this input.")), "", " "
    if plan.others:
        name, count = min(plan.others.items(), key=lambda item: (-item[1], item[0]))
        made = "" if again else "gangsched init makes a gang of their manifest; "
        others = (
            f"{pluralize(count, 'pod')} of {name} {are(count)}{again}: {made}--scheduler-name {name} plans for them."
        )
        text.append(apart).append(clean(others), style="not bold")
    return text


_EXPLAINED = {
    "victim": "bold red",
    "drained": "bold red",
    "held up": "bold yellow",
    "running": "bold green",
    "no gang": "bold yellow",
    "not ours": "bold yellow",
    "suspended": "bold cyan",
    "waits": "bold magenta",
    "leaving": "bold cyan",
    "pending": "bold magenta",
}


def render_explanation(
    found: Explanation, milliseconds: float = 0.0, console: Console | None = None, *, whole: bool = False
) -> None:
    """Print it. ``milliseconds`` is what its own decision took; ``whole`` is as in :func:`render_plan`."""
    out = console or make_console()
    explained = [(section.label, [Text(clean(line)) for line in section.lines]) for section in found.sections]
    if found.own is not None:
        panel = gang_panel(found.own, milliseconds, _most(out, whole), explained, head=found.head, whole=whole)
    else:
        head = labelled(found.word, _EXPLAINED.get(found.word, "bold"), found.sentence)
        action, rest = action_of(explained)
        panel = Panel(headline(found.title), [head, *action], starmap(Evidence, rest), most=_most(out, whole))
    printed(out, lambda console: console.print(panel))


def render_past(last: Past, earlier: Sequence[Past], console: Console | None = None) -> None:
    """Print why something was evicted, the ``last`` time first."""
    out = console or make_console()
    title = headline(last.names[0], sums.evicted_ago(kind=last.kind, ago=last.ago))
    evidence = [
        Evidence("reason", [Text(clean(last.reason))]),
        Evidence("with it", [Text(clean(name)) for name in last.names[1:]]),
        Evidence("earlier", [Text(clean(_past(each))) for each in earlier]),
    ]
    head = labelled("evicted", "bold red", last.note)
    panel = Panel(title, [head], evidence, most=_most(out, whole=False), all_by=sums.JSON_HAS_ALL)
    printed(out, lambda console: console.print(panel))


def _past(past: Past) -> str:
    return sums.evicted_earlier(ago=past.ago, kind=past.kind, names=join_names(past.names, _FEW), note=past.note)


#: Width of a bar in characters.
BAR = 12
#: As wide as a table may become in a file, where nothing has to be cut off.
_WIDEST = 1000
#: Reserved within quota, reserved beyond it, quota that is free, quota that others use.
OWN, BORROWED, FREE, LENT = "█", "▓", "░", "▒"


def bar(usage: Usage, width: int = BAR) -> str:
    """What is reserved of the own quota and beyond it, what of the own quota others use now, and what is free.

    The bar is as long as the larger of quota and reserved quota. A value above zero has at least one character if there
    is room for it.
    """
    whole = max(usage.quota, usage.reserved)
    if not whole:
        return "·" * width
    within = min(usage.reserved, usage.quota)
    lent = max(0, usage.quota - within - usage.available)
    parts = [(OWN, within), (BORROWED, usage.borrowed), (LENT, lent), (FREE, usage.quota - within - lent)]
    sizes = [amount * width // whole if amount else 0 for _, amount in parts]
    for i, (_, amount) in enumerate(parts):
        sizes[i] = max(sizes[i], 1 if amount else 0)
    # Rounding may leave the bar a little short or long: the longest part makes up for it.
    longest = max(range(len(sizes)), key=sizes.__getitem__)
    sizes[longest] += width - sum(sizes)
    return "".join(sign * size for (sign, _), size in zip(parts, sizes, strict=True))


def render_queues(found: Sequence[Row], console: Console | None = None) -> None:
    """Print the tree."""
    printed(console or make_console(), lambda out: _print_queues(out, found))


def _print_queues(out: Console, found: Sequence[Row]) -> None:
    if not found:
        out.print(Text("There are no ClusterQueues."))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title, right in (
        ("queue", False),
        ("pending", True),
        ("reserving", True),
        ("admitted", True),
        ("flavor", False),
        ("resource", False),
        ("", False),
        ("used", True),
        ("reserved", True),
        ("quota", True),
        ("borrowed", True),
    ):
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    for row in found:
        _add(table, row)
    needed = out.measure(table, options=out.options.update(width=_WIDEST)).maximum
    if not out.is_terminal:
        out.width = max(out.width, needed)
    elif needed > out.width:
        _print_narrow(out, found)
        return
    out.print(table)
    legend = f"{OWN} reserved of its own quota  {BORROWED} borrowed  {LENT} lent to others  {FREE} free"
    out.print(Text(legend, style="dim"))


def _print_narrow(out: Console, found: Sequence[Row]) -> None:
    """The same without bars, with the numbers of each queue below its name: no number is cut off."""
    for row in found:
        name = _name(row)
        if row.is_queue:
            name.append(f"  {row.pending} pending, {row.reserving} reserving, {row.admitted} admitted", style="default")
        out.print(name)
        grid = Table.grid(padding=(0, 1))
        for usage in row.usages:
            used, reserved, quota, borrowed = (
                quantity(usage.resource, n) for n in (usage.used, usage.reserved, usage.quota, usage.borrowed)
            )
            more = f", {borrowed} borrowed" if usage.borrowed else ""
            grid.add_row(
                clean(usage.resource), f"{used} used, {reserved} of {quota} reserved{more}", clean(usage.flavor)
            )
        out.print(Padding(grid, (0, 0, 0, 2 * row.depth + 4), expand=False))


def _name(row: Row) -> Text:
    name = Text("  " * row.depth)
    name.append(clean(row.name), style="bold" if row.is_queue else "cyan")
    if row.problem:
        name.append(f" ({clean(row.problem)})", style="red")
    return name


def _add(table: Table, row: Row) -> None:
    name = _name(row)
    counts = (str(row.pending), str(row.reserving), str(row.admitted)) if row.is_queue else ("", "", "")
    if not row.usages:
        table.add_row(name, *counts)
    for i, usage in enumerate(row.usages):
        first = (name, *counts) if i == 0 else ("", "", "", "")
        table.add_row(
            *first,
            clean(usage.flavor),
            clean(usage.resource),
            Text(bar(usage), style="yellow" if usage.borrowed else "green"),
            quantity(usage.resource, usage.used),
            quantity(usage.resource, usage.reserved),
            quantity(usage.resource, usage.quota),
            quantity(usage.resource, usage.borrowed) if usage.borrowed else "",
        )
