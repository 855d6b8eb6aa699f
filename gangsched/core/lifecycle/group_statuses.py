"""The status of group objects: where their gangs stand.

Controllers write it as a rule. If other controllers wait for the status before they create members, the scheduler
writes it itself, also for a group without members, and repeats it after overwrites.

A group object is a gang once for each scheduler name. One of these gangs writes the status of the object: otherwise
they would overwrite one another for ever, since each sees what the other writes as news.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gangsched.core.actions import Action, GangStatus, GroupRef, SetGroupStatus
from gangsched.core.agenda import Page
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.group import Group
from gangsched.core.state.census import Census
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.model.dialects import BY_FAMILY, changed_status
from gangsched.model.dialects.dialect import CommonStatus, CurrentObject, Dialect
from gangsched.model.parts import leaves
from gangsched.model.records import Gang, GangId

#: The API, namespace and name of a group object.
Key = tuple[str, str, str]
#: A status that was overwritten more often than this within the period is held back until the period is over.
MOST_OVERWRITTEN = 3
PERIOD_SECONDS = 1.0


def gang_status(gang: Gang, census: Census, problem: str, message: str, evicted: str) -> Mapping[str, Any]:
    """Where a gang stands, for the status of its group object: in one form for all dialects, phases as Koordinator's
    users know them. ``evicted`` says of its pods which were evicted last, and for whom.
    """
    running, succeeded, failed = census.running, census.succeeded, census.failed
    scheduled_now = len(census.bound) + len(census.terminating) + succeeded
    minimum = gang.min_member
    if succeeded >= minimum:
        phase = "Finished"
    elif failed and failed + running + succeeded >= minimum:
        phase = "Failed"
    elif scheduled_now >= minimum:
        phase = "Running" if running + succeeded >= minimum else "Scheduled"
    elif scheduled_now or (message and not problem):
        phase = "Scheduling"
    else:
        phase = "PreScheduling" if census.present >= minimum and not problem else "Pending"
    done = scheduled_now >= minimum
    waits_for = report.GANG_NOT_READY if problem else report.UNSCHEDULABLE if message else ""
    return {
        "phase": phase,
        "minimum": minimum,
        "members": census.members,
        "occupiedBy": census.owner,
        "scheduled": scheduled_now,
        "running": running,
        "succeeded": succeeded,
        "failed": failed,
        "reason": report.SCHEDULED if done else waits_for,
        "message": "" if done else problem or message,
        "evicted": evicted,
    }


class _Written(NamedTuple):
    """The status of a group object that was written last, and the gang that is its ``writer``.

    Where the scheduler writes it itself, ``seen`` is the status that was there before, and ``since`` what it has been
    since then. ``replaced`` are earlier statuses, each with the time (seconds) at which this process replaced it.
    ``objects`` have the status.
    """

    writer: GangId
    told: CommonStatus
    seen: Mapping[str, Any] | None = None
    since: Mapping[str, Any] | None = None
    replaced: tuple[tuple[float, CommonStatus], ...] = ()
    objects: tuple[Gang, ...] = ()


class GroupStatuses:
    """Adds writes of the status of group objects to the ``actions``."""

    def __init__(self, world: World, ledger: Ledger, actions: list[Action]) -> None:
        self._world = world
        self._work = ledger.work
        self._actions = actions
        self._written: dict[Key, _Written] = {}
        #: The text of each status about its last eviction.
        self._evicted: dict[Key, str] = {}
        #: Objects (by UID) of which it was reported that a status was held back.
        self._reported: set[str] = set()
        #: The time at which delayed statuses are processed.
        self._later: Page[Key] = ledger.agenda.page()
        self._held_back = 0

    def evicted(self, gang: GangId, text: str) -> None:
        """Keep what the status is to say about an eviction. It is written when the pods change."""
        self._evicted[gang[:3]] = text

    def update(self, gang: GangId, group_of: Callable[[GangId], Group | None]) -> None:
        """Write the status of the object of a gang if it has changed and is ours to write. ``group_of`` finds the group
        of a gang.
        """
        key, dialect = gang[:3], BY_FAMILY.get(gang.family)
        if dialect is None or (dialect.status is None and not dialect.below):
            return
        spec = self._world.membership.objects.get(key)
        if spec is None or spec.mistake is not None:  # what cannot be read is not written to either
            self._forget(key)
            return
        known = self._written.get(key)
        writer = self._writer(key, dialect, known.writer if known is not None else None)
        if writer != gang:
            if writer is not None and (known is None or known.writer != writer):
                self._work.gangs.add(writer)
            return
        group = group_of(gang)
        message, problem = (group.message, group.problem) if group is not None else ("", "")
        if dialect.awaited_from and group is not None:
            message = next((text for _, text in group.written.values()), "")  # not each one that it might be
        census = self._world.membership.census(gang)
        told = gang_status(spec, census, problem, message, self._evicted.get(key, ""))
        replaced = self._replaced(known, told)
        if known is not None and known.told != told and self._is_held_back(spec, key, told, replaced):
            return
        if dialect.awaited_from:
            seen, since = self._write_at_once(spec, told, known, dialect.versions[0])
            self._written[key] = _Written(gang, told, seen, since, replaced)
            return
        objects = self._objects(spec, dialect)
        self._written[key] = _Written(gang, told, replaced=replaced, objects=objects)
        for each in objects:
            if known is None or known.told != told or each not in known.objects:
                plural = BY_FAMILY[each.family].plural
                self._actions.append(GangStatus(each.family, each.namespace, each.name, each.uid, told, plural))

    def _objects(self, spec: Gang, dialect: Dialect) -> tuple[Gang, ...]:
        """Return the groups that have the status of a gang: its own, or of a tree those with members."""
        if dialect.status is not None:
            return (spec,)
        found = (self._world.membership.objects.get((dialect.below, spec.namespace, name)) for name in leaves(spec))
        return tuple(each for each in found if each is not None)

    def time_passed(self) -> None:
        """Look again at the objects of which a status was held back."""
        for key in self._later.due(self._world.now):
            self._work.gangs.update(GangId(*key, scheduler) for scheduler in self._world.membership.ours)

    def drain_held_back(self) -> int:
        """Return how many writes have been held back since the last call."""
        out, self._held_back = self._held_back, 0
        return out

    def _writer(self, key: Key, dialect: Dialect, before: GangId | None) -> GangId | None:
        """Return the one gang of a group object that writes its status; None if that is not up to us.

        The writer ``before`` stays it as long as it has members. Otherwise it is the first by scheduler name that has
        some. A group without members is written to for the scheduler name from which its API awaits the status, or to
        say that its last members are gone.
        """
        membership = self._world.membership
        if before is not None and membership.has_members(before) and membership.is_ours(before):
            return before
        gangs = [GangId(*key, name) for name in sorted(membership.of_scheduler)]
        some = [gang for gang in gangs if membership.has_members(gang)]
        ours = next(filter(membership.is_ours, some), None)
        if ours is not None or not dialect.awaited_from:
            return ours or before
        awaited = GangId(*key, dialect.awaited_from)
        return awaited if not some and membership.is_ours(awaited) else None

    def _replaced(self, known: _Written | None, told: CommonStatus) -> tuple[tuple[float, CommonStatus], ...]:
        """Return what this process has replaced within the last period, if this is written now."""
        if known is None:
            return ()
        now = self._world.now
        lately = tuple(each for each in known.replaced if each[0] > now - PERIOD_SECONDS)
        return lately if known.told == told else (*lately, (now, known.told))

    def _is_held_back(
        self, spec: Gang, key: Key, told: CommonStatus, replaced: tuple[tuple[float, CommonStatus], ...]
    ) -> bool:
        """Return whether a status was overwritten too often to be written once more now. Report that once."""
        if sum(each == told for _, each in replaced) <= MOST_OVERWRITTEN:
            return False
        self._held_back += 1
        self._later.no_later(key, self._world.now + PERIOD_SECONDS)
        if spec.uid not in self._reported:
            self._reported.add(spec.uid)
            about = report.group_reference(spec.family, spec.kind, spec.namespace, spec.name, spec.uid)
            self._actions.append(report.event(about, report.STATUS_HELD_BACK, notes.STATUS_HELD_BACK))
        return True

    def _write_at_once(
        self, spec: Gang, told: CommonStatus, known: _Written | None, version: str
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Change what is not as it should be in the status as it was last seen, unless that has been written since.
        Return the status that was seen, and what it is now.
        """
        seen = spec.status or {}
        written = known.since if known is not None and known.since is not None and known.seen == seen else seen
        news = changed_status(spec.family, told, CurrentObject(version, spec.generation, written, self._world.now))
        if news:
            # Writes may have been lost: the next write has all fields that differ from the observed ones.
            fields = changed_status(spec.family, told, CurrentObject(version, spec.generation, seen, self._world.now))
            ref = GroupRef(spec.namespace, spec.name, spec.uid, spec.family, version)
            self._actions.append(SetGroupStatus(ref, {**fields, **news}))
        return seen, {**written, **news}

    def _forget(self, key: Key) -> None:
        """The object is gone, or cannot be read."""
        self._written.pop(key, None)
        self._evicted.pop(key, None)
        self._later.never(key)
