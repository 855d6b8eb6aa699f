"""What every test of the runtime needs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Commands set up logging for their process; the next test must not write to their closed streams."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in ("aiohttp", "asyncio", "kopf")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, number in levels.items():
        logging.getLogger(name).setLevel(number)
    structlog.reset_defaults()
