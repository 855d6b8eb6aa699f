"""Break what each alert is for, on a real control plane, and see which alerts fire. Run it to see.

    python -m tests.alerts [PLAY ...] [--keep FOLDER] [--tables]

In each play a scheduler with the rights of manifests/ runs behind a proxy, its metrics are scraped every second, and
one thing is broken: its leader is killed, its writes are refused, room that it freed is stolen. Then `promtool test
rules` plays the alerts of the chart on what was scraped. All times in the rules (windows, `for`, the hour of a long
wait) are divided by sixty; expressions and other thresholds are as shipped. Exit code 1: an alert did not fire that
should, or another one did.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.alerts import dashboard, promtool
from tests.alerts.plays import PLAYS, Play
from tests.alerts.stage import Stage
from tests.controlplane.client import Client
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.faulty_proxy import FaultyProxy
from tests.manifests.programs import promtool as program
from tests.manifests.shipped import MANIFESTS

RULES = MANIFESTS / "helm" / "gangsched" / "monitoring" / "alerts.yaml"
FASTER = 60
FIRED = 'count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))'


def fired(scrapes: promtool.Scrapes, folder: Path) -> set[str]:
    """The alerts that have fired at any time in what was scraped."""
    folder.mkdir()
    rules = promtool.scaled(RULES.read_text(), FASTER)
    answers = promtool.evaluated(program(), folder, scrapes, [FIRED], rules)
    return {sample.labels["alertname"] for sample in answers[FIRED]}


def shown(scrapes: promtool.Scrapes, folder: Path) -> str:
    """What the queries of the dashboard give at the end of what was scraped."""
    folder.mkdir()
    expressions = [each.expression for each in dashboard.queries()]
    return dashboard.tables(promtool.evaluated(program(), folder, scrapes, expressions))


async def played(stage: Stage, name: str, play: Play, folder: Path, *, tables: bool = False) -> bool:
    """Do it, and print what was expected and what fired."""
    began = time.monotonic()
    await stage.clear()
    await play.play(stage)
    found = fired(stage.scrapes, folder)
    right = found == ({play.alert} if play.alert else set())
    told = ", ".join(sorted(found)) or "nothing"
    verdict = "as it should" if right else f"WRONG, not {play.alert or 'nothing'}"
    measured = f"{len(stage.scrapes)} scrapes, {time.monotonic() - began:.0f} s"
    print(f"{name:18} {told:30} {verdict} ({measured})", flush=True)
    if tables:
        print(f"\n{shown(stage.scrapes, folder / 'dashboard')}", flush=True)
    return right


async def main(names: list[str], folder: Path, *, tables: bool) -> int:
    """All plays on one control plane, one after the other."""
    right = True
    with ControlPlane(folder / "plane", report=None) as plane, FaultyProxy(plane.server, plane.ca_file) as proxy:
        async with Client(plane.admin_kubeconfig) as admin:
            await apply_manifests_crds(admin)
            await apply_manifests_rbac(admin, SCHEDULER_USER)
            stage = Stage(admin, plane, proxy, folder)
            for name in names:
                right = await played(stage, name, PLAYS[name], folder / name, tables=tables) and right
    return 0 if right else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.alerts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("play", nargs="*", choices=[[], *PLAYS], help="all without")
    parser.add_argument("--keep", type=Path, help="an empty folder for logs, series and rules, which stays")
    parser.add_argument("--tables", action="store_true", help="what the dashboard shows at the end of each play")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="alerts-") as temporary:
        place = options.keep or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        sys.exit(asyncio.run(main(options.play or [*PLAYS], place, tables=options.tables)))
