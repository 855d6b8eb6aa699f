"""The picture of the suite shows what the tables tell."""

from __future__ import annotations

from xml.etree import ElementTree

import msgspec

from tests.bench.live import arrival, cells
from tests.bench.live.candidates import FLOOR, KUBE, OURS
from tests.bench.live.made_up import outcome, result
from tests.bench.live.outcome import Sample
from tests.bench.live.picture import picture
from tests.bench.live.report import Report


def words(report: Report) -> list[str]:
    """All texts of the picture, which is well-formed."""
    root = ElementTree.fromstring(picture(report))
    return [each.text or "" for each in root.iter() if each.tag.endswith("}text")]


def test_bars_have_an_axis_numbers_and_multiples() -> None:
    """Ticks with a unit, the time of everybody, and ours in multiples of the floor, others in multiples of ours."""
    name = cells.BACKLOG[0].name
    kube = msgspec.structs.replace(result(name, KUBE, 170.0), finished=False, last_bind=170.0)
    ours = msgspec.structs.replace(result(name, OURS, 9.0), runs=[8.0, 9.0, 12.0])
    told = words(Report("a machine", [result(name, FLOOR, 6.0), ours, kube], [], measured="2026-01-31"))
    assert {"2 s", "5", "10", "20", "50", "100", "180: cut off"} <= set(told)
    assert {name, f"{cells.BACKLOG[0].nodes:,} nodes", "6.0 s", "9.0 s", "> 180 s"} <= set(told)
    assert {"1.5 × floor", "> 20 × ours"} <= set(told)
    about = " ".join(told[-2:])
    assert "up to 3 runs" in about
    assert about.endswith("a machine; measured 2026-01-31.")


def test_gangs_that_arrive_have_bars_beside_the_floor() -> None:
    """Medians and p99 in milliseconds, the processor time of a pod, the rate, and who was not done."""
    name = arrival.LARGE.name
    ours = outcome(name, [0.1])
    floor = msgspec.structs.replace(ours, candidate=FLOOR, gang_p50=0.02, gang_p99=0.05, cpu_seconds=0.2)
    kube = msgspec.structs.replace(ours, candidate=KUBE, bound=5, finished=False)
    lost = msgspec.structs.replace(kube, cell="lost", bound=0, gang_p50=-1.0, gang_p99=-1.0)
    at_once = msgspec.structs.replace(floor, cell="at once", gang_p50=0.0, gang_p99=0.003)
    told = words(Report("here", [], [ours, floor, kube, lost, at_once]))
    assert {"20, 50 ms", "100, 200 ms", "CPU 25.0 ms/pod", "CPU 125.0 ms/pod", "100 pods/s"} <= set(told)
    assert {"CPU 200.0 ms/pod, 5 of 8 bound", "no gang was bound"} <= set(told)
    assert told.index("20, 50 ms") < told.index("100, 200 ms")
    assert "0, 3 ms" in told  # read in one go by the ruler
    assert told.count("no gang was bound") == 1
    assert name in " ".join(told)


def test_what_goes_on_for_minutes_is_drawn_over_time() -> None:
    """Memory and latency, for cells with more than one half minute only."""
    lone, churn = outcome("lone", [0.1]), outcome(arrival.CHURN.name, [0.1, 0.4, 0.2])
    churn.samples = [Sample(0.0, 2.0), Sample(80.0, 90.0)]
    told = words(Report("here", [result("c", OURS, 1.0)], [lone, churn]))
    assert not [word for word in told if word.startswith("Over time, lone")]
    assert [word for word in told if word.startswith(f"Over time, {arrival.CHURN.name}")]
    assert {"p50", "p99", "0 s", "90", "400"} <= set(told)
