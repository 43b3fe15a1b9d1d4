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
    """The levels in order of load, each figure from requests.jsonl alone but for bounds and price (plan.json)."""
    spec = json.loads((run_folder / "plan.json").read_text())["spec"]
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
        levels.setdefault(row["level"], []).append(row)
    loads = [level["load"] for level in json.loads((run_folder / "plan.json").read_text())["levels"]]
    by_load = [levels[place] for place in sorted(levels, key=lambda place: load_of(loads[place]))]
    unloaded = next((ttfts for level in by_load if len(ttfts := first_tokens(level)) >= 5), [])
    return [level_of(level, spec, rank(unloaded, 0.5)) for level in by_load]


def load_of(load: dict) -> tuple[bool, float]:
    """Closed loops by their slots, then open ones by their rate: the lightest level is the first."""
    return load["process"] != "closed", load["concurrency"] or load["requests_per_s"] or 0


def first_tokens(rows: list[dict]) -> list[float]:
    return [ms(row, "first_token_ns") for row in rows if row["outcome"] == "ok" and row["first_token_ns"] is not None]


def ms(row: dict, name: str) -> float:
    return (row[name] - row["intended_ns"]) / 1e6


def gaps_of(row: dict) -> list[float]:
    return [(later - earlier) / 1e6 for earlier, later in pairwise(sorted(set(row["token_times_ns"])))]


def tpot_of(row: dict) -> float | None:
    if row["first_token_ns"] is None or row["output_tokens"] < 2:
        return None
    return (row["end_ns"] - row["first_token_ns"]) / 1e6 / (row["output_tokens"] - 1)


def is_good(row: dict, bounds: list[dict]) -> bool:
    """Every latency bound, met by the request's own value."""
    for bound in bounds:
        metric, _, statistic = bound["name"].removesuffix("_ms").partition("_")
        if metric not in ("ttft", "itl", "tpot", "e2e"):
            continue
        if metric == "itl":
            value = rank(gaps_of(row), int(statistic[1:]) / 100)
        else:
            value = {"ttft": lambda: ms(row, "first_token_ns"), "e2e": lambda: ms(row, "end_ns"),
                     "tpot": lambda: tpot_of(row)}[metric]()  # fmt: skip
        if value is None and row["output_tokens"] == 1:
            continue
        if value is None or value > bound["bound"]:
            return False
    return True


def level_of(rows: list[dict], spec: dict, unloaded_ms: float | None) -> dict:
    ended = [row for row in rows if row["outcome"] not in ("canceled", "unfinished", "missing")]
    good = [row for row in ended if row["outcome"] == "ok"]
    seconds = 0.0
    for session in {row["session"] for row in ended}:
        own = [row for row in ended if row["session"] == session]
        seconds += (max(row["end_ns"] for row in own) - min(row["intended_ns"] for row in own)) / 1e9
    streamed = [row for row in good if row["first_token_ns"] is not None]
    classes = sorted(row["outcome"] for row in ended if row["outcome"] != "ok")
    output = sum(row["output_tokens"] for row in good)
    read = sum(row["planned_input_tokens"] if row["input_tokens"] is None else row["input_tokens"] for row in good)
    dollars = spec["usd_per_hour"] and spec["usd_per_hour"] * seconds / 3600
    prefills = [] if unloaded_ms is None else [min(unloaded_ms, ttft) for ttft in first_tokens(rows)]
    late = [stall / 1e6 for row in ended for stall in row["stalls_ns"]]
    ticks = sum((row["end_ns"] - row["intended_ns"]) // 5_000_000 for row in ended)
    instants = sum(len(set(row["token_times_ns"])) for row in good)
    in_flight = sum(row["end_ns"] - row["intended_ns"] for row in ended) / 1e9 / seconds
    return {
        "concurrency": rows[0]["concurrency"] or max(1, round(in_flight)),  # of an open loop as measured
        "requests": len(ended),
        "errors": len(ended) - len(good),
        "error_rate": (len(ended) - len(good)) / len(ended),
        "errors_by_kind": {kind: classes.count(kind) for kind in classes},
        "unfinished": len(rows) - len(ended),
        "missing": sum(row["outcome"] == "missing" for row in rows),
        "duration_s": seconds,
        "ttft_ms": shape(first_tokens(rows)),
        "itl_ms": shape([gap for row in streamed for gap in gaps_of(row)]),
        "tpot_ms": shape([value for row in streamed if (value := tpot_of(row)) is not None]),
        "e2e_ms": shape([ms(row, "end_ns") for row in good]),
        "lag_ms": shape([ms(row, "dispatched_ns") for row in ended]),
        "loop_lag_ms": shape([0.0] * max(0, ticks - len(late)) + late),
        "phases": {
            "queue_ms": shape([ttft - own for ttft, own in zip(first_tokens(rows), prefills, strict=bool(prefills))]),
            "prefill_ms": shape(prefills),
            "decode_ms": shape([(row["end_ns"] - row["first_token_ns"]) / 1e6 for row in streamed]),
        },
        "requests_per_s": len(good) / seconds,
        "goodput_per_s": sum(is_good(row, spec["objectives"]) for row in good) / seconds,
        "output_tokens_per_s": output / seconds,
        "input_tokens_per_s": read / seconds,
        "mean_in_flight": in_flight,
        "tokens_per_arrival": sum(sum(row["tokens_at"]) for row in good) / instants if instants else None,
        "merged_first_tokens": sum(row["first_token_early_max_ns"] is not None for row in good),
        "cost_per_million_output_tokens_usd": dollars and dollars / output * 1e6,
        "cost_per_million_tokens_usd": dollars and dollars / (output + read) * 1e6,
        "cost_per_thousand_requests_usd": dollars and dollars / len(good) * 1e3,
    }


def differences(mine: object, theirs: object, place: str = "") -> list[str]:
    """Every figure of `theirs` that `mine` has not, to nine digits; figures in ms and rates are rounded to 1e-9."""
    if isinstance(theirs, dict):
        assert isinstance(mine, dict), place
        return [one for name, value in theirs.items() for one in differences(mine.get(name), value, f"{place}.{name}")]
    if isinstance(theirs, int | float) and isinstance(mine, int | float):
        same = math.isclose(mine, theirs, rel_tol=1e-8, abs_tol=1e-6)
    else:
        same = mine == theirs
    return [] if same else [f"{place}: {mine} and, computed again, {theirs}"]


if __name__ == "__main__":
    json.dump(recompute(Path(sys.argv[1])), sys.stdout, indent=2)
