"""A profile as a benchmark: which deployed thing it means, what is sent, judged and predicted."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from bench_fakes import FakeEndpoint, serving

from loadproof.bench.from_profile import (
    ProfileChoice,
    loads_of,
    objectives_of,
    spec_of_profile,
    workload_of,
)
from loadproof.bench.spec import BenchmarkSpec, Search
from loadproof.catalog import instance
from loadproof.cli.bench.load import LoadOptions
from loadproof.cli.bench.spec import Options, spec_from_profile
from loadproof.cli.main import run as loadproof
from loadproof.errors import CouldNotRunError, InputError
from loadproof.loads import Load
from loadproof.localcloud.state import CloudState, state_path
from loadproof.profiles import load_profile, profile_hash
from loadproof.profiles.mixture import counts_of
from loadproof.profiles.schema import TokenDistribution
from loadproof.token_counts import TokenCounts

CHAT = """
name: chat
model:
  id: meta-llama/Llama-3.1-8B-Instruct
  source: {type: s3, s3_uri: s3://example-models/llama/, accept_eula: true}
container: {family: tgi}
endpoint: {instance_type: ml.g6e.2xlarge, min_instances: 1, max_instances: 2}
copies: {min: 2, max: 2}
objectives: {at_concurrency: 2, ttft_p95_ms: 500, error_rate_max: 0.01}
workload: {input_tokens: 128, output_tokens: {distribution: uniform, min: 8, max: 24}}
benchmark: {concurrency: [1, 2], requests_per_level: 6, warmup_requests: 1, seed: 5}
"""


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    folder = tmp_path / "dev"
    folder.mkdir()
    (folder / "environment.yaml").write_text('account: "123456789012"\nregion: eu-central-1\n')
    (folder / "chat.yaml").write_text(CHAT)
    return folder / "chat.yaml"


def spec_of(chat: Path, endpoint: FakeEndpoint, **options: object) -> BenchmarkSpec:
    names = {field.name for field in fields(LoadOptions)}
    load = LoadOptions(**{name: value for name, value in options.items() if name in names})  # type: ignore[arg-type]
    others = {name: value for name, value in options.items() if name not in names}
    return spec_from_profile(chat, Options(endpoint_url=endpoint.url, load=load, **others))  # type: ignore[arg-type]


def test_the_deployed_names_are_derived_from_the_profile(chat: Path) -> None:
    """Endpoint loadproof-<folder>-<name>, component <endpoint>-main, in the environment's region."""
    with serving(FakeEndpoint()) as endpoint:
        target = spec_of(chat, endpoint).target
    assert endpoint.described == ["loadproof-dev-chat", "loadproof-dev-chat-main"]
    assert (target.endpoint, target.component) == ("loadproof-dev-chat", "loadproof-dev-chat-main")
    assert (target.region, target.protocol) == ("eu-central-1", "tgi")


def test_the_profile_says_what_is_sent_and_judged(chat: Path) -> None:
    """Workload, levels, seed, objectives and the hash the evidence is tied to."""
    with serving(FakeEndpoint()) as endpoint:
        spec = spec_of(chat, endpoint)
    assert spec.workload.input_tokens == TokenCounts("fixed", 128)
    assert spec.workload.output_tokens == TokenCounts("uniform", 16, 0, 8, 24)
    assert (spec.concurrency, spec.requests_per_level, spec.workload.seed) == ((1, 2), 6, 5)
    assert [(one.name, one.bound) for one in spec.objectives] == [("ttft_p95_ms", 500), ("error_rate_max", 0.01)]
    assert spec.at_concurrency == 2
    assert spec.profile and spec.profile.sha256 == profile_hash(load_profile(chat))


def test_cost_and_prediction_are_of_the_copies_in_service(chat: Path) -> None:
    """Two copies on one-GPU instances are two instances; the planner's curve comes with its grade."""
    with serving(FakeEndpoint()) as endpoint:
        spec = spec_of(chat, endpoint)
    assert spec.usd_per_hour == 2 * (instance("ml.g6e.2xlarge").usd_per_hour or 0)
    assert spec.predicted and [point.concurrency for point in spec.predicted.levels] == [1, 2]
    one, two = spec.predicted.levels
    assert two.requests_per_s == pytest.approx(2 * (one.requests_per_s or 0)), "a copy each, so no waiting"


@pytest.mark.parametrize(
    ("backend_url", "expected"), [(None, "twin"), ("http://127.0.0.1:9", "http"), ("not ours", None)]
)
def test_only_a_local_clouds_twin_is_called_simulated(
    chat: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, backend_url: str | None, expected: str | None
) -> None:
    """A local cloud is known by its state file; any other server on loopback may be as real as can be."""
    monkeypatch.setenv("LOADPROOF_STATE_DIR", str(tmp_path))
    with serving(FakeEndpoint()) as endpoint:
        port = endpoint.port + (backend_url == "not ours")
        fields = dict.fromkeys(
            ("name", "endpoint_url", "region", "account", "access_key", "secret_key", "log_file"), "x"
        )
        state = CloudState(**fields, pid=1, port=port, started_s=0.0, backend_url=backend_url)
        state.write(state_path("demo"))
        spec = spec_of(chat, endpoint)
    assert spec.target.local_cloud == expected
    other_hardware = expected == "http"  # so neither the instance's price nor its prediction belongs to the run
    assert (spec.predicted is None, spec.usd_per_hour is None) == (other_hardware, other_hardware)


def test_the_judged_level_sends_what_its_percentiles_need(chat: Path) -> None:
    """One p95 is settled by 861 requests, so they go out at 2 in flight and 6 elsewhere, which is told; a number given
    holds everywhere."""
    with serving(FakeEndpoint()) as endpoint:
        spec, given = spec_of(chat, endpoint), spec_of(chat, endpoint, requests_per_level=8)
    assert [(load.concurrency, load.requests) for load in spec.fixed_loads] == [(1, 6), (2, 861)]
    assert [load.requests for load in given.fixed_loads] == [8, 8]
    assert spec.enlarged.startswith("861 requests at 2 in flight, where the objectives are judged, instead of 6: ")
    assert given.enlarged == ""


def test_the_bench_says_that_it_sends_more(chat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the first request; nobody waits for 8 where 6 are written without a word."""
    chat.write_text(CHAT.replace("seed: 5", "seed: 5, requests_at_objectives: 8"))
    with serving(FakeEndpoint()) as endpoint:
        loadproof(["bench", str(chat), "--endpoint-url", endpoint.url, "--out", str(tmp_path / "run")])
    said = "8 requests at 2 in flight, where the objectives are judged, instead of 6"
    assert capsys.readouterr().err.startswith(said)


def test_options_override_the_profile(chat: Path) -> None:
    """Other levels are predicted too; an objective given replaces its namesake and keeps the others."""
    with serving(FakeEndpoint()) as endpoint:
        spec = spec_of(chat, endpoint, concurrency="2,4", objective=["ttft_p95_ms=100"], requests_per_level=3)
        with pytest.raises(InputError, match="none of the levels 1, 4"):
            spec_of(chat, endpoint, concurrency="1,4")
    assert (spec.concurrency, spec.requests_per_level) == ((2, 4), 3)
    assert [(one.name, one.bound) for one in spec.objectives] == [("ttft_p95_ms", 100), ("error_rate_max", 0.01)]
    assert spec.predicted and [point.concurrency for point in spec.predicted.levels] == [2, 4]


@pytest.mark.parametrize(
    ("endpoint", "complaint"),
    [
        (FakeEndpoint(endpoint_status="Creating"), "loadproof-dev-chat is Creating, not InService"),
        (FakeEndpoint(component_status="Failed"), "chat-main is Failed, not InService: the image has no such tag"),
    ],
)
def test_an_endpoint_that_is_not_in_service_could_not_run(chat: Path, endpoint: FakeEndpoint, complaint: str) -> None:
    """Its status and reason are the message; no request is sent."""
    with serving(endpoint), pytest.raises(CouldNotRunError, match=complaint):
        spec_of(chat, endpoint)
    assert not endpoint.served


def test_a_profile_outside_an_environment_is_bad_input(chat: Path) -> None:
    """Nothing says where it is deployed: the message says to name an environment."""
    lost = chat.parent.parent / "base" / "chat.yaml"
    lost.parent.mkdir()
    lost.write_text(CHAT)
    with pytest.raises(InputError, match=r"no environment\.yaml"):
        spec_of_profile(ProfileChoice(lost))
    with serving(FakeEndpoint()) as endpoint:
        spec = spec_of(lost, endpoint, env="dev")
    assert spec.target.endpoint == "loadproof-dev-chat"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("workload: {", "workload: {arrivals: {process: poisson}, "), "poisson needs `requests_per_s`"),
        (("name: chat", "name: chat\nno_such_key: 1"), "no_such_key"),
    ],
)
def test_what_cannot_be_benchmarked_is_bad_input(chat: Path, change: tuple[str, str], complaint: str) -> None:
    """Before anything is asked of AWS."""
    chat.write_text(CHAT.replace(*change))
    with pytest.raises(InputError, match=complaint):
        spec_of_profile(ProfileChoice(chat))


@pytest.mark.parametrize(
    ("workload", "benchmark", "loads"),
    [
        ("", "", ()),
        (
            "arrivals: {process: poisson, requests_per_s: 2}, ",
            "",
            (Load("poisson", requests_per_s=2, requests=6),),
        ),
        (
            "arrivals: {process: constant, requests_per_s: 4, from_requests_per_s: 1}, ",
            "duration_s: 30, ",
            (Load("constant", requests_per_s=4, from_requests_per_s=1, duration_s=30),),
        ),
        ("", "duration_s: 60, ", (Load(concurrency=1, duration_s=60), Load(concurrency=2, duration_s=60))),
        (
            "",
            "phases: [{process: gamma, requests_per_s: 3, burstiness: 0.5, duration_s: 9}, "
            "{concurrency: 2, requests: 7}], ",
            (Load("gamma", requests_per_s=3, burstiness=0.5, duration_s=9), Load(concurrency=2, requests=7)),
        ),
    ],
)
def test_arrivals_durations_and_phases_become_levels(
    chat: Path, workload: str, benchmark: str, loads: tuple[Load, ...]
) -> None:
    """What the profile says of rates, times and phases is what will be driven; else the plain sweep."""
    text = CHAT.replace("workload: {", f"workload: {{{workload}").replace("benchmark: {", f"benchmark: {{{benchmark}")
    chat.write_text(text)
    assert loads_of(load_profile(chat), chat) == loads


def test_options_change_how_long_a_profiles_levels_last(chat: Path) -> None:
    """Its own rate for 9 s instead of six requests; and a search in place of its levels, predicted as it doubles."""
    chat.write_text(CHAT.replace("workload: {", "workload: {arrivals: {process: poisson, requests_per_s: 2}, "))
    with serving(FakeEndpoint()) as endpoint:
        assert spec_of(chat, endpoint, duration_s=9.0).loads == (Load("poisson", requests_per_s=2, duration_s=9),)
        found = spec_of(chat, endpoint, find_max=True)
        assert found.search == Search("find_max", Load("poisson", requests=6), 1, 256) and not found.loads
        swept = spec_of(chat, endpoint, concurrency="1..6")
    assert swept.predicted and [point.concurrency for point in swept.predicted.levels] == [1, 2, 4, 6]


def test_a_named_workload_has_its_sizes(chat: Path) -> None:
    """3840 tokens in and 256 out, without writing them; a dataset lies beside the profile."""
    line = next(line for line in CHAT.splitlines() if line.startswith("workload:"))
    chat.write_text(CHAT.replace(line, "workload: {name: summarize-3840-256, dataset: questions.jsonl}"))
    workload = workload_of(load_profile(chat), chat.parent)
    assert (workload.input_tokens, workload.output_tokens) == (TokenCounts("fixed", 3840), TokenCounts("fixed", 256))
    assert (workload.name, workload.dataset) == ("summarize-3840-256", str(chat.parent / "questions.jsonl"))


def test_a_component_that_is_not_in_the_profile_is_bad_input(chat: Path) -> None:
    """The message lists those it has."""
    with pytest.raises(InputError, match="no component `summary`; it has main"):
        spec_of_profile(ProfileChoice(chat, component="summary"))


def test_every_objective_of_the_schema_can_be_judged(chat: Path) -> None:
    """A bound the schema admits and the benchmark ignored would pass by silence."""
    from loadproof.profiles.schema import Objectives

    fields = {name: 0.5 for name in Objectives.model_fields if name != "at_concurrency"}
    profile = load_profile(chat).model_copy(update={"objectives": Objectives(at_concurrency=1, **fields)})
    assert {one.name for one in objectives_of(profile)} == set(fields)


def test_a_distribution_keeps_its_bounds() -> None:
    """lognormal with mean 200 and stddev 50 in [10, 400]."""
    counts = counts_of(TokenDistribution(distribution="lognormal", mean=200, stddev=50, min=10, max=400))
    assert counts == TokenCounts("lognormal", 200, 50, 10, 400)


def test_an_empirical_distribution_knows_its_mean_and_bounds() -> None:
    """Of 10, 20 and 60 the mean is 30, for the planner too."""
    counts = counts_of(TokenDistribution(distribution="empirical", values=(10, 60, 20)))
    assert counts == TokenCounts("empirical", 30, 0, 10, 60, (10, 60, 20))
