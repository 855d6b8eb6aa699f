"""Volumes in filters and in plans, and their claims, which are bound before pods."""
