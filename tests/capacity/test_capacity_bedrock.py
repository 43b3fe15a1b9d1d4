"""What published quotas let through, worked by hand; and how `loadproof plan` says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadproof.capacity.bedrock import quota_outlook
from loadproof.cli import main
from loadproof.profiles import load_profile
from loadproof.profiles.schema import Profile

PROFILE: dict[str, Any] = {
    "name": "chat",
    "backend": "bedrock",
    "model": {"id": "meta.llama3-1-8b-instruct-v1:0"},
    "objectives": {"at_concurrency": 4, "e2e_p95_ms": 3000},
    "workload": {"input_tokens": 900, "output_tokens": 100},
}


def written(folder: Path, **changes: Any) -> Path:
    file = folder / "chat.yaml"
    file.write_text(yaml.safe_dump({**PROFILE, **changes}), encoding="utf-8")
    return file


def profile(folder: Path, **changes: Any) -> Profile:
    return load_profile(written(folder, **changes))


def test_tokens_bind_long_requests(tmp_path: Path) -> None:
    """300,000 tokens a minute are 300 requests of 1,000; 800 requests would be allowed. At 3 s, 15 are in flight."""
    outlook = quota_outlook(profile(tmp_path), "us-east-1")
    assert (outlook.reserved_tokens, outlook.settled_tokens) == (1000, 1000)
    assert (outlook.requests_per_minute, outlook.binds) == (300, "tokens per minute")
    assert outlook.reserved_in_flight == 300
    assert outlook.in_flight_at_objective == 15
    assert outlook.objective == "e2e_p95_ms"


def test_requests_bind_short_ones(tmp_path: Path) -> None:
    """Of 20 tokens, 15,000 would fit the tokens, and 800 the requests."""
    outlook = quota_outlook(profile(tmp_path, workload={"input_tokens": 10, "output_tokens": 10}), "us-east-1")
    assert (outlook.requests_per_minute, outlook.binds) == (800, "requests per minute")


def test_a_regions_own_quota_comes_first(tmp_path: Path) -> None:
    """Nova Lite over `us.`: 4,000,000 tokens in us-east-1, 200,000 where no row names the region."""
    nova = {"model": {"id": "amazon.nova-lite-v1:0"}, "bedrock": {"inference_profile": "us"}}
    here, elsewhere = (quota_outlook(profile(tmp_path, **nova), region) for region in ("us-east-1", "ca-central-1"))
    assert here.tokens_quota is not None and here.tokens_quota.value == 4_000_000
    assert elsewhere.tokens_quota is not None and elsewhere.tokens_quota.value == 200_000


def test_output_that_counts_five_times(tmp_path: Path) -> None:
    """Claude Haiku 4.5: 900 in and 100 out settle for 1,400; its quotas are in no row, so nothing is concluded."""
    haiku = {"model": {"id": "anthropic.claude-haiku-4-5-20251001-v1:0"}, "bedrock": {"inference_profile": "us"}}
    outlook = quota_outlook(profile(tmp_path, **haiku), "us-east-1")
    assert (outlook.reserved_tokens, outlook.settled_tokens) == (1000, 1400)
    assert (outlook.requests_per_minute, outlook.binds, outlook.reserved_in_flight) == (None, None, None)


def test_model_units_have_no_quota(tmp_path: Path) -> None:
    """Provisioned throughput: what a unit does is nobody's row."""
    outlook = quota_outlook(profile(tmp_path, bedrock={"provisioned_throughput": {"model_units": 2}}), "us-east-1")
    assert (outlook.provisioned_units, outlook.tokens_quota, outlook.requests_per_minute) == (2, None, None)


def test_plan_says_where_each_figure_is_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text for people: no latency, the quota's name, its source and date."""
    assert main.run(["plan", str(written(tmp_path))]) == 0
    said = capsys.readouterr().out
    assert "latency and throughput are not predicted" in said
    assert "Tokens a minute: 300000 by default (On-demand model inference tokens per minute for Meta Llama" in said
    assert "AWS General Reference" in said and "2025-06-05" in said
    assert "at most 300 requests a minute: tokens per minute bind" in said


def test_plan_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as JSON, versioned."""
    assert main.run(["plan", str(written(tmp_path)), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema_version"], document["backend"]) == (1, "bedrock")
    assert document["requests_per_minute"] == 300


@pytest.mark.parametrize("option", [["--write"], ["--format", "html"], ["--instances", "ml.g5.xlarge"]])
def test_there_are_no_machines_to_choose_from(
    tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What would rank or change instances is refused, with what applies."""
    assert main.run(["plan", str(written(tmp_path)), *option]) == 2
    assert "only --format text and json apply" in capsys.readouterr().err
