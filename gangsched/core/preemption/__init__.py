"""Job-level preemption: which units leave so that a whole gang fits, with the least harm.

``units`` says what goes together, ``budgets`` and ``harm`` what it costs, ``fit`` whether the gang would run,
``planner`` searches, ``explain`` says in words why a pod was taken or spared.
"""
