"""A trace in a few figures, and a profile as a plan can reckon with it: lengths, turns and rate fitted to its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from loadproof.bench.learn.fitting import Learned, Lengths, fit
from loadproof.bench.learn.recorded import Recorded
from loadproof.bench.learn.trace_columns import recorded_of
from loadproof.bench.workload.traces import Trace, TraceRow, trace_of
from loadproof.errors import InputError
from loadproof.profiles.schema import Profile, TokenDistribution

_MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Traced:
    """`learned` is None where the rows have no rate, and `why` says so. `figures` are in words, by what they are of."""

    rows: Sequence[TraceRow]
    learned: Learned | None
    why: str
    figures: Mapping[str, str]


def traced_of(file: Path) -> Traced:
    """What a trace holds. Raises TraceError."""
    trace = trace_of(file)
    recorded = recorded_of(trace)
    try:
        learned, why = fit(recorded), ""
    except InputError as error:
        learned, why = None, str(error)
    return Traced(trace.rows, learned, why, _figures(trace, recorded, learned))


def own_trace(file: Path, profile: Profile) -> Traced | None:
    """Of the trace that a profile's arrivals name; None where they name none, or it is not there. Raises TraceError."""
    name = profile.workload.arrivals.trace
    if name is None or not (file.parent / name).exists():
        return None
    return traced_of(file.parent / name)


def planned_as(profile: Profile, learned: Learned) -> Profile:
    """The profile with the workload that `loadproof learn` would write for its trace."""
    workload, bursts = profile.workload, learned.burstiness is not None
    arrivals = {"process": "gamma" if bursts else "poisson", "requests_per_s": learned.requests_per_s, "trace": None}
    think_time = {"think_time_s": learned.think_time_s, "think_time_stddev_s": learned.think_time_stddev_s}
    changed = workload.model_copy(
        update={
            **(think_time if learned.think_time_s is not None else {}),
            "name": None,
            "input_tokens": _tokens(learned.input_tokens),
            "first_input_tokens": None if learned.first_input_tokens is None else _tokens(learned.first_input_tokens),
            "output_tokens": _tokens(learned.output_tokens),
            "paired_lengths": learned.paired,
            "turns": learned.turns,
            "continues": learned.continues,
            "max_context_tokens": learned.max_context_tokens if learned.ended_by_length else None,
            "turn_correlation": learned.turn_correlation or None,
            "shared_prefix_tokens": learned.shared_prefix_tokens,
            "steps": (),
            "classes": (),
            "arrivals": workload.arrivals.model_copy(update={**arrivals, "burstiness": learned.burstiness}),
        }
    )
    return profile.model_copy(update={"workload": changed})


def _tokens(lengths: Lengths) -> int | TokenDistribution:
    if lengths.distribution == "fixed":
        return lengths.min
    if lengths.distribution == "empirical":
        return TokenDistribution(distribution="empirical", values=lengths.values)
    return TokenDistribution(
        distribution="lognormal", mean=lengths.mean, stddev=lengths.stddev, min=lengths.min, max=lengths.max
    )


def _figures(trace: Trace, recorded: Recorded, learned: Learned | None) -> dict[str, str]:
    times_s, turns = np.asarray(recorded.at_s), np.asarray(recorded.turns)
    figures = {"requests": f"{len(times_s):,} in {_time(float(times_s[-1]))}"}
    if learned is not None:
        busiest = int(np.bincount((times_s // _MINUTE_S).astype(int)).max()) if times_s[-1] > _MINUTE_S else 0
        most = f" ({busiest / _MINUTE_S:.3g} in the busiest minute)" if busiest else ""
        figures["requests/s"] = f"{learned.requests_per_s:.3g}{most}"
    for name, column in (("prompt tokens", recorded.input_tokens), ("answer tokens", recorded.output_tokens)):
        half, tail = np.quantile(np.asarray(column), (0.5, 0.95), method="inverted_cdf")
        figures[name] = f"{int(half):,} (p95 {int(tail):,})"
    if firsts := int((turns == 1).sum()):
        figures["requests a conversation"] = f"{int((turns > 0).sum()) / firsts:.3g}"
    if any(row.blocks for row in trace.rows):
        figures["of prompts seen before"] = f"{seen_before(trace.rows):.0%}"
    return figures


def seen_before(rows: Sequence[TraceRow]) -> float:
    """Share of all prompt tokens whose blocks, from the first on, were in prompts before: what a cache without an end
    would find."""
    seen, found = set[int](), 0
    for row in rows:
        known = next((place for place, block in enumerate(row.blocks) if block not in seen), len(row.blocks))
        found += min(known * row.block_tokens, row.input_tokens)
        seen.update(row.blocks[known:])
    return found / sum(row.input_tokens for row in rows)


def _time(seconds: float) -> str:
    for size, word in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {word}"
    return f"{seconds:.3g} s"
