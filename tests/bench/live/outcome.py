"""What came of pods that arrived: latencies, memory over time, calls."""

from __future__ import annotations

import statistics

import msgspec

from tests.bench.live.api import Ruler
from tests.bench.live.candidates import OURS
from tests.bench.live.cells import Cell

#: Latency and memory are told for each of these.
WINDOW_SECONDS = 30.0


class Window(msgspec.Struct):
    """What was created in a part of the run: pods, and of those that were bound the latencies; the mean RSS in it."""

    pods: int
    p50: float
    p99: float
    rss_mb: float


class Sample(msgspec.Struct):
    """Resident MB of the process, so many seconds after its start."""

    seconds: float
    rss_mb: float


class Outcome(msgspec.Struct, kw_only=True):
    """Seconds, MB and counts of one run. Latencies are from the creation of a pod, of a gang from that of its last
    member, to the binding, as the watch brings them; -1 where nothing was bound. ``floor`` is the rate of the floor in
    pods per second, where the cell has one; ``arriving`` for how long gangs were created. The lag is -1 where the
    process does not tell it.
    """

    cell: str
    candidate: str = OURS
    rate: float
    floor: float = 0.0
    arriving: float = 0.0
    pods: int
    bound: int
    bare_list: float
    ready: float
    pod_p50: float
    pod_p99: float
    gang_p50: float
    gang_p99: float
    windows: list[Window] = []
    rss_ready_mb: float
    rss_end_mb: float
    peak_mb: float
    cpu_seconds: float
    loop_lag_p99: float
    calls_per_pod: float
    calls: dict[str, int]
    samples: list[Sample]
    finished: bool
    note: str = ""


def latencies(ruler: Ruler, cell: Cell) -> tuple[dict[str, float], list[float]]:
    """Of pods by name, and of gangs that are bound as a whole."""
    pods = {n: ruler.bound[n] - at for n, at in ruler.created.items() if n in ruler.bound}
    gangs: dict[str, list[str]] = {}
    for name in ruler.created:
        gangs.setdefault(name.rpartition("-")[0], []).append(name)
    whole = [
        max(ruler.bound[n] for n in names) - max(ruler.created[n] for n in names)
        for names in gangs.values()
        if len(names) == cell.size and all(n in ruler.bound for n in names)
    ]
    return pods, whole


def windows(ruler: Ruler, pods: dict[str, float], samples: list[Sample], began: float, started: float) -> list[Window]:
    """Whole windows only, but at least one."""
    end = max(ruler.created.values(), default=started)
    out = []
    for number in range(max(1, int((end - started + 1.0) / WINDOW_SECONDS))):
        first = started + number * WINDOW_SECONDS
        waits = [wait for name, wait in pods.items() if first <= ruler.created[name] < first + WINDOW_SECONDS]
        rss = [s.rss_mb for s in samples if first <= began + s.seconds < first + WINDOW_SECONDS]
        out.append(
            Window(len(waits), quantile(waits, 0.5), quantile(waits, 0.99), round(statistics.fmean(rss or [0.0]), 1))
        )
    return out


def quantile(values: list[float], part: float) -> float:
    """The value below which this part of all lies; NaN is no JSON, so -1 without values."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 4) if ordered else -1.0
