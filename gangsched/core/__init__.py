"""The scheduler's decisions: synchronous, deterministic, without I/O, clock or randomness.

Events come in with the time they happened (:mod:`gangsched.core.events`), actions go out
(:mod:`gangsched.core.actions`); the same events give the same actions. That is what makes ``plan``,
``simulate``, replay and fault injection the same code as the running scheduler.
"""
