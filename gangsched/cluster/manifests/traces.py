"""Traces of GPU clusters as manifests: Jobs that arrive and run as the trace says, and nodes for them.

======== ========================================================================== =================================
format   columns that are read                                                      priorities
======== ========================================================================== =================================
philly   timestamp, duration, num_gpus (the cleaned csv of the Philly trace)        none: a fifth of the jobs, by a
                                                                                    checksum of their numbers, is high
openb    name, cpu_milli, memory_mib, num_gpu, gpu_milli and, if there, qos,        by qos: LS, then Burstable, BE
         creation_time, deletion_time, scheduled_time; the nodes of
         ``openb_node_list_all_node.csv`` beside the file: sn, cpu_milli,
         memory_mib, gpu
gfs      job_name, cpu_request, gpu_request, worker_num, submit_time, duration,     by job_type: HP, then Spot
         job_type
jobs     submit_time, duration, pods, gpus (of each pod), priority                  the number
======== ========================================================================== =================================

A job of more GPUs than a node has is a gang of whole nodes. A pod that is evicted is created anew and runs its whole
time again. Without nodes of its own a trace gets as many of eight GPUs as its jobs keep busy on average while jobs
arrive. Shared GPUs are thousandths of a resource of the node: room that is spread over several GPUs of a node counts as
one, which real devices do not allow.
"""

from __future__ import annotations

import csv
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from gangsched.cluster.manifests.objects import Source, text_of
from gangsched.cluster.sim.arrival import ARRIVE_AFTER, RUN_FOR
from gangsched.messages import invalid
from gangsched.model.dialects.owners import GANG
from gangsched.model.errors import InputError, Place

GPU, GPU_MILLI = "nvidia.com/gpu", "trace.gangsched.dev/gpu-milli"
NODES_OF_OPENB = "openb_node_list_all_node.csv"

_PER_NODE = {"cpu": "96", "memory": "768Gi", GPU: "8", "pods": "110"}
_GPUS_PER_NODE = 8
#: No number of evictions makes a Job fail: all of its work is done in the end.
_BACKOFF_LIMIT = 2**31 - 1
_PRIORITIES = {"high": 1000, "low": 0, "LS": 1000, "Burstable": 500, "Guaranteed": 500, "BE": 0, "HP": 1000, "Spot": 0}

#: Of the names of priority classes: those of the input stay what they are.
_PREFIX = "trace-"
_PRIORITY = re.compile(r"-?\d{1,10}", re.ASCII)
#: The highest priority that users may give, and minus the lowest that is read.
_HIGHEST = 10**9


class _Row(NamedTuple):
    """A line of a trace, whose values are read with the place that errors name."""

    file: str
    line: int
    values: Mapping[str, str | None]

    def _error(self, column: str, message: str) -> InputError:
        return InputError(Place(self.file), f"line {self.line}, {column}", message)

    def text(self, column: str) -> str:
        """The value. Raises :class:`InputError` without one."""
        value = self.values.get(column)
        if value is None or value == "":
            raise self._error(column, invalid.COLUMN_EMPTY)
        return value

    def priority(self, column: str) -> tuple[str, int]:
        """The class of priority and its value. Raises :class:`InputError` for one that is not known."""
        name = self.text(column)
        if name not in _PRIORITIES:
            raise self._error(column, invalid.none_of(value=repr(name), allowed=", ".join(_PRIORITIES)))
        return _known(name)

    def number(self, column: str) -> float:
        """The value, a finite number of at least 0. Raises :class:`InputError` for any other."""
        raw = self.text(column)
        try:
            value = float(raw)
        except ValueError:
            value = -1.0
        if not (math.isfinite(value) and value >= 0):
            raise self._error(column, invalid.no_time_of_trace(value=repr(raw)))
        return value

    def integer(self, column: str) -> int:
        """The value, a whole number that a priority may be. Raises :class:`InputError` for any other."""
        raw = self.text(column)
        if not _PRIORITY.fullmatch(raw) or abs(int(raw)) > _HIGHEST:
            raise self._error(column, invalid.no_priority(value=repr(raw), most=_HIGHEST))
        return int(raw)

    def seconds(self, column: str) -> float:
        """The value, a time such as 2017-10-09 07:01:55 or a number, in seconds."""
        raw = self.text(column)
        try:
            return datetime.fromisoformat(raw).replace(tzinfo=UTC).timestamp() if ":" in raw else self.number(column)
        except ValueError:
            raise self._error(column, invalid.no_time_of_trace(value=repr(raw))) from None


class _Work(NamedTuple):
    """A job: when it arrives (seconds), for how long it runs (None: it stays), and what each of its pods asks for."""

    name: str
    arrives: float
    runs: float | None
    priority: tuple[str, int]
    pods: int
    requests: dict[str, str]
    gpus: float


def _philly(row: _Row) -> _Work:
    gpus = int(row.number("num_gpus"))
    pods = max(1, math.ceil(gpus / _GPUS_PER_NODE))
    priority = _known("low" if zlib.crc32(str(row.line).encode()) % 5 else "high")
    requests = {"cpu": "1", GPU: str(min(gpus, _GPUS_PER_NODE))}
    return _Work(
        f"job-{row.line}", row.seconds("timestamp"), row.number("duration"), priority, pods, requests, float(gpus)
    )


def _openb(row: _Row) -> _Work:
    milli = row.number("num_gpu") * row.number("gpu_milli")
    requests = {"cpu": f"{row.number('cpu_milli'):.0f}m", "memory": f"{row.number('memory_mib'):.0f}Mi"}
    if milli:
        requests[GPU_MILLI] = f"{milli:.0f}"
    arrives, runs = float(row.line), None
    if "creation_time" in row.values:  # others have no times: one comes after the other, and all stay
        arrives = row.number("creation_time")
        runs = row.number("deletion_time") - (row.number("scheduled_time") if row.values["scheduled_time"] else arrives)
    priority = row.priority("qos") if "qos" in row.values else _known("low")
    return _Work(row.text("name").lower(), arrives, runs, priority, 1, requests, milli / 1000)


def _gfs(row: _Row) -> _Work:
    gpus, pods = row.number("gpu_request"), max(1, int(row.number("worker_num")))
    requests = {"cpu": f"{row.number('cpu_request'):g}", GPU: f"{gpus:.0f}"}
    times = row.seconds("submit_time"), row.number("duration")
    return _Work(f"job-{row.line}", *times, row.priority("job_type"), pods, requests, gpus * pods)


def _jobs(row: _Row) -> _Work:
    gpus, pods = int(row.number("gpus")), max(1, int(row.number("pods")))
    value = row.integer("priority")
    priority = (f"minus-{-value}" if value < 0 else str(value), value)
    requests = {"cpu": "1", GPU: str(gpus)}
    times = row.seconds("submit_time"), row.number("duration")
    return _Work(f"job-{row.line}", *times, priority, pods, requests, float(gpus * pods))


def _known(name: str) -> tuple[str, int]:
    """The class of a priority that has a name, and its value."""
    return name.lower(), _PRIORITIES[name]


_FORMATS: dict[str, Callable[[_Row], _Work]] = {"philly": _philly, "openb": _openb, "gfs": _gfs, "jobs": _jobs}
#: The columns by which a format is known.
_COLUMNS = {
    "jobs": ("submit_time", "duration", "pods", "gpus", "priority"),
    "philly": ("timestamp", "duration", "num_gpus"),
    "openb": ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
    "gfs": ("job_name", "cpu_request", "gpu_request", "worker_num", "submit_time", "duration", "job_type"),
}


def form_of(path: str) -> str:
    """Return the format of a trace, which the names of its columns tell. Raises :class:`InputError`."""
    columns = csv.DictReader(text_of(Path(path)).splitlines()).fieldnames or ()
    form = next((form for form, needed in _COLUMNS.items() if set(needed) <= set(columns)), None)
    if form is None:
        known = "; ".join(f"{form}: {', '.join(needed)}" for form, needed in _COLUMNS.items())
        raise InputError(Place(path), "line 1", invalid.no_trace(known=known))
    return form


def read_trace(form: str, path: str, scheduler_name: str, *, most: int | None = None, nodes: bool = True) -> Source:
    """A trace as one text of manifests: the first ``most`` jobs to arrive, for this scheduler, and ``nodes`` for them.

    Raises :class:`InputError` with file, line and column of what cannot be read.
    """
    works = sorted(map(_FORMATS[form], _rows(Path(path))), key=lambda work: work.arrives)[:most]
    if not works:
        raise InputError(Place(path), "", invalid.NO_JOBS)
    items: list[dict[str, Any]] = []
    if nodes:
        beside = Path(path).with_name(NODES_OF_OPENB)
        items += _nodes_of(beside) if form == "openb" and beside.is_file() else _nodes_for(works, form)
    classes = sorted({work.priority for work in works})
    items += [_object("scheduling.k8s.io/v1", "PriorityClass", _PREFIX + name, value=value) for name, value in classes]
    items += [_job(work, work.arrives - works[0].arrives, scheduler_name) for work in works]
    return Source(path, json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def _rows(path: Path) -> Iterator[_Row]:
    reader = csv.DictReader(text_of(path).splitlines())
    for values in reader:
        yield _Row(str(path), reader.line_num, values)


def _nodes_of(path: Path) -> Iterable[dict[str, Any]]:
    for row in _rows(path):
        room = {"cpu": f"{row.number('cpu_milli'):.0f}m", "memory": f"{row.number('memory_mib'):.0f}Mi", "pods": "110"}
        yield _node(row.text("sn"), {**room, GPU_MILLI: f"{1000 * row.number('gpu'):.0f}"})


def _nodes_for(works: list[_Work], form: str) -> Iterable[dict[str, Any]]:
    lasts = works[-1].arrives - works[0].arrives
    busy = sum(work.gpus * (lasts if work.runs is None else work.runs) for work in works) / max(lasts, 1.0)
    widest = max(math.ceil(work.gpus) for work in works)
    room = {**_PER_NODE, GPU_MILLI: str(1000 * _GPUS_PER_NODE)} if form == "openb" else _PER_NODE
    number = math.ceil(max(busy, widest) / _GPUS_PER_NODE) or 1
    return [_node(f"node-{n:04}", room) for n in range(number)]


def _node(name: str, room: Mapping[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def _job(work: _Work, after: float, scheduler_name: str) -> dict[str, Any]:
    hints = {ARRIVE_AFTER: f"{after:.3f}s"}
    if work.runs is not None:
        hints[RUN_FOR] = f"{max(work.runs, 1.0):.3f}s"
    resources = {"requests": work.requests}
    if extended := {name: work.requests[name] for name in (GPU, GPU_MILLI) if name in work.requests}:
        resources["limits"] = extended
    pod = {
        "schedulerName": scheduler_name,
        "priorityClassName": _PREFIX + work.priority[0],
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "trace", "resources": resources}],
    }
    return _object(
        "batch/v1",
        "Job",
        work.name,
        annotations={GANG: "true"},
        spec={
            "parallelism": work.pods,
            "completions": work.pods,
            "backoffLimit": _BACKOFF_LIMIT,
            "template": {"metadata": {"annotations": hints}, "spec": pod},
        },
    )


def _object(
    version: str, kind: str, name: str, annotations: Mapping[str, str] | None = None, **rest: Any
) -> dict[str, Any]:
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}
