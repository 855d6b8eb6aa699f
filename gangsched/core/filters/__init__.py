"""Filters: which nodes can take a pod, now and in a simulation. The protocol is in :mod:`.base`."""
