"""The tests tested: without one of the safeguards at least one fast test must fail.

Each mutant is a copy of the source tree in which a few lines are replaced; a selection of the tests runs on it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.bench.table import table

ROOT = Path(__file__).resolve().parents[2]
_KEEP = ("gangsched", "tests", "pyproject.toml", "examples", "manifests", "docs")
_LIMIT_SECONDS = 300.0


class Mutant(msgspec.Struct, frozen=True):
    """``changes`` are (file, old text, new text); each old text must be there exactly once. ``tests`` go to pytest."""

    name: str
    changes: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


class Verdict(msgspec.Struct):
    """``killed``: a test failed; ``by`` is the first one."""

    mutant: str
    killed: bool
    by: str
    failed: int
    seconds: float


class MutantError(Exception):
    """The source is not as the mutant expects it."""


def changed(mutant: Mutant, root: Path = ROOT) -> dict[str, str]:
    """The files of a mutant with their new texts. Raises :class:`MutantError`."""
    texts: dict[str, str] = {}
    for file, old, new in mutant.changes:
        text = texts.get(file) or (root / file).read_text()
        if text.count(old) != 1:
            raise MutantError(f"{mutant.name}: {file} has {text.count(old)} times {old!r}, not once")
        texts[file] = text.replace(old, new)
    return texts


def run(mutant: Mutant) -> Verdict:
    """Run the mutant's tests on a copy of the tree."""
    texts = changed(mutant)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        for each in _KEEP:
            source = ROOT / each
            if source.is_dir():
                shutil.copytree(source, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / each)
        for file, text in texts.items():
            (folder / file).write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
        )
    failures = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    if done.returncode not in (0, 1):
        raise MutantError(f"{mutant.name}: pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}")
    first = failures[0].removeprefix("FAILED ").partition(" - ")[0] if failures else ""
    return Verdict(mutant.name, done.returncode == 1, first, len(failures), time.monotonic() - began)


_BODIES = "gangsched/cluster/kube/bodies.py"
_POOL = "gangsched/cluster/kube/pool.py"
_PROXIED = "gangsched/cluster/kube/proxied.py"
_RECALLS = "gangsched/cluster/kube/recalls.py"
_WRITER = "gangsched/cluster/kube/writer.py"
_TRIAL = "gangsched/core/planning/trial.py"
_PHASES = "gangsched/core/lifecycle/phases.py"
_STEPS = "gangsched/core/lifecycle/steps.py"
_SHARED = "gangsched/core/lifecycle/shared_marks.py"
_LIFECYCLE = "gangsched/core/lifecycle/table.py"
_CHAOS = "tests/chaos/test_chaos.py::test_what_may_never_happen_does_not[0]"
_REMOVED_FIRST = "(s.NOMINATED, e.WRITTEN): Step(s.EVICTING, (Do.REMOVE,))"
_NO_FENCE = "self._settings.timeout_seconds"

MUTANTS = (
    Mutant(
        "removal without UID precondition",
        ((_BODIES, 'preconditions = {"uid": pod.uid}', "preconditions: dict[str, str] = {}"),),
        ("tests/cluster/kube/test_fence.py",),
    ),
    Mutant(
        "status patch without UID",
        ((_BODIES, '{"metadata": {"uid": pod.uid}, "status": status}', '{"status": status}'),),
        ("tests/cluster/kube/test_fence.py",),
    ),
    Mutant(
        "binding without UID",
        ((_BODIES, '"name": pod.name, "uid": pod.uid},\n        "target"', '"name": pod.name},\n        "target"'),),
        ("tests/cluster/kube/test_fence.py",),
    ),
    Mutant(
        "phases: removal before the marks",
        ((_LIFECYCLE, "(s.NOMINATED, e.WRITTEN): Step(s.MARKED, (Do.MARK,))", _REMOVED_FIRST),),
        ("tests/core/test_restart.py", _CHAOS),
    ),
    Mutant(
        "phases: no wait for the answers",
        ((_PHASES, "group is None or not group.barrier.complete or group.plan", "group is None or group.plan"),),
        ("tests/core/test_restart.py", _CHAOS),
    ),
    Mutant(
        "no fence: writes begin when the lease may have passed",
        ((_WRITER, "if self._fence() - time.monotonic() < MIN_ATTEMPT_SECONDS:", "if self._fence() is None:"),),
        ("tests/cluster/kube/test_fence.py",),
    ),
    Mutant(
        "no fence: writes may last longer than the lease",
        ((_WRITER, "min(self._settings.timeout_seconds, self._fence() - now)", _NO_FENCE),),
        ("tests/cluster/kube/test_fence.py",),
    ),
    Mutant(
        "no fence: a body is sent however late it is",
        ((_POOL, "if left <= 0:", "if left is None:"),),
        ("tests/cluster/kube/test_pool.py",),
    ),
    Mutant(
        "no fence: a body is sent through a proxy however late it is",
        ((_PROXIED, "if time.monotonic() >= self._end():", "if time.monotonic() < 0:"),),
        ("tests/cluster/kube/test_fence.py",),
    ),
    Mutant(
        "a binding leaves although another's has become known",
        ((_WRITER, "        if self._news(item):\n", "        if not self:\n"),),
        ("tests/cluster/kube/test_foreign.py",),
    ),
    Mutant(
        "a removal leaves although it has been recalled",
        ((_RECALLS, "removal is not None and removal.recalled.is_set()", "removal is True"),),
        ("tests/cluster/kube/test_recall.py",),
    ),
    Mutant(
        "removals of a plan that was given up go on",
        ((_STEPS, "        self.recall(group.key, self.writes.removals(group.key))\n", ""),),
        ("tests/core/test_recall.py",),
    ),
    Mutant(
        "binding elsewhere while the nomination stands",
        ((_PHASES, "moved = self._steps.withdraw_moved(plan, verdict.placements)", "moved: set[str] = set()"),),
        ("tests/core/test_faults.py",),
    ),
    Mutant(
        "nominations withdrawn while removals are on their way",
        (
            (
                _STEPS,
                "if self.writes.any_of(group.key):\n                    self._w",
                "if False:\n                    self._w",
            ),
        ),
        ("tests/core/test_faults.py",),
    ),
    Mutant(
        "a mark stays for a gang that has given up while another needs the pod",
        ((_SHARED, "elif was_ours:", "elif was_ours is None:"),),
        ("tests/core/test_shared_victims.py",),
    ),
    Mutant(
        "nominated room is not held",
        ((_TRIAL, "[p for p in self.world.held[group] if p.priority >= self.priority]", "()"),),
        ("tests/core/test_lifecycle.py", "tests/core/test_scheduler.py", _CHAOS),
    ),
)


def unchanged(mutants: Iterable[Mutant]) -> Mutant:
    """No change at all: what the mutants' tests must pass."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests)
    return Mutant("nothing", (), tuple(tests))


def render(verdicts: list[Verdict]) -> str:
    """The table."""
    rows = [(v.mutant, "yes" if v.killed else "NO", v.by, f"{v.seconds:.0f}") for v in verdicts]
    return table(("without", "noticed", "by", "s"), rows)
