"""Play everyday clusters: their lives in the simulator, or what the commands answer about them.

    python -m tests.everyday lives --first 0 --count 500
    python -m tests.everyday answers --first 0 --count 50

It prints what is wrong with each seed. Exit code 1: something is.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable

from tests.everyday.answers import answers
from tests.everyday.lives import Life

PLAYS: dict[str, Callable[[int], list[str]]] = {
    "lives": lambda seed: Life(seed).play(),
    "answers": lambda seed: answers(seed)[0],
}


def wrong(play: Callable[[int], list[str]], seed: int) -> list[str]:
    """What is wrong with one seed, an error included."""
    try:
        return play(seed)
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        return [traceback.format_exc()]


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.everyday", description=__doc__)
    parser.add_argument("what", choices=PLAYS)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--count", type=int, default=100, metavar="SEEDS")
    given = parser.parse_args()
    count = 0
    for seed in range(given.first, given.first + given.count):
        found = wrong(PLAYS[given.what], seed)
        count += bool(found)
        for text in found:
            print(f"seed {seed}: {text}", flush=True)
    print(f"{given.count} seeds from {given.first}: {count} wrong")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
