"""How long pods wait that could start: a gang that never fits, or is incomplete, does not keep an alert firing."""

from __future__ import annotations

from gangsched.core.decision import UNSCHEDULABLE, Decision, Headline
from gangsched.messages.answers import NEVER_FITS, NOT_NOW
from gangsched.model.records import GangId
from gangsched.runtime.waits import Waits
from tests.builders import decided, pod

HOPEFUL, MISSPELT, INCOMPLETE = (GangId("", "ns", name, "ours") for name in ("hopeful", "misspelt", "incomplete"))


def refused(gang: GangId, word: str) -> Decision:
    """The gang does not start."""
    return decided(UNSCHEDULABLE, gang, headline=Headline(word, "why"))


def shown(waits: Waits) -> dict[str, float]:
    """The seconds by priority, as a scrape has them."""
    (family,) = waits.collect()
    return {sample.labels["priority"]: sample.value for sample in family.samples}


def test_only_pods_that_could_start_are_said_to_wait() -> None:
    """By priority, from the first one of it on. What fits after all is waited for from its arrival on."""
    waits = Waits(lambda: 100.0)
    for gang, moment, priority in ((MISSPELT, 0.0, 5), (INCOMPLETE, 1.0, 5), (HOPEFUL, 40.0, 5), (HOPEFUL, 60.0, 7)):
        waits.begin(pod("x").uid(f"{gang.name}-{priority}").priority(priority).obj(), moment)
    complete = [(HOPEFUL, ["hopeful-5", "hopeful-7"]), (MISSPELT, ["misspelt-5", "unknown"])]
    for gang, word in ((HOPEFUL, NOT_NOW), (MISSPELT, NEVER_FITS)):
        waits.decided(refused(gang, word))
    waits.update(complete)
    assert shown(waits) == {"5": 60.0, "7": 40.0}
    waits.decided(refused(MISSPELT, NOT_NOW))
    waits.end("hopeful-7")
    waits.update(complete)
    assert shown(waits) == {"5": 100.0}


def test_gangs_that_are_gone_are_forgotten() -> None:
    """One of the same name may fit."""
    waits = Waits(lambda: 10.0)
    waits.decided(refused(MISSPELT, NEVER_FITS))
    waits.update([])
    waits.begin(pod("x").uid("new").obj(), 4.0)
    waits.update([(MISSPELT, ["new"])])
    assert shown(waits) == {"0": 6.0}
