"""One cycle, from a gang to its decision: the same for the same cluster, and bounded."""
