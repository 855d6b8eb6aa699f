"""The documentation is complete: a setting, metric, event reason or option that nobody wrote about fails here."""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gangsched.cli import main as cli
from gangsched.core.framework.pipeline import Stopwatch
from gangsched.core.lifecycle import report
from gangsched.runtime.memory import PauseMeter
from gangsched.runtime.metrics import DecisionTime, FilterAndScoreTimes, Metrics
from tests.settings import settings

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "reference"


def rows(text: str) -> dict[str, list[str]]:
    """Rows of Markdown tables whose first cell is code, by that code: the other cells."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and cells[0].startswith("`"):
            found[cells[0].strip("`")] = cells[1:]
    return found


def test_every_setting_is_documented() -> None:
    """configuration.md has each setting with its values, its default and its meaning, and no others; the arguments of
    plug-ins come last.
    """
    text = (DOCS / "configuration.md").read_text()
    documented = rows(text[text.index("## Settings") : text.index("## Command line")])
    assert list(documented) == sorted((each.path for each in settings()), key=lambda path: "].args." in path)
    for setting in settings():
        values, default, meaning = documented[setting.path]
        assert (values, default.strip("`"), meaning.replace("\\|", "|")) == (
            setting.allowed,
            setting.default,
            setting.meaning,
        )


def registry() -> CollectorRegistry:
    """All metrics of a process."""
    metrics = Metrics(["ours"])
    metrics.registry.register(PauseMeter())
    metrics.registry.register(FilterAndScoreTimes(Stopwatch()))
    metrics.registry.register(DecisionTime(lambda: ("ns/g", 1.0)))
    return metrics.registry


def test_every_metric_is_documented() -> None:
    """metrics.md has each metric with its type and its help text, and no others."""
    text = (DOCS / "metrics.md").read_text()
    documented = rows(text[: text.index("## What to look at")])
    expected = {
        family.name + ("_total" if family.type == "counter" else ""): (family.type, family.documentation)
        for family in registry().collect()
    }
    assert set(documented) == set(expected)
    assert {name: (cells[0], cells[2]) for name, cells in documented.items()} == expected


def test_no_series_for_when_a_counter_was_made() -> None:
    """They would double the series of every histogram, and nothing documents them."""
    assert "_created" not in generate_latest(registry()).decode()


def test_metrics_in_examples_exist() -> None:
    """Expressions in metrics.md name metrics that there are."""
    names = {sample for family in registry().collect() for sample in _series(family.name, family.type)}
    used = set(re.findall(r"\b(?:gangsched|scheduler)_\w+", (DOCS / "metrics.md").read_text()))
    assert used - names - {"gangsched_"} == set()


def _series(name: str, kind: str) -> list[str]:
    suffixes = {"histogram": ["", "_bucket", "_sum", "_count"], "counter": ["_total"]}.get(kind, [""])
    return [name + suffix for suffix in suffixes]


def test_every_event_reason_is_documented() -> None:
    """events.md has a row for each reason of an Event, and no others."""
    text = (DOCS / "events.md").read_text()
    documented = set(rows(text[text.index("## Events") : text.index("## Conditions")]))
    assert documented == set(report.EVENTS)


def test_every_condition_reason_is_documented() -> None:
    """events.md names the reasons of all conditions that are put on pods."""
    writes = importlib.import_module("gangsched.cluster.kube.pod_writes")
    reasons = {value for name, value in vars(writes).items() if name.endswith("_REASON")}
    text = (DOCS / "events.md").read_text()
    assert reasons
    assert {
        reason for reason in {*reasons, report.UNSCHEDULABLE, report.GANG_NOT_READY} if f"`{reason}`" not in text
    } == set()


def options() -> dict[str, set[str]]:
    """Long options by the commands that have them."""
    found: dict[str, set[str]] = {}
    for command in cli.COMMANDS:
        if importlib.util.find_spec(command.module) is None:
            continue
        parser = argparse.ArgumentParser()
        importlib.import_module(command.module).add_arguments(parser)
        for action in parser._actions:
            for option in action.option_strings:
                if option.startswith("--") and option != "--help":
                    found.setdefault(option, set()).add(command.name)
    return found


@pytest.mark.parametrize(
    ("option", "commands"), sorted(options().items()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_option_is_documented(option: str, commands: set[str]) -> None:
    """configuration.md has each option of the command line with the commands that know it."""
    text = (DOCS / "configuration.md").read_text()
    table = text[text.index("## Command line") :]
    (line,) = [line for line in table.splitlines() if re.match(rf"\| .*{option}(?![\w-])", line)]
    assert {name.strip() for name in re.split(r"(?<!\\)\|", line)[2].split(",")} == commands
