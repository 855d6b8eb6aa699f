"""``python -m tests.forked.server SOCKET``: import what commands use, then fork for every client.

It ends when its standard input does, and its commands with it.
"""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import importlib
import os
import pkgutil
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import gangsched
from gangsched.cli.main import main


def load() -> Callable[[], int]:
    """Import all of the product, with what only some commands need; the function that runs one."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command does before it imports numpy
    for module in pkgutil.walk_packages(gangsched.__path__, "gangsched."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    return main


class Server:
    """Takes what clients ask for, and tells them how it ended."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._clients: dict[int, socket.socket] = {}
        """Those whose command runs, by its process."""
        self._selector = selectors.DefaultSelector()

    def serve(self) -> bool:
        """Return True in a process that is to become a command, and False when the owner has gone."""
        ended, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to be woken
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the clients hear of it too
        for each in (0, ended, self._listener):
            self._selector.register(each, selectors.EVENT_READ, None)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == 0:
                    for pid in self._clients:
                        os.kill(pid, signal.SIGKILL)
                    return False
                if key.fileobj == ended:
                    os.read(ended, 1024)
                    self._reap()
                elif key.fileobj is self._listener:
                    if self._start():
                        return True
                elif key.data in self._clients:
                    self._pass_on(key.data)

    def _start(self) -> bool:
        client, _ = self._listener.accept()
        head, files, _, _ = socket.recv_fds(client, 4, 4)
        if len(head) < 4:  # it was killed before it asked
            client.close()
            return False
        asked = b""
        while len(asked) < int.from_bytes(head, "big") and (part := client.recv(65536)):
            asked += part
        pid = os.fork()
        if pid == 0:
            _become(files, *asked.split(b"\0"))
            return True
        for number in files:
            os.close(number)
        self._clients[pid] = client
        self._selector.register(client, selectors.EVENT_READ, pid)
        return False

    def _pass_on(self, pid: int) -> None:
        """A signal; or the client itself was killed, and so is the command."""
        try:
            numbers = self._clients[pid].recv(16) or bytes([signal.SIGKILL])
        except ConnectionError:
            numbers = bytes([signal.SIGKILL])
        for number in numbers:
            os.kill(pid, number)
        if signal.SIGKILL in numbers:
            self._selector.unregister(self._clients[pid])

    def _reap(self) -> None:
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            client = self._clients.pop(pid)
            with suppress(KeyError):
                self._selector.unregister(client)
            with suppress(OSError):
                client.sendall(status.to_bytes(4, "big"))
            client.close()


def _become(files: list[int], where: bytes, count: bytes, *words: bytes) -> None:
    """Take the place of the client: its folder, arguments, environment and open files."""
    os.chdir(where)
    sys.argv = [os.fsdecode(each) for each in words[: int(count)]]
    os.environ.clear()
    for each in words[int(count) :]:
        name, _, value = os.fsdecode(each).partition("=")
        os.environ[name] = value
    sys.path[:0] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each not in ("", *sys.path)]
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(4, 1024)
    if sys.platform == "linux":  # when the client is killed, the kernel kills this process at once
        fcntl.fcntl(3, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(3, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(3, fcntl.F_SETFL, fcntl.fcntl(3, fcntl.F_GETFL) | os.O_ASYNC)
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stdout.reconfigure(write_through=at_once)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()


def serve() -> int:
    """Serve; in a process that was forked, run the command."""
    server = Server(sys.argv[1])
    print("listens", flush=True)
    run = load()
    if server.serve():
        return run()
    shutil.rmtree(Path(sys.argv[1]).parent)
    return 0


if __name__ == "__main__":
    sys.exit(serve())
