"""How to reach the API server and who we are there, as kubeconfig files or the pod's service account say it.

:mod:`gangsched.cluster.kube.kubeconfig` lets the library read them. This module turns each failure into
:class:`ConnectionConfigError`, and makes a session from the result.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gangsched import __version__, logs
from gangsched.cluster.kube.kubeconfig import Credentials, from_kubeconfig, from_service_account
from gangsched.cluster.kube.proxies import proxy_of
from gangsched.cluster.kube.session import Session
from gangsched.messages import failures

_log = logs.get(__name__)

#: An exec plug-in (a cloud's login helper) that takes longer than this has hung.
LOGIN_TIMEOUT_SECONDS = 60.0
#: Credentials that could not be read again are tried again after this time.
RETRY_SECONDS = 300.0
#: A server that rejects our credentials does not make us run a plug-in more often than this.
REJECTED_PAUSE_SECONDS = 10.0
SERVICE_ACCOUNT_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105
SERVICE_ACCOUNT_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"


class ConnectionConfigError(Exception):
    """The cluster cannot be reached with what the user gave; the text names the file and the context."""


class Connection:
    """Address, TLS and credentials of one API server; made by :func:`load_connection`.

    ``description`` says where it came from (file and context, or the service account), ``server`` is the URL,
    ``namespace`` the one that the context names, if any.
    An instance may be loaded on one event loop and used on another, but by one loop at a time.
    """

    def __init__(
        self, kubeconfig: str | None, context: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._kubeconfig = kubeconfig
        self._wanted_context = context
        self.context = ""
        self.namespace = ""
        self.description = ""
        self.server = ""
        self._authorization = ""
        self._tls: ssl.SSLContext | None = None
        self._tls_server_name: str | None = None
        self._proxy: str | None = None
        self._reread_at = float("inf")
        self._last_login = float("-inf")

    def __str__(self) -> str:
        return f"{self.server} ({self.description})"

    # ------------------------------------------------------------------------------------------------- loading

    async def load(self) -> None:
        """Read everything (again). Raises :class:`ConnectionConfigError`; what was loaded before stays valid."""
        self._last_login = self._clock()
        where = f"kubeconfig {self._kubeconfig}" if self._kubeconfig else failures.SERVICE_ACCOUNT
        if self._wanted_context and self._kubeconfig:
            where += f", context {self._wanted_context}"
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT_SECONDS):
                self._use(await self._read())
        except TimeoutError:
            raise ConnectionConfigError(failures.no_credentials(where=where, seconds=LOGIN_TIMEOUT_SECONDS)) from None
        except (OSError, ValueError) as error:
            raise ConnectionConfigError(f"{where}: {error}") from None

    async def _read(self) -> Credentials:
        if self._kubeconfig:
            return await from_kubeconfig(self._kubeconfig, self._wanted_context)
        return from_service_account(SERVICE_ACCOUNT_TOKEN, SERVICE_ACCOUNT_CA)

    def _use(self, found: Credentials) -> None:
        said, authorization = found.configuration, found.authorization
        proxy = proxy_of(found.host, said.proxy)
        # One context for all sessions, read at each handshake. The library makes one for each session and would never
        # use a replaced certificate.
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=said.ssl_ca_cert)
            # Many clusters' own authorities predate the extensions that Python 3.13 insists on; Go accepts them too.
            self._tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if not said.verify_ssl:
                self._tls.check_hostname = False
                self._tls.verify_mode = ssl.CERT_NONE
                _log.warning("the API server's certificate is not checked", reason="insecure-skip-tls-verify")
        elif said.ssl_ca_cert:
            self._tls.load_verify_locations(cafile=said.ssl_ca_cert)  # the authority may have been replaced
        if said.cert_file:
            self._tls.load_cert_chain(said.cert_file, said.key_file)
        self._proxy, self._tls_server_name = proxy, said.tls_server_name or None
        self._authorization = authorization
        self._reread_at = self._clock() + found.fresh_seconds
        self.context, self.namespace = found.context, found.namespace
        self.server = found.host.rstrip("/")
        self.description = failures.SERVICE_ACCOUNT
        if self._kubeconfig:
            self.description = failures.of_context(path=self._kubeconfig, context=found.context)

    # --------------------------------------------------------------------------------------------------- using

    def session(self) -> Session:
        """Return the session of requests on the running event loop. The caller closes it."""
        return Session(self.server, self._tls, self._tls_server_name, f"gangsched/{__version__}", self._proxy)

    @property
    def at_hand(self) -> bool:
        """Whether :meth:`headers` returns without waiting for anything."""
        return self._clock() < self._reread_at

    async def headers(self) -> Mapping[str, str]:
        """The credentials of one request, refreshed first where that is due."""
        if self._clock() >= self._reread_at:
            self._reread_at = self._clock() + RETRY_SECONDS
            await self._reload("credentials are due")
        return {"Authorization": self._authorization} if self._authorization else {}

    async def rejected(self) -> None:
        """The server answered 401: read the credentials again, but not in a tight loop."""
        if self._clock() - self._last_login >= REJECTED_PAUSE_SECONDS:
            await self._reload("the server rejected the credentials")

    async def _reload(self, reason: str) -> None:
        try:
            await self.load()
        except ConnectionConfigError as error:
            _log.error("credentials could not be read again", reason=reason, error=str(error))


async def load_connection(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Connection:
    """The connection of the service account inside a cluster, elsewhere the one that kubectl would use.

    ``kubeconfig`` names one file, which must exist; otherwise the service account of this pod, then
    ``$KUBECONFIG`` (a path list), then ``~/.kube/config``. ``context`` overrides the file's current one. Raises
    :class:`ConnectionConfigError`.
    """
    connection = Connection(_kubeconfig_path(kubeconfig), context, clock)
    await connection.load()
    if context and not connection.context:
        raise ConnectionConfigError(failures.no_kubeconfig_for_context(context=context))
    return connection


def _kubeconfig_path(given: str | os.PathLike[str] | None) -> str | None:
    if given is not None:
        path = Path(given).expanduser()
        if not path.is_file():
            raise ConnectionConfigError(failures.kubeconfig_missing(path=path))
        return str(path)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and Path(SERVICE_ACCOUNT_TOKEN).is_file():
        return None
    from_environment = os.environ.get("KUBECONFIG", "")
    if from_environment:
        if not any(Path(p).expanduser().is_file() for p in from_environment.split(os.pathsep) if p):
            raise ConnectionConfigError(failures.kubeconfig_of_environment_missing(path=from_environment))
        return from_environment
    default = Path.home() / ".kube" / "config"
    if default.is_file():
        return str(default)
    raise ConnectionConfigError(failures.no_cluster(default=default))
