"""A headless Chromium, driven by its own protocol: how pages look, what the keyboard reaches, what the console says."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_SECONDS = 120.0


class Browser:
    """One tab. ``complaints`` are errors and warnings of its console: a refused style, a script that fails, a 404."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._loaded = asyncio.Event()
        self._reader = asyncio.create_task(self._read())
        self.complaints: list[str] = []

    async def _read(self) -> None:
        async for message in self._socket:
            found = message.json()
            if "id" in found:
                self._waiting.pop(found["id"]).set_result(found)
            elif found["method"] == "Page.loadEventFired":
                self._loaded.set()
            elif found["method"] == "Log.entryAdded":
                entry = found["params"]["entry"]
                self.complaints.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}")
            elif found["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(found["params"]["exceptionDetails"]["text"]))

    async def ask(self, method: str, **parameters: Any) -> Any:
        """The result of a command."""
        number = next(self._ids)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        found = await asyncio.wait_for(self._waiting[number], _SECONDS)
        assert "error" not in found, found
        return found["result"]

    async def size(self, width: int, height: int) -> None:
        """So large is the window from now on."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def open(self, url: str) -> None:
        """Show this page."""
        self._loaded.clear()
        answer = await self.ask("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        await asyncio.wait_for(self._loaded.wait(), _SECONDS)

    async def follow(self, action: str) -> None:
        """Do something that leads to another page."""
        self._loaded.clear()
        await self.value(action)
        await asyncio.wait_for(self._loaded.wait(), _SECONDS)

    async def value(self, expression: str) -> Any:
        """What a script says about the page; it is not the page's own, and its policy does not forbid it."""
        found = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def tab(self) -> str:
        """Press Tab; the text, the label or the name of what has the focus then."""
        for kind in ("keyDown", "keyUp"):
            await self.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        script = "(e => e === document.body ? '' : (e.innerText || e.getAttribute('name') || e.id || e.tagName).trim())"
        return str(await self.value(f"{script}(document.activeElement)"))

    async def picture(self, path: Path, *, height: int) -> None:
        """What it looks like, into a file in WebP."""
        clip = {"x": 0, "y": 0, "width": await self.value("innerWidth"), "height": height, "scale": 1}
        found = await self.ask(
            "Page.captureScreenshot", format="webp", quality=70, clip=clip, captureBeyondViewport=True
        )
        path.write_bytes(base64.b64decode(found["data"]))  # noqa: ASYNC240 - a test waits for nothing else

    async def close(self) -> None:
        """Stop listening."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Browser]:
    """A browser with a profile of its own."""
    profile = Path(tempfile.mkdtemp(dir=folder))
    process = await asyncio.create_subprocess_exec(
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
        *("--remote-debugging-port=0", f"--user-data-dir={profile}", "--remote-allow-origins=*", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        file = profile / "DevToolsActivePort"
        async with asyncio.timeout(_SECONDS):
            while not (file.exists() and len(file.read_text().splitlines()) == 2):
                assert process.returncode is None, "the browser has ended"
                await asyncio.sleep(0.1)
        port = file.read_text().splitlines()[0]
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            async with session.put("/json/new?about:blank") as answer:
                address = (await answer.json())["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                found = Browser(socket)
                for domain in ("Page", "Runtime", "Log"):
                    await found.ask(f"{domain}.enable")
                yield found
                await found.close()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
