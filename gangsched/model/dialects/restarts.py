"""The pods without which an operator's object fails.

Operators look at pods that are deleted while they run as at failed ones, and most make them anew. The ``restartPolicy``
of the role tells, where the kind heeds it: that is what training-operator 1.9 and mpi-operator 0.7 do, and what
spark-operator says. ``ExitCode`` makes those anew that end with 128 or more, as pods do that SIGTERM or SIGKILL ends.
With a ``runPolicy.backoffLimit`` of 0, training-operator fails an object at the first failed pod, under each policy. A
higher limit counts restarts of containers, and an eviction is none (pkg/controller.v1/common/job.go). That of an MPIJob
is the limit of the Job of its launcher.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gangsched.model.dialects import roles, spark
from gangsched.model.dialects.operator_specs import OperatorSpec, RestartPolicy

ALWAYS, ON_FAILURE, NEVER, EXIT_CODE = "Always", "OnFailure", "Never", "ExitCode"


class Restarts(NamedTuple):
    """The policies under which pods are made anew, and the one that counts where there is none."""

    policies: frozenset[str]
    default: str


_ANEW = frozenset((ALWAYS, ON_FAILURE, EXIT_CODE))
#: By kind. A kind that is not here makes its pods anew under each policy.
RESTARTS: Mapping[str, Restarts] = {
    "PyTorchJob": Restarts(_ANEW, ON_FAILURE),
    "PaddleJob": Restarts(_ANEW, ON_FAILURE),
    "JAXJob": Restarts(_ANEW, NEVER),
    "XGBoostJob": Restarts(frozenset((EXIT_CODE,)), NEVER),
    "TFJob": Restarts(frozenset(), NEVER),
    spark.APPLICATION: Restarts(frozenset((ALWAYS, ON_FAILURE)), NEVER),
}
#: The policies of training-operator.
RUN_POLICY = frozenset(RESTARTS) - {spark.APPLICATION}


def fragile_roles(kind: str, spec: OperatorSpec) -> tuple[str, ...]:
    """The roles of which no running pod may be deleted without failing the object, as pods are called by them. Lost
    executors of Spark are replaced by their driver.
    """
    rule = RESTARTS.get(kind)
    if rule is None:
        return ()
    if kind in RUN_POLICY and spec.run_policy is not None and spec.run_policy.backoff_limit == 0:
        return tuple(sorted({name for name, _ in _policies(kind, spec)}))
    return tuple(
        sorted(name for name, policy in _policies(kind, spec) if (policy or rule.default) not in rule.policies)
    )


def _policies(kind: str, spec: OperatorSpec) -> Iterator[tuple[str, str]]:
    if kind == spark.APPLICATION:
        said = spec.restart_policy
        yield roles.DRIVER, said.type if isinstance(said, RestartPolicy) else ""
        return
    for _, specs in roles.replica_specs(spec):
        for role, each in specs.items():
            yield role.lower(), each.restart_policy
            if role.lower() == roles.WORKER:
                yield roles.FIRST_WORKER, each.restart_policy
