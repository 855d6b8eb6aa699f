"""Kubeconfigs to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def write(path: Path, user: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A kubeconfig with one cluster, one user and two contexts."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/prefix/"}}],
        "users": [{"name": "u", "user": user or {"token": "secret"}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u"}},
            {"name": "two", "context": {"cluster": "nowhere", "user": "u"}},
        ],
        "current-context": "one",
        **changes,
    }
    path.write_text(yaml.safe_dump(config))
    return path
