"""A trace, read as ``-f`` would read its manifests."""

from __future__ import annotations

from gangsched.cluster.manifests import load
from gangsched.cluster.manifests.loading import Loaded
from gangsched.cluster.manifests.traces import read_trace


def loaded(form: str, path: str, scheduler: str, most: int | None = None) -> Loaded:
    """Return the objects of the trace."""
    return load([read_trace(form, path, scheduler, most=most)])
