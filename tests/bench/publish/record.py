"""What was measured, in a file: when, under which load, of how many runs. Where: :mod:`.machine`."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def today() -> str:
    """The day, in UTC."""
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def load() -> float:
    """The load average of the machine."""
    return round(os.getloadavg()[0], 1)


def of_all_runs(values: Sequence[float]) -> str:
    """The least and the greatest of several; empty for one."""
    return f"{min(values):.2f} to {max(values):.2f}" if len(values) > 1 else ""


def read(path: Path, kind: type[T]) -> T:
    """What a file has kept."""
    return msgspec.json.decode(path.read_bytes(), type=kind)


def write(found: Any, path: Path) -> None:
    """Keep this in a file, at once or not at all: a run may be ended at any moment."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    beside.replace(path)
