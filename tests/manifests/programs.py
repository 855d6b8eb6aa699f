"""The programs with which a release checks the chart and its alerts: helm and promtool."""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType

from tests.manifests.shipped import ROOT


@cache
def release() -> ModuleType:
    """The script that makes a release."""
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def helm() -> str:
    """That of the machine, or one built from its Go module into the user's cache, as a release does it."""
    return str(release().program(release().HELM))


def promtool() -> str:
    """The same way; its first build takes many minutes."""
    return str(release().program(release().PROMTOOL))
