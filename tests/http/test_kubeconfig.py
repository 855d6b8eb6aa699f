"""Kubeconfigs mean what the client library says they mean; what cannot be used is said in words."""

from __future__ import annotations

import base64
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_asyncio import config as loaders
from kubernetes_asyncio.client import Configuration

from gangsched.http import kubeconfig
from gangsched.http.kubeconfig import Credentials, from_kubeconfig, from_service_account, log_in

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


async def credentials(path: str, context: str | None = None) -> Credentials:
    """Those of the context, with what a plug-in gives."""
    found, login = from_kubeconfig(path, context)
    if login is not None:
        await log_in(found, login)
    return found


@pytest.mark.parametrize("case", ORDINARY)
async def test_means_what_the_library_says(case: str, tmp_path: Path) -> None:
    """Server, credentials, certificates and proxy are those that kubernetes_asyncio finds."""
    path = write(tmp_path, *ORDINARY[case])
    found = await credentials(path)
    expected = Configuration()
    await loaders.load_kube_config(path, client_configuration=expected)
    assert found.context == "here"
    assert (found.host, found.verify, found.proxy) == (expected.host, expected.verify_ssl, expected.proxy)
    assert found.tls_server_name == expected.tls_server_name
    files = [found.authority, *(found.certificate or (None, None))]
    theirs = [expected.ssl_ca_cert, expected.cert_file, expected.key_file]
    assert [content_of(path) for path in files] == [content_of(path) for path in theirs]
    header = await expected.get_api_key_with_prefix("BearerToken")
    assert found.token == (header or "").removeprefix("Bearer ").strip()


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        ({}, {"auth-provider": {"name": "oidc"}}, "auth-provider oidc: not supported; use an exec plug-in"),
        ({}, {"username": "u", "password": "p"}, "username: not supported"),
        ({}, {"tokenFile": "missing"}, "missing"),
        ({}, {"client-certificate": "tls.crt"}, "a client certificate needs its key"),
        ({"certificate-authority": "missing.crt"}, {"token": "a"}, "missing.crt"),
        ({"certificate-authority-data": "not base64!"}, {"token": "a"}, "not base64"),
        ({"server": 5}, {"token": "a"}, "not shaped like a kubeconfig"),
        ({"server": "api.example.com"}, {"token": "a"}, "'api.example.com' is no address"),
        ({}, {"token": ["a"]}, "not shaped like a kubeconfig"),
        ({}, {"exec": {"command": "login"}}, "not shaped like a kubeconfig"),
    ],
)
def test_what_cannot_be_used(cluster: Any, user: Any, words: str, tmp_path: Path) -> None:
    """The error says what is wrong with cluster or user."""
    with pytest.raises((ValueError, OSError), match=words):
        from_kubeconfig(write(tmp_path, cluster, user), None)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"current-context": "elsewhere"}, "no context 'elsewhere'; it has: here"),
        ({"current-context": ""}, "no current-context"),
        ({"contexts": [{"name": "here", "context": {"cluster": "c", "user": "x"}}]}, "no user 'x'"),
        ({"contexts": [{"name": "here", "context": {"cluster": "x"}}]}, "no cluster 'x'"),
        ({"contexts": {"here": {}}}, "not shaped like a kubeconfig"),
        ({"users": None}, "no user 'u'"),
    ],
)
def test_what_does_not_fit_together(more: Any, words: str, tmp_path: Path) -> None:
    """Names that lead nowhere and lists that are none."""
    with pytest.raises(ValueError, match=words):
        from_kubeconfig(write(tmp_path, {}, {"token": "a"}, **more), None)


def test_the_first_of_several_files_holds(tmp_path: Path) -> None:
    """What several files say is merged; relative paths belong to the file that they stand in."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    first = write(folders[0], {}, None, users=[], contexts=[], **{"current-context": "there"})
    context = {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
    second = write(folders[1], {"server": "https://192.0.2.9"}, {"tokenFile": "token"}, contexts=[context])
    (folders[1] / "token").write_text("of the second")
    found, _ = from_kubeconfig(os.pathsep.join([first, str(tmp_path / "missing"), second]), None)
    assert (found.host, found.token) == ("https://192.0.2.1:6443", "of the second")
    assert (found.context, found.namespace) == ("there", "team")


def plugin(folder: Path, answer: str, *, interactive_mode: str = "Never", code: int = 0) -> dict[str, Any]:
    """A user whose plug-in, beside the kubeconfig, notes what it was given and answers this."""
    script = folder / "login.sh"
    script.write_text(
        f"#!/bin/sh\nprintf '%s' \"$KUBERNETES_EXEC_INFO\" > {folder}/info\n"
        f"printf '%s' \"$REGION $1\" > {folder}/given\n"
        f"echo 'please log in' >&2\ncat <<'END'\n{answer}\nEND\nexit {code}\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    login = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login.sh",
        "args": ["get-token"],
        "env": [{"name": "REGION", "value": "here"}],
        "interactiveMode": interactive_mode,
        "provideClusterInfo": True,
    }
    return {"exec": login}


def answer(**status: str) -> str:
    """What a plug-in prints."""
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})


async def test_an_exec_plugin_is_given_what_it_needs(tmp_path: Path) -> None:
    """Arguments, environment, the cluster; without a time its token holds until the server rejects it."""
    path = write(tmp_path, {"certificate-authority-data": INLINE}, plugin(tmp_path, answer(token="secret")))
    found = await credentials(path)
    assert (found.token, found.certificate, found.fresh_seconds) == ("secret", None, math.inf)
    assert content_of(f"{tmp_path}/given") == b"here get-token"
    info = json.loads(content_of(f"{tmp_path}/info") or b"")
    assert (info["kind"], info["spec"]["interactive"]) == ("ExecCredential", False)
    assert info["spec"]["cluster"]["certificate-authority-data"] == INLINE


async def test_an_exec_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    """As files, which is what TLS wants; they are used until shortly before they expire."""
    gone = answer(clientCertificateData="CERT", clientKeyData="KEY", expirationTimestamp="2020-01-01T00:00:00Z")
    found = await credentials(write(tmp_path, {}, plugin(tmp_path, gone)))
    assert found.certificate is not None
    assert [content_of(path) for path in found.certificate] == [b"CERT", b"KEY"]
    assert found.fresh_seconds == 30.0


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("nonsense", 0, "is no ExecCredential"),
        (answer(), 0, "gives neither a token nor a certificate"),
        (answer(token="a").replace("/v1", "/v1beta1"), 0, "answers in client.authentication.k8s.io/v1beta1"),
        ("", 3, r"login.sh returned 3: please log in"),
    ],
)
async def test_what_is_wrong_with_an_exec_plugin(text: str, code: int, words: str, tmp_path: Path) -> None:
    """It is named, with what it has written to stderr."""
    with pytest.raises(ValueError, match=words):
        await credentials(write(tmp_path, {}, plugin(tmp_path, text, code=code)))


def test_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Address from the environment, also of IPv6; words for what is missing."""
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "ca.crt").write_text("an authority")
    files = str(tmp_path / "token"), str(tmp_path / "ca.crt")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ValueError, match="KUBERNETES_SERVICE_HOST"):
        from_service_account(*files)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "2001:db8::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = from_service_account(*files)
    assert (found.host, found.authority, found.token) == ("https://[2001:db8::1]:443", files[1], "secret")
    assert found.fresh_seconds == 60.0
    (tmp_path / "token").write_text("")
    with pytest.raises(ValueError, match="token is empty"):
        from_service_account(*files)


def test_inline_certificates_do_not_stay(tmp_path: Path) -> None:
    """Files made of inline data are readable by nobody else, made once, and removed at the end."""
    path = write(tmp_path, {"certificate-authority-data": INLINE}, {"token": "a"})
    (first, _), (second, _) = from_kubeconfig(path, None), from_kubeconfig(path, None)
    assert first == second
    assert first.authority is not None
    made = Path(first.authority)
    assert made.stat().st_mode & 0o077 == 0
    kubeconfig._forget()
    assert not made.exists()
