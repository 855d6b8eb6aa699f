"""The helm that tests of the chart run."""

from __future__ import annotations

import importlib.util
from functools import cache

from tests.manifests.shipped import ROOT


@cache
def helm() -> str:
    """That of the machine, or one built from its Go module into the user's cache, as a release does it."""
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    release = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(release)
    return str(release.program(release.HELM))
