"""The comparison of traces, on small ones that are made here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.traces import backtest, packing, played
from tests.bench.traces.__main__ import main
from tests.bench.traces.policies import POLICIES

_COLUMNS = "timestamp,duration,num_gpus\n"


def _trace(folder: Path, jobs: int = 40) -> str:
    """Jobs of 1 to 16 GPUs, of which about twice as many come as there is room for."""
    path = folder / "trace.csv"
    sizes = (1, 4, 8, 2, 16, 1, 8)
    lines = (f"{30 * n},{300 + 70 * (n % 5)},{sizes[n % len(sizes)]}\n" for n in range(jobs))
    path.write_text(_COLUMNS + "".join(lines))
    return str(path)


def test_every_policy_plays_the_same_jobs_to_their_end(tmp_path: Path) -> None:
    """All jobs are done under each order of victims, nothing is violated, and the orders really differ."""
    runs = played.play("philly", _trace(tmp_path), None)
    assert [run.policy for run in runs] == list(POLICIES)
    assert {(run.figures.jobs, run.violations) for run in runs} == {(40, 0)}
    done = {round(run.figures.gpu_hours_done, 1) for run in runs}
    assert len(done) == 1
    assert len({(run.figures.evicted_pods, run.figures.gpu_hours_lost) for run in runs}) > 1
    assert all(policy in played.rows(runs) for policy in POLICIES)
    assert played.picture(runs, "about").startswith("<svg")


def test_pods_come_until_so_much_is_asked_for(tmp_path: Path) -> None:
    """The curve ends where 130 % have arrived, and never allocates more than there is or than has arrived."""
    (tmp_path / "openb_node_list_all_node.csv").write_text("sn,cpu_milli,memory_mib,gpu\nn,64000,262144,8\n")
    pods = tmp_path / "pods.csv"
    pods.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,1000\nb,1000,1024,1,500\nc,1,1,2,1000\n"
    )
    curve = packing.curve(pods, "MostAllocated", 1)
    assert 130 <= curve[-1][0] < 160
    assert all(allocated <= min(100.0, arrived) for arrived, allocated in curve)
    assert curve[-1][1] > 75


def test_curves_are_read_and_drawn_beside_published_ones(tmp_path: Path) -> None:
    """The mean of the authors' seeds stands beside ours at the same loads, and both are drawn."""
    loads = ",".join(map(str, range(131)))
    rows = [f"{name},06-FGD,1.3,{seed},8," + ",".join([str(seed)] * 131) for name in ("a", "b") for seed in (90, 94)]
    path = tmp_path / "published.csv"
    path.write_text("\n".join([f"workload,sc_policy,tune,seed,total_gpus,{loads}", *rows]))
    found = packing.published(path, "b")
    assert found == {"FGD": [92.0] * 131}
    ours = packing.by_load([[(50.0, 50.0), (131.0, 90.0)], [(50.0, 40.0), (120.0, 80.0)]])
    assert (ours[49], ours[50], ours[130]) == (0.0, 45.0, 65.0)
    assert packing.picture({"ours": ours, **found}, "about").count("<polyline") == 2


def test_answers_are_compared_with_what_came(tmp_path: Path) -> None:
    """Each answer has the real start of its gang beside it, and those that lie in the interval count as such."""
    answers = backtest.asked("philly", _trace(tmp_path), 40, 6, every=2)
    assert answers
    assert all(answer.really is not None and answer.really >= 0 for answer in answers)
    assert any(answer.inside for answer in answers)
    assert not backtest.Asked(1.0, 2.0, 3.0, 9.0).inside
    assert not backtest.Asked(1.0, 2.0, None, 2.0).inside


def test_the_commands_print_their_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``policies`` prints a row for each policy, and ``eta`` the share of starts in the interval."""
    assert main(["policies", "philly", _trace(tmp_path), "--jobs", "20", "--svg", str(tmp_path / "x.svg")]) == 0
    printed = capsys.readouterr().out
    assert all(policy in printed for policy in POLICIES)
    assert (tmp_path / "x.svg").exists()
    assert main(["eta", "philly", _trace(tmp_path), "--jobs", "20", "--questions", "2", "--every", "1"]) == 0
    assert "answers" in capsys.readouterr().out
