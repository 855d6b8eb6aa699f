"""What commands show on terminals of 80, 120 and 200 columns, and in a pipe: as the files in ``screens/`` have it.

`WRITE_SCREENS=1 pytest tests/cli/test_screens.py` writes these files anew: read the difference.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

from gangsched.cli import render
from gangsched.cli.main import main

ROOT = Path(__file__).parents[2]
SCREENS = Path(__file__).parent / "screens"
PIPED = 0
COMMANDS = {
    "plan": ("plan", "-f", "examples/workload"),
    "explain-pod": ("explain", "lp-pod-1", "-f", "examples/koordinator"),
    "explain-gang": ("explain", "job/team-b-job", "-n", "team-b", "-f", "examples/quota-gpu"),
    "queues": ("queues", "-f", "examples/quota-gpu"),
    "get": ("get", "-f", "examples/workload"),
    "simulate": ("simulate", "-f", "examples/koordinator"),
}


@pytest.mark.parametrize("width", [80, 120, 200, PIPED])
@pytest.mark.parametrize("name", COMMANDS)
def test_screens(name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No line is wider than the terminal, but for those of `get`, which are kubectl's; in a pipe nothing is cut."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    if width:
        terminal = functools.partial(Console, force_terminal=True, color_system=None, width=width, legacy_windows=False)
        monkeypatch.setattr(render, "Console", terminal)
    assert main(COMMANDS[name]) == 0
    text = re.sub(r"planned in [0-9.]+ ms", "planned in 1.0 ms", capsys.readouterr().out)
    text = "".join(line.rstrip() + "\n" for line in text.splitlines())
    if width and name != "get":
        assert max(map(len, text.splitlines())) <= width
    if not width:
        assert "…" not in text
    file = SCREENS / f"{name}-{width or 'piped'}.txt"
    if os.environ.get("WRITE_SCREENS"):
        file.write_text(text)
    assert text == file.read_text(), "WRITE_SCREENS=1 pytest tests/cli writes the screens again: read the difference"
