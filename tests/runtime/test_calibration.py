"""The figure that turns a budget in milliseconds into steps."""

from __future__ import annotations

import pytest

from gangsched.core.options import Options
from gangsched.runtime import calibration, logs, process
from gangsched.runtime.process import Process


def test_the_figure_is_within_its_bounds() -> None:
    """Whatever the machine does meanwhile, the figure stays usable."""
    assert calibration.LOWEST <= calibration.steps_per_millisecond() <= calibration.HIGHEST


def test_a_running_scheduler_converts_its_budget_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget of milliseconds becomes steps of this machine, and nothing is decided before it leads."""
    monkeypatch.setattr(process, "steps_per_millisecond", lambda: 7)
    running = object.__new__(Process)
    running._log = logs.get("process")
    options = running._calibrated(Options(search_steps=5000))
    assert options.search_steps == 3500
    assert options.wait_for_leadership
