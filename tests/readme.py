"""What commands and measurements write into the README and the page that compares: run it to write them anew.

    python -m tests.readme [--check]

Each block between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` comes from a command of this tree, or from a
file of measurements beside the documentation, as does the picture. Times of single runs are written as ``…``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gangsched.cli.main import main as gangsched
from gangsched.core.framework.registry import BUILT_IN
from gangsched.model.dialects import upstream
from tests.bench import rivals
from tests.bench.compare import record, tables
from tests.bench.compare.offline import THIS
from tests.bench.live.picture import picture
from tests.bench.live.report import Report
from tests.bench.publish import record as publish
from tests.bench.publish.blocks import fenced, filled
from tests.bench.publish.tables import Table
from tests.cluster import dialects, stages
from tests.controlplane import versions
from tests.pages import ROOT, text_of

PERFORMANCE = ROOT / "docs/internals/performance.json"
RIVALS = json.loads(text_of("docs/internals/rivals.json"))
OURS, BARE, KUBE = "gangsched", "floor", "kube-scheduler"
OTHERS = ("Volcano", "Koordinator", "KAI")


def printed(*command: str) -> str:
    """What a command prints into a pipe, from the top of the repository."""
    out = io.StringIO()
    clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE")}
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(out), patch.dict(os.environ, clean, clear=True):
        if gangsched(command) != 0:
            raise RuntimeError(f"gangsched {' '.join(command)} failed")
    return re.sub(r"planned in [\d.]+ ms", "planned in … ms", out.getvalue()).strip()


def the_plan() -> str:
    """The first example."""
    return fenced(
        "$ gangsched plan -f examples/koordinator/\n" + printed("plan", "-f", "examples/koordinator/"), "console"
    )


def the_preemption() -> str:
    """Event and condition of one victim of the first example."""
    events = json.loads(printed("simulate", "-f", "examples/koordinator/", "-o", "json"))["events"]
    of_victim = [each for each in events if each["object"] == "default/lp-pod-1"]
    (event,) = [each["detail"] for each in of_victim if each["verb"] == "event"]
    (mark,) = [each["detail"] for each in of_victim if each["verb"] == "mark"]
    note = re.sub(r" (on node|needed to) ", r"\n          \1 ", event["note"])
    message = mark["message"].replace(", triggerpod", ",\n          triggerpod")
    return fenced(
        f"Event     {event['type']}  {event['reason']}\n          {note}\n"
        f"Condition DisruptionTarget=True  PreemptionByScheduler\n          {message}"
    )


def measured() -> dict[str, dict[str, str]]:
    """Seconds to the last binding, by cell and candidate."""
    found: dict[str, dict[str, str]] = {}
    for each in json.loads(PERFORMANCE.read_text())["backlog"]:
        found.setdefault(each["cell"], {})[each["candidate"]] = _text(each["last_bind"] or f"> {each['limit']:g}")
    return found


def the_speed_of_all() -> str:
    """All loads, and the other schedulers' session."""
    lines = [
        [cell, found[BARE], found[OURS], found[KUBE], *(_text(RIVALS["seconds"][cell][who]) for who in OTHERS)]
        for cell, found in measured().items()
    ]
    return Table(["", "bare client", "this", "kube-scheduler 1.36", *OTHERS], lines).markdown()


def _text(seconds: float | str | None) -> str:
    if isinstance(seconds, float):
        return f"{seconds:.{int(seconds < 100)}f}"
    return seconds or "not run"


def in_one_sentence() -> str:
    """What the rules of others evict on random clusters, for the README."""
    known = record.read().clusters
    ours, newest, before, koordinator = (known[who] for who in (THIS, *rivals.RULES))
    found = (f"{each.evicted:,} and {each.broken}" for each in (newest, before, koordinator))
    of_newest, of_before, of_koordinator = found
    return (
        f"On {ours.clusters} random clusters of 50 to 200 nodes its plans evict {ours.evicted:,} pods and leave"
        f" {ours.broken} gangs broken.\nBy the rules of others, pods evicted and gangs left broken are: {of_newest}"
        f" (kube-scheduler 1.37),\n{of_before} (1.36), {of_koordinator} (Koordinator)."
    )


def supported() -> range:
    """The minor versions of Kubernetes that are supported, as upstream does, the newest first."""
    newest = max(int(version.split(".")[1]) for version in versions.pinned())
    return range(newest, newest - 3, -1)


def the_versions() -> str:
    """The supported minor versions: what runs against each, and how its own group API is switched on."""
    pinned = {int(version.split(".")[1]): version for version in versions.pinned()}
    lines = []
    for minor in supported():
        tested = "not run yet: runs before a release"
        if minor in pinned:
            tested = f"{pinned[minor]}: the part of the suite that needs an API server"
        if pinned.get(minor, "").startswith(f"{versions.DEFAULT}."):
            tested = f"{pinned[minor]}: the whole suite, at every change"
        api = versions.GROUP_APIS.get(minor)
        read = [] if api is None else [each for each in api.served if each in upstream.VERSIONS]
        gates = ", ".join(api.gates) if api is not None and read else "–"
        lines.append([f"1.{minor}", tested, ", ".join(read) or "not read", gates])
    return Table(["Kubernetes", "tested", "its own group API", "feature gates for that"], lines).markdown()


def the_plugins() -> str:
    """The built-in plug-ins in order, each with its weight and why it cannot be switched off."""
    header = ["plug-in", "filter", "score, weight", "always on, because"]
    lines = []
    for each in BUILT_IN:
        weight = (f"{each.weight:g}" + ("" if each.default else ", off by default")) if each.score else ""
        lines.append([each.name, "yes" if each.filters else "", weight, each.indispensable])
    return Table(header, lines).markdown()


BLOCKS: dict[str, Mapping[str, Callable[[], str]]] = {
    "docs/internals/performance.md": {
        "beside": lambda: tables.beside(record.read()).markdown(),
        "before": lambda: tables.beside(record.read(), tables.BEFORE).markdown(),
    },
    "docs/reference/configuration.md": {"plug-ins": the_plugins},
    "docs/reference/dialects.md": {**dialects.BLOCKS, "stages": stages.table},
    "README.md": {
        "plan": the_plan,
        "victims": in_one_sentence,
        "thirty": lambda: tables.thirty(record.read(), others=False).markdown(),
    },
    "docs/install.md": {"versions": the_versions},
    "docs/preempt.md": {"preemption": the_preemption},
    "docs/compare.md": {
        "newest": lambda: tables.beside(record.read(), of=tables.SHOWN).markdown(),
        "speed of all": the_speed_of_all,
        "thirty": lambda: tables.thirty(record.read()).markdown(),
        "one victim": lambda: tables.one_victim(record.read()).markdown(),
        "victims": lambda: tables.clusters(record.read()).markdown(),
    },
}


def the_picture() -> str:
    """Drawn from the measurements."""
    return picture(publish.read(PERFORMANCE, Report))


def written() -> dict[Path, str]:
    """The files as they should be."""
    found = {
        ROOT / "docs/internals/performance.svg": the_picture(),
        ROOT / "docs/internals/compare.svg": tables.picture(record.read()),
    }
    for name, blocks in BLOCKS.items():
        found[ROOT / name] = filled(text_of(name), blocks)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write what is out of date; with ``--check`` only say so. Returns 1 where something was out of date."""
    parser = argparse.ArgumentParser(prog="python -m tests.readme", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    given: Any = parser.parse_args(arguments)
    texts = written()
    old = [path for path, text in texts.items() if path.read_text() != text]
    for path in old:
        print(f"{'out of date' if given.check else 'written'}: {path.relative_to(ROOT)}")
        if not given.check:
            path.write_text(texts[path])
    return int(bool(old) and given.check)


if __name__ == "__main__":
    sys.exit(main())
