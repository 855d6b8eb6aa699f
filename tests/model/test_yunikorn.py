"""Task groups of YuniKorn."""

from __future__ import annotations

import json

import msgspec
import pytest

from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.dialects import gang_from_member, needs_object, role_of
from gangsched.model.dialects.yunikorn import MAX_GROUPS, MAX_LIST
from gangsched.model.records import SINGLE

PREFIX = "yunikorn.apache.org/"
WORKERS = [{"name": "worker", "minMember": 3, "minResource": {"cpu": "1"}}, {"name": "head", "minMember": 1}]


def member(groups=WORKERS, labels=None, name="worker", **annotations):
    """A pod with this list of task groups, as text or as objects."""
    text = groups if isinstance(groups, str) else json.dumps(groups)
    notes = {f"{PREFIX}task-groups": text, f"{PREFIX}task-group-name": name, **annotations}
    labels = {f"{PREFIX}app-id": "app"} if labels is None else labels
    meta = {"name": "p", "namespace": "ns", "labels": labels, "annotations": notes}
    return Converter().pod(msgspec.convert({"metadata": meta, "spec": {"schedulerName": "yunikorn"}}, wire.Pod))


def said_by(pod):
    """What a member says about its gang."""
    found = gang_from_member(pod)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("placeholderTimeoutInSeconds=30 gangSchedulingStyle=Soft", True),
        ("gangSchedulingStyle=Hard", False),
        ("", False),
    ],
)
def test_a_gang_that_may_start_in_part_waits_and_says_so(said, told):
    """Here each is Hard; it is reported, and delays nothing."""
    remark = member(**{"yunikorn.apache.org/schedulingPolicyParameters": said}).remark
    assert (remark is not None) is told


def test_the_members_of_all_groups_start_together():
    """There is no object: each member has the whole list, and says which group it is in."""
    pod = member()
    assert pod.gang == ("yunikorn.apache.org", "ns", "app", "yunikorn")
    assert not needs_object(pod)
    found = said_by(pod)
    assert role_of(pod, found) == "worker"
    assert (found.min_member, found.roles, found.mistake) == (4, (("head", 1), ("worker", 3)), None)


@pytest.mark.parametrize(
    ("labels", "annotations", "name"),
    [
        ({"applicationId": "b"}, {}, "b"),
        ({"spark-app-selector": "c"}, {}, "c"),
        ({"applicationId": "b", "spark-app-selector": "c"}, {}, "b"),
        ({}, {f"{PREFIX}app-id": "d"}, "d"),
    ],
)
def test_the_application(labels, annotations, name):
    """The name of the gang is that of the application."""
    assert member(labels=labels, **annotations).gang.name == name


@pytest.mark.parametrize("made", [{"labels": {}}, {"groups": "", "name": ""}])
def test_a_pod_without_application_or_task_group_starts_by_itself(made):
    """It is in no gang."""
    assert member(**made).gang.family == SINGLE


def test_an_executor_starts_by_itself():
    """Executors of Spark have no list: they are members of the application that come when the driver runs."""
    found = said_by(member(""))
    assert (found.name, found.min_member, found.roles, found.announces) == ("app", 1, (), False)


def test_the_driver_of_spark_announces_the_others():
    """It starts alone, once there is room for executors as the list describes them."""
    groups = [
        {
            "name": "exec",
            "minMember": 3,
            "minResource": {"cpu": "500m", "memory": "1Gi"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
                    }
                }
            },
        },
        {"name": "head", "minMember": 1},
    ]
    found = said_by(member(groups, labels={"spark-app-selector": "s", "spark-role": "driver"}, name="head"))
    assert (found.min_member, found.roles) == (1, (("head", 1),))
    executors, head = found.announced
    assert (executors.role, executors.count, head.role, head.count) == ("exec", 3, "head", 1)
    shape = executors.shape
    assert (dict(shape.requests), shape.node_selector) == ({"cpu": 500, "memory": 1 << 30}, (("disk", "ssd"),))
    assert [t.key for t in shape.tolerations] == ["spot"]
    assert shape.node_terms is not None
    assert shape.node_terms[0].expressions[0].key == "zone"


def test_groups_that_need_no_member():
    """The gang needs one at least."""
    found = said_by(member([{"name": "worker", "minMember": 0}]))
    assert (found.min_member, found.roles) == (1, ())


@pytest.mark.parametrize(
    "groups",
    [
        "no JSON",
        "{}",
        "[]",
        "[" * 100_000,
        [{"minMember": 1}],
        [{"name": "a", "minMember": 1}] * 2,
        [{"name": "a", "minMember": -1}],
        [{"name": "a", "minMember": "1"}],
        [{"name": "a", "minMember": 600_000}, {"name": "b", "minMember": 600_000}],
        [{"name": str(n), "minMember": 1} for n in range(MAX_GROUPS + 1)],
        "[" + " " * MAX_LIST + "]",
    ],
)
def test_a_list_that_cannot_be_understood(groups):
    """The gang waits, and each member that says it is told."""
    pod = member(groups)
    assert pod.mistake is not None
    assert pod.mistake.field == f"metadata.annotations[{PREFIX}task-groups]"
    assert said_by(pod).mistake == pod.mistake
