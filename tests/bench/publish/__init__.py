"""What measurements are published with: how a figure is recorded, and becomes a table, a picture, part of a page.

:mod:`.record` keeps what was measured, where and when, in a file beside the documentation; :mod:`.machine` says where;
:mod:`.tables` and :mod:`.svg` (with :mod:`.growth` for curves over sizes) show it; :mod:`.blocks` writes it into pages.
"""
