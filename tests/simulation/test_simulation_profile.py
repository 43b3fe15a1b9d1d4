"""A profile's traffic on the twin: sizes, ramps, windows, copies, cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from statistics import fmean, pstdev
from typing import Any

import pytest
from mixed_profiles import mixed

from loadproof.capacity import deployment_of, predict_level
from loadproof.errors import InputError
from loadproof.profiles import load_profile
from loadproof.profiles.mixture import counts_of
from loadproof.profiles.schema import Profile, TokenDistribution
from loadproof.profiles.schema.workload import Arrivals
from loadproof.simulation import OtherLoad, StartUp, simulate_profile, start_up_of, traffic_of
from loadproof.simulation.document import simulation_document
from loadproof.simulation.results import Latencies
from loadproof.simulation.traffic import ramped_times_ms
from loadproof.simulation.windows import merged

ROOT = Path(__file__).resolve().parents[2] / "deploy_profiles"


@pytest.fixture(scope="module")
def dev() -> Profile:
    """One to two copies, a target of 8 in flight a copy, 256 + 48 tokens."""
    return load_profile(ROOT / "dev" / "llama-3-1-8b.yaml")


@pytest.mark.parametrize(
    ("counts", "mean", "stddev"),
    [
        (TokenDistribution(distribution="fixed", mean=70), 70, 0),
        (TokenDistribution(distribution="normal", mean=500, stddev=50), 500, 50),
        (TokenDistribution(distribution="lognormal", mean=500, stddev=250), 500, 250),
        (TokenDistribution(distribution="empirical", values=(10, 20, 60)), 30, 21.6),
        (TokenDistribution(distribution="uniform", min=100, max=200), 150, 28.9),
    ],
)
def test_drawn_counts_have_the_distributions_mean_and_spread(
    counts: TokenDistribution, mean: float, stddev: float
) -> None:
    """4,000 draws, within 5%."""
    chance = Random(1)
    found = [counts_of(counts).drawn(chance) for _ in range(4000)]
    assert fmean(found) == pytest.approx(mean, rel=0.05)
    assert pstdev(found) == pytest.approx(stddev, rel=0.05)


def test_drawn_counts_stay_within_their_bounds() -> None:
    """Normal with a wide spread, cut to 90..110."""
    counts = TokenDistribution(distribution="normal", mean=100, stddev=1000, min=90, max=110)
    chance = Random(0)
    assert {counts_of(counts).drawn(chance) for _ in range(200)} <= set(range(90, 111))


def test_a_ramp_sends_the_area_under_its_rate() -> None:
    """Constant gaps from 0 to 2 requests/s in 100 s: t² / 100 requests are due by t, the 25th at 50 s, the 100th at
    100 s; then one every half second."""
    times = [at / 1000 for at in islice(ramped_times_ms("constant", 0, 2, 100), 103)]
    assert times[0] == 0
    assert times[25] == pytest.approx(50)
    assert times[100:] == pytest.approx([100, 100.5, 101])
    down = [at / 1000 for at in islice(ramped_times_ms("constant", 2, 1, 100), 152)]
    assert down[150:] == pytest.approx([100, 101])


@pytest.mark.parametrize("rates", [(-1, 1, 10), (1, 0, 10), (1, 2, 0)])
def test_a_ramp_that_means_nothing_is_refused(rates: tuple[float, float, float]) -> None:
    """Rates below 0, none at the end, no length."""
    with pytest.raises(InputError, match="ramp: expected rates"):
        ramped_times_ms("poisson", *rates)


def test_a_ramp_makes_requests_wait_until_a_copy_has_come_up(dev: Profile) -> None:
    """0 to 12 requests/s in 5 minutes need the second copy: it serves its start-up after it is wanted, TTFT was worse
    before than after, and every request is in one window."""
    load = traffic_of(dev, OtherLoad(requests_per_s=12, from_requests_per_s=0, ramp_minutes=5))
    made = simulate_profile(dev, minutes=20, traffic=load, start_up=StartUp(200, 100))
    assert [row.serving for row in made.history] == [1, 1, 2]
    wanted, came = made.history[1].at_ms, made.history[2].at_ms
    assert came - wanted == pytest.approx(300_000)
    during = [row.ttft.percentile_ms(95) or 0 for row in made.windows if wanted < row.start_ms < came - 60_000]
    after = [row.ttft.percentile_ms(95) or 0 for row in made.windows if row.start_ms > came + 120_000]
    assert max(after) < max(during)
    summary = made.summary
    assert sum(row.sent for row in made.windows) == summary.requests + summary.refused + summary.timed_out
    assert made.instance_hours == pytest.approx((20 / 60) + (20 - wanted / 60_000) / 60, rel=1e-6)


def test_a_closed_loop_over_a_profile_is_what_the_planner_predicts(dev: Profile) -> None:
    """Four in flight over one copy: throughput within 10% of the closed form, mean latency too."""
    level = predict_level(deployment_of(dev), 256, 48, 4)
    made = simulate_profile(dev, minutes=5, traffic=traffic_of(dev, OtherLoad(concurrency=4)))
    assert level is not None
    assert made.summary.output_tokens_per_s == pytest.approx(level.output_tokens_per_s, rel=0.1)
    assert made.summary.e2e.mean_ms == pytest.approx(level.e2e_ms, rel=0.1)


def test_the_same_seed_gives_the_same_simulation_and_another_one_not(dev: Profile) -> None:
    """To the last bit, as a document."""
    one, same, other = (
        simulation_document(
            simulate_profile(dev, minutes=3, traffic=traffic_of(dev, OtherLoad(requests_per_s=2), seed=seed))
        )
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one["requests"] != other["requests"]


def test_start_up_is_the_weights_at_their_rate_and_the_server(dev: Profile) -> None:
    """8.03 billion parameters of 2 bytes are 14.96 GiB: 29.9 s at half a GiB/s, and a minute."""
    start = start_up_of(deployment_of(dev))
    assert start.copy_s == pytest.approx(29.9 + 60, abs=0.2)
    assert start.instance_s == 360


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ({"concurrency": 4, "requests_per_s": 1.0}, "found both"),
        ({"requests_per_s": 1.0, "burstiness": 0.5}, "burstiness has no use with poisson arrivals"),
        ({"from_requests_per_s": 1.0}, "arrivals and ramps need a rate"),
    ],
)
def test_loads_that_contradict_themselves_are_refused(dev: Profile, load: dict[str, float], said: str) -> None:
    """Each with what would do."""
    with pytest.raises(InputError, match=said):
        traffic_of(dev, OtherLoad(**load))  # type: ignore[arg-type]


def test_the_workloads_own_arrivals_are_the_default(dev: Profile) -> None:
    """Poisson from 0 to 2 requests/s over the benchmark's 5 minutes, then 2 a second: 300 and 600 in ten minutes."""
    arrivals = Arrivals(process="poisson", from_requests_per_s=0, requests_per_s=2)
    made = simulate_profile(
        dev.model_copy(
            update={
                "workload": dev.workload.model_copy(update={"arrivals": arrivals}),
                "benchmark": dev.benchmark.model_copy(update={"duration_s": 300.0}),
            }
        ),
        minutes=10,
    )
    assert made.traffic == "poisson, 0 to 2 requests/s in 5 min"
    first, second = merged(made.windows, 2)
    assert first.sent == pytest.approx(300, rel=0.2)
    assert second.sent == pytest.approx(600, rel=0.2)


def test_what_is_left_out_is_said(dev: Profile) -> None:
    """The profile has a buffer, and it stands between clients and endpoint."""
    notes = simulate_profile(dev, minutes=1).notes
    assert notes == ("requests go to the endpoint itself: the buffer is not simulated",)


def test_bursts_make_the_tail_wait_longer(dev: Profile) -> None:
    """The same 3 requests/s: gamma gaps of shape 0.1 against constant ones."""
    p99 = []
    for process, burstiness in (("constant", None), ("gamma", 0.1)):
        load = traffic_of(dev, OtherLoad(requests_per_s=3, process=process, burstiness=burstiness))
        p99.append(simulate_profile(dev, minutes=10, traffic=load).summary.ttft.percentile_ms(99) or 0)
    assert p99[1] > 3 * p99[0]


def test_a_simulation_has_a_length(dev: Profile) -> None:
    """0 minutes, and more than a week."""
    for minutes in (0.0, 20_000.0):
        with pytest.raises(InputError, match="at most a week"):
            simulate_profile(dev, minutes=minutes)


def test_merged_windows_hold_what_their_parts_held(dev: Profile) -> None:
    """Nine windows as three: sums, and percentiles of all values together."""
    made = simulate_profile(dev, minutes=9, traffic=traffic_of(dev, OtherLoad(requests_per_s=3)))
    three = merged(made.windows, 3)
    assert [row.start_ms for row in three] == [0, 180_000, 360_000]
    assert sum(row.served for row in three) == made.summary.requests
    whole = Latencies()
    for row in three:
        whole.absorb(row.ttft)
    assert whole.percentile_ms(95) == made.summary.ttft.percentile_ms(95)
    assert (whole.count, whole.min_ms, whole.max_ms) == (
        made.summary.ttft.count,
        made.summary.ttft.min_ms,
        made.summary.ttft.max_ms,
    )


def test_all_profiles_can_be_simulated() -> None:
    """Five minutes of each SageMaker profile that fits, as its own workload says."""
    for path in sorted(ROOT.glob("*/*.yaml")):
        if path.parent.name in ("base", "local-vllm") or path.name == "environment.yaml":
            continue
        made = simulate_profile(load_profile(path), minutes=2)
        assert made.summary.requests > 0, path


def test_progress_is_told_as_requests_pass(dev: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request a second for 10 minutes, told every 250: twice, near minutes 4.2 and 8.3."""
    monkeypatch.setattr("loadproof.simulation.profile.TELL_EVERY", 250)
    told: list[tuple[int, float]] = []
    load = traffic_of(dev, OtherLoad(requests_per_s=1, process="constant"))
    simulate_profile(dev, minutes=10, traffic=load, tell=lambda requests, minute: told.append((requests, minute)))
    assert [requests for requests, _ in told] == [250, 500]
    assert [minute for _, minute in told] == pytest.approx([4.2, 8.3], abs=0.1)


def test_automatic_targets_scale_the_twin_as_they_scale_a_deployment(dev: Profile) -> None:
    """auto is 20 in flight a copy here: the same simulation as with 20 written out, and nothing is left out."""
    (policy,) = dev.scaling.policies

    def made(target: float | str) -> dict[str, Any]:
        tracked = policy.model_copy(update={"target": target})
        changed = dev.model_copy(update={"scaling": dev.scaling.model_copy(update={"policies": (tracked,)})})
        traffic = traffic_of(changed, OtherLoad(requests_per_s=12), seed=1)
        return simulation_document(simulate_profile(changed, minutes=10, traffic=traffic))

    automatic = made("auto")
    assert automatic == made(20.0)
    assert automatic != made(4.0)
    assert not any("auto" in note for note in automatic["notes"])


def test_what_meets_the_objectives_meets_its_class_s_own(tmp_path: Path) -> None:
    """An L40S takes 19 ms a token, above the agents' 12: only others' requests, 3 of 11 or so, are good."""
    tight, wide = (simulate_profile(mixed(tmp_path, bound_ms), minutes=5) for bound_ms in (12, 1000))
    agents = next(part for part in tight.parts if part.name == "agent").ttft.count
    assert wide.summary.good == wide.summary.requests
    assert tight.summary.good == tight.summary.requests - agents


def test_a_trace_is_of_no_class(tmp_path: Path) -> None:
    """Nobody wrote whose its requests are: no class has figures of them, and its bounds are said not to be judged."""
    profile = mixed(tmp_path)
    load = replace(traffic_of(profile, OtherLoad(requests_per_s=1)), sizes=[(100, 8)] * 2000)
    made = simulate_profile(profile, minutes=1, traffic=load)
    assert (made.parts, made.summary.good) == ((), made.summary.requests)
    assert [note for note in made.notes if "not judged" in note] == [
        "ttft_p95_ms of chat is not judged: nobody told which requests are of chat",
        "tpot_p95_ms of agent is not judged: nobody told which requests are of agent",
    ]
