"""Job-level preemption: which units leave so that a whole gang fits, with the least harm.

``units`` has pods that are evicted together, ``budgets`` and ``harm`` have the costs. ``fit`` tests if the gang would
run, ``planner`` searches. ``explain`` has the words why a pod was evicted or spared.
"""
