"""Quota with lending: queues, cohorts, borrowing, reclaiming.

:class:`gangsched.core.quota.quota.Quota` is where the rest of the scheduler comes in.
"""
