"""One API server: kept connections to it, directly or through a proxy, credentials, and the fence of writes."""
