"""How late a callback runs on an event loop that has nothing to do: what this machine adds by itself.

It is asked as the scheduler asks its own loop, from another thread, but more often. On a line on its input it prints
below how many milliseconds 99 of 100 answers were.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time

ASK_SECONDS = 0.05


def main() -> None:
    """Ask until told to stop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    told = threading.Event()
    lags: list[float] = []

    def wait() -> None:
        sys.stdin.readline()
        told.set()

    def take(asked: float) -> None:
        lags.append(time.perf_counter() - asked)

    threading.Thread(target=wait, daemon=True).start()
    while not told.wait(ASK_SECONDS):
        loop.call_soon_threadsafe(take, time.perf_counter())
    lags.sort()
    sys.stdout.write(f"{lags[int(0.99 * (len(lags) - 1))] * 1000.0:.3f}\n" if lags else "0\n")


if __name__ == "__main__":
    main()
