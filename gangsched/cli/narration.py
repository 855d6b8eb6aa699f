"""A simulated run for human readers: what happens, step by step, with pictures of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gangsched.cli.decisions import can_start, sentence
from gangsched.cli.node_bars import Glyphs, Painter
from gangsched.cli.screen import headline, printed
from gangsched.cli.simulation import Simulation, amount, group_name
from gangsched.cli.words import clock, quantity
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, moment
from gangsched.core.decision import Decision, UnitRef, Victim
from gangsched.model.errors import one_line
from gangsched.model.records import SINGLE, Pod

#: Width of a story where there is no terminal to ask, and the most it uses of one.
WIDTH = 80

#: What is shown; pods that are admitted, conditions, Events and status updates are left out.
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

    def paragraph(self, text: str) -> None:
        """Running text."""
        self._print(Padding(Text(self._safe(text)), (0, 0, 0, 1)))

    def heading(self, text: str) -> None:
        """A line with a rule behind it."""
        self._print(headline(text, width=min(self._width, WIDTH)))

    def _print(self, what: RenderableType) -> None:
        printed(self._console, lambda out: out.print(what, width=min(self._width, WIDTH)))

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
                    self._decision(step, self._decisions[entry.number])
            case log.NOMINATE:
                nodes = [f"{p.name} → {p.nominated_node}" for p in step.pods]
                self._say(step, "NOMINATE", "cyan", "every member gets its node, and the room is held for it", nodes)
            case log.MARK:
                text = f"{_all(len(step.keys), 'victim')}, before anything is removed"
                quote = f"DisruptionTarget: {step.entries[0].detail['message']}"
                self._say(step, "MARK", "yellow", text, [", ".join(step.keys)], quote)
            case log.DELETE | log.EVICT:
                whose = "its" if len(step.keys) == 1 else "their"
                how = f"with {whose} own grace period" if step.verb == log.DELETE else "through the Eviction API"
                self._say(step, "REMOVE", "red", f"{_join(step.keys)}, {how}")
                self._picture(step.entries[-1].number + 1, "while they stop")
            case log.GONE:
                self._gone(step)
            case log.BIND:
                together = ", all members together" if len(step.pods) > 1 else ""
                nodes = [f"{p.name} → {p.node}" for p in step.pods]
                self._say(step, "BIND", "green", f"the room is free{together}", nodes)
                self._picture(step.entries[-1].number + 1, "after")
            case log.RUN | log.SUCCEED:
                self._say(step, "RUNNING" if step.verb == log.RUN else "FINISHED", "green", _join(step.keys))
            case _:
                self._say(step, step.verb.upper(), "red", _join(step.keys))

    def _arrival(self, step: Step) -> None:
        pods = [p for p in step.pods if not p.node]
        gangs: dict[str, list[Pod]] = {}
        for pod in pods:
            gangs.setdefault(group_name(pod), []).append(pod)
        for name, members in gangs.items():
            first = members[0]
            needs = sorted({self._asked(p) for p in members})
            who = f"gang {name}" if first.gang.family != SINGLE else f"pod {name}"
            what = f"{', '.join(p.name for p in members)}: {' and '.join(needs)}{' each' * (len(members) > 1)}"
            self._say(step, "ARRIVES", "", f"{who}, priority {first.priority}", [what])

    def _asked(self, pod: Pod) -> str:
        """What is drawn of nodes, and devices."""
        drawn = self._painter.resource
        others = (resource for resource, _ in pod.shape.requests if "/" in resource and resource != drawn)
        return ", ".join(quantity(resource, amount(pod, resource)) for resource in (drawn, *others))

    def _decision(self, step: Step, decision: Decision) -> None:
        units: dict[UnitRef, list[Victim]] = {}
        for victim in decision.victims:
            units.setdefault(victim.unit, []).append(victim)
        lines = [f"{p.name} → {p.node}" for p in decision.placements]
        for unit, victims in units.items():
            members = "" if unit.kind == "Pod" else f" ({', '.join(v.name for v in victims)})"
            lines.append(f"{_of(unit)}{members} leaves: {victims[0].why}")
        lines += [f"{s.unit.name.rpartition('/')[2]} stays: {s.reason}" for s in decision.spared]
        text = sentence(decision) if can_start(decision) else decision.message or decision.outcome
        self._say(step, "DECIDE", "", f"{decision.gang.name}: {text}", lines)

    # ------------------------------------------------------------------------------------------------------- layout

    def _say(self, step: Step, word: str, style: str, text: str, lines: Sequence[str] = (), quote: str = "") -> None:
        """A step: its time, a word for it, a sentence, and below that lines and what was written on an object."""
        below = Table.grid(padding=(0, 1))
        for line in lines:
            below.add_row(self._glyphs.bullet, Text(self._safe(line)))
        said: list[RenderableType] = [Text(self._safe(text)), *([below] if lines else [])]
        if quote:
            said.append(Padding(Text(self._safe(quote), style="italic dim"), (0, 0, 0, 2)))
        row = Table.grid(padding=(0, 1))
        row.add_column(width=10, style="dim")
        row.add_column(width=9, style=f"bold {style}".strip())
        row.add_column(overflow="fold")
        row.add_row(clock(step.at_seconds), word, Group(*said))
        self._print(Padding(row, (0, 0, 0, 2)))

    def _gone(self, step: Step) -> None:
        now = moment(self._run.history, step.entries[-1].number + 1)
        left = sum(p.deleting_since is not None and p.bound for p in now.pods.values())
        text = f"{_join(step.keys)} {'has' if len(step.keys) == 1 else 'have'} left"
        if left:
            text += f"; {left} more to go, and no member is bound before that"
        self._say(step, "GONE", "red", text)

    def _picture(self, number: int, caption: str) -> None:
        table = self._painter.nodes(moment(self._run.history, number))
        picture = Group("", Text(caption, style="italic dim"), table, "")
        printed(self._console, lambda out: out.print(Padding(picture, (0, 0, 0, 2), expand=False)))


def _of(unit: UnitRef) -> str:
    name = unit.name.rpartition("/")[2]
    return name if unit.kind == "Pod" else f"{unit.kind} {name}"


def _all(number: int, noun: str) -> str:
    return {1: f"the {noun}", 2: f"both {noun}s"}.get(number, f"all {number} {noun}s")


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
