"""Processes as users have them: without a library that is installed for tests only.

kopf imports a Kubernetes client where there is one, which takes half as long again as kopf itself.
"""

from __future__ import annotations

import os
from pathlib import Path


def environment(**more: str) -> dict[str, str]:
    """Variables for such a process, with ``more``: Python reads ``sitecustomize`` of this folder as it starts."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **more}
