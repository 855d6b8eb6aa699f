"""Start and stop a control plane on loopback: etcd, kube-apiserver and, as asked, controllers, KWOK, kube-scheduler."""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from tests.controlplane import binaries, certificates
from tests.controlplane.versions import GROUP, GROUP_APIS

HERE = Path(__file__).resolve().parent

START_SECONDS = 60.0
"""A start that takes longer has failed. Usually it takes three."""

STOP_SECONDS = 5.0
"""After this a component that was told to stop is killed."""

SCHEDULER_USER = "system:serviceaccount:gangsched-system:gangsched"

TOKENS = {
    # user: (token, groups). Components have names of their own, so that an audit log tells who did what.
    "admin": ("admin-token", ("system:masters",)),
    "kube-controller-manager": ("controller-manager-token", ("system:masters",)),
    "kube-scheduler": ("kube-scheduler-token", ("system:masters",)),
    "kwok": ("kwok-token", ("system:masters",)),
    SCHEDULER_USER: ("scheduler-token", ("system:serviceaccounts", "system:serviceaccounts:gangsched-system")),
}

STORED_AS = {"minions": "nodes", "controllers": "replicationcontrollers", "ingress": "ingresses"}
"""Plurals of resources that etcd has under older names."""

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["get", "list", "watch"]},
        {"level": "Request"},
    ],
}

running: list[ControlPlane] = []
"""Every control plane that is up, for reports about failed tests."""


class ControlPlaneError(Exception):
    """The control plane did not start, or died; the text ends with the tails of its logs."""


@dataclass
class _Component:
    name: str
    log: Path
    guard: subprocess.Popen[bytes]

    def stop(self) -> None:
        assert self.guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.guard.stdin.close()  # the guard takes this as the order to stop
        try:
            self.guard.wait(STOP_SECONDS + 5.0)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.guard.pid, signal.SIGKILL)  # the group holds guard and component
            self.guard.wait()


class ControlPlane:
    """One control plane. Start and stop it with `with`, or with `start` and `stop`; it serves one run.

    Args:
        directory: for data, logs and kubeconfigs; `directory/logs` stays when it stops, the data does not.
        group_api: turn on the gang API of upstream (feature gates and API version), as far as the server has it.
        controller_manager: Jobs, garbage collection, budgets of PDBs, taints of nodes.
        kwok: simulated kubelets for every node. Without them a bound pod stays Pending.
        kube_scheduler: a schedulerName that upstream's kube-scheduler shall serve.
        gates: further feature gates, of all components that have the gang API's.
        audit: record all requests, those that write with their bodies, in `audit_log`.
        apiserver_args: further flags of kube-apiserver.
        controller_manager_args: further flags of kube-controller-manager.
        kube_scheduler_config: merged over the generated KubeSchedulerConfiguration (top level keys replace).
        kube_scheduler_args: further flags of kube-scheduler.
    """

    def __init__(  # noqa: PLR0913
        self,
        directory: Path,
        *,
        group_api: bool = True,
        controller_manager: bool = True,
        kwok: bool = True,
        kube_scheduler: str | None = None,
        gates: Sequence[str] = (),
        audit: bool = False,
        apiserver_args: Sequence[str] = (),
        controller_manager_args: Sequence[str] = (),
        kube_scheduler_config: dict[str, Any] | None = None,
        kube_scheduler_args: Sequence[str] = (),
        report: binaries.Report | None = None,
    ) -> None:
        self.directory = directory
        self.logs = directory / "logs"
        self.audit_log = directory / "audit.log"
        self.group_api = group_api
        self.start_seconds = 0.0
        self.server = ""
        self._etcd = ""
        self._with_controller_manager = controller_manager
        self._with_kwok = kwok
        self._kube_scheduler = kube_scheduler
        self._kube_scheduler_config = kube_scheduler_config or {}
        self._kube_scheduler_args = tuple(kube_scheduler_args)
        self._more_gates = tuple(gates)
        self._audit = audit
        self._apiserver_args = tuple(apiserver_args)
        self._controller_manager_args = tuple(controller_manager_args)
        self._report = report
        self._components: list[_Component] = []
        self._feature_gates = ""
        self._manager: tuple[Path | str, ...] = ()

    # ------------------------------------------------------------------------------------------------- what tests use

    @property
    def admin_kubeconfig(self) -> Path:
        """A user who may do everything."""
        return self.kubeconfig("admin")

    @property
    def scheduler_kubeconfig(self) -> Path:
        """The scheduler's own user, who may do only what was granted (see `tests.controlplane.rbac`)."""
        return self.kubeconfig(SCHEDULER_USER)

    @property
    def ca_file(self) -> Path:
        """The authority that signed the server's certificate."""
        return self.directory / "pki" / "ca.crt"

    def kubeconfig(self, user: str, server: str | None = None) -> Path:
        """A kubeconfig for a user of TOKENS; `server` puts another address in (a proxy in front of the real one)."""
        name = user.replace(":", "-")
        if server:
            name += "-" + re.sub(r"\W+", "-", server)
        path = self.directory / f"{name}.kubeconfig"
        cluster = {"server": server or self.server, "certificate-authority": str(self.ca_file)}
        if server and server.startswith("http://"):
            del cluster["certificate-authority"]
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": TOKENS[user][0]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def audit_events(self, user: str | None = None) -> list[dict[str, Any]]:
        """What the audit log holds by now, in the order in which requests were answered; of one user, or of all."""
        assert self._audit, "start the control plane with audit=True"
        events = [json.loads(line) for line in self.audit_log.read_text().splitlines() if line.endswith("}")]
        return [event for event in events if user is None or event["user"]["username"] == user]

    def log_tails(self, lines: int = 15) -> str:
        """The last lines of every log, under the path of each."""
        parts = []
        for path in sorted(self.logs.glob("*.log")):
            tail = path.read_text(errors="replace").splitlines()[-lines:]
            parts.append("\n".join([f"--- {path}", *tail]))
        return "\n".join(parts)

    def stored(self) -> set[str]:
        """The resources of which there are objects, by plural: one request of etcd instead of one of each."""
        limits = {"key": "/registry/", "range_end": "/registry0"}
        asked = {name: base64.b64encode(key.encode()).decode() for name, key in limits.items()} | {"keys_only": True}
        request = urllib.request.Request(f"{self._etcd}/v3/kv/range", json.dumps(asked).encode())
        with urllib.request.urlopen(request, timeout=START_SECONDS) as response:
            keys = (base64.b64decode(each["key"]).decode() for each in json.load(response).get("kvs", ()))
        # /registry/pods/..., and with their group /registry/scheduling.x-k8s.io/podgroups/...
        words = {word for key in keys for word in key.split("/")[2:4]}
        return {STORED_AS.get(word, word) for word in words}

    def dead(self) -> list[str]:
        """Components that have ended although nobody stopped them."""
        return [component.name for component in self._components if component.guard.poll() is not None]

    # ------------------------------------------------------------------------------------------------- start and stop

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return when every component says that it is ready; raise with the logs when one does not."""
        programs = binaries.find(self._report) if self._report else binaries.find()
        started = time.monotonic()
        attempts = 3
        for attempt in range(1, attempts + 1):
            try:
                self._start(programs)
                break
            except BaseException as error:
                problem = f"{error}\n{self.log_tails()}"
                self.stop()
                # Ports are free when we look, not when a component binds them: look again.
                if isinstance(error, ControlPlaneError) and "address already in use" in problem and attempt < attempts:
                    continue
                if isinstance(error, ControlPlaneError):
                    raise ControlPlaneError(f"the control plane did not start: {problem}") from error
                raise
        self.start_seconds = time.monotonic() - started
        running.append(self)
        atexit.register(self.stop)

    def stop(self) -> None:
        """Stop everything in reverse order and remove the data; logs stay. Safe to call again."""
        atexit.unregister(self.stop)
        if self in running:
            running.remove(self)
        while self._components:
            self._components.pop().stop()
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def end(self, name: str) -> None:
        """Stop one component for good; the others go on."""
        component = next(each for each in self._components if each.name == name)
        self._components.remove(component)
        component.stop()

    def restart(self, name: str) -> None:
        """Stop one component and start it again as it was; when it is the API server, wait until it is ready."""
        component = next(each for each in self._components if each.name == name)
        command = list(map(str, component.guard.args))  # type: ignore[arg-type]
        program, *arguments = command[command.index(str(component.log)) + 2 :]
        self.end(name)
        self._run(name, Path(program), *arguments)
        if name == "kube-apiserver":
            self._wait(name, f"{self.server}/readyz")

    # ------------------------------------------------------------------------------------------------------ components

    def _start(self, programs: dict[str, Path]) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        for log in self.logs.glob("*.log"):
            log.unlink()
        pki = certificates.create(self.directory / "pki")
        etcd_port, peer_port, api_port, manager_port, kwok_port, scheduler_port = _free_ports(6)
        self.server = f"https://127.0.0.1:{api_port}"

        self._etcd = etcd = f"http://127.0.0.1:{etcd_port}"
        peer = f"http://127.0.0.1:{peer_port}"
        self._run(
            "etcd",
            programs["etcd"],
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        )
        self._run_apiserver(programs["kube-apiserver"], etcd, api_port, pki)
        self._wait("kube-apiserver", f"{self.server}/readyz")
        # The "default" namespace is made by a loop of the server that readiness does not cover.
        self._wait("kube-apiserver", f"{self.server}/api/v1/namespaces/default")

        serving = (
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={pki.server}",
            f"--tls-private-key-file={pki.server_key}",
        )
        checks = []
        self._manager = (
            programs["kube-controller-manager"],
            f"--service-account-private-key-file={pki.accounts_key}",
            f"--root-ca-file={pki.ca}",
            *serving,
        )
        if self._with_controller_manager:
            checks.append(self._manage(manager_port))
        if self._with_kwok:
            self._run(
                "kwok",
                programs["kwok"],
                f"--kubeconfig={self.kubeconfig('kwok')}",
                f"--config={HERE / 'stages.yaml'}",
                "--manage-all-nodes=true",
                "--node-lease-duration-seconds=200",
                "--node-ip=127.0.0.1",
                "--cidr=10.64.0.0/10",
                f"--server-address=127.0.0.1:{kwok_port}",
            )
            checks.append(("kwok", f"http://127.0.0.1:{kwok_port}/readyz"))
        if self._kube_scheduler:
            self._run(
                "kube-scheduler",
                programs["kube-scheduler"],
                f"--config={self._write_kube_scheduler_config(self._kube_scheduler)}",
                f"--secure-port={scheduler_port}",
                *serving,
                *self._gates(),
                *self._kube_scheduler_args,
            )
            checks.append(("kube-scheduler", f"https://127.0.0.1:{scheduler_port}/readyz"))
        for name, url in checks:
            self._wait(name, url)

    def manage(self, *arguments: str) -> None:
        """Start kube-controller-manager now, on a control plane that has begun without it."""
        self._wait(*self._manage(_free_ports(1)[0], *arguments))

    def _manage(self, port: int, *arguments: str) -> tuple[str, str]:
        program, *flags = self._manager
        self._run(
            "kube-controller-manager",
            Path(program),
            f"--kubeconfig={self.kubeconfig('kube-controller-manager')}",
            "--controllers=*",
            "--leader-elect=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            # KWOK renews a node's lease every 50 s; a busy machine must not turn nodes NotReady.
            "--node-monitor-grace-period=200s",
            f"--secure-port={port}",
            *map(str, flags),
            *self._gates(),
            *self._controller_manager_args,
            *arguments,
        )
        return "kube-controller-manager", f"https://127.0.0.1:{port}/healthz"

    def _run_apiserver(self, program: Path, etcd: str, port: int, pki: certificates.Certificates) -> None:
        tokens = self.directory / "tokens.csv"
        tokens.write_text(
            "".join(f'{token},{user},{user},"{",".join(groups)}"\n' for user, (token, groups) in TOKENS.items())
        )
        disabled = ["ServiceAccount"]  # it waits for accounts that no test needs
        if not self._with_controller_manager:
            disabled.append("TaintNodesByCondition")  # nobody would take the not-ready taint away
        flags = [
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={pki.server}",
            f"--tls-private-key-file={pki.server_key}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki.accounts_public_key}",
            f"--service-account-signing-key-file={pki.accounts_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            f"--disable-admission-plugins={','.join(disabled)}",
        ]
        if self.group_api:
            minor = _minor_version(program)
            known = GROUP_APIS.get(minor)
            if known is None:
                raise ControlPlaneError(f"{program} is 1.{minor}: it has no group API; start it with group_api=False")
            self._feature_gates = ",".join(f"{gate}=true" for gate in (*known.gates, *self._more_gates))
            flags += [f"--runtime-config={','.join(f'{GROUP}/{v}=true' for v in known.served)}", *self._gates()]
        if self._audit:
            policy = self.directory / "audit-policy.yaml"
            policy.write_text(yaml.safe_dump(AUDIT_POLICY))
            flags += [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]
        self._run("kube-apiserver", program, *flags, *self._apiserver_args)

    def _write_kube_scheduler_config(self, scheduler_name: str) -> Path:
        path = self.directory / "kube-scheduler.yaml"
        connection = {"kubeconfig": str(self.kubeconfig("kube-scheduler")), "qps": 5000, "burst": 5000}
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": connection,
            "profiles": [{"schedulerName": scheduler_name}],
            **self._kube_scheduler_config,
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def _gates(self) -> tuple[str, ...]:
        return (f"--feature-gates={self._feature_gates}",) if self._feature_gates else ()

    def _run(self, name: str, program: Path, *arguments: str) -> None:
        log = self.logs / f"{name}.log"
        with log.open("a") as header:
            header.write(f"$ {program} {' '.join(arguments)}\n")
        command = [str(HERE / "guard.py"), str(log), str(STOP_SECONDS), str(program), *arguments]
        guard = subprocess.Popen(
            [sys.executable, "-I", "-S", *command],
            stdin=subprocess.PIPE,
            cwd=self.directory,
            # Rarer collections: a seventh less processor time for tests on a control plane, and 120 MB more memory.
            env={"GOGC": "400", **os.environ},
            start_new_session=True,  # Ctrl-C is for pytest, which then stops the components in order
        )
        self._components.append(_Component(name, log, guard))

    def _wait(self, name: str, url: str) -> None:
        """Poll a URL until it answers 200; give up when the component dies or takes too long."""
        context = ssl.create_default_context(cafile=str(self.ca_file)) if url.startswith("https:") else None
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKENS['admin'][0]}"})
        deadline = time.monotonic() + START_SECONDS
        answer = "no answer"
        while time.monotonic() < deadline:
            if dead := self.dead():
                raise ControlPlaneError(f"{', '.join(dead)} ended during start")
            try:
                with urllib.request.urlopen(request, timeout=2.0, context=context) as response:
                    if response.status == 200:
                        return
            except urllib.error.HTTPError as error:
                with error:
                    answer = f"{error.code} {error.read().decode(errors='replace')[-500:]}"
            except OSError as error:
                answer = str(error)
            time.sleep(0.2)  # each question costs a handshake, and a look at all that has to be ready
        raise ControlPlaneError(f"{name} was not ready after {START_SECONDS:.0f} s; {url} last said: {answer}")


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _minor_version(program: Path) -> int:
    """The minor version that `kube-apiserver --version` prints (`Kubernetes v1.36.3`)."""
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"v1\.(\d+)", text)
    if not match:
        raise ControlPlaneError(f"{program} --version printed {text!r}")
    return int(match[1])
