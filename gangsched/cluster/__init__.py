"""Clusters the core can run against: a real API server (``kube``) and an embedded one (``sim``)."""
