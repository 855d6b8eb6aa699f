"""Effective requests of pods."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.errors import FieldError
from gangsched.model.shapes import DEFAULT_SCORED, frozen, pod_requests, total


def spec(**raw):
    """A pod spec from API fields."""
    return msgspec.convert(raw, wire.PodSpec)


def container(cpu=None, **more):
    """A container that asks for this much cpu."""
    return {"resources": {"requests": {"cpu": cpu}} if cpu is not None else {}, **more}


def test_containers_are_added_up():
    """Containers run side by side."""
    assert pod_requests(spec(containers=[container("1"), container("500m")]))[0] == {"cpu": 1500}


def test_a_limit_without_request_is_the_request():
    """The API server fills the request from the limit, per resource."""
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1k"}}
    assert pod_requests(spec(containers=[{"resources": resources}]))[0] == {"cpu": 1000, "memory": 1000}


def test_the_larger_of_init_and_running_phase_counts():
    """Init containers run one after another before the others, so the largest of them counts."""
    init = [container("3"), container("2")]
    assert pod_requests(spec(initContainers=init, containers=[container("1")]))[0] == {"cpu": 3000}
    assert pod_requests(spec(initContainers=init, containers=[container("4")]))[0] == {"cpu": 4000}


def test_sidecars_count_for_later_init_containers_and_while_running():
    """A restartable init container runs beside those after it, not beside those before it."""
    sidecar = container("1", restartPolicy="Always")
    before = spec(initContainers=[container("5"), sidecar], containers=[container("1")])
    after = spec(initContainers=[sidecar, container("5")], containers=[container("1")])
    running = spec(initContainers=[sidecar], containers=[container("2")])
    assert pod_requests(before)[0] == {"cpu": 5000}
    assert pod_requests(after)[0] == {"cpu": 6000}
    assert pod_requests(running)[0] == {"cpu": 3000}


def test_overhead_comes_on_top():
    """The runtime's overhead is added to whichever phase is larger."""
    assert pod_requests(spec(containers=[container("1")], overhead={"cpu": "250m"}))[0] == {"cpu": 1250}


def test_pod_level_requests_replace_the_sum():
    """A pod-level request counts instead of the containers', for cpu, memory and huge pages only."""
    whole = {"requests": {"cpu": "3", "example.com/dongle": 7}}
    requests, scored = pod_requests(spec(containers=[container("1"), container("1")], resources=whole))
    assert requests == {"cpu": 3000}
    assert scored["cpu"] == 3000


def test_a_pod_level_limit_counts_only_where_nobody_asks():
    """A pod-level limit becomes the request only of a resource that no container requests."""
    limits = {"limits": {"cpu": "8", "memory": "1k"}}
    assert pod_requests(spec(containers=[container("1")], resources=limits))[0] == {"cpu": 1000, "memory": 1000}


def status(**raw):
    """A pod status from API fields."""
    return msgspec.convert(raw, wire.PodStatus)


def granted(in_force, allocated=None, **more):
    """What the kubelet reports for container a."""
    report = {"name": "a", "resources": {"requests": in_force}, "allocatedResources": allocated}
    return status(containerStatuses=[report], **more)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (granted({"cpu": "3"}), 3000),
        (granted({"cpu": "500m"}), 1000),
        (granted({"cpu": "500m"}, {"cpu": "4"}), 4000),
        (status(containerStatuses=[{"name": "a", "allocatedResources": {"cpu": "4"}}]), 1000),
        (status(containerStatuses=[{"name": "b", "resources": {"requests": {"cpu": "4"}}}]), 1000),
    ],
)
def test_a_resize_in_progress_counts_the_largest_amount(reported, expected):
    """Until the kubelet has finished an in-place resize, the largest of wish, grant and what is in force counts."""
    assert pod_requests(spec(containers=[container("1", name="a")]), reported)[0] == {"cpu": expected}


def test_an_infeasible_resize_is_not_counted():
    """Once the kubelet has said that it will never do it, only what the container has counts."""
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    grows = spec(containers=[container("8", name="a")])
    assert pod_requests(grows, granted({"cpu": "1"}, {"cpu": "2"}, conditions=[pending]))[0] == {"cpu": 2000}
    deferred = {**pending, "reason": "Deferred"}
    assert pod_requests(grows, granted({"cpu": "1"}, conditions=[deferred]))[0] == {"cpu": 8000}


def test_a_sidecar_can_be_resized_and_an_init_container_cannot():
    """The status of init containers counts for those that keep running."""
    report = status(initContainerStatuses=[{"name": "s", "resources": {"requests": {"cpu": "3"}}}])
    sidecar = spec(initContainers=[container("1", name="s", restartPolicy="Always")], containers=[container("1")])
    once = spec(initContainers=[container("1", name="s")], containers=[container("1")])
    assert pod_requests(sidecar, report)[0] == {"cpu": 4000}
    assert pod_requests(once, report)[0] == {"cpu": 1000}


def test_the_pod_as_a_whole_can_be_resized():
    """Pod-level requests follow the same rule, for the resources that they name."""
    whole = spec(containers=[container("1")], resources={"requests": {"cpu": "2"}})
    report = status(resources={"requests": {"cpu": "3", "memory": "1k"}}, allocatedResources={"cpu": "5"})
    assert pod_requests(whole, report)[0] == {"cpu": 5000}


def test_pod_level_requests_leave_no_room_for_assumptions():
    """Scoring assumes something only of a resource that neither the pod nor any of its containers asks for."""
    asks = spec(containers=[container("1"), container()], resources={"requests": {"memory": "1k"}})
    assert pod_requests(asks)[1] == {"cpu": 1000, "memory": 1000}
    cpu_only = spec(containers=[container("1"), container()], resources={"requests": {"cpu": "3"}})
    assert pod_requests(cpu_only)[1] == {"cpu": 3000, "memory": 2 * DEFAULT_SCORED["memory"]}


def test_an_explicit_zero_is_a_request():
    """Scoring assumes nothing for a container that asks for zero."""
    assert pod_requests(spec(containers=[container("0")]))[1]["cpu"] == 0


def test_scoring_assumes_something_for_pods_that_ask_for_nothing():
    """Requests stay empty, what scoring sees does not."""
    assert pod_requests(spec(containers=[container()])) == ({}, DEFAULT_SCORED)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"containers": [container("1"), container("x")]}, "spec.containers[1].resources.requests.cpu"),
        ({"initContainers": [container("x")]}, "spec.initContainers[0].resources.requests.cpu"),
        ({"containers": [{"resources": {"limits": {"memory": "x"}}}]}, "spec.containers[0].resources.limits.memory"),
        ({"overhead": {"cpu": "x"}}, "spec.overhead.cpu"),
        ({"resources": {"requests": {"cpu": "x"}}}, "spec.resources.requests.cpu"),
    ],
)
def test_a_wrong_quantity_is_named_by_its_path(raw, field):
    """The error says where in the object the wrong quantity is."""
    with pytest.raises(FieldError) as caught:
        pod_requests(spec(**raw))
    assert caught.value.field == field


def test_frozen_and_total():
    """Frozen lists are ordered and without zeros; their total adds per resource."""
    assert frozen({"memory": 1, "cpu": 2, "x": 0}) == (("cpu", 2), ("memory", 1))
    assert total([(("cpu", 1),), (("cpu", 2), ("gpu", 1))]) == {"cpu": 3, "gpu": 1}
