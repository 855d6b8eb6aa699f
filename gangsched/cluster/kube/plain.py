"""Credentials that need no library: a kubeconfig with tokens or certificates, and the pod's service account.

kubernetes_asyncio reads every kind of kubeconfig, and takes more than a second to import, as long as everything else of
a start together. What is read here is what most schedulers have; at the first thing that is not perfectly ordinary
(several files, exec plug-ins, auth providers, anything missing or misshapen) the answer is None, and the library reads
it instead and words the errors.
"""

from __future__ import annotations

import atexit
import base64
import binascii
import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import yaml

_CLUSTER = {
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "proxy-url",
}
_USER = {"token", "tokenFile", "client-certificate", "client-certificate-data", "client-key", "client-key-data"}


class Credentials(msgspec.Struct, kw_only=True):
    """What a connection needs, under the names that kubernetes_asyncio's ``Configuration`` uses."""

    host: str
    ssl_ca_cert: str | None = None
    verify_ssl: bool = True
    cert_file: str | None = None
    key_file: str | None = None
    proxy: str | None = None
    tls_server_name: str | None = None
    token: str = ""
    context: str = ""
    namespace: str = ""

    async def get_api_key_with_prefix(self, name: str) -> str | None:
        """The Authorization header."""
        return f"Bearer {self.token}" if self.token else None


def from_kubeconfig(path: str, context: str | None) -> Credentials | None:
    """Those of one context of one file; None when the file is not ordinary."""
    if os.pathsep in path:
        return None
    file = Path(path).expanduser()
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=_loader())  # noqa: S506 - a safe loader
        name = context or content["current-context"]
        named = _named(content["contexts"], name)["context"]
        cluster = _named(content["clusters"], named["cluster"])["cluster"]
        user = _named(content["users"], named["user"])["user"] or {}
        if not (set(cluster) <= _CLUSTER and set(user) <= _USER):
            return None
        return _credentials(file.parent, cluster, user, str(name), str(named.get("namespace") or ""))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, LookupError, TypeError, AttributeError, ValueError):
        return None


def from_service_account(token: str, authority: str) -> Credentials | None:
    """Those of the pod that this process runs in; None outside of one."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    try:
        text = Path(token).read_text(encoding="utf-8").strip()
        usable = host and port and text and Path(authority).stat().st_size
    except OSError:
        return None
    if not usable:
        return None
    address = f"[{host}]" if ":" in str(host) else host
    return Credentials(host=f"https://{address}:{port}", ssl_ca_cert=authority, token=text)


def _loader() -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _named(things: list[dict[str, Any]], name: Any) -> dict[str, Any]:
    found = [thing for thing in things if thing["name"] == name]
    if len(found) != 1:
        raise LookupError(name)
    return found[0]


def _credentials(
    folder: Path, cluster: dict[str, Any], user: dict[str, Any], context: str, namespace: str
) -> Credentials | None:
    server = cluster["server"]
    token = user.get("token", "")
    if user.get("tokenFile"):
        if token:
            return None
        token = _beside(folder, user["tokenFile"]).read_text(encoding="utf-8").strip()
    texts = (server, token, *(cluster.get(k, "") for k in ("tls-server-name", "proxy-url")))
    if not all(isinstance(text, str) for text in texts) or not server.startswith(("http://", "https://")):
        return None
    certificate, key = _file(folder, user, "client-certificate"), _file(folder, user, "client-key")
    if (certificate is None) != (key is None):
        return None
    return Credentials(
        host=server,
        ssl_ca_cert=_file(folder, cluster, "certificate-authority"),
        verify_ssl=cluster.get("insecure-skip-tls-verify", False) is not True,
        cert_file=certificate,
        key_file=key,
        proxy=cluster.get("proxy-url") or None,
        tls_server_name=cluster.get("tls-server-name") or None,
        token=token,
        context=context,
        namespace=namespace,
    )


def _beside(folder: Path, path: str) -> Path:
    """Relative paths of a kubeconfig start at its folder."""
    return folder / Path(path).expanduser()


def _file(folder: Path, section: dict[str, Any], key: str) -> str | None:
    """The path of what a section gives inline or as a file."""
    data = section.get(f"{key}-data")
    if data:
        try:
            return _kept(base64.b64decode(data, validate=True))
        except binascii.Error as error:
            raise ValueError(key) from error
    if not section.get(key):
        return None
    path = _beside(folder, section[key])
    path.stat()
    return str(path)


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
