"""Errors of what only observes: metrics, logs, traces, the history, the published status. They go no further."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from gangsched import logs
from gangsched.core.planning.contained import place_of

_log = logs.get(__name__)

#: A task that has failed is started again after so long (seconds).
AGAIN_SECONDS = 15.0
#: Different errors that are logged; all are counted.
_LOGGED = 1000

#: Counts an error: the name of the metric, 1, and its labels.
Count: TypeAlias = Callable[[str, float, Mapping[str, str]], None]


class Bystanders:
    """Calls observers. An error in one is counted with ``count``, logged once for each place, and goes no further."""

    def __init__(self, count: Count) -> None:
        self._observe = count
        self._logged: set[tuple[str, str]] = set()

    def call(self, name: str, function: Callable[..., object], *args: Any) -> None:
        """Call ``function``, which belongs to the observer ``name``."""
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is, the scheduler does not need it
            self.failed(name, error)

    def failed(self, name: str, error: Exception) -> None:
        """The observer ``name`` has failed."""
        with contextlib.suppress(Exception):  # the counter may be what has failed
            self._observe("observer_errors", 1, {"observer": name})
        place = place_of(error)
        if (name, place) not in self._logged and len(self._logged) < _LOGGED:
            self._logged.add((name, place))
            _log.error("an observer has failed; scheduling goes on", observer=name, place=place, exc_info=error)

    async def keep_running(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a task of the observer ``name`` until it is cancelled. If it fails, start it again later."""
        while True:
            try:
                await run()
            except Exception as error:  # noqa: BLE001 - as above
                self.failed(name, error)
            await asyncio.sleep(AGAIN_SECONDS)
