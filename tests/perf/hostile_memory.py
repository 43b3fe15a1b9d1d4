"""Peak memory of the client with many answers under way that never stop, for each kind of hostile server.

    .venv/bin/python tests/perf/hostile_memory.py [--streams 1024] [--only data_lines one_line]

One process of the client takes them all; its peak is the kernel's account (VmHWM). The servers are those of
tests/fuzz/test_fuzz_sockets.py, which runs 32 answers at a time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fuzz"))
from test_fuzz_sockets import HOSTILE, MOST_MB, flooding, taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1024)
    parser.add_argument("--only", nargs="*", choices=HOSTILE, default=list(HOSTILE))
    arguments = parser.parse_args()
    worst_mb = 0.0
    for name in arguments.only:
        first, then, _ = HOSTILE[name]
        with flooding(first, then) as port:
            peak_mb, codes = taken(port, framed="frame" in name, at_once=arguments.streams)
        worst_mb = max(worst_mb, peak_mb)
        print(f"{name:>18}  {peak_mb:6.0f} MB  {', '.join(codes)}", flush=True)
    print(f"{'worst':>18}  {worst_mb:6.0f} MB, goal {MOST_MB}")
    return int(worst_mb > MOST_MB)


if __name__ == "__main__":
    sys.exit(main())
