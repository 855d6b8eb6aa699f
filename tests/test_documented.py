"""Every command that the documentation shows is run: here, or on a real cluster; those that are not have a reason."""

from __future__ import annotations

import ast
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.documented import DOCUMENTED, Shell, not_run
from tests.pages import ROOT, text_of

MOST_NOT_RUN = 14
#: Commands that need no cluster, and a line that they print.
OFFLINE = {
    "gangsched plan -f examples/koordinator/": "1 gang: 1 preempt, 2 victims",
    "gangsched plan -f examples/devices/": "3 members can start after 1 pod is evicted",
    "gangsched simulate -f examples/devices/ --until 2m": "allocate       default/train-0-gpus",
    "gangsched plan -f examples/job/": "NEVER FITS  3 pods x 2 cpu = 6",
    "gangsched plan -f examples/job-scheduling/": "within      topology.kubernetes.io/zone=b",
    "gangsched plan -f examples/jobset/": "1 gang: 1 preempt, 1 victim",
    "gangsched plan -f examples/trainjob/": "NEVER FITS  3 pods x 3 cpu = 9",
    "gangsched plan -f examples/statefulset/": "not placed  default/web",
    "gangsched plan -f examples/owners/ --config examples/config/announced.yaml": "2 gangs: 1 bind, 1 unschedulable",
    "gangsched plan -f examples/coscheduling/ --scheduler-name scheduler-plugins-scheduler": (
        "not placed  default/wide-0  2 Insufficient cpu"
    ),
    "gangsched plan -f examples/ray/": "not placed  default/two  2 Insufficient cpu",
    "gangsched plan -f examples/kueue-pod-group/": "2 gangs: 1 bind, 1 gathering",
    "gangsched plan -f examples/volcano/ --scheduler-name volcano": "1 gang: 1 preempt, 3 victims",
    "gangsched plan -f examples/yunikorn/ --scheduler-name yunikorn": "BIND  3 members can start now",
    "gangsched plan -f examples/kai/ --scheduler-name kai-scheduler": "within      example.com/rack=a",
    "gangsched simulate -f examples/kai/ --scheduler-name kai-scheduler --until 1m": "default/serve-worker-1",
    "gangsched simulate -f examples/spark/ --config examples/config/announced.yaml --until 3m": ("spark-pi-exec-2"),
    "gangsched --help": "why-evicted",
    "gangsched simulate -f examples/workload/ --until 1m": "4 preempted",
    "gangsched config defaults": "kind: GangSchedulerConfiguration",
    "gangsched config validate examples/config/scheduler-configuration.yaml": "yaml: ok",
    "gangsched config validate examples/config/whole-cluster.yaml": "yaml: ok",
    "gangsched queues -f examples/quota-gpu/": "team-b-cq",
    "gangsched demo quota": "team-b-job",
    "gangsched simulate -f examples/quota-gpu/ --arrival file-order --until 2m": "team-a",
}
#: Commands of people who work on it, from the top of the repository.
DEVELOPING = {
    "make env": "",
    "make demo": "hp-worker-2",
    ". .venv/bin/activate": "",
    ".venv/bin/python -m tests.bench.quality_small --seed 27 --show": "",
    ".venv/bin/python -m tests.properties.bursts --first 0 --count 200": "",
}
CLONE = "git clone ADDRESS py-gang-scheduler && cd py-gang-scheduler"
WALKS = (
    "tests/e2e/test_beside_kube_scheduler.py",
    "tests/e2e/test_chart_on_a_cluster.py",
    "tests/e2e/test_first_minutes.py",
    "tests/e2e/test_moving.py",
    "tests/e2e/test_shadow.py",
    "tests/e2e/test_tenants.py",
    "tests/runtime/test_example_plugin.py",
)


def in_walks() -> set[str]:
    """The commands that readers run in their first minutes, most of them on a real control plane."""
    nodes = [node for name in WALKS for node in ast.walk(ast.parse(text_of(name)))]
    return {each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def test_every_command_is_run() -> None:
    """No page shows a command that nothing runs, and the list of reasons has none that no page shows."""
    run = {*OFFLINE, *DEVELOPING, *in_walks(), CLONE}
    missing = {command: page.name for command, page in DOCUMENTED.items() if command not in run | not_run().keys()}
    assert missing == {}
    assert sorted(not_run().keys() - DOCUMENTED.keys()) == []
    assert sorted(not_run().keys() & run) == []
    assert len(DOCUMENTED) > 40


def test_the_list_of_reasons_only_becomes_shorter() -> None:
    """Who makes a command runnable lowers the number; it is never raised."""
    assert len(not_run()) == MOST_NOT_RUN
    assert all(not_run().values())


@pytest.mark.parametrize("command", OFFLINE)
def test_commands_without_a_cluster(command: str, tmp_path: Path) -> None:
    """They end with 0 and print what their page is about."""
    assert OFFLINE[command] in Shell(tmp_path)(command)


@pytest.mark.parametrize("command", DEVELOPING)
def test_commands_for_developers(command: str, tmp_path: Path) -> None:
    """They work from the top of the repository, in the environment that `make env` makes; a few cases are enough."""
    fewer: dict[str, Any] = {"--count 200": "--count 5"}
    assert DEVELOPING[command] in Shell(tmp_path)(command, where=ROOT, seconds=120, **fewer)


def test_a_command_that_fails_is_noticed(tmp_path: Path) -> None:
    """Another exit code is a failure, and so is a command that no page has."""
    shell = Shell(tmp_path)
    with pytest.raises(AssertionError, match="no page shows"):
        shell("gangsched plan -f nowhere/")
    with pytest.raises(AssertionError, match="no such file"):
        shell("gangsched plan -f cluster.json")


def test_placeholders_are_the_readers(tmp_path: Path) -> None:
    """The first command of the README clones a repository."""
    source = tmp_path / "source"
    subprocess.run(shlex.split(f"git init --quiet {source}"), check=True)
    folder = tmp_path / "reader"
    folder.mkdir()
    Shell(folder)(CLONE, ADDRESS=str(source))
    assert (folder / "py-gang-scheduler" / ".git").is_dir()
