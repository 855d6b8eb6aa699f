"""Are the schedulers alive whose names are served here? Their Leases say so while they are renewed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from gangsched import logs
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.lease import Watcher, lease_of, lease_path
from gangsched.core.events import Event, NameLeased
from gangsched.messages import notes

_log = logs.get(__name__)

#: How often each Lease is read, and how long one counts as renewed that says nothing about it (seconds).
PERIOD_SECONDS, DURATION_SECONDS = 5.0, 15.0
_TIMEOUT_SECONDS = 5.0


class FormerOwners:
    """Tells ``deliver`` who holds the Lease of a name, or that it is free; run :meth:`run` as a task.

    ``leases`` has the ``namespace/name`` of Leases by scheduler name. A Lease that may not be read may be held: its
    name is left alone. Without an answer the last one stands. ``looked`` is set when all have been answered for.
    """

    def __init__(
        self,
        client: Client,
        leases: Mapping[str, tuple[str, ...]],
        deliver: Callable[[list[Event]], None],
        period_seconds: float = PERIOD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._leases = leases
        self._deliver = deliver
        self._period_seconds = period_seconds
        self._clock = clock
        self._watchers = {each: Watcher("", DURATION_SECONDS) for of in leases.values() for each in of}
        self._told: dict[str, str] = {}
        self.looked = asyncio.Event()

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            for name, leases in self._leases.items():
                await self._look(name, leases)
            if self._told.keys() >= self._leases.keys():
                self.looked.set()
            await asyncio.sleep(self._period_seconds)

    async def _look(self, name: str, leases: tuple[str, ...]) -> None:
        try:
            owners = [(await self._owner(lease), lease) for lease in leases]
        except (ApiError, UnreachableError) as error:
            _log.warning("the Lease of a former owner cannot be read", name=name, error=str(error))
            return
        owner, lease = next((each for each in owners if each[0]), ("", ""))
        if self._told.get(name) != owner:
            self._told[name] = owner
            self._deliver([NameLeased(name, owner, lease)])

    async def _owner(self, lease: str) -> str:
        """Who holds a Lease, in words; empty if it is free. Raises what says nothing about it."""
        namespace, _, name = lease.partition("/")
        path = lease_path(namespace, name)
        try:
            body = await self._client.attempt("GET", path, timeout_seconds=_TIMEOUT_SECONDS)
            spec = lease_of(body, f"GET {path}").spec
        except ApiError as error:
            if error.transient:
                raise
            return "" if error.status == 404 else notes.lease_unreadable(lease, error)
        standing = self._watchers[lease].look(spec, self._clock())
        return notes.lease_held(lease, spec.holder_identity) if standing == "held" else ""
