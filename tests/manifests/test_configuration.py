"""The configuration that is installed, and the example that documents every setting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gangsched.runtime import config, settings
from tests.manifests.shipped import (
    EXAMPLES,
    SCHEDULER_NAME,
    configuration,
    container,
    installed,
    load_all,
    one,
    pod_spec,
    rights,
    seconds,
)


def example_configuration() -> Path:
    """The configuration file that documents every setting."""
    return EXAMPLES / "config" / "scheduler-configuration.yaml"


def leaves(document: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of each scalar and each empty list in a document."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from leaves(value, f"{path}.{key}" if path else key)
    elif isinstance(document, (list, tuple)) and document:
        for value in document:
            yield from leaves(value, f"{path}[]")
    else:
        yield path, document


def test_configuration_file_is_where_the_command_looks_for_it() -> None:
    """The path in --config is a key of the ConfigMap below the mount of its volume."""
    command, option = container()["args"]
    path = Path(option.removeprefix("--config="))
    (mount,) = (mount for mount in container()["volumeMounts"] if mount["mountPath"] == str(path.parent))
    (volume,) = (volume for volume in pod_spec()["volumes"] if volume["name"] == mount["name"])
    config_map = one(installed(), "ConfigMap")
    assert command == "run"
    assert volume["configMap"]["name"] == config_map["metadata"]["name"]
    assert path.name in config_map["data"]


def test_lease_in_the_configuration_is_the_one_that_rbac_allows() -> None:
    """The scheduler may write the Lease that it is told to take."""
    election, role = configuration()["leaderElection"], one(installed(), "Role", "gangsched-leader-election")
    assert election["resourceNamespace"] == role["metadata"]["namespace"]
    lease = ("coordination.k8s.io", "leases", election["resourceName"])
    assert {"get", "update"} <= rights(role).get(lease, set())


@pytest.mark.parametrize("source", ["installed", "example"])
def test_configuration_is_consistent(source: str) -> None:
    """Kind, scheduler name and mode names are ours, and the leader gives up before a standby may take over."""
    example = load_all(example_configuration())[0]
    config = configuration() if source == "installed" else example
    assert (config["apiVersion"], config["kind"]) == ("gangsched.dev/v1alpha1", "GangSchedulerConfiguration")
    assert [profile["schedulerName"] for profile in config["profiles"]] == [SCHEDULER_NAME]
    assert config["clientConnection"]["qps"] <= config["clientConnection"]["burst"]
    election = config["leaderElection"]
    times = [seconds(election[key]) for key in ("retryPeriod", "renewDeadline", "leaseDuration")]
    assert times == sorted(set(times))
    assert config["preemption"]["gangMode"] in {"elastic", "atomic", "minimal", "off"}
    assert config["preemption"]["pdb"] in {"preferred", "strict"}


def test_scheduler_reads_both_files_and_they_change_no_default() -> None:
    """The loader of the scheduler accepts what is installed and what is documented, and both mean the defaults."""
    (text,) = one(installed(), "ConfigMap")["data"].values()
    assert config.parse(text) == settings.Configuration()
    assert config.load(example_configuration()) == settings.Configuration()


def test_example_configuration_shows_every_setting() -> None:
    """No setting of the scheduler is missing from the example."""
    (example,) = load_all(example_configuration())
    every = {path for path, _ in leaves(msgspec.to_builtins(settings.Configuration(), builtin_types=(list,)))}
    assert {path for path, _ in leaves(example)} == every


def test_port_in_the_configuration_is_the_one_that_is_probed() -> None:
    """The server listens where the kubelet and Prometheus look for it."""
    assert config.load(example_configuration()).http.port == container()["ports"][0]["containerPort"]
    assert "http" not in configuration()


def test_example_configuration_documents_every_installed_key() -> None:
    """Whatever the ConfigMap sets is in the example with the same value."""
    (example,) = load_all(example_configuration())
    documented = dict(leaves(example))
    assert {path: documented.get(path) for path, _ in leaves(configuration())} == dict(leaves(configuration()))
