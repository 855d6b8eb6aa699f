"""How the process starts, ends and fails, without a cluster behind it."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from gangsched.cli import main as cli
from gangsched.cli import run
from gangsched.cli.inputs import configure
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.connection import Connection, load_connection
from gangsched.core.actions import Action
from gangsched.core.events import Event
from gangsched.core.options import STEPS_PER_MILLISECOND, Options
from gangsched.core.scheduler import Lasting, Scheduler
from gangsched.runtime import connecting, process
from gangsched.runtime.config import load as load_configuration
from gangsched.runtime.settings import ClientConnection, Configuration, Http

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
users: [{{name: test, user: {{token: secret}}}}]
clusters: [{{name: test, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
"""


@pytest.fixture
def nowhere() -> Iterator[int]:
    """A port on which nobody answers, and that nobody else can take meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def kubeconfig(tmp_path: Path, nowhere: int) -> Path:
    """A kubeconfig of a server that does not answer."""
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.format(port=nowhere))
    return path


@pytest.fixture
async def connection(kubeconfig: Path) -> Connection:
    """The connection to it, loaded."""
    return await load_connection(kubeconfig)


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def configuration(port: int) -> Configuration:
    """Defaults, with probes on this port."""
    return msgspec.structs.replace(Configuration(), http=Http(port=port))


def test_missing_kubeconfig(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kubeconfig that does not exist is one line and exit code 2."""
    missing = tmp_path / "missing"
    assert cli.main(["run", "--kubeconfig", str(missing)]) == 2
    assert capsys.readouterr().err == f"gangsched: kubeconfig {missing}: no such file\n"


def test_unknown_context(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A context that the kubeconfig does not have is one line that names those it has."""
    assert cli.main(["run", "--kubeconfig", str(kubeconfig), "--context", "prod"]) == 2
    assert (
        capsys.readouterr().err
        == f"gangsched: kubeconfig {kubeconfig}, context prod: no context 'prod'; it has: test\n"
    )


def test_bad_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A configuration that is no good is told before anything is connected to."""
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: gangsched.dev/v1alpha1\nkind: GangSchedulerConfiguration\nhttp: {prot: 1}\n")
    assert cli.main(["run", "--config", str(file)]) == 2
    assert capsys.readouterr().err == f"gangsched: {file}:3: http.prot: unknown key; did you mean port?\n"


def test_server_that_does_not_answer(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that cannot be reached is one line that names it and where its address came from."""
    monkeypatch.setattr(connecting, "_PROBE_SECONDS", 0.2)
    assert cli.main(["run", "--kubeconfig", str(kubeconfig)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gangsched: http://127.0.0.1:")
    assert f"(kubeconfig {kubeconfig}, context test) cannot be reached: " in line


@pytest.mark.parametrize(("status", "starts"), [(429, True), (503, True), (403, False)])
def test_a_server_that_is_busy_has_not_refused_us(
    status: int, starts: bool, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may be over in a moment does not end the process; that we may not is told at once."""

    async def attempt(*_: object, **__: object) -> bytes:
        raise ApiError(status, "Reason", "words")

    monkeypatch.setattr(Client, "attempt", attempt)
    wanted = Configuration(client_connection=ClientConnection(kubeconfig=str(kubeconfig)))
    announced: list[Connection] = []
    if starts:
        assert connecting.connect(wanted, elects=True, announce=announced.append).server.startswith("http://127.0.0.1:")
        assert len(announced) == 1
    else:
        with pytest.raises(connecting.StartError, match="refuses us: 403 Reason: words"):
            connecting.connect(wanted)


@pytest.mark.parametrize(("breaks", "seconds", "starts"), [(2, 10.0, True), (2, 0.0, False)])
def test_a_connection_that_breaks_is_tried_again(
    breaks: int, seconds: float, starts: bool, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment: then the server cannot be reached."""
    attempts: list[float] = []

    async def attempt(*_: object, timeout_seconds: float, **__: object) -> bytes:
        attempts.append(timeout_seconds)
        if len(attempts) <= breaks:
            raise UnreachableError("the connection was closed")
        return b"{}"

    monkeypatch.setattr(Client, "attempt", attempt)
    monkeypatch.setattr(connecting, "_PROBE_RETRY_SECONDS", seconds)
    wanted = Configuration(client_connection=ClientConnection(kubeconfig=str(kubeconfig)))
    if starts:
        connecting.connect(wanted)
    else:
        with pytest.raises(connecting.StartError, match="cannot be reached: the connection was closed"):
            connecting.connect(wanted)
    assert len(attempts) == (3 if starts else 1)


def test_port_of_the_probes_is_taken(connection: Connection) -> None:
    """A chosen port that is taken is an error that names option and setting."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(connecting.StartError, match=rf"cannot listen on 127.0.0.1:{port}: .*--port or http.port"):
            process.Process(configuration(port), connection).run()


def test_every_command_searches_alike(connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run`, `run --once`, `plan` and `simulate` have the same search steps from one configuration; only a scheduler of
    a live cluster waits until it leads.
    """
    given: list[Options] = []
    begin = Scheduler.__init__

    def note(scheduler: Scheduler, options: Options, lasting: Lasting | None = None) -> None:
        given.append(options)
        begin(scheduler, options, lasting)

    monkeypatch.setattr(Scheduler, "__init__", note)
    config, manifest = tmp_path / "config.yaml", tmp_path / "node.yaml"
    config.write_text(
        "apiVersion: gangsched.dev/v1alpha1\nkind: GangSchedulerConfiguration\npreemption: {budgetMilliseconds: 70}\n"
    )
    manifest.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    for command in ("plan", "simulate"):
        assert cli.main([command, "-f", str(manifest), "--config", str(config), "-o", "json"]) == 0
    offline = len(given)
    for once in (False, True):
        process.Process(load_configuration(config), connection, once=once)
    assert offline
    assert {o.search_steps for o in given} == {70 * STEPS_PER_MILLISECOND}
    assert [o.wait_for_leadership for o in given] == [*[False] * offline, True, True]
    assert [o.owner_wait_seconds > 0 for o in given] == [*[False] * offline, True, False]


@pytest.fixture
def taken_default(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The default port of the probes, which another process listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(connecting, "Http", lambda: Http(port=taken.getsockname()[1]))
        yield taken.getsockname()[1]


def test_outside_a_cluster_a_taken_default_port_means_another(taken_default: int) -> None:
    """kube-scheduler on the same host does not keep the process from starting."""
    assert connecting.free_port(configuration(taken_default)) not in (0, taken_default)


def test_in_a_pod_a_taken_default_port_is_an_error(
    connection: Connection, taken_default: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There the probes of the kubelet know one port, and no other will do."""
    token = tmp_path / "token"
    token.touch()
    monkeypatch.setattr(connecting, "_SERVICE_ACCOUNT", token)
    wanted = msgspec.structs.replace(Configuration(), http=Http(port=taken_default, bind_address="127.0.0.1"))
    with pytest.raises(connecting.StartError, match="cannot listen"):
        process.Process(wanted, connection).run()


@pytest.mark.parametrize(("dry_run", "once"), [(False, False), (False, True), (True, False)])
def test_no_port_where_nothing_probes(dry_run: bool, once: bool, connection: Connection) -> None:
    """A dry run and a single pass listen nowhere, so that they run beside a scheduler."""
    running = process.Process(configuration(free_port()), connection, dry_run=dry_run, once=once)
    assert running._probed == (not dry_run and not once)


def test_a_single_pass_has_a_deadline(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that cannot be listed ends `--once` with a sentence, instead of a wait without end."""
    monkeypatch.setattr(process, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(process, "unreadable", lambda cluster, waited: "pods: forbidden" if waited > 0.1 else None)
    with pytest.raises(connecting.StartError, match="cannot be read: pods: forbidden"):
        process.Process(Configuration(), connection, once=True).run()


@pytest.mark.parametrize(
    ("options", "port", "level"), [([], 10259, "info"), (["--port", "0", "--log-level", "debug"], 0, "debug")]
)
def test_port_and_log_level_on_the_command_line(options: list[str], port: int, level: str) -> None:
    """They override the configuration."""
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    found = configure(parser.parse_args(options))
    assert (found.http.port, found.logging.level) == (port, level)


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_is_none(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused before anything is connected to."""
    assert cli.main(["run", f"--port={port}"]) == 2
    assert "is not a number from 0 to 65535" in capsys.readouterr().err


def test_a_dead_decision_thread_ends_the_process(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the core fails the process ends with 1, so that it is started anew; it does not live on as a shell."""

    def fail(_: Scheduler, events: Sequence[Event], now: float) -> list[Action]:
        raise KeyError("broken")

    monkeypatch.setattr(Scheduler, "handle", fail)
    assert process.Process(configuration(0), connection).run() == process.FAILED


def test_the_decision_thread_does_not_leave_in_silence(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """What sys.exit() raises would end a thread without a word, and the process would wait for ever."""

    def leave(_: Scheduler, events: Sequence[Event], now: float) -> list[Action]:
        sys.exit(0)

    monkeypatch.setattr(Scheduler, "handle", leave)
    running = process.Process(configuration(0), connection)
    running._decide()
    assert running._asked.get_nowait() == "the decision thread has died"
    assert "SystemExit(0)" in (running._pulse.check() or "")


def test_what_is_known_is_too_old_to_be_ready(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """/readyz fails with the reason while no pod is evicted because of the age of what is known, and only then."""
    port = free_port()
    running = process.Process(configuration(port), connection)
    monkeypatch.setattr(running._pulse, "check_synced", lambda: None)
    running._port = port
    running._start_health()
    try:
        url = f"http://127.0.0.1:{port}/readyz"
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.status == 200
        monkeypatch.setattr(running._kube, "stale", lambda: "nothing has been heard of pods")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, timeout=60)
        with refused.value as error:
            assert (error.code, error.read()) == (503, b"age: nothing has been heard of pods\n")
    finally:
        assert running._health is not None
        running._health.stop()


def test_a_signal_ends_the_process_in_order(connection: Connection) -> None:
    """SIGTERM ends a process that waits for its cluster with 0; the probes answered while it waited."""
    port = free_port()
    probes: list[int] = []

    def wait_and_stop() -> None:
        try:
            for path in ("healthz", "readyz"):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
                        probes.append(answer.status)
                except urllib.error.HTTPError as error:
                    with error:
                        probes.append(error.code)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    class Eager(process.Process):
        """Begins to be probed when its probes are up."""

        def _start_health(self) -> None:
            super()._start_health()
            self.prober = threading.Thread(target=wait_and_stop)
            self.prober.start()

    before = signal.getsignal(signal.SIGTERM)
    running = Eager(configuration(port), connection)
    assert running.run() == process.OK
    running.prober.join()
    assert probes == [200, 503]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_another_thread_gets(connection: Connection) -> None:
    """The kernel may give it to any thread; the one that waits runs the handler all the same."""

    class Waiting(process.Process):
        """Gets the signal in another thread while it waits for one."""

        def _reason_to_stop(self) -> str:
            self.other = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
            self.other.start()
            return super()._reason_to_stop()

    running = Waiting(configuration(free_port()), connection)
    assert running.run() == process.OK
    running.other.join()


STUCK = """
import asyncio, signal, sys, threading
from gangsched.cluster.kube.connection import load_connection
from gangsched.core.scheduler import Lasting, Scheduler
from gangsched import logs
from gangsched.runtime import process
from gangsched.runtime.settings import Configuration, Http

logs.configure("json")

def stuck(self, events, now):
    print("stuck", flush=True)
    threading.Event().wait()

Scheduler.handle = stuck
connection = asyncio.run(load_connection(sys.argv[1]))
process.Process(Configuration(http=Http(port=0)), connection).run()
"""


def test_a_second_signal_ends_it_at_once(kubeconfig: Path) -> None:
    """Whoever asks twice does not want to wait for what hangs."""
    child = subprocess.Popen(
        [sys.executable, "-c", STUCK, str(kubeconfig)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "stuck\n"
        child.send_signal(signal.SIGTERM)
        while "stopping" not in child.stderr.readline():
            assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=30)
        assert child.returncode == 128 + signal.SIGTERM
    finally:
        child.kill()
        child.communicate()
