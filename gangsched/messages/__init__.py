"""What users read, in one place for each kind: ``notes`` are Events and conditions, ``causes`` why a gang waits or a
pod stays, ``invalid`` what is wrong with objects and settings, ``failures`` why a
command or the process ends. Only what commands explain at length stands beside the facts, in ``cli/*explanation.py``.
"""
