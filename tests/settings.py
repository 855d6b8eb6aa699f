"""Every setting with its values, default and meaning, as docs/configuration.md lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import inspect

from gangsched.core.framework.arguments import ARGUMENTS
from gangsched.runtime.config import _HEAD, _struct, _unwrap, _yaml
from gangsched.runtime.profiles import PluginConfig
from gangsched.runtime.settings import Configuration


class Setting(NamedTuple):
    """One setting: its path (lists as ``profiles[]``), allowed values, default as YAML, and meaning."""

    path: str
    allowed: str
    default: str
    meaning: str


def settings() -> list[Setting]:
    """All settings in the order of the file, sections left out."""
    return list(_settings(_struct(inspect.type_info(Configuration)), ""))


def _settings(kind: inspect.StructType, above: str) -> Iterator[Setting]:
    for field in kind.fields:
        path = f"{above}{field.encode_name}"
        description, inner = _unwrap(field.type)
        if path in _HEAD:
            continue
        if kind.cls is PluginConfig and field.name == "args":
            for name, arguments in ARGUMENTS.items():
                below = f"{above.removesuffix('[].')}[{name}].args."
                yield from _settings(_struct(inspect.type_info(arguments)), below)
        elif isinstance(inner, inspect.StructType):
            yield from _settings(inner, f"{path}.")
        elif isinstance(inner, inspect.VarTupleType) and isinstance(_unwrap(inner.item_type)[1], inspect.StructType):
            yield from _settings(_struct(inner.item_type), f"{path}[].")
        elif isinstance(inner, inspect.VarTupleType):
            yield Setting(path, f"list of {_allowed(_unwrap(inner.item_type)[1])}", "[]", description)
        else:
            default = "(must be given)" if field.required else _yaml(field.default)
            yield Setting(path, _allowed(inner), default, description)


def _allowed(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(str(value) for value in kind.values)
    if isinstance(kind, inspect.BoolType):
        return "true, false"
    if isinstance(kind, inspect.StrType):
        return "duration" if kind.pattern else "text"
    assert isinstance(kind, inspect.IntType | inspect.FloatType), kind
    low = f"{kind.ge:.12g}" if kind.ge is not None else f"above {kind.gt:.12g}"
    return f"{low} to {kind.le:.12g}" if kind.ge is not None else f"{low}, at most {kind.le:.12g}"
