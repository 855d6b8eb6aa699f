"""What is imported of kubernetes_asyncio."""

from __future__ import annotations

import subprocess
import sys

import pytest

_CREDENTIALS = "from gangsched.cluster.kube.kubeconfig import Configuration, from_kubeconfig"


def _said(*lines: str) -> list[str]:
    """What a new interpreter prints."""
    code = "\n".join(("import sys", *lines))
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120
    ).stdout.split()


def test_the_models_of_all_kinds_are_not_imported_to_find_credentials() -> None:
    """A start imports the library's configuration and none of its models."""
    assert _said(
        _CREDENTIALS,
        "print(Configuration.__module__, *(name for name in sys.modules if name.startswith('kubernetes_asyncio')))",
    ) == ["kubernetes_asyncio.client.configuration"]


@pytest.mark.parametrize(
    "code",
    [
        (_CREDENTIALS, "import kubernetes_asyncio"),
        ("import kubernetes_asyncio", _CREDENTIALS),
    ],
    ids=["later", "before"],
)
def test_whoever_else_imports_the_library_gets_all_of_it(code: tuple[str, ...]) -> None:
    """A plug-in has the library's clients and models, whether it is imported before or after us."""
    assert _said(
        *code,
        "from kubernetes_asyncio.client import ApiClient, CoreV1Api, V1Pod",
        "from kubernetes_asyncio.config import kube_config",
        "print(kube_config.ApiClient is ApiClient, kubernetes_asyncio.client.V1Pod is V1Pod)",
    ) == ["True", "True"]


def test_a_library_of_another_form_is_imported_whole() -> None:
    """Where the configuration is not where it is looked for, the package is imported as it is."""
    assert _said(
        "import gangsched.cluster.kube.client_library as library",
        "def elsewhere(): library.sys.modules[library.PACKAGE] = None; raise ImportError",
        "library._bare = elsewhere",
        _CREDENTIALS,
        "print('kubernetes_asyncio.client.models' in sys.modules)",
    ) == ["True"]
