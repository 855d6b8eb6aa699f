"""The part of kubernetes_asyncio that finds credentials, without the rest of it.

The package always imports its models of every kind of object: 750 modules, half a second and 34 MB for each command and
each start. The part for credentials needs one module of them.
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
    """Imports from the package in this block get it without models, later imports get the whole package.

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
    """Other names in that part are not used by it: they are empty stand-ins."""

    Configuration: type

    def __getattr__(self, name: str) -> type:
        if name.startswith("_"):
            raise AttributeError(name)
        return type(name, (Exception,), {})


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
