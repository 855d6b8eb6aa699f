"""Plug-ins of others on the command line: what people see when one fails, and when one cannot be used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangsched.cli.main import main
from tests.runtime.plugin_packages import installed

ROOT = Path(__file__).resolve().parents[2]
GANG = "default/hp-training-job"
SOURCE = """
from gangsched.core.plugins.base import NodeFilter

class Broken(NodeFilter):
    name = "Broken"
    def applies(self, pod, sim):
        return True
    def prepare(self, pod, sim):
        raise LookupError("nobody home")
"""


@pytest.fixture
def config(tmp_path: Path) -> Iterator[str]:
    """A configuration with a plug-in that fails whenever it is asked."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: gangsched.dev/v1alpha1\nkind: GangSchedulerConfiguration\n"
        "profiles:\n- plugins: {filter: {enabled: [{name: Broken}]}}\n"
    )
    points = {"gangsched.filters": {"Broken": "broken_plugins:Broken"}}
    with installed(tmp_path / "site", "broken_plugins", SOURCE, points):
        yield str(file)


MESSAGE = "plug-in Broken failed in prepare: LookupError: nobody home"


def test_a_plan_says_which_plugin_failed(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The gang is unschedulable, the message names the plug-in, and the command itself has not failed."""
    source = str(ROOT / "examples" / "koordinator")
    assert main(["plan", "-f", source, "--config", config, "-o", "json"]) == 0
    (decision,) = json.loads(capsys.readouterr().out)["decisions"]
    assert (decision["gang"], decision["outcome"], decision["message"]) == (GANG, "unschedulable", MESSAGE)
    assert (decision["victims"], decision["placements"], decision["reasons"]) == ([], {}, [])
    assert main(["plan", "-f", source, "--config", config]) == 0
    assert "nothing can be decided while the plug-in Broken fails" in capsys.readouterr().out


def test_explain_says_what_would_help(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """More nodes would not help a gang whose plug-in fails."""
    source = str(ROOT / "examples" / "koordinator")
    assert main(["explain", GANG, "-f", source, "--config", config]) == 0
    said = capsys.readouterr().out
    assert "a plug-in Broken that does not fail, or a profile without it" in said
    assert "further nodes" not in said


def test_a_plugin_that_cannot_be_used_is_an_error_of_the_file(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and one line that names file, line and what was wrong, never a traceback."""
    (tmp_path / "site" / "broken_plugins.py").write_text("import no_such_module\n")
    assert main(["config", "validate", config]) == 2
    assert capsys.readouterr().err.splitlines() == [
        (
            f"gangsched: {config}:4: profiles[0].plugins.filter.enabled[0].name: plug-in Broken cannot be used:"
            " broken_plugins:Broken cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"
        )
    ]
