"""What the package says of itself on an index: the README without its links and pictures into the repository, and where
that repository is.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https://)[^)]*\)\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https://|#)[^)]*\)")


def readable(text: str) -> str:
    """Markdown in which nothing leads to a file beside it: a link becomes its text, a picture goes."""
    return _LINK.sub(r"\1", _PICTURE.sub("", text))


#: How a remote names a public repository: with the scheme, or as ssh does. Paths of this machine are neither.
_HOST = r"(?:[^/@]*@)?([A-Za-z0-9.-]+\.[A-Za-z]{2,}"
_REMOTES = (
    re.compile(rf"https://{_HOST}(?::\d+)?)/(.+?)(?:\.git)?/?"),
    re.compile(rf"ssh://{_HOST})(?::\d+)?/(.+?)(?:\.git)?/?"),
    re.compile(rf"{_HOST}):(?!//)(.+?)(?:\.git)?/?"),
)


def page(remote: str) -> str:
    """The address of a repository for people, without user names and passwords; empty for one that is not public."""
    found = next((match for form in _REMOTES if (match := form.fullmatch(remote))), None)
    return f"https://{found[1]}/{found[2]}" if found else ""


def source(root: Path) -> str:
    """Where the tree is from: the remote of a clone, or what a source distribution was made with."""
    made = root / "PKG-INFO"
    if made.exists():
        found = re.search(r"^Project-URL: Source, (\S+)$", made.read_text(encoding="utf-8"), re.MULTILINE)
        return found[1] if found else ""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return ""
    asked = [git, "-C", str(root), "config", "--get", "remote.origin.url"]
    return page(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip())  # noqa: S603


class ReadmeHook(MetadataHookInterface):
    """Gives the package its description and its address."""

    def update(self, metadata: dict[str, Any]) -> None:
        """See hatchling; an image is built without a README too."""
        file = Path(self.root, "README.md")
        text = readable(file.read_text(encoding="utf-8")) if file.exists() else ""
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        address = source(Path(self.root))
        metadata["urls"] = {"Source": address} if address else {}
