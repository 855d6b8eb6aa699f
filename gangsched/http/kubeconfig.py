"""Credentials as kubectl finds them: kubeconfig files with tokens, certificates or exec plug-ins, and those of a pod.

What cannot be used is a ValueError (or an OSError) whose text says why; :mod:`gangsched.http.connection` names
the file.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import binascii
import contextlib
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gangsched.documents import DocumentError, documents
from gangsched.model.times import parse_time

#: Credentials of a kubeconfig are read again this often: token files rotate, and nothing tells us.
REREAD_SECONDS = 300.0
#: The kubelet rotates the pod's own token; it is read again this often, as in-cluster clients do.
SERVICE_ACCOUNT_REREAD_SECONDS = 60.0
#: Exec credentials are replaced this long before they expire, and are used for so long at least.
EXPIRY_MARGIN_SECONDS, _SHORTEST_SECONDS = 120.0, 30.0


class Credentials(msgspec.Struct, kw_only=True):
    """What a connection needs, for ``fresh_seconds``. Files are paths, ``context`` is empty in a pod."""

    host: str
    authority: str | None = None
    verify: bool = True
    certificate: tuple[str, str] | None = None
    proxy: str | None = None
    tls_server_name: str | None = None
    token: str = ""
    context: str = ""
    namespace: str = ""
    fresh_seconds: float = REREAD_SECONDS


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    install_hint: str | None = None
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


_NAMES = {
    "token_file": "tokenFile",
    "client_certificate": "client-certificate",
    "client_certificate_data": "client-certificate-data",
    "client_key": "client-key",
    "client_key_data": "client-key-data",
    "auth_provider": "auth-provider",
    "login": "exec",
}


class _User(msgspec.Struct, rename=_NAMES):
    token: str | None = None
    token_file: str | None = None
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    login: _Exec | None = None
    auth_provider: dict[str, Any] | None = None
    username: str | None = None


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context | None = None


class _File(msgspec.Struct, rename="kebab"):
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str
    status: _Status


class Login(NamedTuple):
    """An exec plug-in that has to be run for credentials, with the folder of its kubeconfig."""

    spec: _Exec
    folder: Path
    cluster: _Cluster


class _Merged:
    """Several files as one: what the first of them says holds. Relative paths start at the folder of their file."""

    def __init__(self, paths: str) -> None:
        self.current = ""
        self.clusters: dict[str, tuple[Path, _Cluster]] = {}
        self.users: dict[str, tuple[Path, _User]] = {}
        self.contexts: dict[str, _Context] = {}
        for path in filter(None, paths.split(os.pathsep)):
            file = Path(path).expanduser()
            if os.pathsep in paths and not file.exists():
                continue
            found = _read(file)
            self.current = self.current or found.current_context
            for each in found.clusters or ():
                self.clusters.setdefault(each.name, (file.parent, each.cluster or _Cluster()))
            for user in found.users or ():
                self.users.setdefault(user.name, (file.parent, user.user or _User()))
            for context in found.contexts or ():
                self.contexts.setdefault(context.name, context.context or _Context())


def from_kubeconfig(paths: str, context: str | None) -> tuple[Credentials, Login | None]:
    """Those of one context (by default the current one) of a list of files, of which some may be missing; and the
    plug-in that :func:`log_in` has to run first, if there is one.
    """
    merged = _Merged(paths)
    name = context or merged.current
    if not name:
        raise ValueError("no current-context, and no --context")
    if name not in merged.contexts:
        raise ValueError(f"no context {name!r}; it has: {', '.join(sorted(merged.contexts)) or 'none'}")
    chosen = merged.contexts[name]
    if chosen.cluster not in merged.clusters:
        raise ValueError(f"no cluster {chosen.cluster!r}")
    if chosen.user and chosen.user not in merged.users:
        raise ValueError(f"no user {chosen.user!r}")
    folder, cluster = merged.clusters[chosen.cluster]
    if not cluster.server.startswith(("http://", "https://")):
        raise ValueError(f"cluster {chosen.cluster!r}: the server {cluster.server!r} is no address")
    found = Credentials(
        host=cluster.server,
        authority=_file(folder, cluster.certificate_authority, cluster.certificate_authority_data),
        verify=not cluster.insecure_skip_tls_verify,
        proxy=cluster.proxy_url or None,
        tls_server_name=cluster.tls_server_name or None,
        context=name,
        namespace=chosen.namespace or "",
    )
    if not chosen.user:
        return found, None
    folder, user = merged.users[chosen.user]
    _identify(found, folder, user)
    return found, Login(user.login, folder, cluster) if user.login is not None and not found.token else None


def from_service_account(token: str, authority: str) -> Credentials:
    """Those of the pod that this process runs in."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not (host and port):
        raise ValueError("KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set")
    text = Path(token).read_text(encoding="utf-8").strip()
    if not text or not Path(authority).stat().st_size:
        raise ValueError(f"{authority if text else token} is empty")
    address = f"[{host}]" if ":" in host else host
    return Credentials(
        host=f"https://{address}:{port}",
        authority=authority,
        token=text,
        fresh_seconds=SERVICE_ACCOUNT_REREAD_SECONDS,
    )


def _read(file: Path) -> _File:
    try:
        found = next(documents(file.read_text(encoding="utf-8"), str(file)), None)
        return msgspec.convert(found.value if found else None, _File)
    except DocumentError as error:
        raise ValueError(f"not YAML: {error}") from None
    except msgspec.ValidationError as error:
        raise ValueError(f"not shaped like a kubeconfig ({error})") from None


def _identify(found: Credentials, folder: Path, user: _User) -> None:
    """Add who we are, in the order in which client-go looks."""
    certificate = _file(folder, user.client_certificate, user.client_certificate_data)
    key = _file(folder, user.client_key, user.client_key_data)
    if (certificate is None) != (key is None):
        raise ValueError("a client certificate needs its key, and a key its certificate")
    if certificate and key:
        found.certificate = certificate, key
    if user.token_file:
        found.token = (folder / Path(user.token_file).expanduser()).read_text(encoding="utf-8").strip()
    elif user.token:
        found.token = user.token.strip()
    elif user.login is None and (user.auth_provider is not None or user.username):
        what = f"auth-provider {user.auth_provider.get('name', '')}" if user.auth_provider else "username"
        raise ValueError(f"{what}: not supported; use an exec plug-in (for OIDC: kubectl oidc-login), a token or a key")


async def log_in(found: Credentials, login: Login) -> None:
    """Add what the plug-in answers (client.authentication.k8s.io, ExecCredential)."""
    plugin, cluster = login.spec, login.cluster
    interactive = plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        spec["cluster"] = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": _base64_of(found.authority),
            "proxy-url": cluster.proxy_url,
        }
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    given = {each["name"]: each["value"] for each in plugin.env or ()}
    # A path is relative to the kubeconfig; a name is looked up.
    command = os.path.join(login.folder, plugin.command) if os.sep in plugin.command else plugin.command  # noqa: PTH118
    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *(plugin.args or ()),
            env={**os.environ, **given, "KUBERNETES_EXEC_INFO": json.dumps(info)},
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
        answer = msgspec.json.decode(out, type=_Answer)
    except msgspec.DecodeError as error:
        raise ValueError(f"exec: the answer of {plugin.command} is no ExecCredential ({error})") from None
    status = answer.status
    if answer.api_version != plugin.api_version:
        raise ValueError(f"exec: {plugin.command} answers in {answer.api_version}, not in {plugin.api_version}")
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise ValueError(f"exec: {plugin.command} gives neither a token nor a certificate with its key")
    found.token = status.token
    if status.client_certificate_data and status.client_key_data:
        found.certificate = _kept(status.client_certificate_data.encode()), _kept(status.client_key_data.encode())
    # Without a time: valid until the server says otherwise, since to run a plug-in may cost seconds.
    found.fresh_seconds = math.inf
    if status.expiration_timestamp:
        left = parse_time(status.expiration_timestamp, "expirationTimestamp") - time.time() - EXPIRY_MARGIN_SECONDS
        found.fresh_seconds = max(_SHORTEST_SECONDS, left)


def _base64_of(path: str | None) -> str | None:
    return base64.b64encode(Path(path).read_bytes()).decode() if path else None


def _file(folder: Path, path: str | None, data: str | None) -> str | None:
    """The path of what is given inline (which goes first) or as a file; a relative one starts at the kubeconfig."""
    if data:
        try:
            return _kept(base64.b64decode(data, validate=True))
        except binascii.Error as error:
            raise ValueError(f"inline data is not base64 ({error})") from None
    if not path:
        return None
    found = folder / Path(path).expanduser()
    found.stat()
    return str(found)


_files: dict[bytes, str] = {}


def _kept(content: bytes) -> str:
    """A file with this content, readable by us alone and gone when the process ends: TLS wants files."""
    if content not in _files:
        descriptor, name = tempfile.mkstemp(prefix="gangsched-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if not _files:
            atexit.register(_forget)
        _files[content] = name
    return _files[content]


def _forget() -> None:
    for name in _files.values():
        with contextlib.suppress(OSError):
            Path(name).unlink()
    _files.clear()
