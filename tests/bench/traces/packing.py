"""How much of the GPUs is allocated when pods come in random order and none leaves, beside figures of FGD's authors.

The pods of ``openb_pod_list_multigpu50.csv`` are drawn in random order until they ask for 130 % of all GPUs. Here a
shared GPU is thousandths of all GPUs of its node, which real devices do not allow: of the pods that share GPUs this
tells too much. ``whole`` leaves them out, and has no published figure beside it.
"""

from __future__ import annotations

import csv
import random
import tempfile
from pathlib import Path

import msgspec

from gangsched.cli.simulation import simulate
from gangsched.cli.trace_figures import gpus_of
from gangsched.cluster.manifests import load
from gangsched.cluster.manifests.traces import NODES_OF_OPENB, read_trace
from gangsched.cluster.sim import history as log
from gangsched.core.options import Options
from gangsched.model.records import Pod
from gangsched.runtime import config
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
        loaded = load((), made=[read_trace("openb", str(shuffled), "py-gang-scheduler")])
    run = simulate(loaded.events, options(strategy), until_seconds=OPTIONS.flush_seconds)
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
