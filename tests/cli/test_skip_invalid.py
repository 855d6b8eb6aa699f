"""Files with an object that cannot be understood: the error names what leaves it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangsched.cli.main import main
from gangsched.messages import failures
from tests.cli.worlds import TWO_NODES, gang_job

ODD = """
---
apiVersion: v1
kind: Pod
metadata: {name: odd, namespace: default}
spec:
  schedulerName: py-gang-scheduler
  containers: [{name: a, image: a, resources: {requests: {cpu: "1", memory: "9007199254740993"}}}]
"""


@pytest.mark.parametrize(
    "command", [["plan"], ["simulate"], ["explain", "waits"], ["get"], ["queues"]], ids=lambda c: c[0]
)
def test_one_odd_quantity_names_the_flag_that_skips_it(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the flag nothing is decided; with it all other objects are."""
    file = tmp_path / "a.yaml"
    file.write_text(TWO_NODES + gang_job("waits", 0, 60) + ODD)
    where = "document 5 (Pod default/odd): spec.containers[0].resources.requests.memory: "
    assert main([*command, "-f", str(file)]) == 2
    out, errors = capsys.readouterr()
    assert not out
    assert where in errors
    assert errors.endswith(f"{failures.SKIPPABLE}\n")
    assert main([*command, "-f", str(file), "--skip-invalid"]) == 0
    out, errors = capsys.readouterr()
    assert out
    assert "skipped: '9007199254740993' is larger than" in errors
