"""Many simulated schedules, on all cores: `sim_night.py [number] [first seed]`; exit 1 if one breaks the contract."""

from __future__ import annotations

import os
import sys
import time
from multiprocessing import get_context
from typing import Final

from chaos_crashes import Outcome
from sim_mutants import planted, told
from sim_run import violations
from sim_schedule import shrunk
from sim_themes import drawn
from sim_versions import versions

_PART: Final = 500
_TOLD: Final = 20  # parts between two lines of progress


def _part(first: int) -> tuple[float, list[str]]:
    """CPU seconds, and the least schedule of each that broke the contract."""
    began_s, found = time.process_time(), []
    for seed in range(first, first + _PART):
        if violations(drawn(seed), versions()):
            least = shrunk(drawn(seed), lambda schedule: bool(violations(schedule, versions())))
            found.append(f"seed {seed}: {violations(least, versions())} in {least}")
    return time.process_time() - began_s, found


def simulated(number: int, first: int = 0) -> Outcome:
    """So many schedules, rounded up to parts of 500."""
    parts = range(first, first + number, _PART)
    cpu_s, found = 0.0, []
    with get_context("spawn").Pool(os.cpu_count()) as pool:
        for ended, (took_s, some) in enumerate(pool.imap_unordered(_part, parts), start=1):
            cpu_s += took_s
            found += some
            for words in some:
                print(words, flush=True)
            if ended % _TOLD == 0:
                print(f"{ended * _PART:,} of {len(parts) * _PART:,}, {len(found)} found", file=sys.stderr, flush=True)
    total = len(parts) * _PART
    figures = f"{total:,} from seed {first:,}: {len(found)} broke the contract; {total / cpu_s:.0f} a CPU-second"
    return Outcome("simulated schedules of composed faults", figures, ("contract",) if found else ())


def defects() -> Outcome:
    """What is planted, and how much of it the simulator sees."""
    alive = [name for name, changes in planted().items() if not told(name, changes)]
    number = len(planted())
    enough = len(alive) <= 0.05 * number
    figures = f"{number - len(alive)} of {number} seen within 2,000 schedules"
    return Outcome("defects planted in consumer and queue, simulated", figures, () if enough else ("seen",))


if __name__ == "__main__":
    outcome = simulated(*map(int, sys.argv[1:] or ["1000000"]))
    print(f"{outcome.fault}: {outcome.figures}")
    sys.exit(bool(outcome.missed))
