"""How many requests settle objectives: by hand, and by runs that are drawn."""

from __future__ import annotations

from math import log
from statistics import NormalDist

import numpy as np

from loadproof.bench.measure.intervals import quantile_interval
from loadproof.sizing import requests_for


def test_a_p95_that_holds_by_five_percent_takes_861() -> None:
    """z = 1.6449 + 0.04879 / 0.2 = 1.8888, so 2.946% lie beyond. (1.95996 · 0.21794 + 1.03643 · 0.16909) / 0.020541 =
    29.33, squared 860.1."""
    assert requests_for([95], 1) == 861


def test_the_highest_percentile_decides() -> None:
    """A p50 beside a p95 takes no more than the p95 among as many."""
    assert requests_for([50, 95], 2) == requests_for([95], 2)


def test_more_objectives_take_more() -> None:
    """All of six pass in 85% where each does in 0.85^(1/6) = 97.33%, z = 1.9313: (0.42716 + 0.32656) / 0.020541 =
    36.69, squared 1,346.5."""
    assert requests_for([95], 6) == 1347


def test_without_a_percentile_there_is_no_number() -> None:
    """A rate tells by its own spread."""
    assert requests_for([], 1) is None


def test_runs_of_that_many_pass() -> None:
    """Lognormal latencies of a spread of 20%, 5% within the bound: 80% of runs pass, by four standard errors of 200."""
    bound = NormalDist().inv_cdf(0.95) + log(1.05) / 0.2
    random, passed = np.random.default_rng(5), 0
    for _ in range(200):
        found = quantile_interval(random.standard_normal(861), np.arange(1, 862), 95, bound)
        passed += found is not None and found.high is not None and found.high <= bound
    assert passed / 200 > 0.8 - 4 * 0.0283
