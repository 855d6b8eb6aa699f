"""What is made of measurements: tables, goals, the picture; and how a run goes on where something fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from gangsched.runtime.config import load
from tests.bench.live import arrival, backlog, cells, latency, suite
from tests.bench.live.candidates import ALL, FLOOR, KUBE, OURS, TELLING, Candidate
from tests.bench.live.goals import WANTED, Wanted, goals, goals_table
from tests.bench.live.made_up import outcome, result
from tests.bench.live.outcome import Outcome
from tests.bench.live.picture import picture
from tests.bench.live.planes import Planes
from tests.bench.live.report import Report, arrival_table, backlog_table, calls_table, harm_table, telling_table
from tests.controlplane.plane import ControlPlane

ROOT = Path(__file__).resolve().parents[3]


def test_picture_and_tables() -> None:
    """A candidate that was cut off shows as such."""
    done = result("c < d", OURS, 1.0)
    cut = msgspec.structs.replace(done, candidate=KUBE, bound=1, finished=False)
    drawn = picture(Report("here", [done, cut], [], measured="2026-01-31"))
    assert "c &lt; d" in drawn
    assert "&gt; 180 s" in drawn
    assert "&gt; 180 × ours" in drawn
    assert "> 180" in backlog_table([done, cut])
    assert "POST pods/binding 1.00" in calls_table([done, cut])


def test_latencies_are_told_in_multiples_of_the_floors() -> None:
    """Of gangs, the median and the p99; of those that were bound."""
    ours = outcome("c", [1.0])
    floor = msgspec.structs.replace(ours, candidate=FLOOR, gang_p50=0.05, gang_p99=0.08)
    never = msgspec.structs.replace(ours, candidate=KUBE, gang_p50=-1.0, gang_p99=-1.0)
    told = arrival_table([ours, floor, never]).splitlines()[2:]
    assert ["2.0, 2.5" in line for line in told] == [True, False, False]


def test_goals() -> None:
    """Each is met, missed, or not measured; whoever was cut off counts with the whole limit."""
    slow = msgspec.structs.replace(result(cells.BACKLOG[0].name, KUBE, 0.0), finished=False)
    backlogs = [result(cells.BACKLOG[0].name, OURS, 10.0), result(cells.BACKLOG[0].name, FLOOR, 5.0), slow]
    report = Report("here", backlogs, [outcome(arrival.CHURN.name, [9.0, 1.0, 1.0, 1.6])])
    found = goals(report)
    wanted = {name for name, what in WANTED.items() if what != Wanted()}
    assert {g.cell for g in found} == wanted | {a.name for a in arrival.ALL}
    assert [(g.measured, g.met) for g in found if g.cell == cells.BACKLOG[0].name] == [("2", False), ("18", True)]
    assert [g.met for g in found if g.cell == arrival.CHURN.name] == [True, False, True]
    assert {g.met for g in found if g.cell not in (cells.BACKLOG[0].name, arrival.CHURN.name)} == {None}
    assert "MISSED" in goals_table(report)
    assert set(WANTED) == {c.name for c in cells.ALL}


def test_a_suite_that_fails_goes_on_and_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is kept after each measurement; a failure is noted, and tried again when the run is resumed."""
    broken = [cells.ALL[1].name]

    async def measure(cell: cells.Cell, candidate: Candidate, limit_seconds: float, planes: Planes) -> backlog.Result:
        if cell.name in broken:
            raise RuntimeError("no control plane")
        return result(cell.name, candidate.name, 1.0)

    monkeypatch.setattr(backlog, "measure", measure)
    monkeypatch.setattr(suite, "machine", lambda: "here")
    some = cells.ALL[:7]
    todo = list(suite.steps([c.name for c in some], [FLOOR], smoke=False, limit_seconds=180.0))
    kept: list[int] = []
    found = suite.run(todo, limit_seconds=180.0, repeat=3, keep=lambda report: kept.append(len(report.backlog)))
    assert kept == [1, 1, 2, 3, 4, 5, 6, 6]
    assert found.failed == [f"{broken[0]}: {FLOOR}: RuntimeError: no control plane"]
    assert found.backlog[0].runs == [1.0, 1.0, 1.0]
    broken.clear()
    found = suite.run(todo, limit_seconds=180.0, found=found)
    assert not found.failed
    assert [r.cell for r in found.backlog] == [c.name for c in some]


def test_the_median_of_the_first_removals_is_one_of_its_own() -> None:
    """The run with the median last binding need not be the one with the median first removal."""
    runs = [result("c", OURS, seconds) for seconds in (3.0, 2.0, 4.0)]
    runs[0].first_removal = 9.0
    found = backlog.combined(runs)
    assert (found.last_bind, found.runs) == (3.0, [3.0, 2.0, 4.0])
    assert (found.first_removal, found.removals) == (2.0, [9.0, 1.0, 2.0])
    assert "2.00 to 4.00" in backlog_table([found])
    assert "2.00 to 4.00" in telling_table([found])


def test_a_run_that_removed_nobody_counts_as_cut_off() -> None:
    """Where others did; where nobody is to be removed there is no such time."""
    never = msgspec.structs.replace(result("c", OURS, 1.0), first_removal=None, limit=20.0)
    assert backlog.combined([never, result("c", OURS, 2.0)]).removals == [20.0, 1.0]
    assert backlog.combined([never, never]).first_removal is None


def test_less_is_told_where_it_shall_be(tmp_path: Path) -> None:
    """The configurations that are compared are valid, and differ in what they tell alone."""
    plane = ControlPlane(tmp_path)
    found = []
    for candidate in TELLING:
        candidate.command(plane, cells.TELLING, tmp_path)
        found.append(load(tmp_path / "gangsched.yaml"))
        assert candidate.serves == OURS
    assert [(each.events.members, each.group_status.enabled) for each in found] == [
        ("perPod", True),
        ("perGang", True),
        ("perGang", False),
    ]


def test_cells_and_rates_can_be_chosen() -> None:
    """By parts of their names; what arrives comes at the rate that is asked for, for as long as the cell says."""
    everybody = [c.name for c in ALL]
    found = list(suite.steps(["churn", "Events"], everybody, smoke=False, limit_seconds=180.0, rate=20.0))
    assert [step.candidate.name for step in found] == [*(c.name for c in TELLING), OURS, FLOOR, KUBE]
    ours, *others = (step.cell for step in found[-3:])
    assert isinstance(ours, arrival.Arrival)
    assert (ours.rate, ours.share, ours.cell.pods) == (20.0, 0.0, 3600)
    for other in others:
        assert isinstance(other, arrival.Arrival)
        assert (other.rate, other.seconds) == (20.0, 60.0)
    assert not list(suite.steps(["Events"], [FLOOR], smoke=False, limit_seconds=180.0))


def test_cells_share_the_machine_where_figures_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many at once, those of one cell after each other, and told in the order of the cells."""
    running: list[str] = []
    together: list[int] = []

    async def measure(cell: cells.Cell, candidate: Candidate, limit_seconds: float, planes: Planes) -> backlog.Result:
        assert cell.name not in running
        running.append(cell.name)
        together.append(len(running))
        for _ in range(cell.nodes // 10):
            await asyncio.sleep(0)
        running.remove(cell.name)
        return result(cell.name, candidate.name, 1.0)

    monkeypatch.setattr(backlog, "measure", measure)
    monkeypatch.setattr(suite, "machine", lambda: "here")
    todo = list(suite.steps(["evict"], [FLOOR, OURS], smoke=False, limit_seconds=180.0))
    found = suite.run(todo, limit_seconds=180.0, at_once=2)
    assert not found.failed
    assert max(together) == 2
    assert [(r.cell, r.candidate) for r in found.backlog] == [(s.cell.name, s.candidate.name) for s in todo]


def test_the_others_get_the_rate_that_ours_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """In cells whose rate hangs on the floor that was measured before; goals look at ours alone."""

    async def measure(coming: arrival.Arrival, candidate: str, planes: Planes) -> Outcome:
        rate = 60.0 if coming.share else coming.rate
        told = outcome(coming.name, [1.0, 1.0, 1.0, 1.0 if candidate == OURS else 9.0])
        return msgspec.structs.replace(told, candidate=candidate, rate=rate, pods=coming.cell.pods)

    monkeypatch.setattr(latency, "measure", measure)
    monkeypatch.setattr(suite, "machine", lambda: "here")
    todo = list(suite.steps(["churn"], [FLOOR, OURS, KUBE], smoke=False, limit_seconds=180.0))
    found = suite.run(todo, limit_seconds=180.0)
    assert not found.failed
    assert [(o.candidate, o.rate) for o in found.arrival] == [(OURS, 60.0), (FLOOR, 60.0), (KUBE, 60.0)]
    assert [o.pods for o in found.arrival[1:]] == [3600, 3600]
    assert {g.met for g in goals(found) if g.cell == arrival.CHURN.name} == {True}
    assert KUBE in arrival_table(found.arrival)


def test_all_of_it_takes_less_than_two_hours() -> None:
    """The estimate, which counts kube-scheduler as cut off in every cell."""
    every = [c.name for c in ALL]
    assert sum(step.seconds for step in suite.steps([], every, smoke=False, limit_seconds=180.0)) < 115 * 60


def test_the_picture_of_the_comparison_is_there() -> None:
    """The comparison shows the picture that the benchmark draws, with all cells and everybody in it."""
    assert "](internals/performance.svg)" in (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    drawn = (ROOT / "docs" / "internals" / "performance.svg").read_text(encoding="utf-8")
    assert [
        name for name in (*(c.name for c in (*cells.BACKLOG, *cells.PREEMPTION)), OURS, FLOOR) if name not in drawn
    ] == []


def test_gangs_that_lose_some_of_their_pods_are_counted() -> None:
    """A gang that loses all is not broken, one that loses some is; single pods never are. The table has them."""
    cell = next(c for c in cells.HARM if c.victim_gang == 20)
    whole = [f"old-{n:06d}" for n in range(20)]
    assert cells.broken(cell, whole) == 0
    assert cells.broken(cell, [*whole, "old-000020", "old-000041"]) == 2
    assert cells.broken(msgspec.structs.replace(cell, victim_gang=1), ["old-000000"]) == 0
    told = harm_table([msgspec.structs.replace(result(cell.name, OURS, 1.0), removed=22, broken=2)])
    assert told.splitlines()[-1].split()[-5:-3] == ["22", "2"]
