"""What is deleted is deleted everywhere: an object has one key for watches, caches, pages and records."""

from __future__ import annotations

import pytest

from gangsched.cluster.kinds import Kind
from gangsched.core.events import Changed, Event, ObjectRefused, Synced
from gangsched.core.keys import key_of
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.runtime.known import Known
from tests.cluster.every_kind import KINDS, left_in, play, record, traces

NAME = "of-which-nothing-is-left"


def names(kind: Kind) -> str:
    """For the names of tests."""
    return kind.full_name


@pytest.mark.parametrize("kind", KINDS, ids=names)
def test_an_object_has_one_key(kind: Kind) -> None:
    """Its record, its deletion, and the report that it cannot be understood are about the same object."""
    space = "d" if kind.namespaced else ""
    changed = Changed(record(kind, NAME, space, "u"))
    refused = ObjectRefused(kind.full_name, space, NAME, "u", "spec", "no")
    keys = {key_of(changed), key_of(kind.deletion(space, NAME, "u")), key_of(refused)}
    assert len(keys) == 1
    assert None not in keys


@pytest.mark.parametrize("kind", KINDS, ids=names)
def test_nothing_is_left_of_a_deleted_object(kind: Kind) -> None:
    """Not in the core, and not in what pages and rebuilt cores are made of."""
    space = "d" if kind.namespaced else ""
    core, known = Scheduler(Options()), Known()
    refused = ObjectRefused(kind.full_name, space, NAME, "u", "spec", "no")
    events: list[Event] = [Synced(), Changed(record(kind, NAME, space, "u")), refused]
    known.record(events)
    play(core, events, 1.0)
    assert traces(known, NAME)
    went = [kind.deletion(space, NAME, "u")]
    known.record(went)
    play(core, went, 2.0)
    assert traces(known, NAME) == []
    assert left_in(core, NAME) == []
