import pytest

from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim.arrival import InvalidHintError, arrivals
from gangsched.core.events import Changed, record_of
from gangsched.model.jobsets import JobSet
from gangsched.model.records import Gang, Job, Owner, Pod
from gangsched.model.times import duration_seconds
from tests.cluster.sim.objects import FAMILY, event, gang, node, pod, pods_in

AFTER = "sim.gangsched.dev/arrive-after"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("2m", 120.0), ("1m30s", 90.0), ("1h", 3600.0), ("500ms", 0.5), ("1.5s", 1.5), ("0s", 0.0)],
)
def test_durations(text, seconds):
    """Durations are written as Kubernetes writes them."""
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "5x", "-5s", "5 s", "1s2", "9" * 60 + "s"])
def test_what_is_no_duration(text):
    """Anything else is none."""
    assert duration_seconds(text) is None


def times(*records, **options):
    """Arrival seconds by name of the object."""
    events = [event(r) for r in records]
    found = ((record_of(a.event), a.after_seconds) for a in arrivals(events, **options))
    return {record.name: seconds for record, seconds in found if isinstance(record, Pod | Gang)}


def test_a_pods_own_annotation_counts_most():
    """Own annotation, else the group object's, else the start."""
    hints = {(FAMILY, "ns", "g"): {AFTER: "20s"}}
    records = [gang("g", 2), pod("a", gang="g", hints={AFTER: "5s"}), pod("b", gang="g"), pod("c")]
    assert times(*records, group_hints=hints) == {"g": 20.0, "a": 5.0, "b": 20.0, "c": 0.0}


def test_a_group_object_comes_with_its_first_member():
    """A group without an annotation arrives when the first of its members does, and before it."""
    events = [
        event(r)
        for r in (pod("a", gang="g", hints={AFTER: "5s"}), gang("g", 1), pod("b", gang="g", hints={AFTER: "9s"}))
    ]
    found = arrivals(events)
    assert [(a.after_seconds, type(record_of(a.event))) for a in found] == [(5.0, Gang), (5.0, Pod), (9.0, Pod)]


def test_bound_pods_are_there_from_the_start():
    """A pod that is bound has arrived, whatever its annotation says."""
    assert times(pod("a", node="n1", hints={AFTER: "5s"})) == {"a": 0.0}


def test_file_order():
    """Pending gangs come one second apart in the order of the input; annotated and bound pods do not take part."""
    records = [
        pod("a", gang="x"),
        pod("b"),
        pod("bound", node="n1"),
        pod("c", gang="x"),
        pod("d", hints={AFTER: "9s"}),
        pod("e"),
    ]
    assert times(*records, file_order=True) == {"a": 0.0, "b": 1.0, "bound": 0.0, "c": 0.0, "d": 9.0, "e": 2.0}


@pytest.mark.parametrize("key", ["arrive-after", "run-for", "grace-used"])
def test_a_wrong_annotation_names_its_pod(key):
    """A value that is no duration is the user's error, found before anything runs."""
    events = [event(node()), event(pod("a", node="n1", hints={f"sim.gangsched.dev/{key}": "soon"}))]
    with pytest.raises(InvalidHintError, match=r"Pod ns/a: .*'soon' is not a duration") as caught:
        arrivals(events)
    assert caught.value.position == 1
    assert key in caught.value.field


def test_what_arrives_later_is_created_then():
    """A pod that arrives has the moment of its arrival as creation time."""
    there = World(arrivals([event(pod("a", hints={AFTER: "5s"}))]), start=1000.0)
    assert there.store.pods == {}
    there.clock.advance_to(1005.0)
    assert there.store.pods["ns", "a"].created == 1005.0


def test_jobs_and_jobsets_come_with_the_first_of_their_pods():
    """A Job is created in the moment in which the first of its pods is, and its JobSet with it."""
    job = Job("ns", "work", uid="u1", owner=Owner("JobSet", "set", "u2"))
    pods = [
        pod(name, hints={AFTER: after}, owner=Owner("Job", "work", "u1")) for name, after in (("b", "9s"), ("a", "5s"))
    ]
    events = [Changed(JobSet("ns", "set", uid="u2")), event(job), *map(event, pods)]
    there = World(arrivals(events), start=1000.0)
    assert (there.store.job("ns", "work"), there.store.jobset("ns", "set")) == (None, None)
    there.clock.advance_to(1005.0)
    made = there.store.job("ns", "work"), there.store.jobset("ns", "set")
    assert [each and each.created for each in made] == [1005.0, 1005.0]


def test_a_connection_tells_of_what_arrives():
    """The wait ends when the pod is there and the watch has had its time."""
    world = World(arrivals([event(node()), event(pod("a", hints={AFTER: "5s"}))]))
    cluster = SimCluster(world, until_seconds=60.0)
    cluster.poll()
    now, events = cluster.wait(None)
    assert now == 5.0 + cluster.world.timing.watch_seconds
    assert [p.name for p in pods_in(events)] == ["a"]
