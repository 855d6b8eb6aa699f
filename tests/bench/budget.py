"""What a pod costs, phase by phase: time of the processor, in microseconds.

    python -m tests.bench.budget [--pods 8000]

Each phase is measured alone, with the code that the process runs: pods are read from JSON of the size that the API
server sends, taken in, decided on 1,000 nodes, their bindings answered and seen; bindings and Events are written to
a server that does nothing, in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import msgspec

from gangsched.cluster.kube.client import Client
from gangsched.cluster.kube.connection import load_connection
from gangsched.cluster.kube.decode import ObjectDecoder
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.writer import Writer
from gangsched.core.actions import Action, Bind, PodRef, Report
from gangsched.core.events import Changed, Event, Outcome, Synced, WriteDone
from gangsched.core.lifecycle import report
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.records import Gang, Pod
from gangsched.runtime.memory import raise_thresholds
from tests.bench.answering import answer_all, kubeconfig, response
from tests.bench.publish.tables import table
from tests.bench.worlds import GI, pending, uniform
from tests.oracle.case import Maker
from tests.oracle.generate import SIGS

NODES = 1000
#: Members of a gang; 1: pods without a group.
SIZES = (500, 20, 8, 1)
#: Answers and watch events come in batches of about so many while bindings are written at full speed.
BATCH = 20
PAGE = 500


def document(number: int) -> dict[str, object]:
    """A pod as the API server shows it, about 4 KB of it managed fields, status and defaults."""
    container = {
        "name": "main",
        "image": "registry.example.com/team/trainer:2.14.0",
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "env": [{"name": f"SETTING_{n}", "value": "x" * 24} for n in range(12)],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "imagePullPolicy": "IfNotPresent",
    }
    fields: dict[str, object] = {
        "f:metadata": {f"f:label-{n}": {} for n in range(20)},
        "f:spec": {f"f:field-{n}": {} for n in range(60)},
    }
    meta = {
        "name": f"pod-{number}",
        "namespace": "default",
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "resourceVersion": str(number),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "trainer", "index": str(number)},
        "managedFields": [{"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}],
    }
    spec = {
        "schedulerName": "py-gang-scheduler",
        "containers": [container],
        "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}


def reading(count: int) -> tuple[float, float]:
    """Microseconds per pod of a listing, and per event of a watch: decode and convert."""
    items = [document(n) for n in range(count)]
    pages = [msgspec.json.encode({"items": items[n : n + PAGE]}) for n in range(0, count, PAGE)]
    frames = [msgspec.json.encode({"type": "MODIFIED", "object": item}) for item in items]
    decoder, convert = ObjectDecoder(wire.Pod), Converter()
    start = time.thread_time()
    for page in pages:
        for pod in decoder.page(page):
            convert.pod(pod)
    listed = time.thread_time()
    for frame in frames:
        convert.pod(decoder.frame(frame).object)
    return 1e6 * (listed - start) / count, 1e6 * (time.thread_time() - listed) / count


def deciding(count: int, size: int) -> tuple[float, float, float, float, float]:
    """Microseconds per pod: taken in, filtered, scored, the rest of the decision, followed up."""
    make = Maker()
    core = Scheduler(Options())
    core.decider.stopwatch.clock = time.thread_time
    core.handle([*map(Changed, uniform(NODES, 64_000, make)), Synced()], 0.0)
    shape = make.shape({"cpu": 500, "memory": GI})
    gangs = [Gang(SIGS, "default", f"job{n:05d}", min_member=size) for n in range(count // size)] if size > 1 else []
    if size > 1:
        pods = [p for gang in gangs for p in pending(make, gang.name, [shape] * size)]
    else:
        pods = [make.pod(f"pod{n:05d}", shape) for n in range(count)]
    arriving: list[Event] = [*map(Changed, gangs), *map(Changed, pods)]
    by_uid = {p.uid: p for p in pods}
    start = time.thread_time()
    binds = bindings(core.handle(arriving, 1.0))
    ingest, plan, follow = time.thread_time() - start, 0.0, 0.0
    while core.has_work(1.0):
        start = time.thread_time()
        found = core.decide(1.0)
        plan += time.thread_time() - start
        core.drain_decisions()
        binds += bindings(found)
        if len(binds) >= BATCH or not core.has_work(1.0):
            follow += answer(core, binds, by_uid)
            binds = []
    if core.states():
        raise ValueError(f"gangs of {size}: not all were bound")
    spent = core.decider.stopwatch
    parts = (ingest, spent.filter_seconds, spent.score_seconds)
    rest = plan - spent.filter_seconds - spent.score_seconds
    each = 1e6 / len(pods)
    return parts[0] * each, parts[1] * each, parts[2] * each, rest * each, follow * each


def bindings(actions: Sequence[Action]) -> list[Bind]:
    """The bindings among these."""
    return [action for action in actions if isinstance(action, Bind)]


def answer(core: Scheduler, binds: Sequence[Bind], pods: dict[str, Pod]) -> float:
    """Seconds to hear that these have succeeded and to see the pods bound, in batches."""
    events: list[Event] = []
    for bind in binds:
        bound = msgspec.structs.replace(pods[bind.pod.uid], node=bind.node)
        events += [WriteDone(bind.id, Outcome.OK), Changed(bound)]
    start = time.thread_time()
    for first in range(0, len(events), 2 * BATCH):
        core.handle(events[first : first + 2 * BATCH], 1.0)
    return time.thread_time() - start


def server(pipe: Pipe) -> None:
    """Answers every request with 201, and says on the pipe where it listens."""
    created = response("201 Created", "{}")
    answer_all(pipe, lambda _: created)


async def writing(count: int, port: int) -> tuple[float, float]:
    """Microseconds per binding and per Event, from asking for it to its answer."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config"
        config.write_text(kubeconfig(port))
        client = Client(await load_connection(str(config), None), TokenBucket(1e6, 100_000))
        client.open()
        answers: list[Event] = []
        writer = Writer(
            client,
            answers.extend,
            now=time.time,
            fence=lambda: math.inf,
            controller="bench",
            instance="bench",
        )
        task = asyncio.create_task(writer.run())
        refs = [PodRef("default", f"pod-{n}", f"uid-{n}") for n in range(count)]
        binds: list[Action] = [Bind(n, ref, f"node-{n % NODES}") for n, ref in enumerate(refs)]
        told: list[Action] = [
            report.event(ref, report.SCHEDULED, f"assigned to node-{n % NODES}") for n, ref in enumerate(refs)
        ]
        spent = []
        for actions in (binds, told):
            start = time.thread_time()
            writer.submit(actions)
            if not await writer.drain(120.0):
                raise TimeoutError("the server does not answer")
            spent.append(1e6 * (time.thread_time() - start) / count)
        task.cancel()
        await client.close()
        if len(answers) != count or not all(isinstance(a, WriteDone) and a.outcome is Outcome.OK for a in answers):
            raise ValueError("not all bindings have succeeded")
        if not all(isinstance(action, Report) for action in told):
            raise TypeError("Events were meant")
        return spent[0], spent[1]


def write_costs(count: int) -> tuple[float, float]:
    """Of :func:`writing`, with a server of its own."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=server, args=(theirs,), daemon=True)
    process.start()
    try:
        return asyncio.run(writing(count, ours.recv()))
    finally:
        process.terminate()
        process.join()


def measure(count: int) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the table."""
    restore = raise_thresholds()
    listed, watched = reading(count)
    bind, event = write_costs(count)
    cells = []
    for size in SIZES:
        gc.collect()
        ingest, filters, scores, rest, follow = deciding(count // size * size, size)
        # Created and bound are events of the watch, or the first of them part of the listing; so is the bound pod.
        cells.append([2 * watched, ingest, filters, scores, rest, follow, bind, event])
    restore()
    names = (
        "read: created, bound",
        "take in",
        "filter",
        "score",
        "rest of the plan",
        "follow the answers",
        "write the binding",
        "write the Event",
    )
    rows = [[name, *(f"{cell[n]:.1f}" for cell in cells)] for n, name in enumerate(names)]
    rows.append(["together", *(f"{sum(cell):.0f}" for cell in cells)])
    rows.append(["read from a listing", *(f"{listed:.1f}" for _ in cells)])
    header = ["µs per pod", *(f"gangs of {size}" if size > 1 else "single pods" for size in SIZES)]
    return header, rows


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pods", type=int, default=8000, help="pods per phase (default 8000)")
    given = parser.parse_args(arguments)
    print(table(*measure(given.pods)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
