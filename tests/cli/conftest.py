"""What several tests of commands do."""

from __future__ import annotations

import pytest

from gangsched.cli.main import main


@pytest.fixture
def explain(tmp_path, capsys):
    """A function that explains one name in these documents: exit code, text and stderr."""

    def run(name, *documents, args=()):
        path = tmp_path / "objects.yaml"
        path.write_text("\n---\n".join(documents))
        code = main(["explain", name, "-f", str(path), *args])
        out = capsys.readouterr()
        return code, " ".join(out.out.split()), out.err

    return run
