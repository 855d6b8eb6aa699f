"""A text with named fields."""

from __future__ import annotations

from string import Formatter


class Text:
    """``Text("{pod} waits for {node}")("a", "b")`` is "a waits for b". Values come in the order in which their fields
    first stand in the text; a ValueError is raised if there are more or fewer.
    """

    __slots__ = ("fields", "template")

    def __init__(self, template: str) -> None:
        self.template = template
        self.fields = tuple(dict.fromkeys(name for _, name, _, _ in Formatter().parse(template) if name))

    def __call__(self, *values: object) -> str:
        return self.template.format_map(dict(zip(self.fields, values, strict=True)))
