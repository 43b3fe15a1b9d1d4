"""How many more requests would settle an open objective: that many do, in four of five simulated cases."""

from __future__ import annotations

from math import exp, log
from statistics import NormalDist

import numpy as np
import pytest

from loadproof.bench.measure.intervals import quantile_interval, requests_to_settle, requests_to_settle_rate
from loadproof.bench.measure.statistics import Samples

CASES = 400
MOST = 100_000  # requests that a test draws


def settled(samples: Samples, percent: float, bound: float) -> bool:
    found = quantile_interval(samples.copy(), np.arange(1, samples.size + 1), percent)
    assert found is not None
    return (found.high is not None and found.high <= bound) or (found.low is not None and found.low > bound)


@pytest.mark.parametrize(("size", "percent"), [(24, 50.0), (40, 95.0), (80, 95.0), (100, 99.0)])
def test_a_percentile_is_settled_by_that_many(size: int, percent: float) -> None:
    """Lognormal latencies under bounds from 30% below to 60% above the true percentile; the first requests count on."""
    truth = exp(0.5 * NormalDist().inv_cdf(percent / 100))
    random = np.random.default_rng(4)
    tried = held = 0
    for _ in range(CASES):
        first, bound = random.lognormal(0, 0.5, size), truth * exp(random.uniform(-0.3, 0.6))
        if settled(first, percent, bound):
            continue
        needed = requests_to_settle(float((first <= bound).mean()), percent / 100, size, size)
        if needed is not None and needed < MOST:
            tried += 1
            held += settled(np.append(first, random.lognormal(0, 0.5, needed - size)), percent, bound)
    assert tried > CASES / 8
    assert held / tried >= 0.8


def test_a_rate_is_settled_by_that_many() -> None:
    """Means of normal samples about 10 ± 2 under bounds from 20% below to 20% above; 24 first, 95% intervals."""
    random = np.random.default_rng(4)
    tried = held = 0

    def interval(values: Samples) -> float:
        return 1.96 * float(values.std(ddof=1)) / values.size**0.5

    for _ in range(CASES):
        first, bound = random.normal(10, 2, 24), random.uniform(8, 12)
        distance, half = abs(first.mean() - bound), interval(first)
        if distance > half:
            continue
        needed = requests_to_settle_rate(float(distance), 2 * half, 24)
        if needed is not None and needed < MOST:
            tried += 1
            values = np.append(first, random.normal(10, 2, needed - 24))
            held += abs(values.mean() - bound) > interval(values)
    assert tried > CASES / 8
    assert held / tried >= 0.8


def test_what_is_nearly_seen_needs_one_more() -> None:
    """71 of 71 inside: the 72nd settles a p95, unless it is outside (ln 0.025 / ln 0.95 = 71.9)."""
    assert -1 < log(0.025) / log(0.95) - 72 < 0
    assert requests_to_settle(1.0, 0.95, 71, 71) == 72


def test_the_bound_itself_is_never_settled() -> None:
    """Half of 20,000 within the bound of a p50 say that it is the p50, as far as a million can tell."""
    assert requests_to_settle(0.5, 0.5, 20_000, 20_000) is None


def test_requests_that_hang_together_are_counted_as_requests() -> None:
    """Where three requests tell as much as one, three times as many are needed."""
    apart, together = requests_to_settle(0.98, 0.95, 60, 60), requests_to_settle(0.98, 0.95, 180, 60)
    assert apart is not None and together == 3 * apart
