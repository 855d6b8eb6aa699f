"""The volume index, kept step by step, is what its objects make it; so is what a simulation adds to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.framework.pipeline import pipeline_of
from gangsched.core.state.simulation import Simulation
from gangsched.core.volumes.index import Target, VolumeIndex
from gangsched.model.records import Pod
from gangsched.model.volumes import ClaimKey, CSIDriver, CSINode, StorageObject, VolumeAttachment
from tests.builders import LATER, MADE, bound_claim, claim, pod, reserved, volume
from tests.core.harness import Built, world
from tests.core.volumes.worlds import (
    DRIVER,
    LIMITS,
    NODES,
    csi,
)


def index_of(
    objects: Iterable[StorageObject], assumed: Mapping[ClaimKey, Target], pods: Iterable[tuple[Pod, str]]
) -> VolumeIndex:
    """An index built at once."""
    index = VolumeIndex()
    for record in objects:
        index.put(record)
    for key, target in assumed.items():
        index.assume(key, target)
    for one, where in pods:
        index.use(one, where)
    return index


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 2)), max_size=40))
def test_the_index_is_what_its_objects_make_it(steps: list[tuple[int, int, int]]) -> None:
    """In whatever order things come and go, attachments are those of an index built from what is there."""
    index = VolumeIndex()
    pods: dict[str, tuple[Pod, str]] = {}
    objects: dict[tuple[str, str], StorageObject] = {}

    def put_or_drop(record: StorageObject) -> None:
        kind = type(record).__name__
        if (kind, record.name) in objects and objects[kind, record.name] == record:
            del objects[kind, record.name]
            index.remove(kind, getattr(record, "namespace", ""), record.name)
        else:
            objects[kind, record.name] = record
            index.put(record)

    for what, i, j in steps:
        if what == 0:
            one = pod(f"p{i}").claims(f"c{j}").obj()
            if one.uid not in pods:
                pods[one.uid] = (one, f"n{j}")
                index.use(one, f"n{j}")
        elif what == 1:
            found = pods.pop(f"uid-d-p{i}", None)
            if found is not None:
                index.leave(*found)
        elif what == 8:
            if f"v{j}" not in index.taken:  # no two claims are promised the same volume
                index.forget(("d", f"c{i}"))
                index.assume(("d", f"c{i}"), Target(f"v{j}", "n0"))
        elif what == 9:
            index.forget(("d", f"c{i}"))
        else:
            records: list[StorageObject] = [
                claim(f"c{i}", "made"),
                bound_claim(f"c{i}", f"v{j}", storage_class="made"),
                csi(f"v{i}"),
                volume(f"v{i}"),
                MADE,
                VolumeAttachment(f"a{i}", f"n{j}", DRIVER, f"v{i}"),
            ]
            put_or_drop(records[what - 2])
    again = index_of(objects.values(), index.assumed, pods.values())
    assert index.attachments.nodes_of == again.attachments.nodes_of
    assert index.users == again.users


def test_a_volume_that_goes_before_its_claim_is_bound_leaves_no_trace() -> None:
    """One pod was counted while the promised volume was there, the other when a new one had to be made."""
    index = VolumeIndex()
    for record in (MADE, claim("c", "made"), volume("v")):
        index.put(record)
    index.assume(("d", "c"), Target("v", "n1"))
    one, other = (pod(name).claims("c").obj() for name in ("one", "other"))
    index.use(one, "n1")
    index.remove("PersistentVolume", "", "v")
    index.use(other, "n2")
    assert {tuple(nodes) for nodes in index.attachments.nodes_of.values()} == {("n1", "n2")}
    index.leave(one, "n1")
    index.leave(other, "n2")
    assert index.attachments.nodes_of == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=8))
def test_placing_and_taking_back_leaves_volumes_as_they_were(steps: list[tuple[int, int]]) -> None:
    """Masks after a rollback are those from before, whatever was placed."""
    claims = [claim(f"c{i}", "made" if i % 2 else "later") for i in range(4)]
    objects: list[Built] = [*NODES, LATER, MADE, *claims, volume("v1", "n1"), volume("v2"), *LIMITS]
    sim = Simulation(world(*objects).world.snapshot)
    pipeline = pipeline_of()
    classes = [sim.snapshot.class_of(pod(f"p{i}").claims(f"c{i}").obj()) for i in range(4)]
    before = [pipeline.mask(c, sim) for c in classes]
    mark = sim.mark()
    for which, row in steps:
        if pipeline.mask(classes[which], sim)[row]:
            sim.place(classes[which], row)
    sim.rollback(mark)
    assert all(np.array_equal(b, pipeline.mask(c, sim)) for b, c in zip(before, classes, strict=True))
    assert sim.volumes.taken == {}
    assert sim.volumes.targets == {}


@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 3), st.integers(0, 2))), max_size=10))
def test_free_volumes_kept_count_by_count_are_those_counted_anew(steps: list[tuple[int, int] | None]) -> None:
    """Whatever was placed and taken back (None), as many volumes are left for each claim as a new count finds."""
    claims = [claim(f"c{i}", gib=1 + i % 2) for i in range(4)]
    volumes = [volume("v1", "n1"), volume("v2", "n1", "n2", gib=2), volume("v3", gib=3), reserved("v4", "c3")]
    sim = Simulation(world(*NODES, LATER, *claims, *volumes).world.snapshot)
    pipeline = pipeline_of()
    classes = [sim.snapshot.class_of(pod(f"p{i}").claims(f"c{i}").obj()) for i in range(4)]
    marks: list[int] = []
    for step in steps:
        if step is None:
            sim.rollback(marks.pop() if marks else 0)
        elif pipeline.mask(classes[step[0]], sim)[step[1]]:
            marks.append(sim.mark())
            sim.place(classes[step[0]], step[1])
        taken = {**sim.volumes.index.taken, **sim.volumes.taken}
        for each in map(sim.volumes.choices.candidates, claims):
            assert np.array_equal(sim.volumes._free_of(each), each.free(taken))


def test_what_is_news() -> None:
    """A new version alone, or another attachment, wakes nobody."""
    index = VolumeIndex()
    objects: list[StorageObject] = [claim("c"), volume("v"), MADE, CSIDriver(DRIVER), CSINode("n1", ((DRIVER, 1),))]
    assert [index.put(record) for record in objects] == [True] * 5
    assert [index.put(record) for record in objects] == [False] * 5
    assert not index.put(volume("v", version="9"))
    assert index.volumes["v"].version == "9"
    assert index.put(volume("v", phase="Released"))
    assert index.put(CSINode("n1", ((DRIVER, 2),)))
    assert not index.put(VolumeAttachment("a", "n1", DRIVER, "v"))
