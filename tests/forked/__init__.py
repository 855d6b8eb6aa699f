"""Commands as processes of their own that do not import everything again: a start costs 0.1 s of a core, not two.

A server has imported all that commands use, and forks for each one. What a test starts is a small client, which hands
over its arguments, environment, folder and open files, passes signals on, and ends as the command ends. So a test
treats it as the command itself; only SIGSTOP and the process's own figures in /proc are the client's.

How commands start from nothing is looked at where that is the subject (tests/cli/test_start_up.py,
tests/runtime/test_run_on_a_cluster.py, tests/resilience, and those that install the package).
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_CLIENT = Path(__file__).with_name("client.py")


@cache
def gangsched() -> tuple[str, ...]:
    """The words before the arguments of ``gangsched``; the server starts at the first use, ends with this process."""
    folder = tempfile.mkdtemp(prefix="forked-")  # short: the path of a socket has no more than 107 bytes
    path = os.path.join(folder, "s")  # noqa: PTH118
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forked.server", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_ROOT,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server.stdout as answer:
        assert answer.readline() == b"listens\n"

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()

    atexit.register(end)
    return sys.executable, "-IS", str(_CLIENT), path, "gangsched"


def script(folder: Path) -> None:
    """Write ``gangsched`` into a folder, for a PATH."""
    file = folder / "gangsched"
    file.write_text(f'#!/bin/sh\nexec {" ".join(gangsched())} "$@"\n')
    file.chmod(0o755)
