"""What the extra ``fast`` changes, and what orjson would.

    python -m tests.bench.extras [--rounds N] [--smoke] [--lines]

The real scheduler binds 10,000 pods on a real API server, in turns with uvloop and with the event loop of asyncio; what
counts is the CPU time of its process until the last binding, the least of all rounds. Lines are
logged in a loop, by each of those that can make their JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import structlog

from gangsched import logs
from tests.bench.live import backlog, cells
from tests.bench.live.backlog import Result
from tests.bench.live.candidates import ALL, OURS, Candidate
from tests.bench.live.cells import Cell
from tests.bench.table import table
from tests.controlplane.plane import ControlPlane

_OURS = next(c for c in ALL if c.name == OURS)
_LINE = {
    "time": "2026-01-01T00:00:00.000000Z",
    "level": "info",
    "message": "decided",
    "gang": "default/trainer-00017",
    "outcome": "bind",
    "placed": 20,
    "required": 20,
    "milliseconds": 1.7,
    "why": "20 members can be bound",
    "logger": "gangsched.decision",
}


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.extras", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=2, help="runs of each (default: 2)")
    parser.add_argument("--smoke", action="store_true", help="few pods: shows only that it works")
    parser.add_argument("--lines", action="store_true", help="only what a log line costs")
    args = parser.parse_args()
    print(lines_table(microseconds()))
    for name in ("orjson", "uvloop"):
        if find_spec(name) is None:
            print(f"{name} is not installed: not measured")
    if args.lines:
        return 0
    cell = cells.BACKLOG[2].smaller() if args.smoke else cells.BACKLOG[2]
    results: dict[str, list[Result]] = {"uvloop": [], "asyncio": []}
    if find_spec("uvloop") is None:
        del results["uvloop"]
    for _ in range(args.rounds):
        for name, found in results.items():
            candidate = Candidate(OURS, _with_uvloop) if name == "uvloop" else _OURS
            found.append(asyncio.run(backlog.measure(cell, candidate)))
    print(loops_table(results))
    return 0 if all(r.finished for found in results.values() for r in found) else 1


def loops_table(results: dict[str, list[Result]]) -> str:
    """CPU seconds for 10,000 bindings, and the time of the quickest run."""
    cpu = {name: min(r.cpu_seconds * 10_000 / max(1, r.bound) for r in found) for name, found in results.items()}
    rows = [
        (name, f"{cpu[name]:.2f}", f"{cpu[name] / cpu['asyncio']:.2f}", f"{min(r.seconds for r in found):.1f}")
        for name, found in results.items()
    ]
    return table(("event loop", "CPU s for 10,000", "of asyncio's", "seconds to the last"), rows)


class Line(NamedTuple):
    """CPU microseconds for one log line: its JSON alone, and all of it, from the call to the text in the stream."""

    json: float
    whole: float


def microseconds() -> dict[str, Line]:
    """By who makes the JSON; only of those that are installed. Leaves logging as it was."""
    makers: dict[str, Callable[[Any], str]] = {
        "json": logs._encode,
        "msgspec": _by_msgspec,
    }
    try:
        orjson = importlib.import_module("orjson")
    except ImportError:
        pass
    else:
        makers["orjson"] = lambda line: orjson.dumps(line, default=repr).decode()
    return {name: Line(_least(partial(make, _LINE)), _whole(make)) for name, make in makers.items()}


def lines_table(found: dict[str, Line]) -> str:
    """What a log line costs."""
    rows = [(name, f"{each.json:.2f}", f"{each.whole:.2f}") for name, each in found.items()]
    return table(("JSON by", "CPU us for it", "CPU us a line"), rows)


_ENCODER = msgspec.json.Encoder(enc_hook=repr)


def _by_msgspec(line: Any) -> str:
    return _ENCODER.encode(line).decode()


def _whole(make: Callable[[Any], str]) -> float:
    """A line as the process logs it, into a stream that forgets it."""
    before, kept, level = structlog.get_config(), logging.root.handlers[:], logging.root.level
    fields: dict[str, Any] = {
        key: value for key, value in _LINE.items() if key not in ("time", "level", "message", "logger")
    }
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as stream, mock.patch.object(logs, "_encode", make):
            logs.configure("json", stream=stream)
            log = logs.get("gangsched.decision")
            return _least(lambda: log.info("decided", **fields))
    finally:
        structlog.configure(**before)
        logging.root.handlers[:], logging.root.level = kept, level


def _least(make: Callable[[], object], count: int = 2_000) -> float:
    times = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(count):
            make()
        times.append(time.process_time() - began)
    return min(times) / count * 1e6


def _with_uvloop(plane: ControlPlane, cell: Cell, folder: Path) -> list[str]:
    """The same command in an interpreter that may import what is installed."""
    python, _, _, *arguments = _OURS.command(plane, cell, folder)
    return [python, "-m", "gangsched.cli.main", *arguments]


if __name__ == "__main__":
    sys.exit(main())
