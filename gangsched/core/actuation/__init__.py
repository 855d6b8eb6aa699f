"""From what is wanted to what the cluster has: every write that has been asked for, until it is settled."""
