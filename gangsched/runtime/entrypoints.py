"""Plug-ins of others: found by the entry points of installed packages, imported only when a profile enables them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gangsched.core.framework.registry import Plugin
from gangsched.messages import invalid

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

#: Entry point groups; the name of an entry point is that of the plug-in.
FILTERS, SCORES = "gangsched.filters", "gangsched.scores"

_METHODS = {
    FILTERS: ("applies", "prepare", "mask", "failures", "apply"),
    SCORES: ("applies", "prepare", "values", "value"),
}
_FLAG = {FILTERS: "sees_pods", SCORES: "local"}


class LoadError(Exception):
    """A plug-in cannot be used; the text says why, for people."""


class _Maker(msgspec.Struct, frozen=True):
    """Makes a score of this kind from its arguments, or a filter: a plug-in may have ``several``, so in a tuple."""

    kind: type[Any]
    several: bool

    def __call__(self, arguments: Any) -> Any:
        made = self.kind(arguments) if getattr(self.kind, "Arguments", None) is not None else self.kind()
        return (made,) if self.several else made


class Foreign(NamedTuple):
    """A plug-in of others. ``arguments`` is the struct that its ``args`` are read into, if it takes any."""

    plugin: Plugin
    arguments: type[msgspec.Struct] | None


def installed() -> list[str]:
    """Names of the plug-ins in installed packages, sorted. Nothing is imported."""
    return sorted({found.name for group in (FILTERS, SCORES) for found in _entry_points(group)})


def load(name: str) -> Foreign | None:
    """Import a plug-in; None when no installed package has one of that name. Raises :class:`LoadError`."""
    filter_class, score_class = _load(FILTERS, name), _load(SCORES, name)
    if filter_class is None and score_class is None:
        return None
    kinds = [kind for kind in (filter_class, score_class) if kind is not None]
    structs = {getattr(kind, "Arguments", None) for kind in kinds} - {None}
    if len(structs) > 1:
        raise LoadError(invalid.ARGUMENTS_DIFFER)
    arguments = structs.pop() if structs else None
    if arguments is not None and not (isinstance(arguments, type) and issubclass(arguments, msgspec.Struct)):
        raise LoadError(invalid.ARGUMENTS_NO_STRUCT)
    return Foreign(
        Plugin(
            name,
            filters=_Maker(filter_class, several=True) if filter_class is not None else None,
            score=_Maker(score_class, several=False) if score_class is not None else None,
            foreign=True,
        ),
        arguments,
    )


def _load(group: str, name: str) -> type[Any] | None:
    found = [point for point in _entry_points(group) if point.name == name]
    if not found:
        return None
    if len({point.value for point in found}) > 1:
        raise LoadError(invalid.several_packages(names=", ".join(sorted(map(_origin, found)))))
    point = found[0]
    try:
        kind = point.load()
    except (Exception, SystemExit) as error:  # importing runs code of others
        raise LoadError(
            invalid.cannot_be_imported(value=point.value, kind=type(error).__name__, error=error)
        ) from error
    if not isinstance(kind, type):
        raise LoadError(invalid.no_class(value=point.value))
    if getattr(kind, "name", None) != name:
        raise LoadError(invalid.named_differently(value=point.value, kind=getattr(kind, "name", None), name=name))
    missing = [method for method in _METHODS[group] if not callable(getattr(kind, method, None))]
    if missing:
        raise LoadError(invalid.no_method(value=point.value, names=", ".join(missing)))
    if not isinstance(getattr(kind, _FLAG[group], None), bool):
        raise LoadError(invalid.no_flag(value=point.value, flag=_FLAG[group]))
    return kind


def _entry_points(group: str) -> EntryPoints:
    from importlib.metadata import entry_points  # noqa: PLC0415 - most profiles have no plug-ins of others

    return entry_points(group=group)


def _origin(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value
