"""Credentials as kubectl finds them, by way of kubernetes_asyncio: kubeconfig files, or those of a pod.

The library reads files, finds contexts, and knows tokens, certificates, OIDC and other providers. Its input is repaired
first where it would read a file differently from kubectl (:func:`_mended`). An unusable file is a ValueError (or an
OSError) with the reason, and :mod:`gangsched.cluster.kube.connection` names the file.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import logging
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import yaml

from gangsched import logs
from gangsched.cluster.kube.client_library import PACKAGE, credentials_only
from gangsched.cluster.kube.exec_plugin import log_in
from gangsched.messages import failures

with credentials_only():
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException
    from kubernetes_asyncio.config.incluster_config import load_incluster_config
    from kubernetes_asyncio.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger
    from kubernetes_asyncio.config.openid import OpenIDRequestor

#: Credentials of a kubeconfig are read again this often: token files rotate, and nothing tells us.
REREAD_SECONDS = 300.0
#: The kubelet rotates the pod's own token; it is read again this often, as in-cluster clients do.
SERVICE_ACCOUNT_REREAD_SECONDS = 60.0
#: Exceptions of the library for files of an unexpected form.
_MISSHAPEN = (AssertionError, AttributeError, IndexError, KeyError, TypeError, UnicodeDecodeError)
_INLINE = ("certificate-authority", "client-certificate", "client-key")

_log = logs.get(__name__)
logging.getLogger(PACKAGE).addHandler(logging.NullHandler())  # it says on stderr what it raises as well


class Credentials(NamedTuple):
    """The credentials that the library has found, valid for ``fresh_seconds``; ``context`` is empty in a pod."""

    configuration: Configuration
    context: str = ""
    namespace: str = ""
    fresh_seconds: float = REREAD_SECONDS

    @property
    def host(self) -> str:
        """The URL of the server."""
        return str(self.configuration.host)

    @property
    def authorization(self) -> str:
        """The header of that name, empty without one: files end with a newline, which is no part of their token.

        Raises ValueError for a token that would be several headers.
        """
        value = str(self.configuration.api_key.get("BearerToken", "")).strip()
        if any(ord(each) < 32 or ord(each) == 127 for each in value):
            raise ValueError(failures.NOT_ONE_LINE)
        return value


async def from_kubeconfig(paths: str, context: str | None) -> Credentials:
    """Return the credentials of one context (by default the current one) from a list of files. Some files may be
    missing.
    """
    with _said(paths):
        merger = KubeConfigMerger(paths)
        files = merger.config_files.values()
        # The library takes the last current-context of several files; kubectl takes the first, as for all else.
        current = next((each["current-context"] for each in files if each.get("current-context")), "")
        name = context or current
        if not name:
            raise ValueError("no current-context, and no --context")
        config, namespace = _mended(merger, name)
        loader = _Loader(config, active_context=name, config_base_path=None, config_persister=_persister(merger))
        configuration = Configuration()
        await loader.load_and_set(configuration)
    found = Credentials(configuration, name, namespace, loader.fresh_seconds)
    if not found.host.startswith(("http://", "https://")):
        raise ValueError(f"context {name!r}: the server {found.host!r} is no address")
    return found


def from_service_account(token: str, authority: str) -> Credentials:
    """Return the credentials of the pod of this process."""
    configuration = Configuration()
    try:
        load_incluster_config(configuration, False, token_filename=token, cert_filename=authority)
    except ConfigException as error:
        asked = f"KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT, {token}, {authority}"
        raise ValueError(f"{error} (of {asked})") from None
    return Credentials(configuration, fresh_seconds=SERVICE_ACCOUNT_REREAD_SECONDS)


@contextlib.contextmanager
def _said(paths: str) -> Iterator[None]:
    """What is wrong with a kubeconfig, as ValueError of one line."""
    try:
        yield
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {' '.join(str(error).split())}") from None
    except (ConfigException, aiohttp.ClientError) as error:
        raise ValueError(" ".join(str(error).split())) from None
    except (*_MISSHAPEN, msgspec.ValidationError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"not shaped like a kubeconfig ({what})") from None
    if not any(Path(each).expanduser().exists() for each in paths.split(os.pathsep) if each):
        raise FileNotFoundError(failures.kubeconfig_missing(path=paths))


def _mended(merger: KubeConfigMerger, name: str) -> tuple[ConfigNode, str]:
    """One context of what was read, as the library reads it right, and its namespace.

    The library fails at a context without a user, and at empty values. It prefers a token to a token file, and a
    plug-in to a token, unlike client-go. It does not notice a certificate without key, or a key without certificate.
    """
    merged = merger.config
    chosen = _entry(merged, "contexts", name)
    if chosen is None:
        has = ", ".join(sorted(str(each["name"]) for each in merged.value["contexts"])) if merged else ""
        raise ValueError(f"no context {name!r}; it has: {has or 'none'}")
    context = chosen.value.get("context") or {}
    found = _entry(merged, "clusters", context.get("cluster") or "")
    if found is None:
        raise ValueError(f"no cluster {context.get('cluster') or ''!r}")
    cluster = ConfigNode("cluster", {"name": "cluster", "cluster": _given(found.value.get("cluster"))}, found.path)
    who = context.get("user") or ""
    user = _entry(merged, "users", who) if who else ConfigNode("user", {}, found.path)
    if user is None:
        raise ValueError(f"no user {who!r}")
    said = _given(user.value.get("user"))
    if "tokenFile" in said:
        said.pop("token", None)
    if {"token", "tokenFile"} & said.keys():
        said.pop("exec", None)
    halves = [any(f"{each}{end}" in said for end in ("", "-data")) for each in ("client-certificate", "client-key")]
    if halves[0] != halves[1]:
        raise ValueError("a client certificate needs its key, and a key its certificate")
    for part in (said, cluster.value["cluster"]):
        _check(part)
    config = {
        "contexts": [{"name": name, "context": {"cluster": "cluster", "user": "user"}}],
        "clusters": [cluster],
        "users": [ConfigNode("user", {"name": "user", "user": said}, user.path)],
    }
    return ConfigNode("kubeconfig", config), str(context.get("namespace") or "")


def _entry(merged: ConfigNode | None, kind: str, name: str) -> ConfigNode | None:
    entries = merged.value[kind] if merged is not None else []
    return next((each for each in entries if each["name"] == name), None)


def _given(said: Any) -> dict[str, Any]:
    return {key: value for key, value in dict(said or {}).items() if value is not None and value != ""}


def _check(part: dict[str, Any]) -> None:
    """The library drops whatever is no base64, and takes what is no text for it."""
    for key, value in part.items():
        if key.removesuffix("-data") in (*_INLINE, "server", "token", "tokenFile") and not isinstance(value, str):
            raise TypeError(f"{key} is no text")
        if key.endswith("-data"):
            try:
                base64.b64decode("".join(value.split()), validate=True)
            except binascii.Error as error:
                raise ValueError(f"{key} is not base64 ({error})") from None


def _persister(merger: KubeConfigMerger) -> Any:
    """Keeps what an OIDC provider has given in the file that it belongs to: the former refresh token may be void."""

    def persist(_: Any) -> None:
        try:
            merger.save_changes()
        except OSError as error:
            _log.warning("new credentials could not be kept in the kubeconfig", error=str(error))

    return persist


class _Loader(KubeConfigLoader):
    """The library's, with plug-ins as kubectl runs them, and providers that are known by their certificates."""

    fresh_seconds = REREAD_SECONDS

    async def load_from_exec_plugin(self) -> bool:
        """Run the plug-in of the user, and take what it gives."""
        at: Any = self._cluster
        user: Any = self._user
        cluster = dict(at.value)
        folder = self._get_base_path(at.path)
        if file := cluster.get("certificate-authority"):
            content = Path(folder, file).read_bytes()  # noqa: ASYNC240
            cluster.setdefault("certificate-authority-data", base64.b64encode(content).decode())
        found = await log_in(user["exec"].value, Path(self._get_base_path(user.path)), cluster)
        if found.token:
            self.token = f"Bearer {found.token.strip()}"
        if found.certificate is not None:
            self.cert_file: str | None
            self.key_file: str | None
            self.cert_file, self.key_file = found.certificate
        self.fresh_seconds = found.fresh_seconds
        return True

    async def _refresh_oidc(self, provider: Any) -> None:
        """Ask for a new ID token. The library would not look at the certificate of whom it gives the refresh token, and
        would fail where no new refresh token comes with the answer.
        """
        config = provider["config"]
        if "refresh-token" not in config:
            raise ConfigException(failures.NO_REFRESH)
        content = config.safe_get("idp-certificate-authority-data")
        authority = base64.b64decode(content).decode() if content else None
        tls = ssl.create_default_context(cafile=config.safe_get("idp-certificate-authority"), cadata=authority)
        secret = config.safe_get("client-secret") or ""
        requestor = _Requestor(config["client-id"], secret, config["idp-issuer-url"], tls)
        answer = await requestor.refresh_token(config["refresh-token"])
        config.value["id-token"] = answer["id_token"]
        config.value["refresh-token"] = answer.get("refresh_token") or config["refresh-token"]
        self._config_persister(self._config.value)


class _Requestor(OpenIDRequestor):
    def _client_session(self) -> aiohttp.ClientSession:
        identity = aiohttp.encode_basic_auth(self._client_id, self._client_secret)
        return aiohttp.ClientSession(
            headers={**self._default_headers, "Authorization": identity},
            connector=aiohttp.TCPConnector(ssl=self._ssl_ca_cert or True),
            raise_for_status=True,
            trust_env=True,
        )
