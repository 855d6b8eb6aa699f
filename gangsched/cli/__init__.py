"""The command line: one module per command, imported only when the command is used.

A command is a module with ``add_arguments(parser)`` and ``run(args) -> int`` (the exit code).
"""
