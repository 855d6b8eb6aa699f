"""Prometheus' own engine on scrapes that were taken: its `promtool test rules`, told of series instead of scraping."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from prometheus_client.parser import text_string_to_metric_families

#: A second of a run, and what /metrics said in it; None: nobody answered.
Scrapes = Mapping[int, str | None]

#: Of the series that scrapes have, each bears this of the place where it was scraped.
TARGET = {"namespace": "gangsched-system", "pod": "gangsched-0"}

_FAILED = re.compile(r'^ +expr: ("(?:[^"\\]|\\.)*"), time: .*,\n +exp: .*\n +got: (.*)$', re.MULTILINE)
_SAMPLE = re.compile(r"\{((?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*)\} (\S+?)(?:, |$)")
_LABEL = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*")')


class Sample(NamedTuple):
    """One element of what an expression gives."""

    labels: dict[str, str]
    value: float


def scaled(rules: str, by: int) -> dict[str, Any]:
    """Rules of which everything that is time (windows, `for`, an hour's wait) passes so many times faster."""

    def seconds(found: re.Match[str]) -> str:
        return f"{int(found[1]) * {'m': 60, 'h': 3600}[found[2]] // by}s"

    document: dict[str, Any] = yaml.safe_load(rules)
    for group in document["groups"]:
        for rule in group["rules"]:
            expression = re.sub(r"(?<=\[)(\d+)([mh])(?=\])", seconds, rule["expr"])
            rule["expr"] = re.sub(r"\b3600\b", str(3600 // by), expression)
            if "for" in rule:
                rule["for"] = re.sub(r"(\d+)([mh])", seconds, rule["for"])
    return document


def series(scrapes: Scrapes, names: Collection[str]) -> list[dict[str, str]]:
    """The series with these names, a value for each second; one that is not there any more is stale."""
    found: dict[str, dict[int, float]] = {}
    for second, text in scrapes.items():
        for family in text_string_to_metric_families(text or ""):
            for sample in family.samples:
                if sample.name in names:
                    labels = {**sample.labels, **TARGET}
                    said = ", ".join(f"{key}={json.dumps(value)}" for key, value in sorted(labels.items()))
                    found.setdefault(f"{sample.name}{{{said}}}", {})[second] = sample.value
    last = max(scrapes)
    answered = {second for second, text in scrapes.items() if text is not None}

    def notation(values: Mapping[int, float], second: int) -> str:
        if second in values:
            return f"{values[second]:.9f}".rstrip("0").rstrip(".")
        return "stale" if second in scrapes and second not in answered and second > min(values) else "_"

    return [
        {"series": name, "values": " ".join(notation(values, second) for second in range(last + 1))}
        for name, values in found.items()
    ]


def names_in(expressions: Collection[str]) -> set[str]:
    """The names of metrics in expressions."""
    pattern = r"\b(?:gangsched|scheduler|rest_client|process)_[a-z_]+\b"
    return {name for each in expressions for name in re.findall(pattern, each)}


def evaluated(
    promtool: str, folder: Path, scrapes: Scrapes, expressions: Sequence[str], rules: Mapping[str, Any] | None = None
) -> dict[str, list[Sample]]:
    """What each expression gives in the last second of the scrapes, with the rules played until then."""
    asked = [rule["expr"] for group in (rules or {}).get("groups", ()) for rule in group["rules"]]
    last = f"{max(scrapes)}s"
    cases = {
        "evaluation_interval": "1s",
        "rule_files": ["rules.yaml"] if rules else [],
        "tests": [
            {
                "interval": "1s",
                "input_series": series(scrapes, names_in([*asked, *expressions])),
                # An answer that is not expected is printed, and none is.
                "promql_expr_test": [{"expr": each, "eval_time": last, "exp_samples": []} for each in expressions],
            }
        ],
    }
    (folder / "rules.yaml").write_text(yaml.safe_dump(dict(rules or {})))
    (folder / "cases.yaml").write_text(yaml.safe_dump(cases, width=10**9))
    done = subprocess.run(
        [promtool, "test", "rules", str(folder / "cases.yaml")], text=True, capture_output=True, check=False
    )
    told = done.stdout + done.stderr
    answers: dict[str, list[Sample]] = {each: [] for each in expressions}
    for asked_for, got in _FAILED.findall(told):
        answers[json.loads(asked_for)] = [
            Sample({key: json.loads(text) for key, text in _LABEL.findall(labels)}, float(value))
            for labels, value in _SAMPLE.findall(got)
        ]
    if done.returncode and not any(answers.values()):
        raise ValueError(f"promtool does not take it:\n{told}")
    return answers
