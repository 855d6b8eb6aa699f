"""The record of quarantined objects and gangs, and of the current decision, in the Lease. The next leader starts with
it.

Nothing can be written when a process is killed, or has no memory left. So a decision that takes longer than any should
is written down before, with each renewal of the Lease. The next leader decides that gang last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from gangsched import logs
from gangsched.core.events import Quarantined

#: The annotation of the Lease.
ANNOTATION = "gangsched.dev/quarantined"
#: A decision that takes so long (seconds) is written down: several times what the clock over decisions allows.
SECONDS = 5.0
#: Entries that are kept, and for how long (seconds) after the last error: the object may be gone.
_MOST, _FORGOTTEN_AFTER = 100, 86400.0
#: So much is written of what has failed.
_WORDS = 200

_log = logs.get(__name__)


class _Entry(msgspec.Struct, omit_defaults=True):
    times: int
    at: float
    uid: str = ""
    why: str = ""


class QuarantineRecord:
    """The current decision and the quarantined objects. The decision thread calls :meth:`begin`, :meth:`end`,
    :meth:`failed` and :meth:`keep`, the I/O thread calls the others.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._current: tuple[str, float] | None = None
        self._failed = ""
        self._known: dict[str, _Entry] = {}

    def begin(self, gang: str) -> None:
        """The gang of this name is being decided."""
        self._current = gang, self._clock()

    def end(self) -> None:
        """It has been decided."""
        current, self._current = self._current, None
        if current is not None and self._known:
            self._known.pop(current[0], None)

    def failed(self) -> None:
        """The process ends because of an error in the decision under way."""
        current = self._current
        self._failed = current[0] if current is not None else ""

    def keep(self, entries: Iterable[Quarantined]) -> None:
        """These are quarantined from now on, and nothing else."""
        self._known = {
            _key_of(each): _Entry(each.times, round(each.at, 3), each.uid, each.why[:_WORDS]) for each in entries
        }

    def text(self) -> str:
        """Return the text for the Lease; empty for none."""
        known, current = dict(self._known), self._current
        if current is not None and (current[0] == self._failed or self._clock() - current[1] >= SECONDS):
            before = known.get(current[0])
            known[current[0]] = _Entry(before.times + 1 if before is not None else 1, round(self._wall_clock(), 3))
        newest = sorted(known.items(), key=lambda each: (-each[1].at, each[0]))[:_MOST]
        return msgspec.json.encode(dict(newest)).decode() if newest else ""

    def load(self, text: str) -> list[Quarantined]:
        """Take in what the Lease of an earlier leader says, and tell the core."""
        try:
            found = msgspec.json.decode(text, type=dict[str, _Entry]) if text else {}
        except msgspec.MsgspecError as error:
            _log.warning(
                "the Lease says something unreadable about what is quarantined", annotation=ANNOTATION, error=str(error)
            )
            found = {}
        oldest = self._wall_clock() - _FORGOTTEN_AFTER
        self._known = {key: entry for key, entry in found.items() if oldest <= entry.at}
        for key, entry in self._known.items():
            _log.warning(
                "an earlier leader has failed over an object or a gang", what=key, times=entry.times, why=entry.why
            )
        return [_event_of(key, entry) for key, entry in self._known.items()]


def _key_of(event: Quarantined) -> str:
    """``Kind namespace/name`` of an object, and the name of a gang, which has no space."""
    return f"{event.kind} {event.namespace}/{event.name}" if event.kind else event.name


def _event_of(key: str, entry: _Entry) -> Quarantined:
    kind, _, name = key.rpartition(" ")
    namespace = ""
    if kind:
        namespace, _, name = name.partition("/")
    return Quarantined(kind, namespace, name, entry.uid, entry.times, entry.at, entry.why)
