"""What the documentation says of plug-ins is so: tables, examples, checks."""

from __future__ import annotations

import re
from typing import Any

import yaml

from gangsched.runtime import config
from gangsched_conformance import check
from gangsched_conformance.filters import FILTER_CHECKS
from gangsched_conformance.scores import SCORE_CHECKS
from tests.pages import between, rows, text_of


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)


def test_the_profiles_in_the_text_are_accepted() -> None:
    """Every example of profiles in configuration.md can be used."""
    examples = [block for block in blocks(text_of("docs/reference/configuration.md"), "yaml") if "profiles:" in block]
    assert len(examples) == 2
    for block in examples:
        text = yaml.safe_dump({"apiVersion": "gangsched.dev/v1alpha1", "kind": "GangSchedulerConfiguration"})
        whole = block if "apiVersion" in block else text + block
        assert config.parse(whole).profiles


def test_the_configuration_of_the_example_is_that_of_the_package() -> None:
    """The example of plugins.md is the file beside the example package, whose test uses it."""
    (block,) = blocks(text_of("docs/reference/plugins.md"), "yaml")
    assert yaml.safe_load(block) == yaml.safe_load(text_of("examples/plugin-gpu-reserve/config.yaml"))


def test_the_entry_points_are_those_of_the_package() -> None:
    """The lines of plugins.md stand in the package's pyproject.toml."""
    (block,) = blocks(text_of("docs/reference/plugins.md"), "toml")
    assert block in text_of("examples/plugin-gpu-reserve/pyproject.toml")


def test_the_per_node_examples_conform() -> None:
    """Both classes of the text keep the protocol."""
    code = (
        between(text_of("docs/reference/plugins.md"), "per-node example").removeprefix("```python").removesuffix("```")
    )
    names: dict[str, Any] = {}
    exec(code, names)
    assert check(names["AtMostThree"](), range(5)) == []
    assert check(names["MostCores"](), range(5)) == []


def test_the_table_of_checks_is_current() -> None:
    """plugins.md says of each check what it is about."""
    _, *lines = rows(between(text_of("docs/reference/plugins.md"), "checks"))
    names = [*FILTER_CHECKS, *(name for name in SCORE_CHECKS if name not in FILTER_CHECKS)]
    assert lines == [[name, FILTER_CHECKS.get(name, "–"), SCORE_CHECKS.get(name, "–")] for name in names]
