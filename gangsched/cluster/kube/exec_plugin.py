"""Exec plug-ins for credentials (client.authentication.k8s.io), as kubectl runs them.

The library runs plug-ins as well, with four faults. It finds none beside its kubeconfig, passes no facts about the
cluster, leaves a hanging plug-in behind, and ignores the certificate beside a token.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gangsched.model.times import parse_time

#: Exec credentials are replaced this long before they expire, and are used for so long at least.
EXPIRY_MARGIN_SECONDS, _SHORTEST_SECONDS = 120.0, 30.0


class Login(NamedTuple):
    """The result of a plug-in: a token or files with a certificate and its key, and their lifetime."""

    token: str
    certificate: tuple[str, str] | None
    fresh_seconds: float


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    install_hint: str | None = None
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str
    status: _Status


async def log_in(said: Mapping[str, Any], folder: Path, cluster: Mapping[str, Any]) -> Login:
    """Run the plug-in of a user of a kubeconfig in this folder; ``cluster`` is what that says of the cluster.

    Raises ValueError or OSError with the plug-in's words.
    """
    plugin = msgspec.convert(dict(said), _Exec)
    interactive = plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    answer = await _run(plugin, folder, _info(plugin, cluster, interactive=interactive), interactive=interactive)
    status = answer.status
    if answer.api_version != plugin.api_version:
        raise ValueError(f"exec: {plugin.command} answers in {answer.api_version}, not in {plugin.api_version}")
    certificate = None
    if status.client_certificate_data and status.client_key_data:
        certificate = (
            write_private_file(status.client_certificate_data.encode()),
            write_private_file(status.client_key_data.encode()),
        )
    if not status.token and certificate is None:
        raise ValueError(f"exec: {plugin.command} gives neither a token nor a certificate with its key")
    # Without a time: valid until the server says otherwise, since to run a plug-in may cost seconds.
    fresh_seconds = math.inf
    if status.expiration_timestamp:
        left = parse_time(status.expiration_timestamp, "expirationTimestamp") - time.time() - EXPIRY_MARGIN_SECONDS
        fresh_seconds = max(_SHORTEST_SECONDS, left)
    return Login(status.token, certificate, fresh_seconds)


def _info(plugin: _Exec, cluster: Mapping[str, Any], *, interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        names = "server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url"
        spec["cluster"] = {name: cluster.get(name) for name in names}
    return json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})


async def _run(plugin: _Exec, folder: Path, info: str, *, interactive: bool) -> _Answer:
    given = {each["name"]: each["value"] for each in plugin.env or ()}
    # A path is relative to the kubeconfig; a name is looked up.
    command = os.path.join(folder, plugin.command) if os.sep in plugin.command else plugin.command  # noqa: PTH118
    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *(plugin.args or ()),
            env={**os.environ, **given, "KUBERNETES_EXEC_INFO": info},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if interactive else asyncio.subprocess.PIPE,  # users are to see its prompt
        )
    except FileNotFoundError:
        hint = " ".join((plugin.install_hint or "").split())
        raise ValueError(f"exec: {plugin.command}: no such command{f'; {hint}' if hint else ''}") from None
    try:
        out, complaint = await process.communicate()
    finally:
        if process.returncode is None:  # its caller has given up
            process.kill()
            await process.wait()
    if process.returncode:
        said = " ".join((complaint or b"").decode(errors="replace").split())
        raise ValueError(f"exec: {plugin.command} returned {process.returncode}{f': {said}' if said else ''}")
    try:
        return msgspec.json.decode(out, type=_Answer)
    except msgspec.DecodeError as error:
        raise ValueError(f"exec: the answer of {plugin.command} is no ExecCredential ({error})") from None


_files: dict[bytes, str] = {}


def write_private_file(content: bytes) -> str:
    """Write ``content`` to a file that only we can read and that is deleted when the process ends. TLS needs files."""
    if content not in _files:
        descriptor, name = tempfile.mkstemp(prefix="gangsched-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if not _files:
            atexit.register(forget)
        _files[content] = name
    return _files[content]


def forget() -> None:
    """Remove all of those files."""
    for name in _files.values():
        with contextlib.suppress(OSError):
            Path(name).unlink()
    _files.clear()
