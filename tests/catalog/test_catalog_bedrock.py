"""Bedrock's rows: consistent with each other, found by name."""

from __future__ import annotations

import re

import pytest

from loadproof.catalog.bedrock import (
    bedrock_models,
    bedrock_prefixes,
    bedrock_quotas,
    default_quota,
    quota_names,
    same_quota,
    split_profile_id,
)
from loadproof.profiles.schema import Bedrock


def test_every_row_has_a_source_and_a_date() -> None:
    """What was written from memory says so and is shown as unverified."""
    models = bedrock_models().values()
    for row in (*models, *bedrock_prefixes().values(), *bedrock_quotas()):
        assert row.source and re.fullmatch(r"20\d\d-\d\d-\d\d", row.date)
    assert {row.model_id for row in models if row.unverified} == {
        "meta.llama3-8b-instruct-v1:0",
        "mistral.mistral-7b-instruct-v0:2",
        "openai.gpt-oss-20b-1:0",
        "openai.gpt-oss-120b-1:0",
        "qwen.qwen3-32b-v1:0",
    }


def test_prefixes_are_those_of_the_schema() -> None:
    """A prefix that a profile may name has its row, and the other way round."""
    allowed = Bedrock.model_json_schema()["properties"]["inference_profile"]["enum"]
    assert set(allowed) == set(bedrock_prefixes())


def test_models_name_prefixes_that_exist() -> None:
    """A model without on-demand use has at least one prefix; its answer fits its context."""
    for model in bedrock_models().values():
        assert set(model.prefixes) <= set(bedrock_prefixes()) - {"none"}
        assert model.on_demand or model.prefixes
        assert 0 < model.max_output_tokens < model.context_tokens
        assert model.output_burndown >= 1
        assert "default" in model.tiers


def test_every_quota_belongs_to_a_model() -> None:
    """No row that nothing would ever look up."""
    known = {
        name.casefold()
        for model in bedrock_models().values()
        for prefix in bedrock_prefixes()
        for unit in ("requests", "tokens")
        for name in quota_names(prefix, unit, model.title)  # type: ignore[arg-type]
    }
    assert {row.name.casefold() for row in bedrock_quotas()} <= known


@pytest.mark.parametrize(
    ("model_id", "prefix", "unit", "region", "value"),
    [
        ("meta.llama3-1-8b-instruct-v1:0", "none", "requests", "us-west-2", 800),
        ("meta.llama3-1-8b-instruct-v1:0", "us", "tokens", "us-east-1", 600_000),
        ("amazon.nova-lite-v1:0", "us", "tokens", "us-east-1", 4_000_000),
        ("amazon.nova-lite-v1:0", "eu", "tokens", "eu-west-1", 200_000),
        ("mistral.mistral-7b-instruct-v0:2", "none", "tokens", "us-east-1", 300_000),
        ("openai.gpt-oss-20b-1:0", "none", "tokens", "us-east-1", None),
    ],
)
def test_published_defaults(model_id: str, prefix: str, unit: str, region: str, value: float | None) -> None:
    """As AWS's table has them: a region's own row first, both wordings of a name, None where nothing is published."""
    found = default_quota(bedrock_models()[model_id], prefix, unit, region)  # type: ignore[arg-type]
    assert (None if found is None else found.value) == value


def test_a_version_or_letter_case_does_not_hide_a_quota() -> None:
    """AWS has written both `Cross-region` and `Cross-Region`, with and without ` V1`."""
    one = "Cross-region model inference tokens per minute for Anthropic Claude Sonnet 4.5 V1"
    assert same_quota(one, "Cross-Region model inference tokens per minute for Anthropic Claude Sonnet 4.5")
    assert not same_quota(one, one.replace("4.5", "4"))


@pytest.mark.parametrize(
    ("given", "split"),
    [
        ("us.meta.llama3-1-8b-instruct-v1:0", ("us", "meta.llama3-1-8b-instruct-v1:0")),
        ("global.anthropic.claude-haiku-4-5-20251001-v1:0", ("global", "anthropic.claude-haiku-4-5-20251001-v1:0")),
        ("amazon.nova-lite-v1:0", ("none", "amazon.nova-lite-v1:0")),
        ("none.of-this", ("none", "none.of-this")),
    ],
)
def test_a_prefix_is_split_off(given: str, split: tuple[str, str]) -> None:
    """Providers are no prefixes."""
    assert split_profile_id(given) == split
