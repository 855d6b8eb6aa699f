"""How commands are imported."""

from __future__ import annotations

import subprocess
import sys


def test_a_scheduler_is_imported_without_what_it_does_not_need() -> None:
    """Neither rich nor the large client library nor kopf comes along; afterwards rich can be imported."""
    code = (
        "import gc, sys; from gangsched.cli.importing import quickly; quickly('gangsched.cli.run');"
        "print([m for m in ('rich', 'kopf', 'kubernetes_asyncio') if m in sys.modules], gc.isenabled());"
        "import rich; print(rich.__name__)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[:2] == ["[] True", "rich"]
