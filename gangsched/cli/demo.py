"""``gangsched demo``: stories that are played by the real scheduler in a simulated cluster."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import msgspec
from rich.console import Console

from gangsched.cli import errors
from gangsched.cli.narration import WIDTH, Pause, Teller
from gangsched.cli.simulation import Simulation, pods_of, simulate, summary_of
from gangsched.cluster.manifests import load
from gangsched.cluster.sim import history as log
from gangsched.core.options import Options
from gangsched.messages.text import counted, nearest


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
        return errors.OK
    if args.speed is not None and not args.speed > 0:
        raise errors.UsageError("--speed: must be a number above 0")
    story = find(args.story or STORIES[0].name)
    if args.manifests:
        print(story.path.read_text(encoding="utf-8"), end="")
        return errors.OK
    tell(story, make_console(), None if args.speed is None else _pause(args.speed))
    return errors.OK


def find(name: str) -> Story:
    """The story of that name. Raises :class:`~gangsched.cli.errors.UsageError`."""
    found = next((s for s in STORIES if s.name == name), None)
    if found is None:
        names = [s.name for s in STORIES]
        raise errors.UsageError(f"there is no story {name!r}; {nearest(name, names, 'stories are')}")
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
        console.print(f"  {command}", style="bold", soft_wrap=True)  # to be copied: never wrapped
    console.print()


def in_short(simulation: Simulation) -> str:
    """What became of the gangs that waited, from the run itself."""
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
    parts.append(f"{counted(summary['preempted'], 'pod')} evicted, {counted(stayed, 'pod')} running at the end.")
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


def make_console() -> Console:
    """A console of 80 columns where there is no terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH
    return console


def _pause(speed: float) -> Pause:
    def pause(seconds: float) -> None:
        time.sleep(max(0.0, seconds) / speed)

    return pause
