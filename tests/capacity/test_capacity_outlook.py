"""What objectives are held against: percentiles of latency where answers are of spread lengths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof.capacity import make_plan
from loadproof.capacity.workload import planned_deployment, tokens_at
from loadproof.profiles import load_profile
from loadproof.profiles.mixture import mixture_of
from loadproof.profiles.schema import Objectives, Profile, TokenDistribution
from loadproof.simulation.closed_loop import simulate_requests
from loadproof.simulation.sizes import request_sizes

LLAMA = load_profile(Path(__file__).parents[2] / "deploy_profiles" / "dev" / "llama-3-1-8b.yaml")


def with_answers(counts: TokenDistribution | int, **objectives: Any) -> Profile:
    workload = LLAMA.workload.model_copy(update={"input_tokens": 256, "output_tokens": counts})
    return LLAMA.model_copy(update={"workload": workload, "objectives": Objectives(**objectives)})


@pytest.mark.parametrize(
    ("counts", "quantile", "tokens"),
    [
        ({"distribution": "uniform", "min": 100, "max": 300}, 0.9, 280),
        ({"distribution": "fixed", "mean": 70}, 0.95, 70),
        ({"distribution": "empirical", "values": (800, 50, 400, 50)}, 0.5, 50),
        ({"distribution": "empirical", "values": (800, 50, 400, 50)}, 0.95, 800),
        ({"distribution": "normal", "mean": 200, "stddev": 20}, 0.95, 233),  # z = 1.645
        ({"distribution": "normal", "mean": 200, "stddev": 20, "max": 210}, 0.95, 210),
        # σ² = ln 1.25, σ = 0.4724; μ = ln 300 - 0.1116 = 5.5922; exp(5.5922 + 1.6449 · 0.4724) = 583.6
        ({"distribution": "lognormal", "mean": 300, "stddev": 150}, 0.95, 584),
    ],
)
def test_quantiles_of_token_counts(counts: dict[str, Any], quantile: float, tokens: int) -> None:
    """By hand, for each distribution."""
    assert tokens_at(TokenDistribution(**counts), quantile) == tokens


@given(
    st.sampled_from(["normal", "lognormal", "uniform"]),
    st.integers(1, 400),
    st.integers(0, 400),
    st.floats(0.01, 0.99),
    st.floats(0.01, 0.99),
)
def test_quantiles_never_fall_and_stay_within_bounds(kind: Any, low: int, more: int, one: float, two: float) -> None:
    """Whatever the distribution."""
    counts = TokenDistribution(distribution=kind, min=low, max=low + more, mean=low + more / 2, stddev=50)
    found = [tokens_at(counts, quantile) for quantile in sorted((one, two))]
    assert low <= found[0] <= found[1] <= low + more


def test_percentiles_of_e2e_follow_the_answers_and_those_of_tpot_the_others_prompts() -> None:
    """Answers of 100 to 300 tokens: at p90, 280, so 80 tokens more than the mean."""
    counts = TokenDistribution(distribution="uniform", min=100, max=300)
    plan = make_plan(with_answers(counts, at_concurrency=4, e2e_p90_ms=9000, e2e_p50_ms=9000, tpot_p90_ms=50))
    level = plan.at_objectives
    assert level is not None
    found = {row.name: row.predicted for row in plan.outlook}
    assert found["e2e_p50_ms"] == pytest.approx(level.e2e_ms)
    assert found["e2e_p90_ms"] == pytest.approx(level.e2e_ms + 80 * level.tpot_ms)
    assert found["tpot_p90_ms"] == level.tpot_longest_ms >= level.tpot_ms


def test_the_twin_has_the_same_tail() -> None:
    """Lognormal answers: p95 of E2E, twice its mean, within 10% of what the twin sees."""
    counts = TokenDistribution(distribution="lognormal", mean=300, stddev=150, min=16, max=900)
    profile = with_answers(counts, at_concurrency=4, e2e_p95_ms=9000)
    (row,) = make_plan(profile).outlook
    sizes = request_sizes(mixture_of(profile.workload))
    done = simulate_requests(replace(planned_deployment(profile), copies=1), [next(sizes) for _ in range(400)], 4)
    latencies_ms = sorted(request.e2e_ms for request in done)
    assert row.predicted == pytest.approx(latencies_ms[380], rel=0.1)
    assert latencies_ms[380] > 1.7 * sum(latencies_ms) / len(latencies_ms)
