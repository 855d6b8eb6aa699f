"""Who leads, as a command finds it, and with which configuration it answers."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from gangsched.cluster.kinds import SERVED_KINDS
from gangsched.cluster.kube.client import ApiError, Client
from gangsched.cluster.kube.rights import WRITES, missing_in, unreadable
from gangsched.model.times import parse_time, render_time
from gangsched.runtime import config, running
from gangsched.runtime.settings import Configuration

NOW = parse_time("2026-01-02T12:00:00Z", "now")
LEASE = "gangsched-system/py-gang-scheduler"
FILE = {"apiVersion": "gangsched.dev/v1alpha1", "kind": "GangSchedulerConfiguration"}


class Answers:
    """Stands in for a client: answers by the end of the path, 404 where there is nothing."""

    def __init__(self, **found: object) -> None:
        self._found = found

    async def get(self, path: str) -> bytes:
        found = self._found.get("lease" if "/leases/" in path else "map", 404)
        if isinstance(found, int):
            raise ApiError(found, "NotFound" if found == 404 else "Forbidden", "no")
        return msgspec.json.encode(found)

    def seconds_ahead(self, now: float) -> float:
        return NOW - now


def lease(holder: str, renewed: str) -> object:
    """A Lease of 15 s."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed, "acquireTime": renewed}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}, "spec": spec}


def published(status: object, configuration: object) -> object:
    """What a leader has published."""
    texts = {"status.json": status, "configuration.json": configuration}
    data = {key: msgspec.json.encode(text).decode() for key, text in texts.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}


async def look(**found: object) -> running.Running:
    """What is found."""
    return await running.find_running(Answers(**found), Configuration())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("held", "alarm", "leader"),
    [
        (lease("a", "2026-01-02T11:59:55Z"), "", "a leads since 11:59:55Z"),
        (
            lease("a", "2026-01-02T09:12:00Z"),
            "NO SCHEDULER IS LEADING since 09:12:00Z (a led before)",
            "",
        ),
        (lease("", "2026-01-01T23:12:00Z"), "NO SCHEDULER IS LEADING since 2026-01-01 23:12:00Z", ""),
        (404, f"NO SCHEDULER IS LEADING: there is no Lease {LEASE}", ""),
        (
            403,
            "",
            "it is not known whether a scheduler leads: you may not get Lease gangsched-system/py-gang-scheduler",
        ),
    ],
)
async def test_who_leads(held: object, alarm: str, leader: str) -> None:
    """A Lease that is renewed has a leader; one that is released, overdue or missing has none; one that may not be read
    says nothing.
    """
    found = await look(lease=held)
    assert (found.alarm, found.leader) == (alarm, leader or alarm)


async def test_the_configuration_of_the_leader_is_used() -> None:
    """What is published counts, with the connection of the command itself."""
    theirs = {**FILE, "preemption": {"pdb": "strict"}, "clientConnection": {"qps": 7}}
    found = await look(map=published({"leader": "a"}, theirs), lease=lease("a", render_time(NOW)))
    own = msgspec.structs.replace(
        Configuration(), client_connection=msgspec.structs.replace(Configuration().client_connection, context="mine")
    )
    used = running.merged(found, own)
    assert used.core_options().strict_budgets
    assert used.client_connection.context == "mine"
    assert found.whose == "configuration of gangsched-system/gangsched-status"


@pytest.mark.parametrize(("status", "why"), [(404, "there is no ConfigMap"), (403, "you may not get ConfigMap")])
async def test_defaults_are_said_to_be_defaults(status: int, why: str) -> None:
    """Where nothing is published, or may not be read, the answer says that it is for the built-in defaults."""
    found = await look(map=status)
    assert found.whose.startswith("BUILT-IN DEFAULTS")
    assert f"({why} gangsched-system/gangsched-status)" in found.whose


async def test_a_process_without_election_leads_while_it_publishes() -> None:
    """Without a Lease its last sign of life counts."""
    theirs = {**FILE, "leaderElection": {"leaderElect": False}}
    for written, leads in ((NOW - 100, True), (NOW - 1000, False)):
        said = {"leader": "a", "since": render_time(NOW - 5000), "written": render_time(written)}
        found = await look(map=published(said, theirs))
        assert bool(found.holder) is leads
        assert bool(found.alarm) is not leads


def test_settings_that_are_not_known_are_left_out() -> None:
    """A leader of another version, or with plug-ins that are not here, is understood but for those."""
    theirs = {
        **FILE,
        "preemption": {"pdb": "strict", "novelty": 1},
        "profiles": [{"schedulerName": "ours", "plugins": {"filter": {"enabled": [{"name": "NightRack"}]}}}],
    }
    found, left_out = config.understood(theirs)
    assert found.preemption.pdb == "strict"
    assert [profile.scheduler_name for profile in found.profiles] == ["ours"]
    assert "preemption.novelty" in left_out
    assert "profiles[0].plugins.filter.enabled[0].name" in left_out


def test_rights_that_are_missing_are_named() -> None:
    """A rule gives a right by name or by wildcard, never for single objects only; an answer that is not complete names
    nothing.
    """

    def review(*rules: object, incomplete: bool = False) -> bytes:
        return msgspec.json.encode({"status": {"incomplete": incomplete, "resourceRules": rules}})

    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert missing_in(review(everything)) == ()
    assert missing_in(review({**everything, "resourceNames": ["one"]}, incomplete=True)) is None
    rules = [{"verbs": [v], "apiGroups": [g], "resources": [r]} for g, r, v in WRITES if (g, r) != ("batch", "jobs")]
    assert missing_in(review(*rules)) == ("patch jobs.batch",)


@pytest.mark.parametrize(("incomplete", "forbidden"), [(False, {"jobsets.jobset.x-k8s.io"}), (True, set())])
async def test_what_may_not_be_read_is_known(incomplete: bool, forbidden: set[str]) -> None:
    """A kind must be listed and watched; an answer that is not complete forbids nothing."""
    rules = [
        {"verbs": ["list", "watch"], "apiGroups": ["ray.io"], "resources": ["*"]},
        {"verbs": ["list"], "apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"]},
    ]

    class Server:
        """Answers with these rules."""

        async def attempt(self, *_: object, **__: object) -> bytes:
            return msgspec.json.encode({"status": {"incomplete": incomplete, "resourceRules": rules}})

    kinds = [kind for kind in SERVED_KINDS if kind.group in ("ray.io", "jobset.x-k8s.io")]
    assert len(kinds) == 3
    assert await unreadable(cast("Client", Server()), kinds, 1.0) == forbidden
