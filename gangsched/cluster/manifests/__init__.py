"""Manifests as people write them, or as ``kubectl get -o yaml`` prints them, into events of the core.

    loaded = load(["nodes.yaml", "jobs/", "-"])

One pass reads texts (``sources``, ``documents``) and makes typed objects of them (``objects``), a second one does
what the API server (``admission``) and the controllers (``expand``) would do, and converts (``loading``).
"""

from __future__ import annotations

from gangsched.cluster.manifests.loading import Loaded, load

__all__ = ["Loaded", "load"]
