"""What a run's open levels are expected to measure: the twin on the level's own schedule, and what it costs to know."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from bench_summaries import whole

from loadproof.bench.prediction import MOST_SIMULATED, with_prediction
from loadproof.bench.report import render_report
from loadproof.bench.spec import BenchmarkSpec, PredictedPoint, Search, Target, WorkloadSpec, fixed_tokens
from loadproof.capacity.confidence import confidence_of
from loadproof.capacity.deployment import PlannedDeployment, deployment_of
from loadproof.capacity.workload import History
from loadproof.loads import Load
from loadproof.profiles import load_profile

PROFILE = """
name: {name}
model: {{id: {model}, source: {{type: s3, s3_uri: s3://example-models/m/, accept_eula: true}}}}
container: {{family: {family}, settings: {{{settings}}}}}
endpoint: {{instance_type: {instance}, min_instances: 1, max_instances: 1}}
copies: {{min: 1, max: 1, accelerators_per_copy: {chips}}}
objectives: {{at_concurrency: 1, ttft_p95_ms: 500}}
workload: {{input_tokens: 256, output_tokens: 64}}
"""


def deployed(folder: Path, **values: str) -> PlannedDeployment:
    (folder / "profile.yaml").write_text(PROFILE.format(name="chat", **values))
    return deployment_of(load_profile(folder / "profile.yaml"))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> PlannedDeployment:
    """One copy of a server that admits 64 requests at once."""
    return deployed(
        tmp_path_factory.mktemp("tgi"),
        model="meta-llama/Llama-3.1-8B-Instruct",
        family="tgi",
        settings="max_concurrent_requests: 64",
        instance="ml.g6e.2xlarge",
        chips="1",
    )


@pytest.fixture(scope="module")
def queueing(tmp_path_factory: pytest.TempPathFactory) -> PlannedDeployment:
    """One copy of a server that queues about a thousand requests before it refuses one."""
    return deployed(
        tmp_path_factory.mktemp("lmi"),
        model="Qwen/Qwen3-32B",
        family="lmi",
        settings="tensor_parallel_degree: 4, rolling_batch: auto, max_rolling_batch_size: 32, max_model_len: 8192",
        instance="ml.g6e.12xlarge",
        chips="4",
    )


def spec_of(*loads: Load, **changes: object) -> BenchmarkSpec:
    workload = WorkloadSpec(fixed_tokens(256), fixed_tokens(64))
    return replace(BenchmarkSpec(Target("openai", "x", "tgi"), workload, (1,), 8, loads=loads), **changes)


def points(deployment: PlannedDeployment, spec: BenchmarkSpec) -> tuple[PredictedPoint, ...]:
    predicted = with_prediction(spec, deployment).predicted
    return predicted.levels if predicted else ()


def test_requests_that_never_meet_are_a_closed_loop_of_one(deployment: PlannedDeployment) -> None:
    """One request every 20 s, done in about two: the planner's figures at 1 in flight, at a rate of its own."""
    [open_loop] = points(deployment, spec_of(Load("constant", requests_per_s=0.05, requests=50)))
    [closed] = points(deployment, spec_of(Load(concurrency=1, requests=50)))
    assert open_loop.load == "constant 0.05 requests/s" and closed.load is None
    assert open_loop.ttft_ms == pytest.approx(closed.ttft_ms) and open_loop.e2e_ms == pytest.approx(closed.e2e_ms)
    assert open_loop.requests_per_s == pytest.approx(0.05, rel=0.03)  # 50 requests in 49 gaps and one answer


def test_past_what_is_served_latency_grows_with_the_level(queueing: PlannedDeployment) -> None:
    """It serves four a second: of 50 a second, twice as many wait twice as long."""
    short, long = (
        points(queueing, spec_of(Load("constant", requests_per_s=50, requests=count), request_timeout_s=1e4))[0]
        for count in (400, 800)
    )
    assert long.requests_per_s == pytest.approx(4, rel=0.1)
    assert long.ttft_ms and short.ttft_ms and 1.8 < long.ttft_ms / short.ttft_ms < 2.3
    assert (short.error_rate, long.error_rate) == (0, 0)


def test_near_the_limit_the_range_knows_of_the_queue(queueing: PlannedDeployment) -> None:
    """Where 3.8 a second are just served, a band about the mean would not hold a slightly slower endpoint's queue."""
    band = confidence_of(queueing).band

    def reach(rate: float) -> float:
        [point] = points(queueing, spec_of(Load("constant", requests_per_s=rate, requests=400), request_timeout_s=1e4))
        assert point.e2e_ms and point.e2e_range_ms and point.e2e_range_ms[0] < point.e2e_ms < point.e2e_range_ms[1]
        return point.e2e_range_ms[1] / point.e2e_ms

    assert reach(0.05) == pytest.approx(1 + band, rel=0.02)
    assert reach(3.8) > 1.3 > 1 + band


def test_what_the_server_would_refuse_is_told(deployment: PlannedDeployment) -> None:
    """This TGI admits 64 requests at once and answers the others with an error: of 1,000 in a tenth of a second 936."""
    [point] = points(deployment, spec_of(Load("constant", requests_per_s=10_000, requests=1000)))
    assert point.error_rate == pytest.approx(0.936)


def test_a_recorded_trace_is_predicted_by_its_own_lengths(deployment: PlannedDeployment, tmp_path: Path) -> None:
    """Ten answers of 10 tokens, far apart, take a tenth of what those of 100 tokens take to stream."""
    for name, tokens in (("short", 10), ("long", 100)):
        rows = "".join(f"{20 * row},64,{tokens}\n" for row in range(10))
        (tmp_path / f"{name}.csv").write_text("timestamp_s,input_tokens,output_tokens\n" + rows)
    short, long = (
        points(deployment, spec_of(Load("trace", trace=str(tmp_path / f"{name}.csv"))))[0] for name in ("short", "long")
    )
    assert short.ttft_ms == pytest.approx(long.ttft_ms)
    assert (long.e2e_ms - long.ttft_ms) / (short.e2e_ms - short.ttft_ms) == pytest.approx(11, rel=0.02)  # 99 gaps to 9


def test_blocks_that_a_trace_tells_are_found_where_the_server_keeps_prompts(
    queueing: PlannedDeployment, tmp_path: Path
) -> None:
    """Ten prompts of 2,048 tokens, far apart, of which all but the first repeat three blocks of four: nine of them have
    a quarter to compute. A server that keeps no prompts computes all."""
    for name, apart in (("alike", 0), ("apart", 10)):
        rows = (
            {"timestamp": 20_000 * row, "input_length": 2048, "output_length": 4}
            | {"hash_ids": [apart * row, apart * row + 1, apart * row + 2, 5000 + row]}
            for row in range(10)
        )
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def ttft_ms(name: str, history: History) -> float:
        spec = spec_of(Load("trace", trace=str(tmp_path / f"{name}.jsonl")))
        predicted = with_prediction(spec, queueing, history=history).predicted
        assert predicted is not None
        return predicted.levels[0].ttft_ms

    whole = ttft_ms("apart", "kept")
    assert whole == pytest.approx(ttft_ms("alike", "computed")) == pytest.approx(ttft_ms("apart", "computed"))
    assert ttft_ms("alike", "kept") < 0.6 * whole


def test_a_search_over_rates_is_predicted_where_it_doubles(deployment: PlannedDeployment) -> None:
    """1..6 requests/s: 1, 2, 4 and 6."""
    search = Search("sweep", Load("poisson", requests=40), 1, 6)
    found = points(deployment, spec_of(search=search))
    assert [point.load for point in found] == [f"poisson {rate} requests/s" for rate in (1, 2, 4, 6)]


def test_turns_of_an_open_loop_are_predicted_and_wait_for_their_answers(deployment: PlannedDeployment) -> None:
    """Two turns of one conversation, each alone: a request in flight, whatever its reader's think time."""
    load = Load("constant", requests_per_s=1, requests=2)
    quick = replace(spec_of(load).workload, turns=2)
    [one] = points(deployment, spec_of(load, workload=quick))
    [slow] = points(deployment, spec_of(load, workload=replace(quick, think_time_s=60)))
    assert one.e2e_ms == pytest.approx(slow.e2e_ms)
    assert slow.requests_per_s is not None
    assert slow.requests_per_s < 2 / 60


def test_a_level_too_long_to_simulate_before_the_run_has_no_figure(deployment: PlannedDeployment) -> None:
    load = Load("constant", requests_per_s=1, requests=5)
    endless = Load("constant", requests_per_s=50, requests=MOST_SIMULATED)
    assert [point.load for point in points(deployment, spec_of(load, endless))] == [load.words]


def test_the_page_shows_it_beside_what_was_measured(deployment: PlannedDeployment, tmp_path: Path) -> None:
    """The predicted mean E2E of a rate stands in that rate's row, whatever was in flight on average."""
    load = Load("constant", requests_per_s=0.05, requests=50)
    predicted = with_prediction(spec_of(load), deployment).predicted
    assert predicted is not None
    predicted = replace(predicted, levels=(replace(predicted.levels[0], error_rate=0.25),))
    level = {"concurrency": 3, "load": load.words, "e2e_ms": {"mean": 2222.0}, "output_tokens_per_s": 3.1}
    said = {"levels": [level], "predicted": asdict(predicted), "verdict": {"at_concurrency": 3}}
    (tmp_path / "summary.json").write_text(json.dumps(whole(said)))
    page = render_report(tmp_path).read_text()
    [point] = predicted.levels
    assert re.search(rf"<td>2,222</td>\s*<td class=\"predicted\">{point.e2e_ms:,.0f}</td>", page)
    assert "25 % predicted to fail" in page
