"""The cluster as tables, kept up to date event by event."""
