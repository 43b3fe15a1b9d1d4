"""Objectives as the benchmark judges them: one name, one bound, one direction.

Names are those of the profile's `objectives`: `<metric>_<statistic>_ms` (at most), `error_rate_max` (at most),
`output_tokens_per_s_min` and `requests_per_s_min` (at least).
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import Literal

from loadproof.errors import InputError

LATENCY_METRICS = ("ttft", "itl", "tpot", "e2e")
STATISTICS = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
LATENCY_NAMES = tuple(f"{metric}_{statistic}_ms" for metric in LATENCY_METRICS for statistic in STATISTICS)
ERROR_RATE = "error_rate_max"
TOKENS_PER_S = "output_tokens_per_s_min"
RATE_NAMES = (TOKENS_PER_S, "requests_per_s_min")
NOTICED = 0.01  # of a figure: a smaller share of the client's is not worth a word
NAMES = (*LATENCY_NAMES, ERROR_RATE, *RATE_NAMES)


@dataclass(frozen=True, slots=True)
class Objective:
    """One bound. The unit is in the name; an error rate is a share (0.01 is 1%)."""

    name: str
    """metric, statistic and unit"""
    bound: float
    """in that unit; an error rate is a share"""

    @property
    def comparison(self) -> Literal["<=", ">="]:
        return ">=" if self.name in RATE_NAMES else "<="

    @property
    def latency(self) -> tuple[str, float] | None:
        """(metric, percentile) of a latency objective, e.g. ("ttft", 95.0); None for any other."""
        if self.name not in LATENCY_NAMES:
            return None
        metric, statistic, _ = self.name.split("_")
        return metric, STATISTICS[statistic]

    def met_by(self, value: float) -> bool:
        return value >= self.bound if self.comparison == ">=" else value <= self.bound


def figure(value: float | None) -> str:
    """Four significant digits, thousands separated, and no exponent of what people set as 10,000; – for no data."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def parse_objective(text: str) -> Objective:
    """`ttft_p95_ms=500` as an objective. Raises InputError with the allowed names."""
    name, equals, number = (part.strip() for part in text.partition("="))
    if not equals:
        raise InputError(f"--objective {text!r}: expected NAME=BOUND, for example ttft_p95_ms=500")
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=3) or NAMES
        raise InputError(f"--objective {text!r}: unknown objective `{name}`; use one of {', '.join(near)}")
    try:
        bound = float(number)
    except ValueError:
        bound = math.nan
    lowest_allowed = bound >= 0 if name == ERROR_RATE else bound > 0
    if not (math.isfinite(bound) and lowest_allowed):
        raise InputError(f"--objective {text!r}: expected a positive number, found `{number}`")
    if name == ERROR_RATE and bound >= 1:
        raise InputError(f"--objective {text!r}: a share below 1 (0.01 is 1%), found `{number}`")
    return Objective(name, bound)
