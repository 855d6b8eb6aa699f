"""What the package says of itself on an index: the README without its links and pictures into the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https://)[^)]*\)\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https://|#)[^)]*\)")


def readable(text: str) -> str:
    """Markdown in which nothing leads to a file beside it: a link becomes its text, a picture goes."""
    return _LINK.sub(r"\1", _PICTURE.sub("", text))


class ReadmeHook(MetadataHookInterface):
    """Gives the package its description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """See hatchling; an image is built without a README too."""
        file = Path(self.root, "README.md")
        text = readable(file.read_text(encoding="utf-8")) if file.exists() else ""
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
