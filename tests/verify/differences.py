"""How two states of one structure differ, in a few words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: So many differences of one structure are shown.
_SHOWN = 3


def unlike(structure: str, kept: Any, fresh: Any) -> Iterator[str]:
    """Yield how a structure as it is kept differs from the same made from scratch; nothing if they are equal."""
    if kept == fresh:
        return
    if isinstance(kept, Mapping) and isinstance(fresh, Mapping):
        keys = [*kept, *(key for key in fresh if key not in kept)]
        wrong = [key for key in keys if key not in kept or key not in fresh or kept[key] != fresh[key]]
        for key in wrong[:_SHOWN]:
            yield f"{structure}: {key!r} is {kept.get(key, 'absent')!r:.300}, not {fresh.get(key, 'absent')!r:.300}"
        if len(wrong) > _SHOWN:
            yield f"{structure}: {len(wrong) - _SHOWN} more differ"
        return
    if isinstance(kept, set | frozenset) and isinstance(fresh, set | frozenset):
        more, less = (sorted(map(repr, found))[:_SHOWN] for found in (kept - fresh, fresh - kept))
        yield f"{structure}: too much {more}, missing {less}"
        return
    yield f"{structure}: {kept!r:.300}, not {fresh!r:.300}"


def filled(sets: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the sets, lists or mappings that are not empty, with nested mappings as plain ones."""
    return {key: dict(value) if isinstance(value, Mapping) else value for key, value in sets.items() if value}
