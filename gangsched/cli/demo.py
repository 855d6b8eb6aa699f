"""``gangsched demo``: stories that are played by the real scheduler in a simulated cluster."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gangsched.cli import answers
from gangsched.cli.decisions import can_start, sentence
from gangsched.cli.pictures import Painter, Placed, amount, quantity
from gangsched.cli.render import headline, make_console, printed
from gangsched.cli.simulation import Simulation, clock, group_name, pods_of, records_of, simulate, summary_of
from gangsched.cluster.manifests import load
from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, moment
from gangsched.core.decision import Decision, UnitRef, Victim
from gangsched.core.options import Options
from gangsched.messages.text import nearest, pluralize
from gangsched.model.errors import one_line
from gangsched.model.records import SINGLE, Pod


class Story(msgspec.Struct, frozen=True):
    """A story: its input is ``stories/<name>.yaml``, and nothing of what happens is written down here. ``try_next`` are
    commands that need nothing but the package.
    """

    name: str
    title: str
    intro: str
    try_next: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The manifests, as a user would write them."""
        return Path(str(resources.files("gangsched.cli") / "stories" / f"{self.name}.yaml"))


STORIES = (
    Story(
        "koordinator",
        "A gang of two needs room that two pods hold",
        "Two nodes with 4 CPUs each, both filled by a low-priority pod. A training job arrives whose two workers"
        " need 3 CPUs each and are of use only together. Evicting one pod would not help: it is both, or"
        " neither.",
        ("gangsched demo workload", "gangsched demo --manifests | gangsched plan -f -"),
    ),
    Story(
        "workload",
        "A whole gang leaves for a whole gang",
        "Four nodes, held by the gang 'batch', whose PodGroup says disruptionMode: PodGroup: its four pods leave"
        " together or not at all. The gang 'training' of four arrives with a higher priority and needs all four"
        " nodes.",
        ("gangsched demo quota", "gangsched demo workload --manifests | gangsched simulate -f - -o html > x.html"),
    ),
    Story(
        "quota",
        "A team takes back what another has borrowed",
        "Two teams have a quota of 10 CPUs between them that neither owns; team A owns 2 GPUs. Team B's job borrows 5"
        " CPUs. Then team A's job arrives and needs 7, with its GPUs. There is room on the nodes for both, but not in"
        " the quota: team B has to give back what it borrows. Its job is suspended, and goes on when team A's is done.",
        ("gangsched demo quota --manifests | gangsched queues -f -", "gangsched plan --help"),
    ),
)
_UNTIL_SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("story", metavar="NAME", nargs="?", help=f"default: {STORIES[0].name}")
    parser.add_argument("--list", action="store_true", help="print the names of the stories and what they show")
    parser.add_argument("--manifests", action="store_true", help="print the story's manifests instead of playing it")
    parser.add_argument(
        "--speed",
        type=float,
        metavar="X",
        help="play X virtual seconds per second (1 = as fast as in a cluster; default: do not wait)",
    )


def run(args: argparse.Namespace) -> int:
    """Tell a story, or list them."""
    if args.list:
        for story in STORIES:
            print(f"{story.name:<14}{story.title}")
        return answers.OK
    if args.speed is not None and not args.speed > 0:
        raise answers.UsageError("--speed: must be a number above 0")
    story = find(args.story or STORIES[0].name)
    if args.manifests:
        print(story.path.read_text(encoding="utf-8"), end="")
        return answers.OK
    tell(story, make_console(WIDTH), None if args.speed is None else _pause(args.speed))
    return answers.OK


def find(name: str) -> Story:
    """The story of that name. Raises :class:`~gangsched.cli.answers.UsageError`."""
    found = next((s for s in STORIES if s.name == name), None)
    if found is None:
        names = [s.name for s in STORIES]
        raise answers.UsageError(f"there is no story {name!r}; {nearest(name, names, 'stories are')}")
    return found


def play(story: Story) -> Simulation:
    """What happens in the story."""
    loaded = load([str(story.path)])
    return simulate(loaded.events, Options(), until_seconds=_UNTIL_SECONDS, start=loaded.now)


def tell(story: Story, console: Console, pause: Pause | None = None) -> None:
    """Play the story and print it."""
    simulation = play(story)
    teller = Teller(console, simulation, pause)
    console.print()
    teller.heading(story.title)
    teller.paragraph(story.intro)
    teller.tell()
    console.print()
    teller.heading("In short")
    teller.paragraph(in_short(simulation))
    console.print()
    teller.heading("Next")
    for command in story.try_next:
        text = command.replace(answers.PROGRAM, answers.program())
        console.print(f"  {text}", style="bold", soft_wrap=True)  # to be copied: never wrapped
    console.print()


def in_short(simulation: Simulation) -> str:
    """Return the results of the waiting gangs, from the run itself."""
    summary = summary_of(simulation)
    pods = pods_of(simulation)
    parts = []
    for key, gang in summary["gangs"].items():
        gone = sum(p["preemptedBy"] == key and p["phase"] == "Deleted" for p in pods.values())
        if gone and gang["waitedSeconds"] is not None:
            parts.append(
                f"{key.rpartition('/')[2]} waited {gang['waitedSeconds']:.1f} s, nearly all of it for the grace periods"
                f" of {gone} pods; then its {gang['bound']} members were bound together."
            )
    parts += _suspended(simulation)
    stayed = sum(p["phase"] == "Running" for p in pods.values())
    parts.append(f"{pluralize(summary['preempted'], 'pod')} evicted, {pluralize(stayed, 'pod')} running at the end.")
    return " ".join(parts)


def _suspended(simulation: Simulation) -> Iterator[str]:
    """For how long Jobs were suspended to make room."""
    since: dict[str, float] = {}
    for entry in simulation.history:
        if entry.verb == log.SUSPEND:
            since.setdefault(entry.object, entry.at_seconds)
        elif entry.verb == log.RESUME and entry.object in since:
            took = entry.at_seconds - since.pop(entry.object)
            yield f"Job {entry.object.rpartition('/')[2]} was suspended for {took:.0f} s, and went on."


def _pause(speed: float) -> Pause:
    def pause(seconds: float) -> None:
        time.sleep(max(0.0, seconds) / speed)

    return pause


#: Width of a story where there is no terminal to ask, and the most it uses of one.
WIDTH, WIDEST = 80, 100

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
        self._width = min(console.width, WIDEST)
        self._painter = Painter(records_of(simulation), bar_width=max(16, min(48, self._width - 46)))
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
        self._print(Padding(Text(one_line(text)), (0, 0, 0, 1)))

    def heading(self, text: str) -> None:
        """A line with a rule behind it."""
        self._print(headline(text, width=self._width))

    def _print(self, what: RenderableType) -> None:
        printed(self._console, lambda out: out.print(what, width=self._width))

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
                self._tell_deletion(step)
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
            lines.append(f"{_name_of(unit)}{members} leaves: {victims[0].why}")
        lines += [f"{s.unit.name.rpartition('/')[2]} stays: {s.reason}" for s in decision.spared]
        text = sentence(decision) if can_start(decision) else decision.message or decision.outcome
        self._say(step, "DECIDE", "", f"{decision.gang.name}: {text}", lines)

    # ------------------------------------------------------------------------------------------------------- layout

    def _say(self, step: Step, word: str, style: str, text: str, lines: Sequence[str] = (), quote: str = "") -> None:
        """A step: its time, a word for it, a sentence, and below that lines and what was written on an object."""
        below = Table.grid(padding=(0, 1))
        for line in lines:
            below.add_row("•", Text(one_line(line)))
        said: list[RenderableType] = [Text(one_line(text)), *([below] if lines else [])]
        if quote:
            said.append(Padding(Text(one_line(quote), style="italic dim"), (0, 0, 0, 2)))
        row = Table.grid(padding=(0, 1))
        row.add_column(width=10, style="dim")
        row.add_column(width=9, style=f"bold {style}".strip())
        row.add_column(overflow="fold")
        row.add_row(clock(step.at_seconds), word, Group(*said))
        self._print(Padding(row, (0, 0, 0, 2)))

    def _tell_deletion(self, step: Step) -> None:
        now = moment(self._run.history, step.entries[-1].number + 1)
        left = sum(p.deleting_since is not None and p.bound for p in now.pods.values())
        text = f"{_join(step.keys)} {'has' if len(step.keys) == 1 else 'have'} left"
        if left:
            text += f"; {left} more to go, and no member is bound before that"
        self._say(step, "GONE", "red", text)

    def _picture(self, number: int, caption: str) -> None:
        now = moment(self._run.history, number)
        table = self._painter.nodes(Placed(now.nodes, list(now.pods.values())))
        picture = Group("", Text(caption, style="italic dim"), table, "")
        printed(self._console, lambda out: out.print(Padding(picture, (0, 0, 0, 2), expand=False)))


def _name_of(unit: UnitRef) -> str:
    name = unit.name.rpartition("/")[2]
    return name if unit.kind == "Pod" else f"{unit.kind} {name}"


def _all(number: int, noun: str) -> str:
    return {1: f"the {noun}", 2: f"both {noun}s"}.get(number, f"all {number} {noun}s")


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
