"""``gangsched demo``: the stories are played by the real core, so the tests read what is told."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console

from gangsched.cli import answers, demo
from gangsched.cli.main import main
from gangsched.cli.simulation import summary_of
from tests.judge.invariants import violations

NAMES = [story.name for story in demo.STORIES]


def told(capsys, *arguments):
    """What a demo prints."""
    assert main(["demo", *arguments]) == 0
    return capsys.readouterr().out


def at(text, word):
    """Where each step of that name begins."""
    return [m.start() for m in re.finditer(rf"^ +\d+:\d\d\.\d{{3}} +{word}\b", text, re.MULTILINE)]


def test_the_list_names_every_story(capsys):
    """--list has a line per story."""
    lines = told(capsys, "--list").splitlines()
    assert [line.split()[0] for line in lines] == NAMES == ["koordinator", "workload", "quota"]


def test_koordinator_is_the_default(capsys):
    """Without a name the first story is told."""
    assert told(capsys) == told(capsys, "koordinator")


@pytest.mark.parametrize("name", ["koordinator", "workload"])
def test_a_story_runs_through_all_phases_in_order(capsys, name):
    """Arrival, decision, nomination, mark, removal, end of the victims, binding: told once each, in this order."""
    text = told(capsys, name)
    words = ["ARRIVES", "DECIDE", "NOMINATE", "MARK", "REMOVE", "GONE", "BIND", "RUNNING"]
    starts = [at(text, word) for word in words]
    assert all(starts)
    flat = [position for each in starts for position in each]
    assert flat == sorted(flat)


@pytest.mark.parametrize("name", NAMES)
def test_a_story_violates_nothing(name):
    """What the stories show is what the scheduler promises."""
    played = demo.play(demo.find(name))
    summary = summary_of(played)
    assert violations(played.history, played.options) == []
    assert all(g["bound"] in (0, g["minMember"], g["members"]) for g in summary["gangs"].values())
    counts = {"koordinator": (2, 2), "workload": (4, 4), "quota": (3, 1)}
    assert (summary["binds"], summary["preempted"]) == counts[name]


def test_the_quota_story_comes_full_circle(capsys):
    """Team B runs, gives back what it borrows, is suspended, and goes on when team A has finished."""
    text = told(capsys, "quota")
    starts = [at(text, word)[-1] for word in ("MARK", "SUSPEND", "GONE", "FINISHED", "RESUME")]
    assert starts == sorted(starts)
    words = " ".join(text.split())
    assert "reclamation within the cohort while borrowing" in words
    assert "insufficient unused quota for cpu in flavor default-flavor, 2 more needed" in words
    assert "team-a-job-0: 7 CPU, 2 nvidia.com/gpu" in words  # the flavor is chosen for both
    assert "Job team-b-job was suspended for 23 s, and went on." in words


def test_the_koordinator_story_shows_who_why_and_where(capsys):
    """The nodes before and after, the message of the mark, and the reason for each victim."""
    text = told(capsys)
    assert text.count("│██ lp-pod-1") == 1
    assert re.search(r"node-1 │░░ lp-pod-1 .* → hp-worker-1", text)
    assert re.search(r"node-2 │██ hp-worker-2 .*│ 3 of 4 CPU", text)
    words = " ".join(text.split())
    assert (
        "DisruptionTarget: py-gang-scheduler: preempting to accommodate higher priority pods, preemptor:"
        " default/hp-training-job, triggerpod: default/hp-worker-1"
    ) in words
    assert "lp-pod-1 leaves: priority 1000 is lower than 1000000" in words


def test_the_workload_story_waits_for_the_last_member(capsys):
    """One victim needs less of its grace period; nobody is bound before the others have left too."""
    text = " ".join(told(capsys, "workload").split())
    assert "batch-2 has left; 3 more to go, and no member is bound before that" in text
    assert "PodGroup batch (batch-0, batch-1, batch-2, batch-3) leaves" in text


@pytest.mark.parametrize("name", NAMES)
def test_without_a_terminal_there_are_80_plain_columns(capsys, name):
    """No escape sequences and no line that would wrap; the story ends with what to try next."""
    text = told(capsys, name)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert [line.strip() for line in text.splitlines() if line][-2:] == list(demo.find(name).try_next)


def test_on_a_terminal_there_is_colour():
    """A console with colours gets some."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system="standard", highlight=False, markup=False)
    demo.tell(demo.find("koordinator"), console)
    assert "\x1b[" in out.getvalue()


def test_an_ascii_console_gets_ascii():
    """Where only ASCII can be written, bars, arrows and rules have stand-ins."""
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii", errors=answers.STAND_INS, write_through=True) as out:
        demo.tell(demo.find("workload"), Console(file=out, width=80, highlight=False, markup=False))
        text = raw.getvalue().decode("ascii")
    assert "|## training-0 #" in text
    assert "training-0 -> worker-1" in text


def test_speed_plays_virtual_time(monkeypatch):
    """With --speed the pauses between the steps add up to the virtual time, divided by the speed."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    assert main(["demo", "--speed", "10"]) == 0
    run = demo.play(demo.find("koordinator"))
    last_told = max(e.at_seconds for e in run.history.with_verbs("run"))
    assert sum(pauses) == pytest.approx(last_told / 10, abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["workloads"], "there is no story 'workloads'; did you mean workload?"),
        (["zzz"], "there is no story 'zzz'; stories are koordinator, workload, quota"),
        (["--speed", "0"], "--speed: must be a number above 0"),
        (["--speed", "nan"], "--speed: must be a number above 0"),
    ],
)
def test_mistakes(capsys, arguments, message):
    """A name or a speed that cannot be used ends with a message and code 2."""
    assert main(["demo", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_stories_are_in_the_package():
    """Every story has its manifests, and every manifest its story."""
    folder = demo.STORIES[0].path.parent
    assert sorted(p.stem for p in folder.iterdir()) == sorted(NAMES)
