"""What commands and measurements write into the documentation is current."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests import readme

ROOT = Path(__file__).resolve().parents[1]


def test_captured_output_numbers_and_picture_are_current() -> None:
    """`make readme` would change nothing."""
    outdated = [str(path) for path, text in readme.written().items() if path.read_text() != text]
    assert outdated == [], "run make readme, and read the difference"
    assert len(readme.written()) == 2 + len(readme.BLOCKS)


def test_the_chart_installs_on_all_supported_versions_and_on_no_older_one() -> None:
    """Its `kubeVersion` is the oldest of the three that the documentation names."""
    chart = yaml.safe_load((ROOT / "manifests/helm/gangsched/Chart.yaml").read_text())
    assert len(readme.supported()) == 3
    assert chart["kubeVersion"] == f">=1.{readme.supported()[-1]}.0-0"


def test_what_is_out_of_date_is_named_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number that was changed by hand is written anew; with --check it only is a failure."""
    page = tmp_path / "page.md"
    page.write_text("old")
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    monkeypatch.setattr(readme, "written", lambda: {page: "new"})
    assert readme.main(["--check"]) == 1
    assert page.read_text() == "old"
    assert readme.main([]) == 0
    assert page.read_text() == "new"
    assert readme.main(["--check"]) == 0
    assert capsys.readouterr().out == "out of date: page.md\nwritten: page.md\n"
