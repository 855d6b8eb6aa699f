"""A server that answers with what it is told, byte for byte, and a session with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gangsched.cluster.kube.session import Session

#: The answer in pieces, sent one after another; None closes the connection.
Script = list[bytes | None]


class Server:
    """Answers each request with the next script; ``seen`` has the requests, ``connections`` counts."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.seen: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.connections = self.closed = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
                self.seen.append(head + await reader.readexactly(length))
                for piece in self.scripts.pop(0):
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.closed += 1


@asynccontextmanager
async def listening(server: Server) -> AsyncIterator[int]:
    """The port of a running server."""
    running = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        running.close()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def session_of(server: Server) -> AsyncIterator[Session]:
    """A session with a running server."""
    async with listening(server) as port:
        session = Session(f"http://127.0.0.1:{port}/base", None, None, "test/1", None)
        try:
            yield session
        finally:
            await session.aclose()
