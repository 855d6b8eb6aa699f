"""Play mutated examples for a time; 1 if one of them ends in a traceback or costs more than it may."""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

from gangsched.cli.main import main as gangsched
from tests.fuzz.manifests import folders, mutated

#: No command may cost more (seconds of processor time, so that a busy machine changes nothing).
LONGEST = 5.0


def played(text: str, folder: Path) -> tuple[int, str]:
    """The exit status of ``plan`` of these manifests, and what it printed."""
    path = folder / "mutated.yaml"
    path.write_text(text)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = gangsched(["plan", "-f", str(path), "-o", "json"])
    return status, out.getvalue()


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    default = float(os.environ.get("FUZZ_SECONDS", "60"))
    parser.add_argument("--seconds", type=float, default=default, help="default: $FUZZ_SECONDS, or 60")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    examples, end, slowest, wrong, count = folders(), time.monotonic() + asked.seconds, (0.0, 0), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in itertools.count(asked.first):
            if time.monotonic() >= end:
                break
            text, began, count = mutated(examples[seed % len(examples)], seed), time.process_time(), count + 1
            try:
                status, _ = played(text, Path(folder))
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is what is looked for
                wrong += 1
                print(f"seed {seed} ({examples[seed % len(examples)].name}): {error!r}")
                continue
            took = time.process_time() - began
            slowest = max(slowest, (took, seed))
            if status not in (0, 2) or took > LONGEST:
                wrong += 1
                print(f"seed {seed} ({examples[seed % len(examples)].name}): status {status}, {took:.1f} s")
    print(
        f"{count} manifests from seed {asked.first}, {wrong} wrong; the slowest took {slowest[0]:.1f} s (seed "
        f"{slowest[1]})"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
