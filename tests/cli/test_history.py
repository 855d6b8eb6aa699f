"""``gangsched history`` and ``why-evicted``: what they show of a record. Reading one is tested on a real API server."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable

import pytest
from rich.console import Console

from gangsched.cli import history, why_evicted
from gangsched.cli.answers import Past
from gangsched.cli.main import main
from gangsched.cli.render import render_past
from gangsched.cluster.kube.history import Line
from gangsched.model.times import render_time

Show = Callable[..., tuple[int, str, str]]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """A command with a record of three lines: of 7 hours, 61 minutes and 5 seconds ago."""
    now = time.time()
    lines = [
        Line(render_time(now - 7 * 3600), "Preempted", "Pod", "for d/old", [("d", "train-1", "n1"), ("e", "b", "")]),
        Line(render_time(now - 61 * 60), "Preempted", "Job", "for d/mid", [("d", "train", "")]),
        Line(render_time(now - 5), "EvictedDueToClusterQueueStopped", "Pod", "for\nme", [("d", "trainer-1", "n2")]),
    ]
    for module in (history, why_evicted):
        monkeypatch.setattr(module, "read_record", lambda *_: (lines, "d"))

    def ran(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return ran


def test_the_table(show: Show) -> None:
    """One line each with age and time, nothing is cut off, and nobody's text makes a second line."""
    code, out, _ = show("history", "-o", "json")
    times = [line["time"] for line in json.loads(out)["lines"]]
    assert code == 0
    assert show("history")[1].splitlines() == [
        "AGE   TIME                   REASON                            KIND   OBJECTS               MESSAGE",
        f"7h    {times[0]}   Preempted                         Pod    d/train-1 (n1), e/b   for d/old",
        f"61m   {times[1]}   Preempted                         Job    d/train               for d/mid",
        f"5s    {times[2]}   EvictedDueToClusterQueueStopped   Pod    d/trainer-1 (n2)      for me",
    ]


@pytest.mark.parametrize(("terminal", "names"), [(True, "d/p0, d/p1, d/p2 and 7 more"), (False, "d/p8, d/p9")])
def test_many_objects(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, terminal: bool, names: str
) -> None:
    """A terminal shows the first; a file has them all."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    line = Line(render_time(0), "Preempted", "Pod", "why", [("d", f"p{n}", "") for n in range(10)])
    history.Record([line]).print()
    assert names in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ((), ["for d/old", "for d/mid", "for\nme"]),
        (("--since", "6h"), ["for d/mid", "for\nme"]),
        (("--since", "1h"), ["for\nme"]),
        (("-n", "e"), ["for d/old"]),
        (("-n", "f"), []),
    ],
)
def test_what_is_asked_for(show: Show, arguments: tuple[str, ...], messages: list[str]) -> None:
    """A time, and a namespace, of which only the objects are shown."""
    code, out, _ = show("history", "-o", "json", *arguments)
    found = json.loads(out)["lines"]
    assert (code, [each["message"] for each in found]) == (0, messages)
    if "e" in arguments:
        assert found[0]["objects"] == [{"namespace": "e", "name": "b", "node": None}]


@pytest.mark.parametrize(
    ("arguments", "objects"),
    [
        (("train-1",), ["d/train-1"]),
        (("e/b",), ["e/b"]),
        (("b", "-n", "e"), ["e/b"]),
        (("job/train",), ["d/train-1", "d/train"]),
        (("train",), ["d/train-1", "d/train"]),
        (("pod/trainer-1",), ["d/trainer-1"]),
    ],
)
def test_whom_is_asked_about(show: Show, arguments: tuple[str, ...], objects: list[str]) -> None:
    """A pod by its name, in the namespace of the context unless said otherwise; an owner with its pods."""
    code, out, err = show("why-evicted", "-o", "json", *arguments)
    assert code == 0, err
    assert [f"{o['namespace']}/{o['name']}" for each in json.loads(out)["lines"] for o in each["objects"]] == objects


@pytest.mark.parametrize("name", ["train-2", "pod/train", "e/train-1"])
def test_who_is_not_on_record(show: Show, name: str) -> None:
    """The answer is how far back the record goes."""
    code, out, err = show("why-evicted", name)
    assert (code, out) == (2, "")
    assert "is on record, which begins at 20" in err


def test_an_answer_on_a_terminal() -> None:
    """The last eviction goes first, with its reason; of many names and of earlier ones there is as much as fits."""
    file = io.StringIO()
    out = Console(file=file, width=80, force_terminal=True, color_system=None)
    names = [f"ml/worker-{n:03} on gpu-{n}" for n in range(256)]
    note = "Job ml/train of priority 1000 needs its room, and no other choice breaks fewer budgets " * 3
    past = Past("Pod", names, "Preempted", note, "5s")
    render_past(past, [past._replace(ago=f"{n}m") for n in range(40)], console=out)
    lines = file.getvalue().splitlines()
    assert "ml/worker-000 on gpu-0  Pod · evicted 5s ago" in lines[0]
    assert lines[1].startswith("  EVICTED  Job ml/train of priority 1000 needs its room")
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    assert ("with it" in file.getvalue(), "earlier" in file.getvalue(), "-o json has all" in lines[-1]) == (True,) * 3


def test_a_time_that_is_none(show: Show) -> None:
    """The option is named."""
    code, _, err = show("history", "--since", "6 hours")
    assert (code, err) == (2, "gangsched: --since: '6 hours' is not a duration such as 30s, 10m or 1h30m\n")
