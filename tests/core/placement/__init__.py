"""Which nodes pass, which is best, and which topology domain a gang goes into."""
