"""Evidence proves a profile only where what was measured is what the profile deploys."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from bench_evidence import TARGET, profile_tree, run_of_profile

from loadproof.bench.evidence.measured import Measured, measured_by
from loadproof.bench.evidence.places import places_of
from loadproof.bench.evidence.standing import stored_run
from loadproof.bench.evidence.status import Proof, TreeProfile, judged_otherwise, proof_of
from loadproof.bench.evidence.store import read_stored
from loadproof.bench.from_profile import loads_of, workload_of
from loadproof.bench.measure.scaling import Deployed
from loadproof.bench.spec import BenchmarkSpec, ProfileRef, Target
from loadproof.bench.workload.files import digests_of
from loadproof.cli.main import run as loadproof
from loadproof.loads import Load
from loadproof.profiles import Profile, load_profile, profile_hash

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
ARN = "arn:aws:sagemaker:eu-central-1:{}:endpoint/loadproof-dev-chat"
ON_BEDROCK = """
name: chat
backend: bedrock
model: {id: meta.llama3-1-8b-instruct-v1:0}
objectives: {at_concurrency: 4, ttft_p95_ms: 5000, error_rate_max: 0}
workload: {input_tokens: 16, output_tokens: 6}
benchmark: {concurrency: [4], requests_per_level: 4, warmup_requests: 1}
"""


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return profile_tree(tmp_path)


def measured(folder: Path, chat: Path, arn: str | None = ARN.format(123456789012), **target: Any) -> Measured:
    """What is said of a run whose target was changed so; `arn` as the watcher noted it."""
    run = stored_run(run_of_profile(folder, chat, target=replace(TARGET, **target)))
    assert run.summary is not None
    return measured_by(replace(run, summary=replace(run.summary, deployed=Deployed(endpoint_arn=arn))), *tree(chat))


def tree(chat: Path) -> tuple[Profile, Path]:
    return load_profile(chat), chat


def proof(chat: Path, runs: Path) -> Proof:
    profile = TreeProfile(chat, "dev", "chat", load_profile(chat))
    return proof_of(profile, read_stored(places_of([runs])), NOW, None)


def test_a_run_of_the_profiles_own_endpoint_differs_in_nothing(tmp_path: Path, chat: Path) -> None:
    """Endpoint, component, region and account are those of deploy_profiles/dev."""
    assert measured(tmp_path / "a", chat) == Measured()


def test_a_private_address_of_the_runtime_makes_no_other_endpoint(tmp_path: Path, chat: Path) -> None:
    """A VPC endpoint is asked for the same names."""
    assert measured(tmp_path / "a", chat, endpoint_url="https://vpce-1.runtime.example") == Measured()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"endpoint": "somebody-elses-fast-endpoint"},
            "measured endpoint `somebody-elses-fast-endpoint`, the profile's is `loadproof-dev-chat`",
        ),
        (
            {"component": "loadproof-dev-chat-other"},
            "measured inference component `loadproof-dev-chat-other`, the profile's is `loadproof-dev-chat-main`",
        ),
        (
            {"kind": "openai", "endpoint": "http://127.0.0.1:9"},
            "measured endpoint `http://127.0.0.1:9`, the profile's is `loadproof-dev-chat`",
        ),
        (
            {"kind": "bedrock", "endpoint": "anthropic.claude"},
            "measured endpoint `anthropic.claude`, the profile's is `loadproof-dev-chat`",
        ),
    ],
)
def test_what_else_was_measured_is_named(tmp_path: Path, chat: Path, changed: dict[str, Any], said: str) -> None:
    """Another endpoint, model or server than the profile's proves nothing of it."""
    assert measured(tmp_path / "a", chat, **changed).differs == (said,)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"protocol": "openai"}, "sent with protocol `openai`, the profile's is `tgi`"),
        ({"service_tier": "priority"}, "sent with service_tier `priority`, the profile's is `none`"),
        ({"prefix_aware_id": "mine"}, "sent with prefix_aware_id `mine`, the profile's is `none`"),
    ],
)
def test_how_else_it_was_asked_is_named(tmp_path: Path, chat: Path, changed: dict[str, Any], said: str) -> None:
    """The endpoint is the profile's, and its callers ask it otherwise."""
    assert measured(tmp_path / "a", chat, **changed).differs == (said,)


@pytest.mark.parametrize(
    ("written", "ran", "said"),
    [
        ("", None, ()),
        ("", "default", ()),
        ("bedrock: {service_tier: flex}", "flex", ()),
        ("", "priority", ("sent with service_tier `priority`, the profile's is `default`",)),
        ("bedrock: {service_tier: flex}", None, ("sent with service_tier `default`, the profile's is `flex`",)),
    ],
)
def test_bedrocks_tier_is_the_profiles(
    tmp_path: Path, chat: Path, written: str, ran: str | None, said: tuple[str, ...]
) -> None:
    """A dearer tier answers sooner."""
    chat.write_text(ON_BEDROCK + written)
    target = Target("bedrock", "a-model", "converse", region="eu-central-1", service_tier=ran)
    run = stored_run(run_of_profile(tmp_path / "a", chat, target=target))
    assert measured_by(run, *tree(chat)).differs == said


def test_another_region_is_named(tmp_path: Path, chat: Path) -> None:
    """The environment is in eu-central-1."""
    found = measured(tmp_path / "a", chat, arn=None, region="ap-south-1")
    assert found.differs == ("measured in ap-south-1, the profile's environment is in eu-central-1",)


def test_another_account_is_named(tmp_path: Path, chat: Path) -> None:
    """The environment is 123456789012, the endpoint's ARN names another."""
    found = measured(tmp_path / "a", chat, ARN.format(999999999999))
    assert found.differs == ("measured in account 999999999999, the profile's environment is 123456789012",)


def test_an_older_run_knows_no_account_and_proves_as_before(tmp_path: Path, chat: Path) -> None:
    """It is said to be not known, and nothing differs."""
    found = measured(tmp_path / "a", chat, arn=None)
    assert found == Measured((), ("in which account was measured is not known: the run does not say",))


def test_a_local_clouds_account_is_its_own(tmp_path: Path, chat: Path) -> None:
    """It stands for any."""
    assert measured(tmp_path / "a", chat, ARN.format(999999999999), local_cloud="twin") == Measured()


def test_a_run_with_env_is_held_to_that_environment(tmp_path: Path, chat: Path) -> None:
    """dev/chat was deployed to staging, in ap-south-1, with --env staging."""
    staging = tmp_path / "deploy_profiles" / "staging"
    staging.mkdir()
    (staging / "environment.yaml").write_text('account: "999999999999"\nregion: ap-south-1\n')
    ref = ProfileRef("chat", str(chat), profile_hash(load_profile(chat)), "staging")
    name = "loadproof-staging-chat"
    target = replace(TARGET, endpoint=name, component=f"{name}-main", region="ap-south-1")
    run = stored_run(run_of_profile(tmp_path / "a", chat, target=target, profile=ref))
    assert measured_by(run, *tree(chat)).differs == ()


def test_an_environment_that_moved_is_no_more_proven(tmp_path: Path, chat: Path) -> None:
    """The run was in eu-central-1; the environment is now in us-east-1."""
    run_of_profile(tmp_path / "runs" / "a", chat, created=NOW)
    assert proof(chat, tmp_path / "runs").holds
    (chat.parent / "environment.yaml").write_text('account: "123456789012"\nregion: us-east-1\n')
    assert proof(chat, tmp_path / "runs").problems == (
        "measured in eu-central-1, the profile's environment is in us-east-1",
    )


def with_dataset(folder: Path, chat: Path, *, digest: bool = True) -> Path:
    """A run of the profile with a dataset of fifty prompts; gives the dataset's file."""
    prompts = chat.parent / "p.jsonl"
    prompts.write_text('{"prompt": "hello"}\n' * 50)
    chat.write_text(chat.read_text().replace("workload: {", "workload: {dataset: p.jsonl, "))
    sha256 = hashlib.sha256(prompts.read_bytes()).hexdigest() if digest else None
    workload = replace(workload_of(load_profile(chat), chat.parent), dataset_sha256=sha256)
    run_of_profile(folder, chat, created=NOW, workload=workload)
    return prompts


def test_prompts_that_were_replaced_are_no_more_proven(tmp_path: Path, chat: Path) -> None:
    """The profile names the file alone, so its hash is the same."""
    prompts = with_dataset(tmp_path / "runs" / "a", chat)
    assert proof(chat, tmp_path / "runs").holds
    prompts.write_text('{"prompt": "entirely different"}\n' * 50)
    assert proof(chat, tmp_path / "runs").problems == ("workload.dataset p.jsonl: its content changed since the run",)


def test_of_prompts_without_a_digest_nothing_is_known(tmp_path: Path, chat: Path) -> None:
    """It is said, and proves as before."""
    with_dataset(tmp_path / "runs" / "a", chat, digest=False)
    found = proof(chat, tmp_path / "runs")
    assert found.holds and "workload.dataset p.jsonl: the run does not say what was in it" in found.notes


def test_a_run_that_sent_no_prompts_of_the_profiles_proves_nothing(tmp_path: Path, chat: Path) -> None:
    """By `bench --workload`, whose lengths may be the same."""
    with_dataset(tmp_path / "other", chat)
    workload = replace(workload_of(load_profile(chat), chat.parent), dataset=None, dataset_sha256=None)
    run_of_profile(tmp_path / "runs" / "a", chat, created=NOW, workload=workload)
    assert "workload.dataset p.jsonl: the run sent no dataset" in proof(chat, tmp_path / "runs").problems


PLAIN = "workload: {input_tokens: 10, output_tokens: 2}"
LEVELS = "benchmark: {concurrency: [4], requests_per_level: 80, warmup_requests: 1, seed: 5}"
TRACED = "workload: {input_tokens: 10, output_tokens: 2, arrivals: {process: trace, trace: t.csv}}"
IN_PHASES = "benchmark: {phases: [{process: trace, trace: t.csv}]}"
COUNTED = "workload: {input_tokens: 10, output_tokens: 2, tokenizer: t.json}"
ROWS = "timestamp_s,input_tokens,output_tokens\n" + "".join(f"{at},10,2\n" for at in range(120))


@dataclass(frozen=True, slots=True)
class Named:
    """A file that a profile names: how, and what is in it."""

    field: str
    name: str
    written: tuple[tuple[str, str], ...]
    content: str


NAMED = (
    Named("workload.arrivals.trace", "t.csv", ((PLAIN, TRACED), (LEVELS, "benchmark: {}")), ROWS),
    Named("benchmark.phases[0].trace", "t.csv", ((LEVELS, IN_PHASES),), ROWS),
    Named("workload.tokenizer", "t.json", ((PLAIN, COUNTED),), "{}"),
)


def with_file(folder: Path, chat: Path, named: Named, *, digests: bool = True) -> Path:
    """A run of the profile that names a file so; gives the file."""
    text = chat.read_text()
    for before, after in named.written:
        assert before in text
        text = text.replace(before, after)
    chat.write_text(text)
    file = chat.parent / named.name
    file.write_text(named.content)
    profile = load_profile(chat)
    loads, workload = loads_of(profile, chat), workload_of(profile, chat.parent)
    files = digests_of(BenchmarkSpec(TARGET, workload, (4,), 80, loads=loads)) if digests else {}
    run_of_profile(folder, chat, created=NOW, loads=loads, files=files)
    return file


@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.field)
def test_a_file_that_was_replaced_is_no_more_proven(tmp_path: Path, chat: Path, named: Named) -> None:
    """A trace decides what is sent, a tokenizer how it is counted; the profile's hash is the same."""
    file = with_file(tmp_path / "runs" / "a", chat, named)
    assert proof(chat, tmp_path / "runs").problems == ()
    file.write_text(f"{named.content}\n")
    said = f"{named.field} {named.name}: its content changed since the run"
    assert proof(chat, tmp_path / "runs").problems == (said,)


@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.field)
def test_a_run_that_does_not_say_what_was_in_a_file_proves_nothing(tmp_path: Path, chat: Path, named: Named) -> None:
    """Runs of before 2026-11-27."""
    with_file(tmp_path / "runs" / "a", chat, named, digests=False)
    said = f"{named.field} {named.name}: the run does not say what was in it"
    assert proof(chat, tmp_path / "runs").problems == (said,)


@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.field)
def test_of_a_file_that_is_gone_nothing_is_known(tmp_path: Path, chat: Path, named: Named) -> None:
    """It is said, and proves as before: large files may be kept elsewhere on purpose."""
    with_file(tmp_path / "runs" / "a", chat, named).unlink()
    found = measured_by(stored_run(tmp_path / "runs" / "a"), *tree(chat))
    assert f"{named.field} {named.name}: cannot be read, so whether it changed is not known" in found.unknown


@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.field)
def test_no_file_outside_is_read_where_none_may_be(tmp_path: Path, chat: Path, named: Named) -> None:
    """A review's profiles may be a stranger's: whether a digest of this machine's file was guessed is not told."""
    with_file(tmp_path / "runs" / "a", chat, named).write_text("another content")
    run, said = stored_run(tmp_path / "runs" / "a"), f"{named.field} {named.name}: its content changed since the run"
    assert said in measured_by(run, *tree(chat), within=tmp_path).differs
    found = measured_by(run, *tree(chat), within=tmp_path / "laid-out")
    assert said not in found.differs
    assert f"{named.field} {named.name}: cannot be read, so whether it changed is not known" in found.unknown


RAMP = "benchmark: {phases: [{process: constant, from_requests_per_s: 1, requests_per_s: 8, duration_s: 3600}]}"
SLOTS = "benchmark: {phases: [{concurrency: 4, duration_s: 3600, ramp_s: 600}]}"
TWO_PHASES = "benchmark: {phases: [{concurrency: 2, duration_s: 3600}, {concurrency: 4, requests: 80}]}"
AN_HOUR = "benchmark: {concurrency: [4], duration_s: 3600}"


def driven(folder: Path, chat: Path, benchmark: str, *loads: Load) -> tuple[str, ...]:
    """Why a run of other loads than the profile's does not prove it; the content of a trace aside."""
    assert LEVELS in chat.read_text()
    chat.write_text(chat.read_text().replace(LEVELS, benchmark))
    run = run_of_profile(folder, chat, created=NOW, loads=loads)
    return tuple(judged_otherwise(stored_run(run), *tree(chat)))


@pytest.mark.parametrize(
    ("benchmark", "load", "said"),
    [
        (
            "benchmark: {concurrency: [4], requests_per_level: 400}",
            Load(concurrency=4, requests=120),
            "4 in flight was driven for 120 requests, the profile asks for 400 requests",
        ),
        (
            "benchmark: {concurrency: [4], requests_at_objectives: 200}",
            Load(concurrency=4, requests=120),
            "4 in flight was driven for 120 requests, the profile asks for 200 requests",
        ),
        (
            AN_HOUR,
            Load(concurrency=4, duration_s=15),
            "4 in flight was driven for 15 s, the profile asks for 3600 s",
        ),
        (
            AN_HOUR,
            Load(concurrency=4, requests=120),
            "4 in flight was driven for 120 requests, the profile asks for 3600 s",
        ),
        (
            RAMP,
            Load("constant", requests_per_s=8, from_requests_per_s=1, duration_s=15),
            "constant 1 to 8 requests/s was driven for 15 s, the profile asks for 3600 s",
        ),
        (
            RAMP.replace("from_requests_per_s: 1", "from_requests_per_s: 0"),
            Load("constant", requests_per_s=8, from_requests_per_s=0, duration_s=7200),
            "constant 0 to 8 requests/s was driven for 7200 s, the profile asks for 3600 s",
        ),
        (
            SLOTS,
            Load(concurrency=4, duration_s=3600, ramp_s=15),
            "4 in flight was driven for 3600 s, opened over 15 s, the profile asks for 3600 s, opened over 600 s",
        ),
        (
            IN_PHASES,
            Load("trace", trace="t.csv", requests=60),
            "trace t.csv was driven for 60 requests, the profile asks for the whole trace",
        ),
        (
            IN_PHASES,
            Load("trace", trace="t.csv", duration_s=60),
            "trace t.csv was driven for 60 s, the profile asks for the whole trace",
        ),
    ],
)
def test_a_run_of_less_than_the_profile_asks_for_is_named(
    tmp_path: Path, chat: Path, monkeypatch: pytest.MonkeyPatch, benchmark: str, load: Load, said: str
) -> None:
    """In words both are the same load."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(ROWS)
    assert driven(tmp_path / "a", chat, benchmark, load) == (said,)


def test_every_phase_is_asked_for(tmp_path: Path, chat: Path) -> None:
    """The objectives hold at the second; what came before it is part of it."""
    short, judged = Load(concurrency=2, duration_s=15), Load(concurrency=4, requests=80)
    assert driven(tmp_path / "a", chat, TWO_PHASES, judged)[0] == (
        "2 in flight was not driven, which the profile has as level 1"
    )
    run = run_of_profile(tmp_path / "b", chat, created=NOW, loads=(short, judged))
    assert "2 in flight was driven for 15 s, the profile asks for 3600 s" in judged_otherwise(
        stored_run(run), *tree(chat)
    )


@pytest.mark.parametrize(
    "load",
    [Load(concurrency=4, requests=120), Load(concurrency=4, duration_s=5), Load(concurrency=4, requests=80, ramp_s=0)],
)
def test_a_run_of_more_proves_as_well(tmp_path: Path, chat: Path, load: Load) -> None:
    """80 requests are asked for; in whatever time 120 were sent."""
    assert driven(tmp_path / "a", chat, LEVELS, load) == ()


def test_prompts_given_on_the_command_line_are_not_the_profiles(tmp_path: Path, chat: Path) -> None:
    """The profile names no dataset."""
    workload = replace(workload_of(load_profile(chat), chat.parent), dataset="mine.jsonl")
    run_of_profile(tmp_path / "runs" / "a", chat, created=NOW, workload=workload)
    said = "sent the prompts of mine.jsonl, the profile names no dataset"
    assert said in proof(chat, tmp_path / "runs").problems


def test_verify_names_what_is_not_the_profiles(
    tmp_path: Path, chat: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """1, though the files fit together."""
    monkeypatch.chdir(tmp_path)
    run_of_profile(tmp_path / "a", chat, target=replace(TARGET, region="ap-south-1"))
    assert loadproof(["verify", "a"]) == 1
    assert "measured in ap-south-1, the profile's environment is in eu-central-1" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_damaged_newer_run_is_named_beside_the_result(tmp_path: Path, chat: Path) -> None:
    """Its verdict might have been another."""
    run_of_profile(tmp_path / "runs" / "a", chat, created=NOW - timedelta(hours=3))
    newer = run_of_profile(tmp_path / "runs" / "f", chat, slower=9, created=NOW - timedelta(hours=1))
    os.truncate(newer / "summary.json", 100)
    found = proof(chat, tmp_path / "runs")
    assert found.holds and any(note.startswith("passed over, though no older: ") for note in found.notes)


def _without_plan(run: Path) -> None:
    (run / "plan.json").unlink()


def _empty_plan(run: Path) -> None:
    (run / "plan.json").write_text('{"schema_version": 2}')
    (run / "evidence.dsse.json").write_text("{}")


def _plan_of_another(run: Path) -> None:
    plan = run / "plan.json"
    plan.write_bytes(plan.read_bytes().replace(b'"dev"', b'"devx"'))


def _plan_of_an_older_version(run: Path) -> None:
    plan = orjson.loads((run / "plan.json").read_bytes())
    plan["spec"]["profile"]["sha256"] = "0" * 64
    (run / "plan.json").write_bytes(orjson.dumps(plan))


def _summary_alone(run: Path) -> None:
    for name in ("plan.json", "evidence.json"):
        (run / name).unlink()


def _linked_plan(run: Path) -> None:
    _without_plan(run)
    (run / "plan.json").symlink_to("/dev/zero")


def _nothing_said(run: Path) -> None:
    """Where it was filed is all that is left to tell whose it is."""
    for name in ("plan.json", "evidence.json", "summary.json"):
        (run / name).write_text("{}")


def _below_another(run: Path) -> None:
    """A run hides none that lies deeper, and what is cut off by no verdict hides none either."""
    _without_plan(run)
    for name in ("plan.json", "summary.json"):
        (run.parent / name).write_text("{}")


@pytest.mark.parametrize(
    "damage",
    [
        _without_plan, _empty_plan, _plan_of_another, _plan_of_an_older_version, _summary_alone, _linked_plan,
        _nothing_said, _below_another,
    ],
)  # fmt: skip
def test_whatever_file_of_a_newer_run_is_damaged_it_is_named(
    tmp_path: Path, chat: Path, damage: Callable[[Path], None]
) -> None:
    """Taking the plan of a FAIL away brought the PASS before it back without a word."""
    run_of_profile(tmp_path / "evidence" / "dev" / "chat" / "a", chat, created=NOW - timedelta(hours=3))
    newer = run_of_profile(
        tmp_path / "evidence" / "dev" / "chat" / "f", chat, slower=9, created=NOW - timedelta(hours=1)
    )
    damage(newer)
    found = proof(chat, tmp_path / "evidence")
    assert found.run is not None and found.run.run_id == "a"
    assert any(note.startswith(f"passed over, though no older: {newer}, ") for note in found.notes)


def test_a_newer_run_of_an_older_version_that_was_cut_off_is_not_named(tmp_path: Path, chat: Path) -> None:
    """It has no verdict that anybody could want to hide."""
    run_of_profile(tmp_path / "evidence" / "a", chat, created=NOW - timedelta(hours=3))
    newer = run_of_profile(tmp_path / "evidence" / "f", chat, created=NOW - timedelta(hours=1), judged=False)
    _plan_of_an_older_version(newer)
    assert not any("passed over" in note for note in proof(chat, tmp_path / "evidence").notes)


def test_a_damaged_older_run_is_not_named(tmp_path: Path, chat: Path) -> None:
    """The newest decides, whatever older ones said."""
    older = run_of_profile(tmp_path / "runs" / "f", chat, slower=9, created=NOW - timedelta(hours=3))
    run_of_profile(tmp_path / "runs" / "a", chat, created=NOW - timedelta(hours=1))
    os.truncate(older / "summary.json", 100)
    assert not any("passed over" in note for note in proof(chat, tmp_path / "runs").notes)
