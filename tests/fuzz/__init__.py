"""Manifests of the examples with values at their extremes; ``python -m tests.fuzz`` plays many."""
