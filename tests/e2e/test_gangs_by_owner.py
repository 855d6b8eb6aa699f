"""A Job that is a gang by its annotation, with the real Job controller."""

from __future__ import annotations

import pytest

from tests.controlplane.client import Client, load
from tests.e2e.jobs import CLUSTER, job, template
from tests.e2e.stories import Start, nodes_ready, running

pytestmark = pytest.mark.controlplane


def pair(name: str, *, gang: bool) -> dict[str, object]:
    """A Job of two pods, of which each needs a node of its own."""
    made = job(name, parallelism=2, completions=2, completionMode="Indexed", template=template("3"))
    if gang:
        made["metadata"]["annotations"] = {"gangsched.dev/gang": "true"}
    return made


async def test_it_starts_whole_or_not_at_all(admin: Client, start_scheduler: Start) -> None:
    """One node is free: the Job with the annotation waits, the one without takes that node, and when both nodes are
    free the gang starts.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    blocker = {"apiVersion": "v1", "kind": "Pod", **template("3")}
    blocker["metadata"] |= {"name": "blocker", "namespace": "default"}
    async with start_scheduler(), admin.record("Pod") as recorder:
        await admin.apply(blocker)
        await running(admin, ["blocker"])
        await admin.apply(pair("whole", gang=True))
        await admin.wait_for("Job", "whole", lambda j: j.get("status", {}).get("active", 0) == 2, timeout=60)
        await admin.apply(pair("loose", gang=False))
        await admin.wait_for("Job", "loose", lambda j: j.get("status", {}).get("ready", 0) == 1, timeout=60)
        waiting = [p for p in await admin.list("Pod") if p["metadata"]["name"].startswith("whole-")]
        await admin.delete("Job", "loose")
        await admin.delete("Pod", "blocker")
        await admin.wait_for("Job", "whole", lambda j: j.get("status", {}).get("ready", 0) == 2, timeout=60)
    assert len(waiting) == 2
    assert [p["spec"].get("nodeName") for p in waiting] == [None, None]
    assert {c.name.rpartition("-")[0] for c in recorder.changes if c.name.startswith("whole")} == {"whole-0", "whole-1"}
