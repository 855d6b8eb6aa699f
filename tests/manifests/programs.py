"""The programs with which a release checks the chart and its alerts: helm and promtool."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from types import ModuleType

import yaml

from tests.manifests.shipped import MANIFESTS, ROOT, Object, StrictLoader, load_all

CHART = MANIFESTS / "helm" / "gangsched"
FOR = ("--kube-version", "1.37.0")
IMAGE = "--set=image.repository=registry.example.com/gangsched"
#: The Go module in which the definitions of the Prometheus operator are.
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"


@cache
def release() -> ModuleType:
    """The script that makes a release."""
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def helm() -> str:
    """That of the machine, or one built from its Go module into the user's cache, as a release does it."""
    return str(release().program(release().HELM))


def promtool() -> str:
    """The same way; its first build takes many minutes."""
    return str(release().program(release().PROMTOOL))


def has_promtool() -> bool:
    """Whether it is there without a build."""
    return release().found(release().PROMTOOL) is not None


def helm_says(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What helm answers."""
    return subprocess.run([helm(), *arguments], capture_output=True, text=True, check=False, timeout=120)


def rendered(*values: str, name: str = "gangsched", namespace: str = "gangsched-system") -> list[Object]:
    """The objects of a release of the chart with these values, hooks left out."""
    return [each for each in templated(*values, name=name, namespace=namespace) if not _is_hook(each)]


def hooks(*values: str) -> list[Object]:
    """The objects that are there only for a while, when the release is uninstalled."""
    return [each for each in templated(*values) if _is_hook(each)]


def _is_hook(each: Object) -> bool:
    return "helm.sh/hook" in (each["metadata"].get("annotations") or {})


def templated(*values: str, name: str = "gangsched", namespace: str = "gangsched-system") -> list[Object]:
    """All that the chart makes of these values."""
    done = helm_says("template", name, str(CHART), "--namespace", namespace, *FOR, IMAGE, *values)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.load_all(done.stdout, Loader=StrictLoader) if each]


def operator_definitions() -> list[Object]:
    """What the Prometheus operator says of the kinds that the chart may make; nothing where go cannot fetch it."""
    if shutil.which("go") is None:
        return []
    done = subprocess.run(
        ["go", "mod", "download", "-json", OPERATOR],
        cwd=ROOT, env={**os.environ, "GOFLAGS": "-mod=mod"}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    if done.returncode:
        return []
    folder = Path(json.loads(done.stdout)["Dir"]) / "example" / "prometheus-operator-crd"
    kinds = ("podmonitors", "prometheusrules", "servicemonitors")
    return [each for kind in kinds for each in load_all(folder / f"monitoring.coreos.com_{kind}.yaml")]
