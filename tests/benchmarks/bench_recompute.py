"""The figures of a run, computed again from requests.jsonl by code that shares nothing with the product.

    python bench_recompute.py RUN_DIR      prints the levels as JSON

Standard library only; written from the definitions in the documentation, not from the implementation.
"""

from __future__ import annotations

import json
import math
import sys
from itertools import pairwise
from pathlib import Path


def rank(values: list[float], share: float) -> float | None:
    """The value at rank share · (n − 1), between its neighbours in proportion."""
    if not values:
        return None
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    return below + (above - below) * (position - math.floor(position))


def shape(values: list[float]) -> dict[str, float | None]:
    statistics = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
    return {
        **{name: rank(values, share) for name, share in statistics.items()},
        "mean": math.fsum(values) / len(values) if values else None,
        "max": max(values, default=None),
    }


def recompute(run_folder: Path) -> list[dict]:
    rows: dict[tuple[int, int], dict] = {}
    for line in (run_folder / "requests.jsonl").read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row["phase"] == "measured":
            rows[row["level"], row["index"]] = row
    levels: dict[int, list[dict]] = {}
    for row in rows.values():
        levels.setdefault(row["concurrency"], []).append(row)
    return [level_of(concurrency, levels[concurrency]) for concurrency in sorted(levels)]


def level_of(concurrency: int, rows: list[dict]) -> dict:
    ended = [row for row in rows if row["outcome"] != "canceled"]
    good = [row for row in ended if row["outcome"] == "ok"]
    seconds = 0.0
    for session in {row["session"] for row in ended}:
        own = [row for row in ended if row["session"] == session]
        seconds += (max(row["end_ns"] for row in own) - min(row["intended_ns"] for row in own)) / 1e9
    streamed = [row for row in good if row["first_token_ns"] is not None]
    gaps = []
    for row in streamed:
        instants = sorted(set(row["token_times_ns"]))
        gaps += [(later - earlier) / 1e6 for earlier, later in pairwise(instants)]
    return {
        "concurrency": concurrency,
        "requests": len(ended),
        "errors": len(ended) - len(good),
        "unfinished": len(rows) - len(ended),
        "duration_s": seconds,
        "ttft_ms": shape([(row["first_token_ns"] - row["intended_ns"]) / 1e6 for row in streamed]),
        "itl_ms": shape(gaps),
        "tpot_ms": shape(
            [
                (row["end_ns"] - row["first_token_ns"]) / 1e6 / (row["output_tokens"] - 1)
                for row in streamed
                if row["output_tokens"] > 1
            ]
        ),
        "e2e_ms": shape([(row["end_ns"] - row["intended_ns"]) / 1e6 for row in good]),
        "lag_ms": shape([(row["dispatched_ns"] - row["intended_ns"]) / 1e6 for row in ended]),
        "requests_per_s": len(good) / seconds,
        "output_tokens_per_s": sum(row["output_tokens"] for row in good) / seconds,
    }


if __name__ == "__main__":
    json.dump(recompute(Path(sys.argv[1])), sys.stdout, indent=2)
