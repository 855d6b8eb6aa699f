"""Clusters in the shapes of real gangs, with an optimum that is known by construction."""
