"""A rolling update, and the way back, in the middle of a preemption: two builds on a real API server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.controlplane import plane
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.handover import MEMBERS, VICTIMS, ended, of, plans, removals, start, uids, victims
from tests.e2e.scheduler import RunningScheduler, running_scheduler
from tests.e2e.stories import condition, is_marked
from tests.faulty_proxy import FaultyProxy

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).resolve().parents[2]
#: A commit or tag of which the other build is made; without it the other build is this tree under another version.
BEFORE = os.environ.get("GANGSCHED_BEFORE")
OTHER_VERSION = "0.0.1"
VERSION = re.compile(r'^__version__ = "[^"]+"$', re.MULTILINE)
IN_TIME = 120.0


@pytest.fixture
def other_build(tmp_path: Path) -> Path:
    """A folder with the package of the other build."""
    folder = tmp_path / "other"
    folder.mkdir()
    if BEFORE:
        packed = subprocess.run(
            ["git", "archive", "--format=tar", BEFORE, "gangsched"], cwd=ROOT, capture_output=True, check=True
        )
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
    else:
        shutil.copytree(ROOT / "gangsched", folder / "gangsched")  # compiled modules too
    init = folder / "gangsched" / "__init__.py"
    init.write_text(VERSION.sub(f'__version__ = "{OTHER_VERSION}"', init.read_text()))
    return folder


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultyProxy]:
    """What both speak through: here a removal can be kept from arriving."""
    with FaultyProxy(control_plane.server, control_plane.ca_file) as between:
        yield between


async def leads(scheduler: RunningScheduler) -> bool:
    """Whether this replica may write."""
    return "\ngangsched_leader 1.0" in await scheduler.metrics()


@pytest.mark.parametrize("way", ["upgrade", "rollback"])
async def test_a_plan_under_way_survives_another_build(
    admin: Client,
    crds: list[str],
    control_plane: ControlPlane,
    scheduler_kubeconfig: Path,
    proxy: FaultyProxy,
    other_build: Path,
    tmp_path: Path,
    way: str,
) -> None:
    """The first build nominates, marks both victims and removes one. The second one comes up beside it, the first is
    stopped, and the second finishes the same plan: the other victim leaves, no other pod does, the gang is bound.
    """
    first, second = (other_build, None) if way == "upgrade" else (None, other_build)
    kubeconfig = control_plane.kubeconfig(plane.SCHEDULER_USER, proxy.url)
    late = await start(admin)
    before = await uids(admin)
    proxy.fail(removals("lp-pod-2"))
    async with admin.record("Pod") as recorder:
        async with running_scheduler(kubeconfig, tmp_path, tree=first) as old:
            assert (f'version="{OTHER_VERSION}"' in await old.metrics()) is (first is other_build)
            await wait_until(lambda: leads(old), IN_TIME, what="the first build leads")
            await admin.apply(late)
            await recorder.wait(of("lp-pod-1", ended), IN_TIME)
            async with running_scheduler(kubeconfig, tmp_path, tree=second) as new:
                assert (f'version="{OTHER_VERSION}"' in await new.metrics()) is (second is other_build)
                assert not await leads(new)
                assert await old.stop() == 0
                await wait_until(lambda: leads(new), IN_TIME, what="the second build leads")
                assert victims(recorder.changes, ended) == ["lp-pod-1"]
                proxy.heal()
                for name in MEMBERS:
                    await admin.wait_for("Pod", name, lambda p: p["status"].get("phase") == "Running", timeout=IN_TIME)
        changes = list(recorder.changes)
    assert victims(changes, is_marked) == victims(changes, ended) == VICTIMS
    after = await uids(admin)
    assert before.keys() - after.keys() <= set(VICTIMS)
    assert all(after[name] == uid for name, uid in before.items() if name in after)
    assert {each.name for each in changes} == {*MEMBERS, *VICTIMS}
    assert not condition(await admin.get("Pod", "bystander-node-1"), "DisruptionTarget")
    assert len(plans(changes)) == 1
