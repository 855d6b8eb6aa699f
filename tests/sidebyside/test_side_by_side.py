"""A reduced comparison with upstream's kube-scheduler; `python -m tests.sidebyside --count 300` is the full one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.amounts import amount
from tests.controlplane.client import Client, Object
from tests.controlplane.plane import ControlPlane
from tests.sidebyside.compare import Answer, differences, explained, reasons
from tests.sidebyside.generate import generate
from tests.sidebyside.kube_side import KubeSide, settings
from tests.sidebyside.preemption import preemptions
from tests.sidebyside.profiles import DEFAULT
from tests.sidebyside.run import side_by_side

#: Seeds that are checked at every change; the command takes any.
SEED = 1


@pytest.fixture
async def kube(make_control_plane: Callable[..., ControlPlane]) -> AsyncIterator[KubeSide]:
    """A kube-scheduler that can be asked, on a control plane of its own."""
    plane = make_control_plane(**settings())
    async with Client(plane.admin_kubeconfig) as client:
        side = KubeSide(plane, client)
        await side.prepare()
        yield side
    plane.stop()


async def test_the_same_answers(kube: KubeSide) -> None:
    """Same feasible nodes, same reasons, same scores, a best node; every placement of pods and gangs is legal; and no
    plan of preemption does more harm than kube-scheduler does.
    """
    cases = amount(100, 50)
    tally = await side_by_side(kube, SEED, cases)
    assert tally.disagreements == []
    assert tally.illegal == []
    assert tally.checker == []
    assert 0.3 * cases < tally.scheduled < 0.9 * cases
    assert tally.gangs["bound"] > 0
    found = await preemptions(kube, SEED, amount(40, 20))
    assert (found.worse, found.only_theirs, found.illegal) == ([], [], [])
    assert found.preempted > amount(10, 5)


def test_a_case_is_the_same_for_ever() -> None:
    """The seed and the number of a case are enough to see it again."""
    one, other, third = (generate(seed, 3, 4, DEFAULT) for seed in (1, 1, 2))
    assert one == other
    assert one != third


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("not now: full. 0/1 nodes are available: 1 Insufficient cpu.", {"Insufficient cpu": 1}),
        ("0/3 nodes are available: 1 Insufficient cpu, 2 Too many pods.", {"Insufficient cpu": 1, "Too many pods": 2}),
        ("0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible.", {"Insufficient cpu": 1}),
        ('0/2 nodes are available: persistentvolumeclaim "c" not found.', {'persistentvolumeclaim "c" not found': 0}),
    ],
)
def test_messages_are_taken_apart(message: str, expected: dict[str, int]) -> None:
    """Node counts by reason, without what is said about preemption."""
    assert reasons(message)[1] == expected


def answer(node: str, **scores: int) -> Answer:
    """An answer with one plug-in's scores by node."""
    return Answer(node, "", {"Score": dict(scores)}, dict(scores), frozenset(scores))


@pytest.mark.parametrize(
    ("theirs", "ours", "word"),
    [
        (answer("a", a=2, b=1), answer("a", a=2, b=1), ""),
        (answer("a", a=2, b=2), answer("b", a=2, b=2), ""),
        (answer("a", a=2, b=1), answer("b", a=2, b=1), "choice"),
        (answer("a", a=2, b=1), answer("a", a=3, b=1), "score Score"),
        (answer("a", a=5, b=5), Answer("a", "", {}, {}, frozenset("ab")), ""),
        (answer("a", a=2, b=1), answer("a", a=2), "feasible"),
        (Answer("", "0/1 nodes are available: 1 X."), answer("a", a=1), "outcome"),
        (Answer("", "0/1 nodes are available: 1 X."), Answer("", "0/1 nodes are available: 1 Y."), "reasons"),
        (Answer("", "0/1 nodes are available: 1 X. preemption: no."), Answer("", "0/1 nodes are available: 1 X."), ""),
    ],
)
def test_differences_are_named(theirs: Answer, ours: Answer, word: str) -> None:
    """Outcome, reasons, feasible nodes, scores, choice; ties are no difference, nor is a score that is level."""
    found = differences(theirs, ours)
    assert [text.startswith(word) for text in found] == ([True] if word else [])


def test_only_what_is_documented_is_explained() -> None:
    """An explanation holds for the pods that it is about, and for what it can bring about."""
    plain = {"metadata": {"name": "p", "namespace": "a"}, "spec": {}}
    whole = {"metadata": {"name": "p", "namespace": "a"}, "spec": {"resources": {"requests": {"cpu": "1"}}}}
    nothing: dict[str, list[Object]] = {"PersistentVolumeClaim": [], "VolumeAttachment": []}
    assert explained(plain, nothing, "score NodeResourcesFit") is None
    assert explained(whole, nothing, "score NodeResourcesFit") is not None
    assert explained(whole, nothing, "reasons") is None


@pytest.mark.parametrize(("version", "known"), [("1.36", False), ("1.37", True)])
def test_a_resize_in_place_explains_a_score_of_1_37(monkeypatch: pytest.MonkeyPatch, version: str, known: bool) -> None:
    """Where such a pod is on each node whose score is unlike."""
    monkeypatch.setenv("GANGSCHED_KUBERNETES", version)
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    running = {"spec": {"nodeName": "n1", "containers": [{"name": "c"}]}, "status": status}
    cluster = {"Pod": [running], "PersistentVolumeClaim": [], "VolumeAttachment": []}
    plain: dict[str, Any] = {"metadata": {"namespace": "d"}, "spec": {"containers": []}}
    told = "score NodeResourcesFit (kube-scheduler, ours): "
    assert (explained(plain, cluster, told + "{'n1': (28, 27)}") is not None) is known
    assert explained(plain, cluster, told + "{'n1': (28, 27), 'n2': (1, 2)}") is None
