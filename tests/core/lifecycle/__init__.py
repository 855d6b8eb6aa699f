"""The phases of a gang, from pods to bindings."""
