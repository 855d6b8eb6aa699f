"""How often the core may be replaced over one namespace, so that its users cannot keep it busy with that."""

from __future__ import annotations

from gangsched.core.world.cut_decisions import LONGEST_PAUSE_SECONDS, pause_seconds

#: So many namespaces are remembered.
_MOST = 1000
#: So often in a row an object is found and left out without a pause after it: others may have to be left out, too.
_FOUND_AT_MOST = 5


class NamespacePauses:
    """For each namespace the number of times in a row, how often an object was found, and when the pause after the last
    time is over. There is none after the first one, so that a single error is over at once. The others double.
    """

    def __init__(self) -> None:
        self._by_namespace: dict[str, tuple[int, int, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def until(self, namespace: str) -> float:
        """Return when the pause of a namespace is over."""
        return self._by_namespace.get(namespace, (0, 0, float("-inf")))[2]

    def begin(self, namespace: str, now: float, *, found: bool) -> None:
        """The core is replaced now over this namespace. An object was ``found`` that is to blame, or not."""
        times, finds, until = self._by_namespace.pop(namespace, (0, 0, now))
        if until + LONGEST_PAUSE_SECONDS < now:
            times = finds = 0
        if found and finds < _FOUND_AT_MOST:
            finds, until = finds + 1, now
        else:
            times, until = times + 1, now + pause_seconds(times + 1)
        if len(self._by_namespace) >= _MOST:
            del self._by_namespace[next(iter(self._by_namespace))]
        self._by_namespace[namespace] = (times, finds, until)
