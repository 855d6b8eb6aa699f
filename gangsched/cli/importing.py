"""How a command's module is imported: a scheduler that starts late decides late."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from types import ModuleType

#: Commands that write logs and draw nothing.
_LOGGING = frozenset({"gangsched.cli.run", "gangsched.cli.controllers"})


def quickly(name: str) -> ModuleType:
    """Import the module ``name`` without the three things that take a third of the time.

    The garbage collector walks over modules again and again while they only become more, and once more when it is
    switched on; nearly all of them stay, so they leave its sight. structlog imports rich, if there is one, for
    coloured tracebacks, which our logs do not have. And numpy starts a thread for each core to multiply matrices; those
    that there are here are small.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if name in sys.modules:
        return sys.modules[name]
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        if name in _LOGGING and not {"rich", "structlog"} & sys.modules.keys():
            sys.modules["rich"] = None  # type: ignore[assignment]  # "not there", in the words of the import system
            try:
                importlib.import_module("structlog")
            finally:
                del sys.modules["rich"]
        return importlib.import_module(name)
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()
