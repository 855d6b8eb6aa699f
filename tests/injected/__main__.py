"""Raise an error in every function of the core and print what came of it: ``python -m tests.injected [WORDS]``.

It prints the functions in which an error had consequences for others; with words, all those whose names have them.
"""

from __future__ import annotations

import sys
import time

from tests.injected.inject import MODES, called, outcome
from tests.injected.life import Life


def main(words: list[str]) -> int:
    """Print a line for each function; 1 if any error had consequences."""
    began, expected = time.monotonic(), Life().run()
    bad = 0
    found = {p: c for p, c in called().items() if all(w in str(p) for w in words)}
    for place, count in found.items():
        for mode in MODES:
            word, text = outcome(place, count, expected, mode)
            bad += word.isupper()
            if word.isupper() or words:
                print(f"{word:6} {mode:7} {place} ({count} calls): {text}", flush=True)
    print(f"{len(found)} functions, {bad} bad, {time.monotonic() - began:.0f} s")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
