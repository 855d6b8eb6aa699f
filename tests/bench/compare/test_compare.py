"""What `make compare` keeps and shows; nothing is measured here."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.bench import rivals
from tests.bench.compare import __main__, offline, record, runs, tables
from tests.bench.compare.offline import THIS, Taken
from tests.bench.compare.record import Measured, Record
from tests.bench.live import cells, suite
from tests.bench.live.candidates import ALL, FLOOR, KUBE, OURS
from tests.bench.live.made_up import result
from tests.bench.live.report import Report
from tests.controlplane import binaries, versions

THIRTY = cells.HARM[0]


def measured(candidate: str, evicted: int, version: str = "1.37.2", day: str = "2026-01-31") -> Measured:
    """A run of the cell with five gangs."""
    run = msgspec.structs.replace(result(THIRTY.name, candidate, 3.0), removed=evicted)
    return Measured(version, day, 1.0, "here", run)


def by_rules() -> Record:
    """What rules say, and nothing measured."""
    some = {THIS: Taken(1, 0), "kube-scheduler 1.37": Taken(5, 0), "kube-scheduler 1.36": Taken(2, 0)}
    return Record(cells={cell.name: some for cell in cells.HARM}, rules_day="2026-01-01")


def test_the_rule_of_1_37_breaks_up_five_gangs_and_this_planner_two() -> None:
    """A gang of 30 into five gangs of 20: 40 pods, or all of them."""
    found = offline.of_cell(THIRTY)
    assert found[THIS] == Taken(40, 0)
    assert found["kube-scheduler 1.36"] == Taken(40, 0)
    assert found["kube-scheduler 1.37"] == Taken(100, 0)


def test_where_one_victim_suffices_one_is_evicted() -> None:
    """The rule of 1.37 evicts more, as it places the gang before it looks who is in the way."""
    found = offline.of_cell(cells.HARM[1])
    assert (found[THIS].evicted, found["kube-scheduler 1.36"].evicted) == (1, 1)
    assert found["kube-scheduler 1.37"].evicted > 1


def test_random_clusters_are_summed_over_those_in_which_all_evict() -> None:
    """Nobody's sum has a cluster that another's has not."""
    found = offline.of_random_clusters(1)
    assert list(found) == [THIS, *rivals.RULES]
    assert len({each.clusters for each in found.values()}) == 1
    assert found[THIS].broken == 0 < found[THIS].evicted <= found["kube-scheduler 1.37"].evicted


def test_a_cluster_of_the_rules_is_that_of_the_live_cell() -> None:
    """As many nodes, members and victims, in the same gangs."""
    case = offline.case_of(THIRTY)
    old = [pod for pod in case.pods if pod.node]
    assert (len(case.nodes), len(case.pods) - len(old), len(old)) == (THIRTY.nodes, THIRTY.size, THIRTY.victims)
    assert {pod.gang.name for pod in old} == {cells.group_of(THIRTY, n) for n in range(THIRTY.victims)}


def test_a_later_run_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    """Of the same cell, candidate and minor version; what is written is read again."""
    kept = Record()
    for each in (measured(KUBE, 100), measured(KUBE, 40, "1.36.3"), measured(KUBE, 80, "1.37.3", "2026-02-01")):
        kept.add(each)
    record.write(kept, tmp_path / "record.json")
    again = record.read(tmp_path / "record.json")
    assert [(each.kubernetes, each.result.removed) for each in again.live] == [("1.36.3", 40), ("1.37.3", 80)]
    assert again.versions() == ["1.37", "1.36"]
    assert record.read(tmp_path / "none.json") == Record()


def test_what_was_not_measured_is_marked() -> None:
    """Rules and quoted figures say so; what was measured has its version and day instead."""
    kept = by_rules()
    planned = {row[0]: row for row in tables.thirty(kept).rows}
    assert planned[THIS][-1] == "planned, 2026-01-01"
    assert planned["kube-scheduler 1.37"][1] == "5"
    assert "rules" in planned["kube-scheduler 1.37"][-1]
    assert planned["Volcano"][-1].startswith("quoted")
    kept.add(measured(KUBE, 100))
    (row,) = (row for row in tables.thirty(kept).rows if row[0] == "kube-scheduler 1.37")
    assert row[1:3] == ["100", "5 whole"]
    assert row[-1] == "1.37.2, 2026-01-31"
    assert "Volcano" not in tables.thirty(kept, others=False).markdown()


def test_side_by_side_are_runs_of_the_same_version() -> None:
    """A row needs both; who was cut off shows the limit, and quoted rows are those that were not measured."""
    kept = by_rules()
    kept.add(measured(OURS, 40))
    assert THIRTY.name not in tables.beside(kept).markdown()
    cut = measured(KUBE, 100)
    kept.add(msgspec.structs.replace(cut, result=msgspec.structs.replace(cut.result, finished=False, last_bind=None)))
    kept.add(measured(FLOOR, 40))
    rows = {row[0]: row for row in tables.beside(kept).rows}
    assert rows[THIRTY.name][1:6] == ["40 / 100", "0 / 0", "0.5 / 0.5", "3.0 / > 180", "3.0"]
    quoted = [row for row in rows.values() if "quoted" in row[-1]]
    assert {row[0] for row in quoted} == set(tables.QUOTED["kube-scheduler 1.37.2"]["cells"])


def test_terminal_and_picture_show_all_of_it() -> None:
    """Nothing but the rules is needed."""
    kept = by_rules()
    kept.add(measured(OURS, 40))
    kept.add(measured(KUBE, 100))
    told, drawn = tables.text(kept), tables.picture(kept)
    assert "On Kubernetes 1.37:" in told
    assert "40 / 100" in told
    assert "5 by rules" in drawn
    assert ">100<" in drawn


@pytest.mark.parametrize(("quick", "only"), [(True, ()), (False, ()), (False, ("one victim",))])
def test_every_candidate_runs_in_every_chosen_cell(quick: bool, only: tuple[str, ...]) -> None:
    """All cells fit into 90 minutes, and the quick ones into ten, each at the time that it takes at most."""
    todo = list(runs.steps(only, quick=quick))
    names = {step.cell.name for step in todo}
    assert {(step.cell.name, step.candidate.name) for step in todo} == {(n, c.name) for n in names for c in ALL}
    assert sum(step.seconds for step in todo) < 60 * (10 if quick else 90)
    if not quick and not only:
        assert names == {cell.name for cell in cells.ALL}


def test_results_are_kept_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each of them; a run of ours that was not finished is a failure, one of kube-scheduler is not."""
    monkeypatch.setattr(binaries, "find", dict)
    monkeypatch.setattr(runs, "compiled", lambda: None)
    kept, sizes = Record(), []

    def run(todo: list[suite.Step], *, limit_seconds: float, keep: object) -> Report:
        report = Report("here", [], [])
        for step in todo:
            late = step.candidate.name == KUBE or step is todo[-2]
            done = result(step.cell.name, step.candidate.name, 1.0)
            report.backlog.append(msgspec.structs.replace(done, finished=not late))
            keep(report)  # type: ignore[operator]
        return report

    monkeypatch.setattr(suite, "run", run)
    failed = runs.live(kept, ["30 into"], quick=False, keep=lambda found: sizes.append(len(found.live)))
    assert sizes == [1, 2, 3]
    assert failed == [f"{THIRTY.name}: gangsched was not done after 180 s"]
    assert runs.live(kept, ["nothing like it"], quick=False, keep=lambda _: None) == [
        "no cell has 'nothing like it' in its name"
    ]


def test_without_a_control_plane(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`--offline` prints what rules evict, and writes nothing if so told."""
    monkeypatch.setenv(versions.VARIABLE, versions.DEFAULT)
    before = record.FILE.read_bytes()
    assert __main__.main(["--offline", "--quick", "--no-write"]) == 0
    assert record.FILE.read_bytes() == before
    told = capsys.readouterr().out
    assert "A gang of 30" in told
