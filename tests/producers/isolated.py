"""Run a controller in a network of its own: servers of it that listen on all interfaces are not seen outside.

`python -m tests.producers.isolated FOLDER API_PORT [PORT...] -- COMMAND...` keeps it there until it ends or is told to.
Inside, the API server is at the same address as outside; outside, these ports of loopback are those of the controller
inside. Connections go through Unix sockets in the folder, which networks have in common. The command has mounts of its
own too, and may hide files from itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

from tests.controlplane.guard import die_with_guard

#: A port of loopback, or a Unix socket.
Address: TypeAlias = int | Path
ISOLATE = ("unshare", "--map-root-user", "--net", "--mount")
#: From linux/sockios.h and linux/if.h.
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40


class IsolationError(Exception):
    """This machine allows no networks of one's own; the text says why."""


def check() -> None:
    """Raise :class:`IsolationError` if a process cannot have a network of its own here."""
    try:
        done = subprocess.run([*ISOLATE, "true"], capture_output=True, text=True, check=False)
        reason = done.stderr.strip()
    except FileNotFoundError:
        reason = "there is no such command"
    else:
        if not done.returncode:
            return
    raise IsolationError(
        f"`{' '.join(ISOLATE)}` does not work here ({reason}): some controllers listen on all interfaces, and are run "
        "only in a network namespace of their own; allow user namespaces, or run this where they are allowed"
    )


async def _relay(listen: Address, target: Address) -> None:
    """Pass every connection on."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if isinstance(target, Path):
                far_reader, far_writer = await asyncio.open_unix_connection(target)
            else:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    if isinstance(listen, Path):
        await asyncio.start_unix_server(connected, listen)
    else:
        await asyncio.start_server(connected, "127.0.0.1", listen)


async def _run(relays: list[tuple[Address, Address]], command: list[str]) -> int:
    """A command beside relays until it ends; its exit code."""
    for listen, target in relays:
        await _relay(listen, target)
    process = await asyncio.create_subprocess_exec(*command, preexec_fn=die_with_guard)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, process.terminate)
    return await process.wait()


def _loopback_up() -> None:
    """As `ip link set lo up`, which is not on every machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))


def main(arguments: list[str]) -> int:
    """Outside at first, where it starts itself inside."""
    inside, words = arguments[0] == "--inside", [a for a in arguments if a != "--inside"]
    cut = words.index("--")
    folder, api, *ports = Path(words[0]), *(int(port) for port in words[1:cut])
    towards = {port: folder / f"{port}.sock" for port in (api, *ports)}
    if inside:
        die_with_guard()  # `unshare` has cleared that
        _loopback_up()
    # Each port listens on the one side, and its socket on the other: that of the API server is served outside.
    relays: list[tuple[Address, Address]] = []
    for port, path in towards.items():
        relays.append((port, path) if inside == (port == api) else (path, port))
    command = words[cut + 1 :] if inside else [*ISOLATE, sys.executable, "-m", __spec__.name, "--inside", *words]
    return asyncio.run(_run(relays, command))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
