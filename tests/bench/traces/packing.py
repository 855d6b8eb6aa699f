"""How much of the GPUs is allocated when pods come in random order and none leaves, beside figures of FGD's authors.

The pods of ``openb_pod_list_multigpu50.csv`` are drawn in random order until they ask for 130 % of all GPUs. Here a
shared GPU is thousandths of all GPUs of its node, which real devices do not allow: of the pods that share GPUs this
tells too much. ``whole`` leaves them out, and has no published figure beside it.
"""

from __future__ import annotations

import csv
import random
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import msgspec

from gangsched.cli.simulation import simulate
from gangsched.cli.trace_figures import gpus_of
from gangsched.cluster.manifests.traces import NODES_OF_OPENB
from gangsched.cluster.sim import history as log
from gangsched.core.options import Options
from gangsched.model.records import Pod
from gangsched.runtime import config
from tests.bench.publish import svg
from tests.bench.traces import formats
from tests.bench.traces.played import OPTIONS

#: GPU allocation (%) when 130 % has arrived, the mean of 10 seeds: analysis_allo_discrete.csv of the
#: kubernetes-scheduler-simulator of FGD's authors (Apache-2.0), workload multigpu50.
PUBLISHED = {"Random": 90.28, "DotProd": 94.85, "BestFit": 95.74, "Clustering": 95.81, "Packing": 96.18, "FGD": 97.18}
_LOAD = 1.3

_CONFIGURATION = """\
apiVersion: gangsched.dev/v1alpha1
kind: GangSchedulerConfiguration
profiles:
- schedulerName: py-gang-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: {strategy}
        resources:
        - {{name: trace.gangsched.dev/gpu-milli, weight: 5}}
        - {{name: cpu, weight: 1}}
        - {{name: memory, weight: 1}}
"""


def options(strategy: str) -> Options:
    """The options with that scoring strategy of NodeResourcesFit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(_CONFIGURATION.format(strategy=strategy))
        read = config.load(path).core_options()
    return msgspec.structs.replace(read, flush_seconds=OPTIONS.flush_seconds)


def curve(pods: Path, strategy: str, seed: int, *, whole: bool = False) -> list[tuple[float, float]]:
    """``(arrived, allocated)`` in per cent of all GPUs, after each pod."""
    with tempfile.TemporaryDirectory() as folder:
        shuffled = Path(folder, "pods.csv")
        nodes = pods.with_name(NODES_OF_OPENB)
        shuffled.with_name(NODES_OF_OPENB).write_bytes(nodes.read_bytes())
        total = sum(float(row["gpu"]) for row in csv.DictReader(nodes.read_text().splitlines()))
        with shuffled.open("w") as file:
            rows = csv.DictReader(pods.read_text().splitlines())
            writer = csv.DictWriter(file, rows.fieldnames or ())
            writer.writeheader()
            writer.writerows(_drawn(list(rows), seed, total * _LOAD, whole=whole))
        trace = formats.loaded("openb", str(shuffled), "py-gang-scheduler")
    run = simulate(trace.events, options(strategy), until_seconds=OPTIONS.flush_seconds)
    arrived = allocated = 0.0
    out, seen = [], set()
    for entry in run.history:
        pod = entry.record
        if isinstance(pod, Pod) and entry.changed and (entry.verb == log.BIND or pod.uid not in seen):
            gpus = gpus_of(dict(pod.shape.requests))
            arrived += gpus * (pod.uid not in seen)
            allocated += gpus * (entry.verb == log.BIND)
            seen.add(pod.uid)
            out.append((100 * arrived / total, 100 * allocated / total))
    return out


def by_load(curves: Sequence[Sequence[tuple[float, float]]]) -> list[float]:
    """The mean of curves at 0, 1, ... 130 % of load."""
    out = []
    for share in range(round(100 * _LOAD) + 1):
        ends = [max((allocated for arrived, allocated in each if arrived <= share), default=0.0) for each in curves]
        out.append(mean(ends))
    return out


def published(path: Path, workload: str = "openb_pod_list_multigpu50") -> dict[str, list[float]]:
    """By policy the mean of the authors' seeds at 0, 1, ... 130 % of load, from their analysis_allo_discrete.csv."""
    found: dict[str, list[list[float]]] = defaultdict(list)
    for row in csv.DictReader(path.read_text().splitlines()):
        if row["workload"] == workload:
            policy = row["sc_policy"].partition("-")[2]
            found[policy].append([float(row[str(load)]) for load in range(round(100 * _LOAD) + 1)])
    return {policy: [mean(at) for at in zip(*seeds, strict=True)] for policy, seeds in found.items()}


def picture(curves: Mapping[str, Sequence[float]], about: str) -> str:
    """An SVG: GPUs allocated (%) over GPUs asked for (%), from where the curves part."""
    low = 80
    across = svg.Axis(low, 130, 64.0, 544.0)
    up = svg.Axis(low, 100, 340.0, 90.0)
    parts = [svg.text(24, 32, "GPUs allocated when pods come and none leaves, multigpu50", "title")]
    parts.append(svg.legend(24, 60, [(name, n) for n, name in enumerate(curves)]))
    for tick in across.ticks():
        parts += [
            svg.line(across.at(tick), 90, across.at(tick), 340),
            svg.text(across.at(tick), 358, f"{tick:.0f}", "soft", "middle"),
        ]
    for tick in up.ticks():
        parts += [
            svg.line(64, up.at(tick), 544, up.at(tick)),
            svg.text(56, up.at(tick) + 4, f"{tick:.0f} %", "soft", "end"),
        ]
    for n, values in enumerate(curves.values()):
        parts.append(svg.path([(across.at(x), up.at(values[x])) for x in range(low, len(values))], n))
    parts += [svg.text(304, 378, "% of all GPUs asked for", "soft", "middle"), svg.text(24, 402, about, "soft")]
    return svg.document(568, 416, "GPUs allocated", parts)


def _drawn(rows: list[dict[str, str]], seed: int, gpus: float, *, whole: bool) -> list[dict[str, str]]:
    """Pods in random order, again from the start when there are too few, until they ask for so many GPUs."""
    chance = random.Random(seed)
    kept = [row for row in rows if not (whole and row["gpu_milli"] not in ("0", "1000"))]
    out: list[dict[str, str]] = []
    while gpus > 0:
        for row in chance.sample(kept, len(kept)):
            out.append({**row, "name": f"{row['name']}-{len(out)}"})
            gpus -= float(row["num_gpu"]) * float(row["gpu_milli"]) / 1000
            if gpus <= 0:
                break
    return out
