"""The sentences that users read, by kind.

``notes`` has Events and conditions. ``causes`` has reasons why a gang waits or a pod stays. ``invalid`` has problems of
objects and settings. ``failures`` has reasons why a command or the process ends. Long explanations of commands are in
``cli/*explanation.py``.
"""
