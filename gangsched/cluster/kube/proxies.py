"""Finds the proxy to an API server, by the rules of Go's net/http, which are kubectl's.

aiohttp reads the same variables by other rules. It ignores blocks of addresses in ``NO_PROXY``, which clusters have for
their services, and uses the proxy also for servers on this machine.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from urllib.parse import urlsplit

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def proxy_of(server: str, given: str | None) -> str | None:
    """Return the URL of the proxy for requests to the URL ``server``: the ``given`` one, else that of the environment
    (``HTTPS_PROXY``, ``HTTP_PROXY``, ``NO_PROXY``, or in lower case). Servers on this machine need none.

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
    return parts.geturl()


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
    """Return whether an entry of ``NO_PROXY`` means this host: an address, a block of them, a domain, with or without a
    port.
    """
    with contextlib.suppress(ValueError):
        network = ipaddress.ip_network(word, strict=False)
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host) in network
        return False
    name, _, number = word.lower().partition(":")
    if number and number != str(port):
        return False
    return name == "*" or (bool(name) and f".{host.lower()}".endswith(f".{name.removeprefix('*').removeprefix('.')}"))
