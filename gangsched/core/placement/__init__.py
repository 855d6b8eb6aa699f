"""Where the members of a gang go, evictions aside."""
