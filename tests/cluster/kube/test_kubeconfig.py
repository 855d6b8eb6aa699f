"""Kubeconfigs mean what kubectl says they mean, also where the library reads them otherwise; what is wrong is said."""

from __future__ import annotations

import base64
import json
import math
import os
import ssl
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from gangsched.cluster.kube import exec_plugin
from gangsched.cluster.kube.kubeconfig import from_kubeconfig, from_service_account
from tests.controlplane.certificates import Certificates, create

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


def content_of(path: str | None) -> bytes | None:
    """What a file holds: where copies of inline data are kept is the library's business."""
    return Path(path).read_bytes() if path else None


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        ({}, {"token": "secret"}, {"authorization": "Bearer secret"}),
        ({}, {"tokenFile": "token"}, {"authorization": "Bearer the token"}),
        ({}, {"username": "u", "password": "p"}, {"authorization": "Basic dTpw"}),
        ({"certificate-authority": "ca.crt"}, {}, {"ssl_ca_cert": b"the ca.crt\n"}),
        ({"certificate-authority-data": INLINE}, {}, {"ssl_ca_cert": b"some text"}),
        (
            {},
            {"client-certificate": "tls.crt", "client-key": "tls.key"},
            {"cert_file": b"the tls.crt\n", "key_file": b"the tls.key\n"},
        ),
        (
            {},
            {"client-certificate-data": INLINE, "client-key-data": INLINE},
            {"cert_file": b"some text", "key_file": b"some text"},
        ),
        ({"insecure-skip-tls-verify": True}, {}, {"verify_ssl": False}),
        ({"tls-server-name": "api.example.com"}, {}, {"tls_server_name": "api.example.com"}),
        ({"proxy-url": "http://192.0.2.2:3128"}, {}, {"proxy": "http://192.0.2.2:3128"}),
        ({}, {}, {}),
    ],
)
async def test_what_a_kubeconfig_says(
    cluster: dict[str, Any], user: dict[str, Any], expected: dict[str, Any], tmp_path: Path
) -> None:
    """Server, credentials, certificates and proxy are found, and nothing else."""
    found = await from_kubeconfig(write(tmp_path, cluster, user), None)
    said = found.configuration
    assert (found.context, found.host) == ("here", "https://192.0.2.1:6443")
    files = {name: content_of(getattr(said, name)) for name in ("ssl_ca_cert", "cert_file", "key_file")}
    got = files | {name: getattr(said, name) for name in ("verify_ssl", "tls_server_name", "proxy")}
    nothing = dict.fromkeys(got) | {"verify_ssl": True, "authorization": ""}
    assert got | {"authorization": found.authorization} == nothing | expected


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        ({}, None, ""),
        ({"certificate-authority-data": "", "certificate-authority": "ca.crt"}, {"token": "a"}, "Bearer a"),
        ({}, {"token": "a", "tokenFile": "token"}, "Bearer the token"),
        ({}, {"token": "a", "exec": {"command": "false", "apiVersion": "v1"}}, "Bearer a"),
        ({}, {"token": "a", "client-certificate": None, "client-key": ""}, "Bearer a"),
    ],
    ids=["no user", "inline and empty", "token and file", "token and plug-in", "null"],
)
async def test_what_the_library_would_read_otherwise(
    cluster: dict[str, Any], user: dict[str, Any] | None, expected: str, tmp_path: Path
) -> None:
    """Kubectl's rules hold: values that are there and empty are not given, a token is taken before a plug-in, and a
    token file before a token.
    """
    assert (await from_kubeconfig(write(tmp_path, cluster, user), None)).authorization == expected


async def test_a_context_may_name_no_user(tmp_path: Path) -> None:
    """Whoever needs no credentials, as behind a proxy that has them, needs no entry of a user."""
    path = write(tmp_path, {}, None, contexts=[{"name": "here", "context": {"cluster": "c"}}], users=None)
    assert (await from_kubeconfig(path, None)).authorization == ""


@pytest.mark.parametrize("inside", ["a\r\nImpersonate-User: admin", "a\nb", "a\x00"])
async def test_a_token_is_one_line(inside: str, tmp_path: Path) -> None:
    """What stands around it is no part of it; a line break within would make several headers of it."""
    assert (await from_kubeconfig(write(tmp_path, {}, {"token": " a\r\n"}), None)).authorization == "Bearer  a"
    found = await from_kubeconfig(write(tmp_path, {}, {"token": inside}), None)
    with pytest.raises(ValueError, match="control character"):
        _ = found.authorization


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        ({}, {"auth-provider": {"name": "oidc"}}, "oidc: missing configuration"),
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
async def test_what_cannot_be_used(cluster: Any, user: Any, words: str, tmp_path: Path) -> None:
    """The error says what is wrong with cluster or user."""
    with pytest.raises((ValueError, OSError), match=words):
        await from_kubeconfig(write(tmp_path, cluster, user), None)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"current-context": "elsewhere"}, "no context 'elsewhere'; it has: here"),
        ({"current-context": ""}, "no current-context"),
        ({"contexts": [{"name": "here", "context": {"cluster": "c", "user": "x"}}]}, "no user 'x'"),
        ({"contexts": [{"name": "here", "context": {"cluster": "x"}}]}, "no cluster 'x'"),
        ({"contexts": {"here": {}}}, "Invalid kube-config file"),
        ({"users": None}, "no user 'u'"),
    ],
)
async def test_what_does_not_fit_together(more: Any, words: str, tmp_path: Path) -> None:
    """Names that lead nowhere and lists that are none."""
    with pytest.raises(ValueError, match=words):
        await from_kubeconfig(write(tmp_path, {}, {"token": "a"}, **more), None)


async def test_the_first_of_several_files_holds(tmp_path: Path) -> None:
    """What several files say is merged, the current context too; relative paths belong to the file that has them."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    first = write(folders[0], {}, None, users=[], contexts=[], **{"current-context": "there"})
    context = {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
    second = write(folders[1], {"server": "https://192.0.2.9"}, {"tokenFile": "token"}, contexts=[context])
    (folders[1] / "token").write_text("of the second")
    found = await from_kubeconfig(os.pathsep.join([first, str(tmp_path / "missing"), second]), None)
    assert (found.host, found.authorization) == ("https://192.0.2.1:6443", "Bearer of the second")
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
    found = await from_kubeconfig(path, None)
    assert (found.authorization, found.fresh_seconds) == ("Bearer secret", math.inf)
    assert found.configuration.cert_file is None
    assert content_of(f"{tmp_path}/given") == b"here get-token"
    info = json.loads(content_of(f"{tmp_path}/info") or b"")
    assert (info["kind"], info["spec"]["interactive"]) == ("ExecCredential", False)
    assert info["spec"]["cluster"]["certificate-authority-data"] == INLINE


async def test_an_exec_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    """As files, which is what TLS wants, beside a token; they are used until shortly before they expire."""
    gone = answer(
        token="both", clientCertificateData="CERT", clientKeyData="KEY", expirationTimestamp="2020-01-01T00:00:00Z"
    )
    found = await from_kubeconfig(write(tmp_path, {}, plugin(tmp_path, gone)), None)
    said = found.configuration
    assert [content_of(path) for path in (said.cert_file, said.key_file)] == [b"CERT", b"KEY"]
    assert (found.authorization, found.fresh_seconds) == ("Bearer both", 30.0)


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
        await from_kubeconfig(write(tmp_path, {}, plugin(tmp_path, text, code=code)), None)


def test_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Address from the environment, also of IPv6; what is missing is said, with where it was looked for."""
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "ca.crt").write_text("an authority")
    files = str(tmp_path / "token"), str(tmp_path / "ca.crt")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ValueError, match="KUBERNETES_SERVICE_HOST"):
        from_service_account(*files)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "2001:db8::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = from_service_account(*files)
    assert (found.host, found.configuration.ssl_ca_cert) == ("https://[2001:db8::1]:443", files[1])
    assert (found.authorization, found.fresh_seconds) == ("Bearer secret", 60.0)
    (tmp_path / "token").write_text("")
    with pytest.raises(ValueError, match=r"empty.*token"):
        from_service_account(*files)


def test_certificates_of_a_plugin_do_not_stay() -> None:
    """Their files are readable by nobody else, made once, closed, and removed at the end."""
    handles = Path("/proc/self/fd")
    before = len(list(handles.iterdir()))
    first, second = exec_plugin.write_private_file(b"a certificate"), exec_plugin.write_private_file(b"a certificate")
    assert first == second
    assert len(list(handles.iterdir())) == before
    assert Path(first).stat().st_mode & 0o077 == 0
    exec_plugin.forget()
    assert not Path(first).exists()


@asynccontextmanager
async def provider(
    certificates: Certificates, answer: dict[str, str]
) -> AsyncIterator[tuple[str, list[dict[str, str]]]]:
    """An OIDC provider: its address, and what it was asked for."""
    asked: list[dict[str, str]] = []

    async def well_known(request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"https://{request.host}/token"})

    async def token(request: web.Request) -> web.Response:
        form = await request.post()
        asked.append({**{k: str(v) for k, v in form.items()}, "authorization": request.headers["Authorization"]})
        return web.json_response(answer)

    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", well_known)
    app.router.add_post("/token", token)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.server, certificates.server_key)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


def oidc(issuer: str, expires: float, **more: str) -> dict[str, Any]:
    """A user with an ID token."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    said = {"client-id": "c", "idp-issuer-url": issuer, "id-token": f"h.{claims}.s", "refresh-token": "old", **more}
    return {"auth-provider": {"name": "oidc", "config": said}}


async def test_an_id_token_is_used_until_it_expires(tmp_path: Path) -> None:
    """Nobody is asked before that."""
    user = oidc("https://127.0.0.1:1", time.time() + 3600)
    found = await from_kubeconfig(write(tmp_path, {}, user), None)
    assert found.authorization == f"Bearer {user['auth-provider']['config']['id-token']}"


@pytest.mark.parametrize("new", [{}, {"refresh_token": "new"}], ids=["kept", "rotated"])
async def test_an_id_token_that_has_expired_is_replaced(new: dict[str, str], tmp_path: Path) -> None:
    """The provider is asked with the refresh token, and what it gives is kept in the kubeconfig."""
    (tmp_path / "provider").mkdir()
    certificates = create(tmp_path / "provider")
    async with provider(certificates, {"id_token": "fresh", **new}) as (issuer, asked):
        user = oidc(issuer, 0.0, **{"idp-certificate-authority": str(certificates.ca), "client-secret": "s"})
        path = write(tmp_path, {}, user)
        found = await from_kubeconfig(path, None)
    assert found.authorization == "Bearer fresh"
    assert asked == [{"grant_type": "refresh_token", "refresh_token": "old", "authorization": "Basic Yzpz"}]
    (kept,) = yaml.safe_load(Path(path).read_text())["users"]  # noqa: ASYNC240
    config = kept["user"]["auth-provider"]["config"]
    assert (config["id-token"], config["refresh-token"]) == ("fresh", new.get("refresh_token", "old"))


async def test_a_refresh_token_is_given_to_nobody_without_a_certificate(tmp_path: Path) -> None:
    """The library alone would not look at the certificate of a provider without an authority of its own."""
    (tmp_path / "provider").mkdir()
    certificates = create(tmp_path / "provider")
    async with provider(certificates, {"id_token": "fresh"}) as (issuer, asked):
        with pytest.raises(ValueError, match="certificate"):
            await from_kubeconfig(write(tmp_path, {}, oidc(issuer, 0.0)), None)
    assert asked == []
