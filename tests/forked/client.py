"""``client.py SOCKET NAME ARGUMENTS...``: ask the server for a process, be its stand-in, and end as it ends."""

from __future__ import annotations

import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGABRT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


def main() -> int:
    """The exit code of the command; a signal that ended it ends this process too."""
    path, *words = sys.argv[1:]
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    for number in PASSED_ON:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda got, _: server.send(bytes([got])))
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    asked = b"\0".join(os.fsencode(each) for each in (os.getcwd(), str(len(words)), *words, *environment))  # noqa: PTH109
    tied, _ = os.pipe()  # the other end closes when this process ends, however it does
    socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2, tied])
    server.sendall(asked)
    for file in (0, 1, 2, tied):
        os.close(file)  # whoever reads its output hears of the end when the command ends
    status = b""
    while len(status) < 4 and (part := server.recv(4)):
        status += part
    code = os.waitstatus_to_exitcode(int.from_bytes(status, "big")) if status else 1
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    os._exit(main())
