"""Gang scheduling and job-level preemption for Kubernetes, as a standalone second scheduler.

``load``, ``plan``, ``explain`` and ``simulate`` ask it from Python (:mod:`gangsched.api`); plug-ins import
:mod:`gangsched.plugins`. Everything else may change at any time.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_API = ("explain", "load", "plan", "simulate")
__all__ = [*_API, "__version__"]  # noqa: PLE0604 - names of functions


def __getattr__(name: str) -> Any:
    """The functions of :mod:`gangsched.api`. The first use of one imports it."""
    if name in _API:
        return getattr(importlib.import_module("gangsched.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_API])
