"""The pages of the documentation, and their tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = ROOT / "gangsched/cli/schemas"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "examples/README.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def without_code(text: str) -> str:
    """The page without fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def text_of(name: str) -> str:
    """A page by its path from the top."""
    return (ROOT / name).read_text()


def read_schema(name: str) -> dict[str, Any]:
    """A published JSON Schema by its file name without the ending, such as ``plan-v1``."""
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    return schema


def between(text: str, marker: str) -> str:
    """What stands between ``<!-- marker: begin -->`` and ``<!-- marker: end -->``. A note may follow ``begin``."""
    found = re.search(
        rf"<!-- {re.escape(marker)}: begin[^>]*-->(.*?)<!-- {re.escape(marker)}: end -->", text, re.DOTALL
    )
    assert found, f"there is no {marker!r} in the page"
    return found[1].strip()


def rows(table: str) -> list[list[str]]:
    """The cells of a Markdown table, header first."""
    lines = [line for line in table.splitlines() if line.startswith("|") and not re.match(r"^\|[-| ]+\|$", line)]
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in lines]
