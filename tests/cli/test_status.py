"""What ``gangsched status`` says of a leader, by what that has published."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from gangsched.cli.status import Found, Held, gangs_by_plan
from gangsched.cluster.kube.client import ApiError, Client
from gangsched.cluster.kube.published import Published, Publisher, Status
from gangsched.core.actuation import records
from gangsched.core.actuation.records import EvictionOwner, Intent, Owners
from gangsched.core.events import Quarantined
from gangsched.model.records import Condition
from gangsched.model.times import render_time
from gangsched.runtime.running import Running
from tests.builders import pod

NOW = 1_700_000_000.0
AGES = {"pods": 3.2, "nodes": 41.0, "poddisruptionbudgets": 12.0}


def found(status: Status) -> Found:
    """What is found where a process leads that has published ``status``."""
    running = Running("ns/lease", NOW, holder="a", published=Published({}, status))
    return Found(running, [], Counter(), None, Counter(), [])


def test_the_age_of_the_caches_is_shown() -> None:
    """By resource, and how old that answer is."""
    of = found(Status(lacks=(), written=render_time(NOW - 20), cache_ages=AGES))
    assert dict(of.lines())["caches"] == "last heard of, 20s ago: nodes 41s, poddisruptionbudgets 12s, pods 3s"
    assert of.fields()["caches"] == {"ages": AGES, "stale": None}
    assert of.healthy


def test_a_leader_with_a_stale_cache_is_not_healthy() -> None:
    """The screen says that it evicts nothing, and of what it has heard nothing."""
    why = "nothing has been heard of pods for 75 s: after 60 s no pod is evicted by what was known"
    of = found(Status(lacks=(), cache_ages=AGES, stale=why))
    assert dict(of.lines())["caches"] == why
    assert of.fields()["caches"]["stale"] == why
    assert not of.healthy


@pytest.mark.parametrize("written", ["", "yesterday"])
def test_a_leader_of_an_older_version_says_nothing_of_its_caches(written: str) -> None:
    """That is not known then; a time that cannot be read is no error."""
    assert dict(found(Status(written=written)).lines())["caches"] == "not known"
    assert "? ago" in dict(found(Status(written=written, cache_ages=AGES)).lines())["caches"]


def test_what_is_quarantined_is_shown() -> None:
    """A line each: the object or gang, until when, and why."""
    why = "the scheduler failed in add (hint_index.py:20): KeyError"
    pod = Quarantined("Pod", "d", "evil", "u", 2, NOW, why)
    of = found(Status(lacks=(), quarantined=(pod, Quarantined(name="d/g", times=3, at=NOW))))
    assert [text for label, text in of.lines() if label == "left out"] == [
        f"Pod d/evil until 2023-11-14T22:14:20Z: {why}",
        "gang d/g until 2023-11-14T22:15:20Z: an earlier process ended while it was being decided",
    ]
    assert of.fields()["quarantined"][0] == {
        "object": "Pod d/evil",
        "why": why,
        "times": 2,
        "until": "2023-11-14T22:14:20Z",
    }


class Store:
    """Stands in for a client: keeps what is written, and grants all rights."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    async def attempt(self, method: str, path: str, body: bytes | None = None, **_: Any) -> bytes:
        """The answer of the server."""
        if "selfsubject" in path:
            raise ApiError(403, "Forbidden", "not in this test")
        if method == "GET":
            if not self.written:
                raise ApiError(404, "NotFound", "no")
            return msgspec.json.encode({"metadata": {"resourceVersion": "1"}})
        assert body is not None
        data = msgspec.json.decode(body)["data"]
        self.written.append(msgspec.json.decode(data["status.json"]))
        return b"{}"


def test_an_age_is_no_reason_to_write() -> None:
    """A quiet cluster costs a write every two minutes; that a cache has become stale is written at once."""
    known: dict[str, Any] = {"stale": ""}
    ages = {"pods": 1.0}
    store = Store()

    async def quiet(_: float) -> bool:
        return True

    def facts() -> Mapping[str, Any]:
        return dict(known)

    publisher = Publisher(
        cast("Client", store),
        "ns",
        (b"{}", facts, lambda: {"cacheAges": dict(ages)}),
        now=lambda: NOW,
        leading_since=lambda: NOW,
        fence=lambda: math.inf,
        quiet=quiet,
        timeout_seconds=1.0,
    )
    publisher._asked_at = math.inf  # rights are not asked about

    async def play() -> None:
        await publisher.write(NOW)
        ages["pods"] = 15.0
        await publisher.write(NOW)
        known["stale"] = "old"
        await publisher.write(NOW)

    asyncio.run(play())
    assert [(each["cacheAges"]["pods"], each["stale"]) for each in store.written] == [(1.0, ""), (15.0, "old")]


def test_real_holds_name_their_gangs_and_stale_ones_are_apart() -> None:
    """A plan is known by the members that it has nominated, or by the victims that leave for a gang that waits."""
    written = Owners.of(
        [EvictionOwner("p2", "preemption", "s", "d/job"), EvictionOwner("p3", "preemption", "s", "d/x")]
    )
    pods = [
        pod("m1").gang("g").field(intent=Condition("True", "Nominated", records.written(Intent("p1", 1, "n1")))).obj(),
        pod("m2").gang("h").field(intent=Condition("False", "Withdrawn", records.written(Intent("p4", 1)))).obj(),
        pod("v").on("n2").field(evicted_for=Condition("True", "Owned", records.written(written))).obj(),
    ]
    assert gangs_by_plan(pods, {"d/job"}) == {"p1": "d/g", "p2": "d/job"}
    held = [Held("n1", "p1.s", "d/g"), Held("n2", "p3.s", "")]
    shown = found(Status(lacks=()))._replace(held=held)
    lines = dict(shown.lines())
    assert lines["holds"] == "n1 for d/g"
    assert lines["stale holds"] == "n2: no gang waits for them; `gangsched release --yes` gives them back"
    assert [each["gang"] for each in shown.fields()["held"]] == ["d/g", None]
