"""Exceptions to limits only become fewer: `[tool.limits]` in pyproject.toml says how many of each there are.

Ruff itself complains of a `noqa` that is needed no longer, import-linter of an import that is; this script counts what
is left, so that no new one comes in unseen and none that went comes back. It also counts modules that import each
other in circles; an import that only types need is one as well.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("gangsched", "tests", ".ci")
NOQA = re.compile(r"# *noqa: *([A-Z0-9, ]+)")


def exceptions(root: Path, project: dict[str, Any]) -> Counter[str]:
    """Exceptions that are made: by the code of a rule, and `imports` of the contracts between layers."""
    contracts = project["tool"].get("importlinter", {}).get("contracts", [])
    found = Counter({"imports": sum(len(each.get("ignore_imports", ())) for each in contracts)})
    for folder in FOLDERS:
        for path in (root / folder).rglob("*.py"):
            text = path.read_text()
            if "noqa" in text:
                comments = (
                    t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT
                )
                for comment in comments:
                    if noqa := NOQA.search(comment):
                        found.update(re.findall(r"[A-Z]+[0-9]+", noqa[1]))
    return found


def imports(root: Path) -> dict[str, set[str]]:
    """Which modules of the product a module imports."""
    files = {}
    for path in (root / "gangsched").rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found: dict[str, set[str]] = {}
    for module, path in files.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                each = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= {name if name in files else str(node.module) for name in each}
            elif isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
        # A package that names what is in it is no circle: `import a.b` runs `a` anyway.
        found[module] = {n for n in named if n in files and n != module and not module.startswith(f"{n}.")}
    return found


def circular(root: Path) -> set[str]:
    """Modules that import themselves by way of others."""
    direct = imports(root)
    found = set()
    for module in direct:
        seen: set[str] = set()
        todo = [*direct[module]]
        while todo:
            if (other := todo.pop()) not in seen:
                seen.add(other)
                todo += direct[other]
        if module in seen:
            found.add(module)
    return found


def main(root: Path = ROOT) -> int:
    """Compare what there is with what pyproject.toml says; 1 if it says anything else."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    found, wrong = exceptions(root, project), 0
    around = circular(root)
    found["circles"] = len(around)
    for code, allowed in project["tool"]["limits"].items():
        if found[code] != allowed:
            wrong = 1
            what = (
                "mend what is new" if found[code] > allowed else f'write "{code} = {found[code]}", so that it stays so'
            )
            print(
                f"pyproject.toml: tool.limits.{code}: {allowed} exceptions are allowed, {found[code]} are made: {what}"
            )
            if code == "circles":
                print("".join(f"  {module}\n" for module in sorted(around)), end="")
    return wrong


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
