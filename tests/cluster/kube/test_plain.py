"""Ordinary kubeconfigs are read without the client library, and mean what the library says they mean."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_asyncio import config as loaders
from kubernetes_asyncio.client import Configuration

from gangsched.cluster.kube import plain
from gangsched.cluster.kube.plain import Credentials, from_kubeconfig, from_service_account

INLINE = base64.b64encode(b"some text").decode()


def write(folder: Path, cluster: dict[str, Any], user: dict[str, Any] | None, **more: Any) -> str:
    """A kubeconfig with one context, in a folder with a token, a certificate and a key."""
    for name in ("ca.crt", "tls.crt", "tls.key", "token"):
        (folder / name).write_text(f"the {name}\n")
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
        **more,
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return str(path)


ORDINARY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "token": ({}, {"token": "secret"}),
    "token file": ({}, {"tokenFile": "token"}),
    "certificates": ({"certificate-authority": "ca.crt"}, {"client-certificate": "tls.crt", "client-key": "tls.key"}),
    "inline": ({"certificate-authority-data": INLINE}, {"client-certificate-data": INLINE, "client-key-data": INLINE}),
    "not verified": ({"insecure-skip-tls-verify": True}, {"token": "secret"}),
    "another name": ({"tls-server-name": "api.example.com"}, {"token": "secret"}),
    "a proxy": ({"proxy-url": "http://192.0.2.2:3128"}, {"token": "secret"}),
    "anonymous": ({}, {}),
}


def content_of(path: str | None) -> bytes | None:
    """What a file holds: where the library and we put copies differs."""
    return Path(path).read_bytes() if path else None


@pytest.mark.parametrize("name", ORDINARY)
async def test_means_what_the_library_says(name: str, tmp_path: Path) -> None:
    """Server, credentials, certificates and proxy are those that kubernetes_asyncio finds."""
    path = write(tmp_path, *ORDINARY[name])
    found = from_kubeconfig(path, None)
    expected = Configuration()
    await loaders.load_kube_config(path, client_configuration=expected)
    assert found is not None
    assert found.context == "here"
    assert (found.host, found.verify_ssl, found.proxy) == (expected.host, expected.verify_ssl, expected.proxy)
    assert found.tls_server_name == expected.tls_server_name
    for field in ("ssl_ca_cert", "cert_file", "key_file"):
        assert content_of(getattr(found, field)) == content_of(getattr(expected, field))
    theirs = await expected.get_api_key_with_prefix("BearerToken")
    assert await found.get_api_key_with_prefix("BearerToken") == (theirs.strip() if theirs else None)


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, {"exec": {"command": "login"}}),
        ({}, {"auth-provider": {"name": "oidc"}}),
        ({}, {"username": "u", "password": "p"}),
        ({}, {"token": "a", "tokenFile": "token"}),
        ({}, {"tokenFile": "missing"}),
        ({}, {"client-certificate": "tls.crt"}),
        ({"certificate-authority": "missing.crt"}, {"token": "a"}),
        ({"certificate-authority-data": "not base64!"}, {"token": "a"}),
        ({"server": 5}, {"token": "a"}),
        ({"something-new": 1}, {"token": "a"}),
        ({}, {"token": ["a"]}),
    ],
)
def test_what_is_not_ordinary_is_left_to_the_library(cluster: Any, user: Any, tmp_path: Path) -> None:
    """Anything else than tokens and certificates in their places is none of our business."""
    assert from_kubeconfig(write(tmp_path, cluster, user), None) is None


@pytest.mark.parametrize(
    "more",
    [
        {"current-context": "elsewhere"},
        {"contexts": [{"name": "here", "context": {"cluster": "c", "user": "nobody"}}]},
        {"contexts": {"here": {}}},
        {"users": None},
    ],
)
def test_what_does_not_fit_together_is_left_to_the_library(more: Any, tmp_path: Path) -> None:
    """Names that lead nowhere and lists that are none: the library words the errors."""
    assert from_kubeconfig(write(tmp_path, {}, {"token": "a"}, **more), None) is None
    assert from_kubeconfig(str(tmp_path / "missing"), None) is None


def test_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Address from the environment, also of IPv6; nothing outside of a pod."""
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "ca.crt").write_text("an authority")
    files = str(tmp_path / "token"), str(tmp_path / "ca.crt")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert from_service_account(*files) is None
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "2001:db8::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    expected = Credentials(host="https://[2001:db8::1]:443", ssl_ca_cert=files[1], token="secret")
    assert from_service_account(*files) == expected
    assert from_service_account(str(tmp_path / "missing"), files[1]) is None


def test_inline_certificates_do_not_stay(tmp_path: Path) -> None:
    """Files made of inline data are readable by nobody else, made once, and removed at the end."""
    path = write(tmp_path, {"certificate-authority-data": INLINE}, {"token": "a"})
    first, second = from_kubeconfig(path, None), from_kubeconfig(path, None)
    assert first is not None
    assert first == second
    assert first.ssl_ca_cert is not None
    made = Path(first.ssl_ca_cert)
    assert made.stat().st_mode & 0o077 == 0
    plain._forget()
    assert not made.exists()


def test_the_library_is_not_imported(tmp_path: Path) -> None:
    """It takes longer to import than everything else: an ordinary start does without it."""
    program = (
        "import asyncio, sys\n"
        "from gangsched.cluster.kube.connection import load_connection\n"
        "asyncio.run(load_connection(sys.argv[1]))\n"
        "print([name for name in sys.modules if name.startswith('kubernetes_asyncio')])"
    )
    path = write(tmp_path, {}, {"token": "a"})
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
