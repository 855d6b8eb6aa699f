"""The versions of Kubernetes that can be chosen, and objects of the group API in the shapes of each."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.model.dialects import upstream
from tests.controlplane import versions

OLD, NEW = "scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"


def group(api_version: str, **spec: Any) -> dict[str, Any]:
    """A PodGroup."""
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def workload(api_version: str, mode: Any) -> dict[str, Any]:
    """A Workload with one template."""
    spec = {"podGroupTemplates": [{"name": "all", "disruptionMode": mode}]}
    return {"apiVersion": api_version, "kind": "Workload", "metadata": {"name": "w"}, "spec": spec}


OLD_REFERENCE = {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "all"}}}
NEW_REFERENCE = {"workloadRef": {"workloadName": "w", "templateName": "all"}}
SHAPES = [
    (group(OLD, disruptionMode="PodGroup", **OLD_REFERENCE), group(NEW, disruptionMode={"all": {}}, **NEW_REFERENCE)),
    (group(OLD, disruptionMode="Pod"), group(NEW, disruptionMode={"single": {}})),
    (group(OLD), group(NEW)),
    (workload(OLD, "PodGroup"), workload(NEW, {"all": {}})),
]


@pytest.mark.parametrize(("old", "new"), SHAPES)
def test_objects_are_written_as_the_version_spells_them(old: dict[str, Any], new: dict[str, Any]) -> None:
    """In both directions; what is already in the shape of the version stays as it is."""
    assert versions.translated(old, NEW) == new
    assert versions.translated(new, OLD) == old
    assert versions.translated(old, OLD) == old
    assert versions.translated(new, NEW) == new


def test_other_objects_are_not_translated() -> None:
    """A PodGroup of another project and a kind of the same group keep their version."""
    for thing in (
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"},
    ):
        assert versions.translated(thing, NEW) is thing


def test_every_pinned_version_says_what_it_serves() -> None:
    """The scheduler reads the newest version of the group API that each of them serves."""
    for version in versions.pinned():
        served = versions.GROUP_APIS[int(version.split(".")[1])].served
        assert served[0] in upstream.VERSIONS
        assert [each for each in upstream.VERSIONS if each in served] == list(served)


@pytest.mark.parametrize("text", ["1.37", "1.37.2", "v1.37.2"])
def test_a_version_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """By its minor version or in full."""
    monkeypatch.setenv(versions.VARIABLE, text)
    version, module = versions.chosen()
    assert version == "1.37.2"
    assert module.name == "1.37"
    assert versions.group_api().api_version == NEW


def test_a_version_that_is_not_pinned_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names those that are."""
    monkeypatch.setenv(versions.VARIABLE, "1.2")
    with pytest.raises(versions.UnknownVersionError, match=r"1\.2: no module pins .* \(known: 1\.36\.3, 1\.37\.2\)"):
        versions.chosen()
