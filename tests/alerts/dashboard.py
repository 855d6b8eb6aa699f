"""The queries of the dashboard, and what they give, as tables: for where there is no Grafana."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.alerts.promtool import TARGET, Sample
from tests.manifests.shipped import MANIFESTS

BOARD = MANIFESTS / "helm" / "gangsched" / "monitoring" / "dashboard.json"
#: What Grafana puts in, for a scrape every second.
VARIABLES = {"$namespace": TARGET["namespace"], "$__rate_interval": "15s", "$__range": "1h"}


class Query(NamedTuple):
    """A query of a panel."""

    panel: str
    expression: str
    unit: str


def queries(board: Path = BOARD) -> Iterator[Query]:
    """All of them, with the variables put in."""
    for panel in json.loads(board.read_text())["panels"]:
        unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            yield Query(panel["title"], expression, unit)


def _row(sample: Sample) -> str:
    labels = ", ".join(
        f"{key} {value}" for key, value in sorted(sample.labels.items()) if key not in {*TARGET, "__name__"}
    )
    value = f"{sample.value:.3g}" if abs(sample.value) < 1000 else f"{sample.value:.0f}"
    return f"{labels} = {value}" if labels else value


def tables(answers: Mapping[str, Sequence[Sample]]) -> str:
    """A line for each query: the panel, what is asked, and what came."""
    lines = ["| panel | query | gives |", "|---|---|---|"]
    for query in queries():
        asked = re.sub(r"\s+", " ", query.expression).replace("|", "\\|")
        came = "; ".join(_row(each) for each in sorted(answers[query.expression], key=str)) or "nothing"
        lines.append(f"| {query.panel} | `{asked}` | {came} |")
    return "\n".join(lines) + "\n"
