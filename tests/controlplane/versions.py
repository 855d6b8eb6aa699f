"""The versions of Kubernetes that the tests' control plane is built for, and what each calls the group API."""

from __future__ import annotations

import copy
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DEFAULT = "1.37"
VARIABLE = "GANGSCHED_KUBERNETES"
"""Names the version to use, as `1.37.2` or `1.37`; without it that is DEFAULT."""

GROUP = "scheduling.k8s.io"


class UnknownVersionError(Exception):
    """No module pins this version; the text says which are pinned."""


def pinned() -> dict[str, Path]:
    """The Go module of every version, newest last: `{"1.36.3": .../go/1.36, ...}`."""
    found: dict[tuple[int, ...], Path] = {}
    for file in HERE.glob("go/*/go.mod"):
        version = re.search(r"^\s*k8s\.io/kubernetes v([\d.]+) ", file.read_text(), re.MULTILINE)
        assert version, f"{file} requires k8s.io/kubernetes"
        found[tuple(int(part) for part in version[1].split("."))] = file.parent
    return {".".join(map(str, version)): found[version] for version in sorted(found)}


def chosen() -> tuple[str, Path]:
    """The version that GANGSCHED_KUBERNETES names, or DEFAULT, and its module. Raises UnknownVersionError."""
    known = pinned()
    wanted = (os.environ.get(VARIABLE) or DEFAULT).removeprefix("v")
    for version, module in reversed(known.items()):
        if version == wanted or version.rpartition(".")[0] == wanted:
            return version, module
    raise UnknownVersionError(f"{VARIABLE}={wanted}: no module pins that version (known: {', '.join(known)})")


@dataclass(frozen=True)
class GroupApi:
    """How a minor version of Kubernetes serves Workloads and PodGroups: versions of the API, and feature gates.

    `minimum_changes` is whether `minCount` of a PodGroup may be changed, `says_whether_it_preempts` whether a PodGroup
    has a `preemptionPolicy`, and `jobs_have_classes` whether the PodGroup that is made of a Job has the Job's class.
    """

    served: tuple[str, ...]
    gates: tuple[str, ...]
    minimum_changes: bool = False
    says_whether_it_preempts: bool = False
    jobs_have_classes: bool = False

    @property
    def api_version(self) -> str:
        """The newest, as it stands in `apiVersion`."""
        return f"{GROUP}/{self.served[0]}"


GROUP_APIS = {
    35: GroupApi(("v1alpha1",), ("GenericWorkload", "GangScheduling")),
    36: GroupApi(("v1alpha2",), ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption")),
    37: GroupApi(("v1beta1", "v1alpha3"), ("GenericWorkload", "PodGroupPreemptionPolicy"), True, True, True),
}
"""By minor version. 1.34 and older know neither the API nor the gates."""

_NEWEST_FIRST = ("v1beta1", "v1alpha3", "v1alpha2")
_KINDS = ("PodGroup", "Workload")


def group_api() -> GroupApi:
    """The group API of the chosen version."""
    return GROUP_APIS[minor_version()]


def minor_version() -> int:
    """37, where 1.37 is chosen."""
    return int(chosen()[0].split(".")[1])


def other_names(kind: str) -> list[str]:
    """A kind of the group API that is named in full, in every version that it has had."""
    group, _, rest = kind.partition("/")
    name = rest.partition("/")[2]
    return [f"{GROUP}/{version}/{name}" for version in _NEWEST_FIRST] if group == GROUP and name in _KINDS else []


def translated(thing: dict[str, Any], api_version: str) -> dict[str, Any]:
    """A Workload or PodGroup of the group API in the shape of another version; anything else as it is."""
    if thing["apiVersion"].partition("/")[0] != GROUP or thing["kind"] not in _KINDS:
        return thing
    out = copy.deepcopy(thing) | {"apiVersion": api_version}
    spec, old = out.get("spec", {}), api_version == f"{GROUP}/v1alpha2"
    for each in (spec, *spec.get("podGroupTemplates", ())):
        mode = each.get("disruptionMode")
        if mode is not None:
            whole = mode == "PodGroup" or "all" in mode
            each["disruptionMode"] = ("PodGroup" if whole else "Pod") if old else {"all" if whole else "single": {}}
    if old and "workloadRef" in spec:
        named = spec.pop("workloadRef")
        reference = {"workloadName": named["workloadName"], "podGroupTemplateName": named["templateName"]}
        spec["podGroupTemplateRef"] = {"workload": reference}
    elif not old and "podGroupTemplateRef" in spec:
        named = spec.pop("podGroupTemplateRef")["workload"]
        spec["workloadRef"] = {"workloadName": named["workloadName"], "templateName": named["podGroupTemplateName"]}
    return out
