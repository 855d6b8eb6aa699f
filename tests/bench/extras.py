"""What the extra ``fast`` changes, and what orjson would.

    python -m tests.bench.extras [--rounds N] [--smoke]

The real scheduler binds 10,000 pods on a real API server, in turns with uvloop and with the event loop of asyncio; what
counts is the CPU time of its process until the last binding, the least of all rounds. Log lines are rendered in a loop.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

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
    args = parser.parse_args()
    cell = cells.BACKLOG[2].smaller() if args.smoke else cells.BACKLOG[2]
    results: dict[str, list[Result]] = {"uvloop": [], "asyncio": []}
    for _ in range(args.rounds):
        for name, found in results.items():
            candidate = Candidate(OURS, _with_uvloop) if name == "uvloop" else _OURS
            found.append(asyncio.run(backlog.measure(cell, candidate)))
    print(loops_table(results))
    print(lines_table(microseconds()))
    return 0 if all(r.finished for found in results.values() for r in found) else 1


def loops_table(results: dict[str, list[Result]]) -> str:
    """CPU seconds for 10,000 bindings, and the time of the quickest run."""
    cpu = {name: min(r.cpu_seconds * 10_000 / max(1, r.bound) for r in found) for name, found in results.items()}
    rows = [
        (name, f"{cpu[name]:.2f}", f"{cpu[name] / cpu['asyncio']:.2f}", f"{min(r.seconds for r in found):.1f}")
        for name, found in results.items()
    ]
    return table(("event loop", "CPU s for 10,000", "of asyncio's", "seconds to the last"), rows)


def microseconds() -> dict[str, float]:
    """CPU microseconds for the JSON of one log line, by who makes it; only of those that are installed."""
    makers: dict[str, Callable[[Any], Any]] = {
        "json": lambda line: json.dumps(line, ensure_ascii=False),
        "msgspec": lambda line: msgspec.json.encode(line).decode(),
    }
    try:
        orjson = importlib.import_module("orjson")
    except ImportError:
        pass
    else:
        makers["orjson"] = lambda line: orjson.dumps(line).decode()
    return {name: _least(make) for name, make in makers.items()}


def lines_table(found: dict[str, float]) -> str:
    """What a log line costs."""
    return table(("JSON by", "CPU us a line"), [(name, f"{each:.2f}") for name, each in found.items()])


def _least(make: Callable[[Any], Any], count: int = 2_000) -> float:
    times = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(count):
            make(_LINE)
        times.append(time.process_time() - began)
    return min(times) / count * 1e6


def _with_uvloop(plane: ControlPlane, cell: Cell, folder: Path) -> list[str]:
    """The same command in an interpreter that may import what is installed."""
    python, _, _, *arguments = _OURS.command(plane, cell, folder)
    return [python, "-m", "gangsched.cli.main", *arguments]


if __name__ == "__main__":
    sys.exit(main())
