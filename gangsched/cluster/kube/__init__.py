"""The adapter for a real API server: watches in, writes out, one leader at a time."""
