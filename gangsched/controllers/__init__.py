"""Low-rate controllers, built on kopf. Nothing here is on the path from a pending pod to its node."""
