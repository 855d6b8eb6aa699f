"""A server in a process of its own that answers requests and does nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe

#: The answer to a request with this body, head and all.
Answer = Callable[[bytes], bytes]


def response(status: str, body: str) -> bytes:
    """An answer with JSON; ``status`` is the code and its words."""
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def answer_all(pipe: Pipe, answer: Answer) -> None:
    """Answer until the process ends; the port on loopback is said on the pipe."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                writer.write(answer(await reader.readexactly(int(length or b"0"))))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def listen() -> None:
        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        pipe.send(listening.sockets[0].getsockname()[1])
        await listening.serve_forever()

    asyncio.run(listen())


def kubeconfig(port: int) -> str:
    """A way to the server on this port."""
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {}}],
        }
    )
