"""Queues, quota and flavors: who is admitted, at whose expense."""
