"""Arrivals: the rate that was asked for, the spread that was asked for, the same every time."""

from __future__ import annotations

from itertools import islice, pairwise
from statistics import mean, pvariance

import pytest

from loadproof.errors import InputError
from loadproof.simulation import arrival_times_ms, recorded_times_ms


def gaps(*arguments: object, **options: object) -> list[float]:
    times = [0.0, *islice(arrival_times_ms(*arguments, **options), 20_000)]  # type: ignore[arg-type]
    return [after - before for before, after in pairwise(times)]


def test_constant_arrivals_do_not_drift() -> None:
    """3 a second: the 30,001st comes at exactly 10,000 s, to within a rounding."""
    assert next(islice(arrival_times_ms("constant", 3.0), 30_000, None)) == pytest.approx(1e7, rel=1e-15)
    assert next(arrival_times_ms("constant", 3.0)) == 0.0


@pytest.mark.parametrize(
    ("options", "squared_variation"),
    [(("poisson", 50.0, None), 1.0), (("gamma", 50.0, 4.0), 0.25), (("gamma", 50.0, 0.5), 2.0)],
)
def test_random_arrivals_have_their_rate_and_their_burstiness(
    options: tuple[str, float, float | None], squared_variation: float
) -> None:
    """Mean gap 20 ms within 4 standard errors; variance / mean² is 1 for Poisson, 1/burstiness for gamma (10%)."""
    process, rate, burstiness = options
    found = gaps(process, rate, burstiness=burstiness, seed=1)
    assert mean(found) == pytest.approx(20.0, abs=4 * 20 * (squared_variation / 20_000) ** 0.5)
    assert pvariance(found) / mean(found) ** 2 == pytest.approx(squared_variation, rel=0.1)


def test_a_seed_is_a_schedule() -> None:
    """Seed 0 included."""
    assert gaps("poisson", 5.0, seed=0) == gaps("poisson", 5.0, seed=0) != gaps("poisson", 5.0, seed=1)


def test_a_recorded_trace_starts_at_zero() -> None:
    """Timestamps in seconds become ms since the first; equal ones stay."""
    assert recorded_times_ms([100.0, 100.5, 100.5, 102.0]) == (0.0, 500.0, 500.0, 2000.0)
    assert recorded_times_ms([]) == ()


def test_what_is_no_schedule_is_an_error() -> None:
    """A rate of 0, gamma without burstiness, a trace that goes back: row and values are named."""
    with pytest.raises(InputError, match=r"requests_per_s above 0, found 0"):
        arrival_times_ms("poisson", 0.0)
    with pytest.raises(InputError, match="gamma needs a burstiness"):
        arrival_times_ms("gamma", 1.0)
    with pytest.raises(InputError, match=r"row 3: .* found 1\.0 after 2\.0"):
        recorded_times_ms([0.0, 2.0, 1.0])
