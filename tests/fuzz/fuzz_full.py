"""Plays hostile answers at full size: `make fuzz`, or python tests/fuzz/fuzz_full.py [--answers 100000] [--first 0]."""

from __future__ import annotations

import argparse
import sys
import time

from fuzz_grammar import hostile
from fuzz_play import findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.answers)
    began_s = time.monotonic()
    found, kinds = findings(map(hostile, seeds), weigh_every=200)
    for finding in found:
        print(finding)
    ended = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    print(f"{kinds.total():,} answers in {time.monotonic() - began_s:,.0f} s: {ended}; {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
