"""Fixtures for tests on a real control plane, and its logs in the report of a test that failed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.amounts import amount
from tests.controlplane import plane
from tests.controlplane.cleanup import wipe
from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac

_numbers = itertools.count(1)
_granted: set[Path] = set()

#: Files that take 10 s and more, the longest first: when workers share the suite by files (`make test`), these come
#: first, so that the workers end together.
LONGEST_FIRST = (
    "tests/resilience/test_resilience.py",
    "tests/bench/live/test_smoke.py",
    "tests/e2e/test_hostile_tenants.py",
    "tests/beside/test_beside.py",
    "tests/e2e/test_group_api.py",
    "tests/chaos/test_chaos.py",
    "tests/controlplane/test_control_plane.py",
    "tests/sidebyside/test_side_by_side.py",
    "tests/runtime/test_run_on_a_cluster.py",
    "tests/bench/test_families.py",
    "tests/e2e/test_first_minutes.py",
    "tests/e2e/test_restart.py",
    "tests/e2e/test_jobs.py",
    "tests/cluster/kube/test_election.py",
    "tests/cluster/kube/test_writing.py",
    "tests/e2e/test_rollback.py",
    "tests/oracle/test_quality.py",
    "tests/resilience/test_mutants.py",
    "tests/properties/test_random_clusters.py",
    "tests/cluster/kube/test_reading.py",
    "tests/e2e/",
    "tests/cluster/kube/",
    "tests/controllers/test_group_status_on_a_cluster.py",
    "tests/cluster/sim/test_restart.py",
    "tests/bench/",
)

#: The schedulers of the tests in these folders are verified while they run (:mod:`tests.verify`).
VERIFIED = ("chaos", "core/quota", "core/recovery", "core/volumes", "everyday", "fuzz", "properties", "simulation")

MOST_WORKERS = 6
"""The longest file takes so much of the time of all that more would only wait for it."""


def pytest_configure() -> None:
    """No test depends on how fast it is, nor on the size of a terminal, which a worker inherits from readline, nor on
    whether the suite runs in the background of a shell, which ignores Ctrl-C for it and for all that it starts.
    """
    gc.disable()  # until all is collected, of which nearly all stays
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile(
        "at leisure", max_examples=amount(100, 50), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("at leisure")
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Commands set up logging for their process; the next test must not write to their closed streams, nor lack lines
    below their level.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in ("aiohttp", "asyncio", "kopf")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, number in levels.items():
        logging.getLogger(name).setLevel(number)
    structlog.reset_defaults()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two workers more than cores for `-n auto`: more than half of the time of all tests goes by in waiting, most of it
    for grace periods, and for the API server.
    """
    return min((os.cpu_count() or 1) + 2, MOST_WORKERS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add where the logs are, and how they end, to the report of a failed test that used a control plane."""
    report = yield
    used = "control_plane" in getattr(item, "fixturenames", ()) or item.get_closest_marker("controlplane")
    if report.failed and used:
        for each in plane.running:
            dead = f"; ended by itself: {', '.join(each.dead())}" if each.dead() else ""
            report.sections.append((f"control plane logs in {each.logs}{dead}", each.log_tails()))
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test that uses the control plane, so that `-m 'not controlplane'` leaves them all out.

    In a worker the longest files come first, and those that wait for a control plane alternate with the others.
    """
    for item in items:
        if {"control_plane", "make_control_plane"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.controlplane)
    if hasattr(config, "workerinput"):
        places = _places(sorted(items, key=lambda item: _turn(item.nodeid)))
        items.sort(key=lambda item: places[item.path])


def pytest_collection_finish() -> None:
    """What has been imported and collected stays: to walk over it again and again took a fifth of the processor time of
    tests that are no more than Python. What tests make is collected less often too, and large worlds soon enough.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)
    gc.enable()


def _turn(test: str) -> int:
    """The place of a test's file among the long ones; the others come after them, as they are."""
    return next((n for n, name in enumerate(LONGEST_FIRST) if test.startswith(name)), len(LONGEST_FIRST))


def _places(items: list[pytest.Item]) -> dict[Path, tuple[float, Path]]:
    """Where files come: those with tests on a control plane spread evenly among those without, each in their order.

    The former leave a core idle for two thirds of their time, which the latter then use.
    """
    waiting = {item.path for item in items if item.get_closest_marker("controlplane")}
    files = list(dict.fromkeys(item.path for item in items))
    kinds = [path for path in files if path in waiting], [path for path in files if path not in waiting]
    return {path: ((n + 0.5) / len(kind), path) for kind in kinds for n, path in enumerate(kind)}


@contextlib.contextmanager
def _control_planes(
    tmp_path_factory: pytest.TempPathFactory, config: pytest.Config
) -> Iterator[Callable[..., ControlPlane]]:
    """A function that starts control planes, with the options of ControlPlane, while the block lasts."""
    started: list[ControlPlane] = []
    capture = config.pluginmanager.getplugin("capturemanager")

    def report(text: str) -> None:
        with capture.global_and_fixture_disabled():  # a build takes minutes: nobody should look at nothing
            print(f"\n{text}", end="", flush=True)

    def make(**options: Any) -> ControlPlane:
        new = ControlPlane(tmp_path_factory.mktemp("control-plane"), report=report, **options)
        started.append(new)
        new.start()
        return new

    try:
        yield make
    finally:
        for each in reversed(started):
            each.stop()


@pytest.fixture(scope="module")
def make_control_plane(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Callable[..., ControlPlane]]:
    """A function that starts one more control plane, stopped after the file: one that idles until the session ends
    takes the tests' processor time, a minute of it in half an hour.
    """
    with _control_planes(tmp_path_factory, pytestconfig) as make:
        yield make


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """The control plane that tests share: controllers, KWOK, and the gang API of upstream turned on."""
    with _control_planes(tmp_path_factory, pytestconfig) as make:
        yield make()


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """A client that may do everything; afterwards the cluster is emptied."""
    async with Client(control_plane.admin_kubeconfig) as client:
        yield client
        await wipe(client, control_plane.stored)


@pytest.fixture
async def namespace(admin: Client) -> str:
    """A namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
async def crds(admin: Client) -> list[str]:
    """The CustomResourceDefinitions of manifests/, installed; their names."""
    return await apply_manifests_crds(admin)


@pytest.fixture
async def scheduler_kubeconfig(control_plane: ControlPlane, admin: Client) -> Path:
    """The kubeconfig of the scheduler's user, who has the rights of manifests/ and no others."""
    if control_plane.directory not in _granted:  # rights outlive what is wiped after each test
        await apply_manifests_rbac(admin, plane.SCHEDULER_USER)
        _granted.add(control_plane.directory)
    return control_plane.scheduler_kubeconfig


@pytest.fixture
async def scheduler_user(scheduler_kubeconfig: Path) -> AsyncIterator[Client]:
    """A client with the rights of the scheduler."""
    async with Client(scheduler_kubeconfig) as client:
        yield client


@pytest.fixture
def make_nodes(admin: Client) -> Callable[..., Awaitable[list[str]]]:
    """A function that creates simulated nodes, waits until pods may be bound to them, and returns their names."""

    async def make(
        count: int,
        *,
        cpu: int | str = 4,
        memory: str = "16Gi",
        pods: int = 110,
        prefix: str = "node",
        labels: dict[str, str] | None = None,
        taints: list[Object] | None = None,
        extra: dict[str, int | str] | None = None,
    ) -> list[str]:
        names = [f"{prefix}-{number}" for number in range(count)]
        room = {"cpu": str(cpu), "memory": memory, "pods": str(pods)}
        room |= {name: str(value) for name, value in (extra or {}).items()}
        status = {"capacity": room, "allocatable": room}
        spec = {"taints": taints} if taints else {}

        async def create(name: str) -> None:
            metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}
            await admin.create(node)

        await asyncio.gather(*(create(name) for name in names))

        async def ready() -> bool:
            nodes = {node["metadata"]["name"]: node for node in await admin.list("Node")}
            return all(is_ready(nodes[name]) for name in names)

        await wait_until(ready, timeout=60.0, what=f"{count} nodes are Ready and untainted")
        return names

    return make


def is_ready(node: Object) -> bool:
    """Whether a node is Ready and free of the taints that say otherwise."""
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    taints = {each["key"] for each in node["spec"].get("taints", [])}
    return conditions.get("Ready") == "True" and not any(key.startswith("node.kubernetes.io/") for key in taints)


@pytest.fixture(autouse=True)
def verified(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What schedulers keep incrementally is compared with the same from scratch, if the test is in such a folder."""
    folder = request.path.parent.relative_to(Path(__file__).parent).as_posix()
    if folder.startswith(VERIFIED):
        from tests.verify import verify_all

        verify_all(monkeypatch)
