"""Which proxy stands between us and a server, as the kubeconfig or the environment says it."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import os
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Proxy(NamedTuple):
    """An HTTP proxy: its URL, where to connect to, whether it uses TLS itself, and the headers it needs."""

    url: str
    host: str
    port: int
    secure: bool
    headers: Mapping[str, str]


def proxy_of(server: str, given: str | None) -> Proxy | None:
    """The proxy for requests to the URL ``server``: the one that is ``given``, else that of the environment
    (``HTTPS_PROXY``, ``HTTP_PROXY``, ``NO_PROXY``, or in lower case), read as Go's net/http reads them: servers on this
    machine need none, and ``NO_PROXY`` knows blocks of addresses.

    Raises ValueError for what is not the address of an HTTP proxy.
    """
    url = given or _from_environment(server)
    if not url:
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(
            f"the proxy {parts._replace(netloc=parts.hostname or '').geturl()!r} is not an http:// or https:// URL"
        )
    secure = parts.scheme == "https"
    headers = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    return Proxy(parts.geturl(), parts.hostname, parts.port or (443 if secure else 80), secure, headers)


def _from_environment(server: str) -> str | None:
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    url = _variable(f"{parts.scheme}_proxy")
    if (
        not url
        or host in _LOOPBACK
        or any(_excludes(each.strip(), host, port) for each in _variable("no_proxy").split(","))
    ):
        return None
    return url


def _variable(name: str) -> str:
    return os.environ.get(name.upper()) or os.environ.get(name) or ""


def _excludes(word: str, host: str, port: int) -> bool:
    """Does an entry of ``NO_PROXY`` mean this host: an address, a block of them, a domain, with or without a port?"""
    with contextlib.suppress(ValueError):
        network = ipaddress.ip_network(word, strict=False)
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host) in network
        return False
    name, _, number = word.lower().partition(":")
    if number and number != str(port):
        return False
    return name == "*" or (bool(name) and f".{host.lower()}".endswith(f".{name.removeprefix('*').removeprefix('.')}"))
