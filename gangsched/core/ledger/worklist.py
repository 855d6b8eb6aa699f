"""Everything that must be evaluated again because events, answers or the life cycle itself have touched it."""

from __future__ import annotations

from gangsched.core.events import Change
from gangsched.core.state.jobs import Suspendable
from gangsched.model.records import GangId


class Worklist:
    """Changes are added where they are noticed. :class:`gangsched.core.lifecycle.executor.Executor` processes them,
    kind after kind in the order of these attributes, until nothing is left. It may replace a set by a new one.
    """

    def __init__(self) -> None:
        #: Gangs of which a member, their specification or their surroundings are not what they were.
        self.gangs: set[GangId] = set()
        #: Gangs of pods that have been condemned or spared, and Jobs and JobSets of such pods without a group, by UID.
        #: The consequences for their other members are evaluated again.
        self.losing: set[GangId] = set()
        self.losing_owners: dict[str, Suspendable] = {}
        #: Gangs for whose lost members room is held: what they lack may be something else now.
        self.lost: set[GangId] = set()
        #: UIDs of pods that a plan does not need to leave any more.
        self.spared: set[str] = set()
        #: Nodes that are not what they were, and those on which pods take room that we have not put there.
        self.nodes_changed: set[str] = set()
        self.nodes_fuller: set[str] = set()
        #: The keys of groups whose room a gang of higher priority may have taken.
        self.taken_from: set[str] = set()
        #: UIDs of pods for which a plan may have no place any more.
        self.unplaced: set[str] = set()
        #: The keys of those of whom a phase may be over.
        self.phases: set[str] = set()
        #: Changes that may help gangs that do not fit.
        self.changes: list[Change] = []

    def evaluate(self, gang: GangId) -> None:
        """Evaluate this gang again: its group, its obstacle, and what it needs."""
        self.gangs.add(gang)

    def __bool__(self) -> bool:
        """Return whether anything is left to be looked at."""
        pods = self.gangs or self.losing or self.losing_owners or self.lost or self.spared or self.unplaced
        return bool(pods or self.nodes_changed or self.nodes_fuller or self.taken_from or self.phases or self.changes)
