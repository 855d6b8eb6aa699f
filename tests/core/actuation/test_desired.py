"""What stands on a pod, or may, and should not."""

from __future__ import annotations

import pytest

from gangsched.core.actuation.actuator import no_longer_nominated
from gangsched.model.records import Pod
from tests.builders import pod

NOTHING = pod("m").obj()
RECORDED = pod("m").nominated("n1").obj()
CLEARED = pod("m").nominated("n1", intent=False).obj()


@pytest.mark.parametrize(
    ("seen", "asked", "wanted", "goes"),
    [
        (NOTHING, "", "", False),
        (NOTHING, "", "n1", False),
        (NOTHING, "n1", "n1", False),
        (NOTHING, "n1", "", True),
        (NOTHING, "n1", "n2", True),
        (RECORDED, "", "n1", False),
        (RECORDED, "", "", True),
        (RECORDED, "", "n2", True),
        (RECORDED, "n2", "n2", False),
        (RECORDED, "n2", "n1", True),
        (CLEARED, "", "", False),
    ],
)
def test_what_counts_is_what_was_asked_for_last(seen: Pod, asked: str, wanted: str, *, goes: bool) -> None:
    """A nomination goes unless it is to the node that is wanted; what was asked for may not be seen yet."""
    uid = NOTHING.uid
    found = no_longer_nominated([seen], {uid: asked} if asked else {}, {uid: wanted} if wanted else {})
    assert list(found) == ([seen] if goes else [])
