"""What users read, in one place for each kind: ``notes`` are Events and conditions, ``causes`` why a gang waits or a
pod stays, ``invalid`` what is wrong with objects and settings.
"""
