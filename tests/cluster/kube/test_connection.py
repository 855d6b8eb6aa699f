"""Kubeconfig files as users have them, and the words they get when something is wrong with one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import structlog

from gangsched.cluster.kube import connection as module
from gangsched.cluster.kube.client import ApiError, Client
from gangsched.cluster.kube.connection import ConnectionConfigError, load_connection
from gangsched.cluster.kube.kubeconfig import REREAD_SECONDS
from gangsched.cluster.kube.retry import TokenBucket
from tests.cluster.kube.kubeconfigs import write
from tests.controlplane.client import wait_until
from tests.controlplane.plane import TOKENS, ControlPlane


async def test_current_context(tmp_path: Path) -> None:
    """The current context's server and token are used, and said."""
    path = write(tmp_path / "config")
    connection = await load_connection(path)
    assert connection.server == "http://127.0.0.1:1/prefix"
    assert connection.context == "one"
    assert str(path) in str(connection)
    assert await connection.headers() == {"Authorization": "Bearer secret"}


async def test_a_certificate_that_is_not_checked_is_warned_of(tmp_path: Path) -> None:
    """Whoever is between could be the API server; a kubeconfig that was copied from a test may say so unnoticed."""
    for insecure in (False, True):
        path = tmp_path / f"config-{insecure}"
        cluster = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": insecure}
        user, context = {"name": "u", "user": {"token": "t"}}, {"name": "c", "context": {"cluster": "k", "user": "u"}}
        text = {"clusters": [{"name": "k", "cluster": cluster}], "users": [user], "contexts": [context]}
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c"} | text))
        with structlog.testing.capture_logs() as lines:
            await load_connection(path)
        warned = [line for line in lines if line["log_level"] == "warning"]
        assert [line["reason"] for line in warned] == ["insecure-skip-tls-verify"] * insecure


async def test_path_list_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBECONFIG may list several files, some of them missing; they are merged."""
    path = write(tmp_path / "config")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{path}")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert (await load_connection()).server == "http://127.0.0.1:1/prefix"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clusters: [", "not YAML"),
        ("- a\n- b\n", "not shaped like a kubeconfig"),
        ("", "not shaped like a kubeconfig"),
        ("apiVersion: v1\nkind: Config\n", "current-context"),
        ("clusters: 5\ncontexts: 5\nusers: 5\ncurrent-context: x\n", "not shaped like a kubeconfig"),
    ],
)
async def test_malformed_files_are_named(tmp_path: Path, text: str, expected: str) -> None:
    """Whatever is wrong with the file, the error is one line that names it."""
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConnectionConfigError) as caught:
        await load_connection(path)
    assert str(path) in str(caught.value)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("context", "user", "expected"),
    [
        ("three", {}, "context three: no context 'three'; it has: one, two"),
        ("two", {}, "nowhere"),
        ("one", {"exec": {"command": "/does/not/exist", "apiVersion": "client.authentication.k8s.io/v1"}}, "/does/not"),
        ("one", {"exec": {"command": "false", "apiVersion": "client.authentication.k8s.io/v1"}}, "returned 1"),
        ("one", {"tokenFile": "/does/not/exist"}, "/does/not/exist"),
    ],
)
async def test_errors_name_file_and_context(tmp_path: Path, context: str, user: dict[str, Any], expected: str) -> None:
    """A context that is missing, or whose credentials cannot be had, is named with what is wrong."""
    path = write(tmp_path / "config", user)
    with pytest.raises(ConnectionConfigError, match=r"kubeconfig .*config") as caught:
        await load_connection(path, context)
    assert context in str(caught.value)
    assert expected in str(caught.value)


async def test_no_cluster_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any configuration the error lists where it was looked for."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConnectionConfigError, match=r"no cluster to talk to.*\.kube/config"):
        await load_connection()
    with pytest.raises(ConnectionConfigError, match=r"missing: no such file"):
        await load_connection(tmp_path / "missing")


async def test_service_account_and_rejected_token(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pod the mounted token is used, ahead of any kubeconfig; after a 401 it is read again."""
    token = tmp_path / "token"
    token.write_text("outdated\n")
    host, port = control_plane.server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    monkeypatch.setattr(module, "SERVICE_ACCOUNT_TOKEN", str(token))
    monkeypatch.setattr(module, "SERVICE_ACCOUNT_CA", str(control_plane.ca_file))
    now = [0.0]
    connection = await load_connection(clock=lambda: now[0])
    assert str(connection) == f"{control_plane.server} (service account of this pod)"
    client = Client(connection, TokenBucket(100.0, 100))
    client.open()
    try:
        with pytest.raises(ApiError, match="401"):
            await client.get("/api/v1/nodes")
        token.write_text(f"{TOKENS['admin'][0]}\n")
        now[0] += module.REJECTED_PAUSE_SECONDS
        assert b"NodeList" in await client.get("/api/v1/nodes")
    finally:
        await client.close()


def plugin(folder: Path, lifetime_seconds: int) -> dict[str, Any]:
    """An exec plug-in that gives out token-1, token-2, ... of a limited life."""
    script = folder / "plugin.py"
    script.write_text(
        f"""
import datetime, json, pathlib
count = pathlib.Path({str(folder / "count")!r})
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds={lifetime_seconds})
status = {{"token": f"token-{{number}}", "expirationTimestamp": expiry.strftime("%Y-%m-%dT%H:%M:%SZ")}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""
    )
    return {
        "exec": {
            "command": sys.executable,
            "args": ["-I", str(script)],
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never",
        }
    }


async def test_exec_credentials_are_renewed(tmp_path: Path) -> None:
    """A plug-in's token is used until shortly before it expires, or until the server rejects it."""
    path = write(tmp_path / "config", plugin(tmp_path, lifetime_seconds=3600))
    now = [time.monotonic()]
    connection = await load_connection(path, clock=lambda: now[0])
    assert await connection.headers() == {"Authorization": "Bearer token-1"}
    await connection.rejected()
    assert await connection.headers() == {"Authorization": "Bearer token-1"}  # read a moment ago: not again
    now[0] += module.REJECTED_PAUSE_SECONDS + 1
    await connection.rejected()
    assert await connection.headers() == {"Authorization": "Bearer token-2"}
    now[0] += 3600
    assert await connection.headers() == {"Authorization": "Bearer token-3"}


async def test_rotated_token_file(tmp_path: Path) -> None:
    """A token file, which ends with a newline, is read again from time to time; a bad moment keeps the old one."""
    token = tmp_path / "token"
    token.write_text("one\n")
    now = [0.0]
    path = write(tmp_path / "config", {"tokenFile": str(token)})
    connection = await load_connection(path, clock=lambda: now[0])
    assert await connection.headers() == {"Authorization": "Bearer one"}
    token.unlink()
    now[0] += REREAD_SECONDS + 1
    assert await connection.headers() == {"Authorization": "Bearer one"}
    token.write_text("two\n")
    now[0] += REREAD_SECONDS + 1
    assert await connection.headers() == {"Authorization": "Bearer two"}


async def test_hanging_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in that hangs is given up; with whoever waits for it, its process ends."""
    process = tmp_path / "process"
    arguments = ["-c", f"echo $$ > {process}.new; mv {process}.new {process}; exec sleep 60"]
    hang = {"exec": {"command": "sh", "args": arguments, "apiVersion": "client.authentication.k8s.io/v1"}}
    path = write(tmp_path / "config", hang)
    waiting = asyncio.create_task(load_connection(path))
    await wait_until(process.exists)
    waiting.cancel()
    await asyncio.wait([waiting])
    with pytest.raises(ProcessLookupError):
        os.kill(int(process.read_text()), 0)
    monkeypatch.setattr(module, "LOGIN_TIMEOUT_SECONDS", 0.1)
    with pytest.raises(ConnectionConfigError, match="no credentials after"):
        await load_connection(path)
