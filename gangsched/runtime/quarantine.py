"""Objects and gangs over which the core has failed: how each is shown to it meanwhile, and when it is tried again.

An object is shown with less in it, or replaced by what holds its room (:mod:`gangsched.model.quarantined`). A gang over
whose decision the core has failed is decided last, and not before a pause is over. Both are tried again when they are
edited, and after a pause that doubles each time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

import msgspec

from gangsched.core.events import Changed, Event, Gone, ObjectRefused, Quarantined
from gangsched.core.keys import deletion_of, key_of, key_of_record, object_key
from gangsched.core.world.cut_decisions import pause_seconds
from gangsched.model.quarantined import REDUCED, REPLACED, is_edited, shown_of
from gangsched.model.records import Pod
from gangsched.runtime.culprits import DECISION
from gangsched.runtime.known import Known

#: An exception counts twice: unlike the end of a process, it cannot be by chance.
FIRST = 2


class _Entry:
    """``level`` says how much is left out of an object; 0 while it is on trial again. ``stands_for`` is what was shown
    in its place last, if that has another name.
    """

    __slots__ = ("about", "level", "stands_for", "until")

    def __init__(self, about: Quarantined, level: int) -> None:
        self.about = about
        self.level = level
        self.until = about.at + pause_seconds(about.times)
        self.stands_for: Event | None = None


class Quarantine:
    """What is quarantined of all that is ``known``. ``changed`` gets all of it whenever that changes."""

    def __init__(self, known: Known, changed: Callable[[Sequence[Quarantined]], None] = lambda _: None) -> None:
        self._known = known
        self._changed = changed
        self._entries: dict[Hashable, _Entry] = {}
        self._names: set[str] = set()  # namespace/name of each gang of which a decision has failed

    def __bool__(self) -> bool:
        return bool(self._entries)

    def all(self) -> list[Quarantined]:
        """What is quarantined at the moment."""
        return [entry.about for entry in self._entries.values() if entry.level]

    def until(self, about: Quarantined) -> float:
        """When this is tried again (seconds)."""
        return about.at + pause_seconds(about.times)

    def next_at(self) -> float | None:
        """When the next object is tried again; the core knows when a gang is."""
        found = (e.until for key, e in self._entries.items() if e.level and _gang_of(key) is None)
        return min(found, default=None)

    # -- what is put into it, and let out ------------------------------------------------------------------

    def can_take(self, key: Hashable, now: float) -> bool:
        """Return whether more of the object can be left out than is so far."""
        if _gang_of(key) is not None:
            return not self._level(key, now)
        return self._known.get(key) is not None and self._level(key, now) < REPLACED

    def _level(self, key: Hashable, now: float) -> int:
        """How much is left out; nothing any more where the pause of a gang is over."""
        entry = self._entries.get(key)
        if entry is None or (_gang_of(key) is not None and entry.until <= now):
            return 0
        return entry.level

    def saved(self) -> dict[Hashable, _Entry]:
        """How it stands, for :meth:`restore`."""
        return dict(self._entries)

    def restore(self, saved: dict[Hashable, _Entry]) -> None:
        """Nothing has been put into it since."""
        self._entries = saved
        self._publish()

    def put(self, key: Hashable, why: str, now: float) -> Quarantined | None:
        """The core has failed over this. Returns it if it was not quarantined before."""
        before, level = self._entries.get(key), self._level(key, now)
        times = FIRST if before is None else before.about.times + (not level)
        about = self._about(key, times, now, why)
        self._entries[key] = _Entry(about, level + 1)
        self._publish()
        return None if level else about

    def _about(self, key: Hashable, times: int, now: float, why: str) -> Quarantined:
        gang = _gang_of(key)
        if gang is not None:
            return Quarantined("", "", gang, "", times, now, why)
        event: Any = self._known.get(key)
        if isinstance(event, ObjectRefused):
            return Quarantined(event.kind, event.namespace, event.name, event.uid, times, now, why)
        kind, group, namespace, name, _ = key_of_record(event.record)
        uid = getattr(event.record, "uid", "")
        return Quarantined(f"{kind}.{group}" if group else kind, namespace, name, uid, times, now, why)

    def load(self, about: Quarantined) -> list[Event]:
        """An earlier leader has quarantined this. Returns what the core is to be shown from now on."""
        key: Hashable = (DECISION, about.name)
        if about.kind:
            kind, _, group = about.kind.partition(".")
            key = object_key(kind, group, about.namespace, about.name, about.uid)
        if key in self._entries:
            return []
        raw = self._known.get(key)
        if isinstance(raw, Changed) and _is_another(raw.record, about):
            return []
        entry = self._entries[key] = _Entry(about, REDUCED)
        self._publish()
        if not about.kind:
            return [about]
        return self._instead(entry, raw) if raw is not None else []  # else it has not been listed yet

    def forget_deleted(self) -> None:
        """Forget what is not known although all objects have been listed."""
        left = [key for key in self._entries if _gang_of(key) is None and self._known.get(key) is None]
        for key in left:
            del self._entries[key]
        if left:
            self._publish()

    def decided(self, gang: str) -> None:
        """The gang of this name has been decided."""
        if self._entries.pop((DECISION, gang), None) is not None:
            self._publish()

    def _publish(self) -> None:
        names = (gang for key in self._entries if (gang := _gang_of(key)) is not None)
        self._names = {name for gang in names for name in gang.split(",")}
        self._changed(self.all())

    # -- events for the core -------------------------------------------------------------------------------

    def everything(self, without: Collection[Hashable] = ()) -> list[Event]:
        """All that is known as a new core is shown it, but for the objects with these keys."""
        out: list[Event] = [e.about for key, e in self._entries.items() if e.level and _gang_of(key) is not None]
        for event in self._known.events():
            if without and key_of(event) in without:
                continue
            entry = self._entries.get(key_of(event)) if self._entries else None
            out.extend([event] if entry is None or not entry.level else self._shown(entry, event))
        return out

    def shown(self, events: Sequence[Event], now: float, *, listing: bool) -> list[Event]:
        """These events as the core is shown them, before they are known; and what is tried again now. While the caches
        are ``listing``, an object that was not known is no news.
        """
        out = self._tried_again(now)
        for event in events:
            if isinstance(event, Quarantined):
                out.extend(self.load(event))
        for event in events:
            if isinstance(event, Quarantined):
                continue
            key = key_of(event)
            entry = self._entries.get(key) if key is not None else None
            if entry is not None and entry.level:
                out.extend(self._instead_of(key, entry, event))
            else:
                if isinstance(event, Gone) and entry is not None:
                    del self._entries[key]
                out.append(event)
            if self._names and isinstance(event, Changed) and not listing:
                out.extend(self._gangs_edited(event, now))
        return out

    def _instead_of(self, key: Hashable, entry: _Entry, event: Event) -> list[Event]:
        """What is shown instead of an event of an object that is quarantined."""
        before = self._known.get(key)
        if isinstance(event, Gone):
            del self._entries[key]
            self._publish()
            return [event, *self._withdrawn(entry)]
        edited = isinstance(event, Changed) and isinstance(before, Changed) and is_edited(before.record, event.record)
        if edited or (isinstance(event, Changed) and _is_another(event.record, entry.about)):
            entry.level, entry.until = 0, entry.about.at
            self._publish()
            return [*self._withdrawn(entry), event]
        return self._instead(entry, event)

    def _instead(self, entry: _Entry, event: Event) -> list[Event]:
        """The events that follow from an event of a quarantined object."""
        shown = self._shown(entry, event)
        left = [deletion_of(event.record)] if isinstance(event, Changed) and not _is_same(event, shown) else []
        return [*left, *shown]

    def _shown(self, entry: _Entry, event: Event) -> list[Event]:
        if not isinstance(event, Changed):
            return []
        record = shown_of(event.record, entry.level, entry.about.why)
        if record is None:
            return []
        entry.stands_for = Changed(record)
        return [entry.stands_for]

    def _withdrawn(self, entry: _Entry) -> list[Event]:
        """The replacement of an object is removed."""
        stood, entry.stands_for = entry.stands_for, None
        if not isinstance(stood, Changed):
            return []
        same = key_of(stood) in self._entries or not _name_of(stood).startswith("quarantined-")
        return [] if same else [deletion_of(stood.record)]

    def _tried_again(self, now: float) -> list[Event]:
        """Objects that were quarantined for long enough are shown again."""
        out: list[Event] = []
        for key, entry in list(self._entries.items()):
            if entry.until > now:
                continue
            if not entry.level or _gang_of(key) is not None:
                if entry.until + pause_seconds(entry.about.times) <= now and not entry.level:
                    del self._entries[key]  # it has not failed again
                continue
            entry.level, entry.until = 0, now
            event = self._known.get(key)
            out.extend([*self._withdrawn(entry), *([event] if event is not None else [])])
            self._publish()
        return out

    def _gangs_edited(self, event: Changed, now: float) -> Iterable[Event]:
        """A gang is decided again when its group object, its owner or a member is edited."""
        names = _names_of(event.record) & self._names
        before = self._known.get(key_of(event)) if names else None
        if not names or (isinstance(before, Changed) and not is_edited(before.record, event.record)):
            return
        for key, entry in self._entries.items():
            gang = _gang_of(key)
            if gang is not None and entry.level and not names.isdisjoint(gang.split(",")):
                entry.level = 0
                self._publish()
                yield Quarantined("", "", gang, "", 0, now)


def _gang_of(key: Hashable) -> str | None:
    """The name of the gang if the key is that of a decision."""
    return str(key[1]) if isinstance(key, tuple) and key[0] == DECISION else None


def _names_of(record: Any) -> set[str]:
    """The ``namespace/name`` of an object, and of the gangs and owners that it names."""
    found = {f"{getattr(record, 'namespace', '')}/{record.name}"}
    if isinstance(record, Pod):
        found.add(record.gang.key)
        if record.owner is not None:
            found.add(f"{record.namespace}/{record.owner.name}")
    return found


def _name_of(event: Changed) -> str:
    return str(getattr(event.record, "name", ""))


def _is_same(event: Changed, shown: Sequence[Event]) -> bool:
    """Return whether what is shown is the object itself, with less in it."""
    return any(key_of(each) == key_of(event) for each in shown)


def _is_another(record: Any, about: Quarantined) -> bool:
    """Return whether this is another object of the same name."""
    uid = getattr(record, "uid", "")
    return bool(uid and about.uid) and uid != about.uid


def named(about: Quarantined) -> dict[str, Any]:
    """The fields of something quarantined, for what is published."""
    return {key: value for key, value in msgspec.structs.asdict(about).items() if value}
