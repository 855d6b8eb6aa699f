"""What `make compare` has measured, kept beside the documentation: each result with its day, version and machine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.bench.compare.offline import Taken
from tests.bench.live.backlog import Result
from tests.bench.publish import record
from tests.pages import ROOT

FILE = ROOT / "docs/internals/compare.json"


class Measured(msgspec.Struct, frozen=True):
    """One run of one candidate in one cell. ``kubernetes`` is the version of the API server and of kube-scheduler,
    ``load`` the load average of the machine when it was done.
    """

    kubernetes: str
    day: str
    load: float
    machine: str
    result: Result

    @property
    def key(self) -> tuple[str, str, str]:
        """What a later run of the same takes the place of: minor version, cell, candidate."""
        return minor(self.kubernetes), self.result.cell, self.result.candidate


class Record(msgspec.Struct):
    """``live`` runs; ``cells`` has what rules evict in cells, by cell and whose they are, and ``clusters`` in random
    clusters, each with its day.
    """

    live: list[Measured] = []
    cells: dict[str, dict[str, Taken]] = {}
    rules_day: str = ""
    clusters: dict[str, Taken] = {}
    clusters_day: str = ""

    def add(self, measured: Measured) -> None:
        """Keep this in place of an earlier run of the same."""
        self.live = [each for each in self.live if each.key != measured.key]
        self.live.append(measured)

    def of(self, version: str, cell: str) -> dict[str, Measured]:
        """The runs of a minor version in a cell, by candidate."""
        return {each.result.candidate: each for each in self.live if each.key[:2] == (version, cell)}

    def versions(self) -> list[str]:
        """Minor versions that something was measured on, the newest first."""
        found = {each.key[0] for each in self.live}
        return sorted(found, key=lambda each: -int(each.partition(".")[2]))

    def measured_cells(self, version: str) -> list[str]:
        """Cells that something was measured in, in the order of the record."""
        return list(dict.fromkeys(each.key[1] for each in self.live if each.key[0] == version))


def minor(version: str) -> str:
    """``1.37`` of ``1.37.2``."""
    return ".".join(version.split(".")[:2])


def read(path: Path = FILE) -> Record:
    """The record, empty where nothing was measured yet."""
    return record.read(path, Record) if path.exists() else Record()


def write(found: Record, path: Path = FILE) -> None:
    """Keep it."""
    record.write(found, path)
