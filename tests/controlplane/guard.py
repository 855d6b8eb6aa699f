"""Run one command and never outlive whoever started it: `guard.py LOG GRACE_SECONDS COMMAND...`.

Standard input is a pipe whose other end only the owner holds. When the owner closes it, exits or is killed (also by
SIGKILL), the pipe ends, and the command is told to stop, then killed. On Linux the command also dies with the guard.
A process of its own, because PR_SET_PDEATHSIG follows the *thread* that forked, and test processes have many.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1


def die_with_guard() -> None:
    """In the child, before exec: ask Linux for SIGKILL when the guard dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    """Run the command until it ends or the pipe does; its exit code."""
    log, grace_seconds, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # only to be woken
    with open(log, "ab") as output:  # noqa: PTH123  # pathlib is slow to import, and this starts often
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_guard,  # noqa: PLW1509  # safe: this process has one thread
        )
    while child.poll() is None:
        readable, _, _ = select.select([0, wake_read], [], [])
        if 0 in readable and not os.read(0, 1024):
            break
        if wake_read in readable and set(os.read(wake_read, 1024)) - {signal.SIGCHLD}:
            break
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            child.kill()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
