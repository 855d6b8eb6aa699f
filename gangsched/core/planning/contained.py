"""An error in the decision of one gang is that gang's, and no other gang waits for its end."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath

import msgspec

from gangsched.core.decision import SCHEDULER, names_of
from gangsched.core.framework.registry import PluginError
from gangsched.messages import invalid
from gangsched.model.records import GangId

#: Faults that are kept for the log until they are fetched.
_KEPT = 100


class Fault(msgspec.Struct, frozen=True):
    """An error of a question about a ``gang``, and its place, for maintainers of this program. ``gangs`` are those of a
    GangGroup; ``cause`` has the frames.
    """

    gang: str
    error: str
    trace: str
    gangs: tuple[GangId, ...] = ()
    cause: Exception | None = None


class SchedulerError(PluginError):
    """The scheduler itself has failed over one gang."""

    def __init__(self, error: Exception) -> None:
        super().__init__(SCHEDULER, place_of(error), f"{type(error).__name__}: {error}")

    @staticmethod
    def said(plugin: str, method: str, words: str) -> str:
        """The text for users. It does not name the ``plugin``."""
        del plugin
        return invalid.scheduler_failed(place=method, words=words)


class Contained:
    """Makes a :class:`PluginError` of every exception that a question about a gang ends with, and keeps it in
    ``faults``. Questions change nothing, so that nothing is left half done. Unless it is ``on`` they pass through:
    tests look for them.
    """

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self.faults: deque[Fault] = deque(maxlen=_KEPT)

    @contextmanager
    def about(self, gangs: Sequence[GangId]) -> Iterator[None]:
        """All questions inside are about these gangs."""
        try:
            yield
        except PluginError:
            raise
        except Exception as error:
            if not self._on:
                raise
            fault = SchedulerError(error)
            trace = "".join(traceback.format_exception(error))
            self.faults.append(Fault(names_of(gangs), str(fault), trace, tuple(gangs), error))
            raise fault from error

    def drain(self) -> list[Fault]:
        """The faults since the last call."""
        out = list(self.faults)
        self.faults.clear()
        return out


def place_of(error: BaseException) -> str:
    """The function in which it went wrong, with its file and line."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return invalid.NOWHERE
    last = frames[-1]
    return f"{last.name} ({PurePath(last.filename).name}:{last.lineno})"
