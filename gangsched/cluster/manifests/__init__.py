"""Manifests as people write them, or as ``kubectl get -o yaml`` prints them, into events of the core.

loaded = load(["nodes.yaml", "jobs/", "-"])

The first pass reads texts (``sources``, ``documents``) and makes typed objects (``objects``). The second pass does the
work of the API server (``admission``) and of controllers (``expand``), and converts (``loading``).
"""

from __future__ import annotations

from gangsched.cluster.manifests.loading import Loaded, load

__all__ = ["Loaded", "load"]
