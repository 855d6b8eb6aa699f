"""The scheduler as a process of its own, with a tag in its User-Agent: so an audit log tells processes apart.

python -m tests.resilience.child TAG run --kubeconfig ... --config ...

It writes down what it knew and when (:mod:`tests.resilience.evidence`); what it does is not changed.
It waits for a line on its input before it begins: reading its modules is no part of what is measured.
"""

from __future__ import annotations

import sys

from gangsched.cli.main import main
from gangsched.cluster.kube import connection
from gangsched.runtime import process
from tests.resilience import evidence


def tagged() -> int:
    """What ``gangsched`` does with the arguments after the tag."""
    assert process.Process is not None
    tag = sys.argv.pop(1)
    vars(connection)["__version__"] += f" ({tag})"  # what it calls itself
    evidence.collect(tag)
    sys.stdin.readline()
    return main()


if __name__ == "__main__":
    sys.exit(tagged())
