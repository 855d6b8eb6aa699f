"""Objects as Python has them: mappings, and the models of ``kubernetes`` and ``kubernetes_asyncio``."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gangsched.cluster.kinds import KINDS
from gangsched.cluster.manifests.objects import Source

_VERSION = re.compile(r"^V\d+((alpha|beta)\d+)?")


def source_of(value: Any, number: int) -> Source:
    """One object, or several, as the ``number``-th source of an input. Raises TypeError for anything else."""
    name = f"argument {number}"
    plain = _plain(value)
    if isinstance(plain, list):
        plain = {"apiVersion": "v1", "kind": "List", "items": plain}
    if not isinstance(plain, dict):
        raise TypeError(f"{name}: a path, a text, an object or several objects are needed, not {type(value).__name__}")
    return Source(name, msgspec.json.encode(plain).decode())


def _plain(value: Any) -> Any:
    """Return the JSON value, without fields that are None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not None}
    names = getattr(value, "attribute_map", None)
    if isinstance(names, Mapping):
        return _of_model(value, names)
    if isinstance(value, datetime.datetime):
        at = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return at.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(each) for each in value]
    return value


def _of_model(value: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """A model; what the server leaves out in lists, its kind and version, follows from its class."""
    fields = ((name, getattr(value, attribute)) for attribute, name in names.items())
    found = {name: _plain(each) for name, each in fields if each is not None}
    called = _VERSION.sub("", type(value).__name__)
    if called.endswith("List") and "items" in found:
        return {**found, "apiVersion": "v1", "kind": "List"}
    known = next((kind for (name, _), kind in KINDS.items() if name == called), None)
    if known is not None and "metadata" in found:
        found.setdefault("kind", called)
        found.setdefault("apiVersion", known.api_version)
    return found
