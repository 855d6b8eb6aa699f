"""What the Lease says of the decision that is under way: whoever leads next decides that gang last.

Nothing can be written when a process is killed, or has no memory left. So the record is written before, with each
renewal of the Lease while a decision takes longer than any should.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from gangsched import logs
from gangsched.core.events import DecisionCut

#: The annotation of the Lease.
ANNOTATION = "gangsched.dev/decisions-cut"
#: A decision that takes so long (seconds) is written down: several times what the clock over decisions allows.
SECONDS = 5.0
#: Gangs that are remembered, and for how long (seconds) after the last time: the gang may be gone.
_MOST, _FORGOTTEN_AFTER = 100, 86400.0

_log = logs.get(__name__)


class _Cut(msgspec.Struct):
    times: int
    at: float


class DecisionRecord:
    """Which decision is under way, and which were cut before. :meth:`begin`, :meth:`end` and :meth:`failed` are called
    by the decision thread, the others by the I/O thread.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._current: tuple[str, float] | None = None
        self._failed = ""
        self._known: dict[str, _Cut] = {}

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

    def text(self) -> str:
        """What the Lease should say; empty: nothing."""
        cut, current = dict(self._known), self._current
        if current is not None and (current[0] == self._failed or self._clock() - current[1] >= SECONDS):
            before = cut.get(current[0])
            cut[current[0]] = _Cut(before.times + 1 if before is not None else 1, round(self._wall_clock(), 3))
        newest = sorted(cut.items(), key=lambda each: (-each[1].at, each[0]))[:_MOST]
        return msgspec.json.encode(dict(newest)).decode() if newest else ""

    def load(self, text: str) -> list[DecisionCut]:
        """Take in what the Lease of an earlier leader says, and tell the core."""
        try:
            found = msgspec.json.decode(text, type=dict[str, _Cut]) if text else {}
        except msgspec.MsgspecError as error:
            _log.warning("the Lease says something unreadable about decisions", annotation=ANNOTATION, error=str(error))
            found = {}
        oldest = self._wall_clock() - _FORGOTTEN_AFTER
        self._known = {gang: cut for gang, cut in found.items() if oldest <= cut.at}
        for gang, cut in self._known.items():
            _log.warning("a process has ended over the decision of a gang", gang=gang, times=cut.times)
        return [DecisionCut(gang, cut.times, cut.at) for gang, cut in self._known.items()]
