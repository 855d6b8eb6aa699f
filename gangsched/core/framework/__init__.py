"""Filters and scores as a pipeline: which there are, how a profile orders them, and the guard around plug-ins."""
