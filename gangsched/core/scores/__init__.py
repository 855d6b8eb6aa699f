"""Scores: which of the nodes that can take a pod is the better one. The protocol is in :mod:`.base`."""
