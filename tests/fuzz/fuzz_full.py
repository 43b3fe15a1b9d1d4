"""Plays hostile answers at full size: `make fuzz`, or python tests/fuzz/fuzz_full.py [--answers 100000] [--first 0]."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from fuzz_grammar import hostile
from fuzz_play import findings

STEP = 5000  # answers between two lines that say how far it is


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    arguments = parser.parse_args()
    began_s, end = time.monotonic(), arguments.first + arguments.answers
    kinds, wrong = Counter[str](), 0
    for first in range(arguments.first, end, STEP):
        found, more = findings(map(hostile, range(first, min(end, first + STEP))), weigh_every=200)
        kinds, wrong = kinds + more, wrong + len(found)
        for finding in found:
            print(finding)
        ended = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        spent_s = time.monotonic() - began_s
        print(f"{kinds.total():,} answers in {spent_s:,.0f} s: {ended}; {wrong} findings", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
