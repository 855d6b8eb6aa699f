"""A simulated run told to a person: what happens, step by step, with pictures of the nodes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from gangsched.cli.picture import Glyphs, Painter
from gangsched.cli.simulation import Simulation, amount, clock, group_name, quantity
from gangsched.cluster.manifests.errors import one_line
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry
from gangsched.cluster.sim.replay import moment
from gangsched.core.decision import Decision, Fits, FitsWhenFreed, Preempt
from gangsched.model.records import SINGLE, Pod

#: Width of a story where there is no terminal to ask, and the most it uses of one.
WIDTH = 80
_MARGIN = 12

#: What is told; pods that are admitted, conditions, Events and status updates are left out.
_TOLD = (
    log.CREATE,
    log.DECIDE,
    log.NOMINATE,
    log.MARK,
    log.DELETE,
    log.EVICT,
    log.SUSPEND,
    log.RESUME,
    log.GONE,
    log.BIND,
    log.RUN,
    log.SUCCEED,
    log.REJECT,
    log.WITHDRAW,
    log.UNMARK,
)

#: Called with seconds of virtual time that pass before the next step.
Pause = Callable[[float], None]


class Step(msgspec.Struct):
    """Things of one sort that happen next to each other."""

    at_seconds: float
    verb: str
    entries: list[Entry]

    @property
    def keys(self) -> list[str]:
        """The objects, without namespaces."""
        return [e.object.rpartition("/")[2] for e in self.entries]

    @property
    def pods(self) -> list[Pod]:
        """The pods that are still there after their entry."""
        return [e.record for e in self.entries if isinstance(e.record, Pod)]


def steps(simulation: Simulation) -> list[Step]:
    """The run as a list of steps."""
    out: list[Step] = []
    for entry in simulation.history:
        told = entry.verb in _TOLD and (entry.changed or entry.verb == log.DECIDE)
        if not told:
            continue
        last = out[-1] if out else None
        if last is not None and last.verb == entry.verb and entry.at_seconds - last.at_seconds < 0.05:
            last.entries.append(entry)
        else:
            out.append(Step(entry.at_seconds, entry.verb, [entry]))
    return out


class Teller:
    """Tells one run on a console."""

    def __init__(self, console: Console, simulation: Simulation, pause: Pause | None = None) -> None:
        self._console = console
        self._run = simulation
        self._pause = pause
        self._glyphs = Glyphs(console.encoding)
        self._width = min(console.width, WIDTH + 20)
        self._painter = Painter(simulation.history, self._glyphs, bar_width=max(16, min(48, self._width - 46)))
        self._decisions = dict(simulation.decisions)

    def tell(self) -> None:
        """All of it: the cluster before, each step, the cluster after."""
        passed = 0.0
        first = next((e.number for e in self._run.history if e.verb != log.EXISTS), len(self._run.history))
        self._picture(first, "before")
        for step in steps(self._run):
            if self._pause is not None:
                self._pause(step.at_seconds - passed)
            passed = step.at_seconds
            self._step(step)

    def paragraph(self, text: str, style: str = "") -> None:
        """Running text."""
        for line in self._wrap(text, 2):
            self._console.print(Text(f" {line}", style=style))

    def heading(self, text: str) -> None:
        """A line with a rule behind it."""
        title = self._safe(text)
        line = Text(f"{self._glyphs.rule * 2} {title} ", style="bold")
        line.append(self._glyphs.rule * max(2, min(self._width, WIDTH) - len(title) - 4), style="dim")
        self._console.print(line)

    def _wrap(self, text: str, indent: int) -> list[str]:
        """Lines that leave ``indent`` columns free; a name is not broken at its hyphens."""
        width = max(20, min(self._width, WIDTH) - indent)
        return textwrap.wrap(self._safe(text), width, break_on_hyphens=False) or [""]

    def _safe(self, text: str) -> str:
        """One line; on a console with only ASCII, with stand-ins for the typographic characters used here."""
        clean = one_line(text)
        if self._glyphs.arrow == "->":
            clean = clean.replace("→", "->").replace("·", "-").replace("…", "...").replace("’", "'")
        return clean

    # ------------------------------------------------------------------------------------------------------- steps

    def _step(self, step: Step) -> None:
        match step.verb:
            case log.CREATE:
                self._arrival(step)
            case log.DECIDE:
                for entry in step.entries:
                    self._decision(step.at_seconds, self._decisions[entry.number])
            case log.NOMINATE:
                self._say(step, "NOMINATE", "cyan", "every member gets its node, and the room is held for it")
                self._lines(f"{p.name} → {p.nominated_node}" for p in step.pods)
            case log.MARK:
                self._say(step, "MARK", "yellow", f"{_all(len(step.keys), 'victim')}, before anything is removed")
                self._lines([", ".join(step.keys)])
                self._quote(f"DisruptionTarget: {step.entries[0].detail['message']}")
            case log.DELETE | log.EVICT:
                whose = "its" if len(step.keys) == 1 else "their"
                how = f"with {whose} own grace period" if step.verb == log.DELETE else "through the Eviction API"
                self._say(step, "REMOVE", "red", f"{_join(step.keys)}, {how}")
                self._picture(step.entries[-1].number + 1, "while they stop")
            case log.GONE:
                self._gone(step)
            case log.BIND:
                together = ", all members together" if len(step.pods) > 1 else ""
                self._say(step, "BIND", "green", f"the room is free{together}")
                self._lines(f"{p.name} → {p.node}" for p in step.pods)
                self._picture(step.entries[-1].number + 1, "after")
            case log.RUN:
                self._say(step, "RUNNING", "green", _join(step.keys))
            case log.SUCCEED:
                self._say(step, "FINISHED", "green", _join(step.keys))
            case _:
                self._say(step, step.verb.upper(), "red", _join(step.keys))

    def _arrival(self, step: Step) -> None:
        pods = [p for p in step.pods if not p.node]
        gangs: dict[str, list[Pod]] = {}
        for pod in pods:
            gangs.setdefault(group_name(pod), []).append(pod)
        for name, members in gangs.items():
            first = members[0]
            needs = sorted({quantity(self._painter.resource, amount(p, self._painter.resource)) for p in members})
            who = f"gang {name}" if first.gang.family != SINGLE else f"pod {name}"
            self._say(step, "ARRIVES", "bold", f"{who}, priority {first.priority}")
            self._lines([f"{', '.join(p.name for p in members)}: {' and '.join(needs)}{' each' * (len(members) > 1)}"])

    def _decision(self, at_seconds: float, decision: Decision) -> None:
        name = decision.gang.name
        match decision:
            case Preempt():
                victims = _count(len(decision.victims), "pod")
                members = _all(len(decision.placements), "member")
                text = f"{name} does not fit. {victims} must leave so that {members} can start."
            case Fits():
                text = f"{name} fits: {_count(len(decision.placements), 'member')} can start now."
            case FitsWhenFreed():
                kind = "pod" if any(a.plan for a in decision.awaiting) else "terminating pod"
                text = f"{name} fits when {_count(len(decision.awaiting), kind)} are gone."
            case _:
                text = f"{name}: {decision.message or decision.outcome}"
        self._head(at_seconds, "DECIDE", "bold", text)
        self._lines(f"{p.name} → {p.node}" for p in decision.placements)
        units: dict[tuple[str, str], list[str]] = {}
        reasons: dict[tuple[str, str], str] = {}
        for victim in decision.victims:
            unit = (victim.unit.kind, victim.unit.name.rpartition("/")[2])
            units.setdefault(unit, []).append(victim.name)
            reasons.setdefault(unit, victim.why)
        for (kind, unit_name), names in units.items():
            who = unit_name if kind == "Pod" else f"{kind} {unit_name} ({', '.join(names)})"
            self._lines([f"{who} leaves: {reasons[kind, unit_name]}"])
        self._lines(f"{s.unit.name.rpartition('/')[2]} stays: {s.reason}" for s in decision.spared)

    # ------------------------------------------------------------------------------------------------------- layout

    def _say(self, step: Step, word: str, style: str, text: str) -> None:
        self._head(step.at_seconds, word, style, text)

    def _head(self, at_seconds: float, word: str, style: str, text: str) -> None:
        indent = 2 + _MARGIN + 10
        lines = self._wrap(text, indent)
        head = Text(f"  {clock(at_seconds):<{_MARGIN - 1}}", style="dim")
        head.append(f"{word:<10}", style=f"not dim bold {style}".replace("bold bold", "bold"))
        head.append(lines[0], style="not dim")
        self._console.print(head)
        for line in lines[1:]:
            self._console.print(" " * (indent - 1) + line)

    def _lines(self, lines: Iterator[str] | list[str]) -> None:
        indent = " " * (1 + _MARGIN + 10)
        for line in lines:
            wrapped = self._wrap(line, len(indent) + 2)
            for i, part in enumerate(wrapped):
                self._console.print(Text(f"{indent}{f'{self._glyphs.bullet} ' if i == 0 else '  '}{part}"))

    def _quote(self, text: str) -> None:
        indent = " " * (1 + _MARGIN + 10)
        for line in self._wrap(text, len(indent) + 4):
            self._console.print(Text(f"{indent}  {line}", style="italic dim"))

    def _gone(self, step: Step) -> None:
        now = moment(self._run.history, step.entries[-1].number + 1)
        left = sum(p.deleting_since is not None and p.bound for p in now.pods.values())
        text = f"{_join(step.keys)} {'has' if len(step.keys) == 1 else 'have'} left"
        if left:
            text += f"; {left} more to go, and nobody is bound before that"
        self._say(step, "GONE", "red", text)

    def _picture(self, number: int, caption: str) -> None:
        table = self._painter.nodes(moment(self._run.history, number))
        self._console.print()
        self._console.print(Text(f"  {caption}", style="italic dim"))
        self._console.print(Padding(table, (0, 0, 0, 2), expand=False))
        self._console.print()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _all(number: int, noun: str) -> str:
    return {1: f"the {noun}", 2: f"both {noun}s"}.get(number, f"all {number} {noun}s")


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
