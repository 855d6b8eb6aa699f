"""What is of a wrong type is named by its path, also below keys that users choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangsched.cluster.manifests import load
from gangsched.model.errors import UserError

JOB = """
apiVersion: kubeflow.org/v1
kind: XGBoostJob
metadata: {name: own}
spec:
  xgbReplicaSpecs:
    Master: {replicas: 1, template: {spec: {containers: [{name: c}]}}}
    Worker: {replicas: 1, template: {spec: %s}}
"""


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            "{containers: [{name: c}], initContainers: [3]}",
            "Worker.template.spec.initContainers[0]: 3 is not a mapping",
        ),
        ("{containers: [{name: c}, {name: d}, 7]}", "Worker.template.spec.containers[2]: 7 is not a mapping"),
        ("{containers: {}}", "Worker.template.spec.containers"),
    ],
)
def test_the_role_that_is_wrong_is_named(tmp_path: Path, spec: str, said: str) -> None:
    """Not the first of the roles, which need not have the field at all."""
    path = tmp_path / "job.yaml"
    path.write_text(JOB % spec)
    with pytest.raises(UserError) as error:
        load([str(path)])
    assert f"spec.xgbReplicaSpecs.{said}" in str(error.value)
