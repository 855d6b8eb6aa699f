"""What a line of the log costs, and what it would with another maker of its JSON.

python -m tests.bench.log_lines
"""

from __future__ import annotations

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
from tests.bench.publish.tables import table

_LINE = {
    "time": "2026-01-01T00:00:00.000000Z",
    "level": "info",
    "message": "decided",
    "gang": "default/trainer-00017",
    "outcome": "bind",
    "placed": 20,
    "required": 20,
    "milliseconds": 1.7,
    "why": "20 members can start now",
    "logger": "gangsched.decision",
}


def main() -> int:
    """Run and print."""
    print(lines_table(microseconds()))
    if find_spec("orjson") is None:
        print("orjson is not installed: not measured")
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
