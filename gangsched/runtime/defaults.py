"""The default configuration as a file: every setting, its default, and above it what it means."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import inspect

from gangsched.core.framework.arguments import ARGUMENTS
from gangsched.core.framework.plugins import BUILT_IN
from gangsched.runtime.profiles import MultiPointPlugins, PluginConfig, Plugins, Profile, WeightedPlugin
from gangsched.runtime.settings import Configuration

_WIDTH = 100
_SCALARS = (inspect.StrType, inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.LiteralType)
#: Their values must be written, so they are no settings.
_HEAD = ("apiVersion", "kind")


def defaults_text() -> str:
    """A file that says what no file at all says too, with all plug-ins and their arguments."""
    lines = [
        "# Every setting with its default. An unknown key is an error; `gangsched config validate` checks a file.",
    ]
    lines += _section(_struct(inspect.type_info(Configuration)), _spelt_out(), 0)
    return "\n".join(lines) + "\n"


def _spelt_out() -> Configuration:
    """The default configuration with the plug-ins that it means."""
    enabled = tuple(WeightedPlugin(name=plugin.name, weight=plugin.weight) for plugin in BUILT_IN)
    plugins = Plugins(multi_point=MultiPointPlugins(enabled=enabled))
    configured = tuple(PluginConfig(name=name) for name in ARGUMENTS)
    return Configuration(profiles=(Profile(plugins=plugins, plugin_config=configured),))


def _section(kind: inspect.StructType, value: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for field in kind.fields:
        description, inner = _unwrap(field.type)
        current = getattr(value, field.name)
        top = depth == 0 and field.encode_name not in _HEAD
        if top:
            yield ""
        if field.encode_name not in _HEAD:
            yield from _comment(description, pad)
        if isinstance(value, PluginConfig) and field.name == "args":
            yield f"{pad}args:"
            arguments = ARGUMENTS[value.name]
            yield from _section(_struct(inspect.type_info(arguments)), arguments(), depth + 1)
        elif isinstance(inner, inspect.StructType):
            if current is None:
                yield f"{pad}# {field.encode_name}:"
                continue
            yield f"{pad}{field.encode_name}:"
            yield from _section(inner, current, depth + 1)
        elif isinstance(inner, inspect.VarTupleType):
            yield from _list(f"{pad}{field.encode_name}:", inner, current, depth)
        else:
            yield f"{pad}{field.encode_name}: {_yaml(current)}"


def _list(key: str, kind: inspect.VarTupleType, values: Sequence[Any], depth: int) -> Iterator[str]:
    pad = "  " * depth
    if not values:
        yield f"{key} []"
        return
    yield key
    item = _struct(kind.item_type)
    scores = {plugin.name for plugin in BUILT_IN if plugin.score is not None}
    if all(isinstance(_unwrap(field.type)[1], _SCALARS) for field in item.fields):
        for value in values:
            said = {field.encode_name: _yaml(getattr(value, field.name)) for field in item.fields}
            if isinstance(value, WeightedPlugin) and value.name not in scores:
                del said["weight"]
            yield f"{pad}  - {{{', '.join(f'{name}: {text}' for name, text in said.items())}}}"
        return
    for value in values:
        body = list(_section(item, value, depth + 2))
        first = next(n for n, line in enumerate(body) if not line.lstrip().startswith("#"))
        dash = f"{pad}  - " + body[first].lstrip()
        yield from (line[2:] for line in body[:first])
        yield dash
        yield from body[first + 1 :]


def _unwrap(kind: inspect.Type) -> tuple[str, inspect.Type]:
    """(description, the type itself)."""
    description = ""
    while isinstance(kind, inspect.Metadata):
        description = description or str((kind.extra_json_schema or {}).get("description", ""))
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        kind = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
    return description, kind


def _struct(kind: inspect.Type) -> inspect.StructType:
    inner = _unwrap(kind)[1]
    assert isinstance(inner, inspect.StructType), inner
    return inner


def _comment(text: str, pad: str) -> list[str]:
    return [f"{pad}# {line}" for line in textwrap.wrap(text, _WIDTH - len(pad) - 2)]


def _yaml(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str) and value:
        return value
    return json.dumps(value)
