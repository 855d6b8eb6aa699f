"""What finds credentials in kubernetes_asyncio, without the rest of it.

The package imports its models of every kind of object, 750 modules, whatever is asked of it: half a second and 34 MB
for each command and each start. What finds credentials needs one module of them.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

PACKAGE = "kubernetes_asyncio"


@contextlib.contextmanager
def credentials_only() -> Iterator[None]:
    """Whoever imports from the package in this block gets it without models; whoever does so later gets it whole.

    Where it was imported before, or has another form than is known here, it is taken as it is.
    """
    if PACKAGE in sys.modules:
        yield
        return
    try:
        _bare()
    except (ImportError, AttributeError):
        _forget()
        yield
        return
    try:
        yield
    finally:
        _forget()


def _bare() -> None:
    """Let the package and its client be folders of modules and no more, except for Configuration."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    client = _Client(f"{PACKAGE}.client")
    for module, inside in ((ModuleType(PACKAGE), ""), (client, "/client")):
        module.__path__ = [f"{folder}{inside}" for folder in folders]
        sys.modules[module.__name__] = module
    client.Configuration = importlib.import_module(f"{PACKAGE}.client.configuration").Configuration


class _Client(ModuleType):
    """What else is named by what finds credentials is not used by it: it stands for nothing."""

    Configuration: type

    def __getattr__(self, name: str) -> type:
        if name.startswith("_"):
            raise AttributeError(name)
        return type(name, (Exception,), {})


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
