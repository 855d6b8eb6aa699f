"""Hides what is installed for tests only; read by Python itself, see :mod:`tests.shipped`."""

from __future__ import annotations

import sys

sys.modules["kubernetes_asyncio"] = None  # type: ignore[assignment]  # as the documentation of sys.modules has it
