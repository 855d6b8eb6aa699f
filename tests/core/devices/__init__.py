"""Devices and claims in the core."""
