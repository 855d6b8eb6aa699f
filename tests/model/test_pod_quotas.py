"""ResourceQuotas with a scope of priority classes, as the API writes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.model.pod_quotas import RawResourceQuota, resource_quota
from tests.builders import pod


def refuses(name: str, spec: dict[str, Any], used: dict[str, str] | None = None) -> bool:
    """Return whether it refuses two pods of this class, of 2 cores, 1 GiB and a GPU each."""
    body = {"metadata": {"namespace": "d", "name": "q"}, "spec": spec, "status": {"used": used or {}}}
    found = resource_quota(msgspec.json.decode(msgspec.json.encode(body), type=RawResourceQuota))
    return found.refuses([(name, pod("p").cpu(2).memory(1).gpu(1).obj(), 2)])


def of(operator: str, *values: str) -> dict[str, Any]:
    """A scope selector for classes."""
    return {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "name", "found"),
    [
        (of("In", "top", "high"), "top", True),
        (of("In", "top"), "low", False),
        (of("NotIn", "low"), "top", True),
        (of("NotIn", "low"), "low", False),
        (of("Exists"), "low", True),
        (of("Exists"), "", False),
        (of("DoesNotExist"), "", True),
        (of("DoesNotExist"), "top", False),
    ],
)
def test_the_scope_says_which_pods_count(selector: dict[str, Any], name: str, found: bool) -> None:
    """By the name of their class."""
    assert refuses(name, {"hard": {"pods": "0"}, "scopeSelector": selector}) == found


def test_the_short_form_of_the_scope() -> None:
    """``scopes: [PriorityClass]`` is Exists."""
    assert refuses("top", {"hard": {"pods": "1"}, "scopes": ["PriorityClass"]})
    assert not refuses("", {"hard": {"pods": "1"}, "scopes": ["PriorityClass"]})


def test_a_quota_without_such_a_scope_is_left_to_the_api_server() -> None:
    """It says nothing of priorities."""
    assert not refuses("top", {"hard": {"pods": "0"}})
    assert not refuses("top", {"hard": {"pods": "0"}, "scopes": ["NotTerminating"]})


@pytest.mark.parametrize(
    ("hard", "used", "found"),
    [
        ({"pods": "2"}, {}, False),
        ({"pods": "2"}, {"pods": "1"}, True),
        ({"count/pods": "1"}, {}, True),
        ({"cpu": "4"}, {}, False),
        ({"cpu": "4"}, {"cpu": "500m"}, True),
        ({"requests.memory": "2Gi"}, {}, False),
        ({"requests.memory": "1Gi"}, {}, True),
        ({"requests.nvidia.com/gpu": "1"}, {}, True),
        ({"limits.cpu": "0", "secrets": "0"}, {}, False),  # not what pods request
        ({"pods": "9e30"}, {}, False),
    ],
)
def test_what_is_left_must_do_for_all_pods(hard: dict[str, str], used: dict[str, str], found: bool) -> None:
    """Each resource that pods request, and the pods themselves."""
    assert refuses("top", {"hard": hard, "scopeSelector": of("In", "top")}, used) == found
