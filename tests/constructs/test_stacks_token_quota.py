"""The function that finds a quota by its name: the account's value, else AWS's default, else a reason."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from loadproof.constructs.bedrock.quota.infrastructure import CODE

_SPEC = importlib.util.spec_from_file_location("quota_index", CODE)
assert _SPEC is not None and _SPEC.loader is not None
index = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(index)

NAME = "Cross-region model inference tokens per minute for Anthropic Claude Sonnet 4.5 V1"
OLD = "Cross-region InvokeModel tokens per minute for Anthropic Claude Sonnet 4.5 V1"


class Quotas:
    """Service Quotas with one page of the account's values and one of defaults."""

    def __init__(self, own: dict[str, float], defaults: dict[str, float]) -> None:
        self.pages = {"list_service_quotas": own, "list_aws_default_service_quotas": defaults}
        self.asked: list[str] = []

    def get_paginator(self, operation: str) -> Any:
        quotas = self

        class Paginator:
            def paginate(self, *, ServiceCode: str) -> Iterator[dict[str, Any]]:  # noqa: N803
                assert ServiceCode == "bedrock"
                quotas.asked.append(operation)
                rows = [{"QuotaName": name, "Value": value} for name, value in quotas.pages[operation].items()]
                yield {"Quotas": rows[:1]}
                yield {"Quotas": rows[1:]}

        return Paginator()


def test_the_accounts_value_comes_first() -> None:
    """On whatever page it stands; the defaults are not even asked for."""
    quotas = Quotas({"another": 1.0, NAME: 5e6}, {NAME: 2e5})
    assert index.quota_of(quotas, [NAME, OLD]) == 5e6
    assert quotas.asked == ["list_service_quotas"]


def test_a_default_stands_in() -> None:
    """For what the account's list leaves out."""
    assert index.quota_of(Quotas({"another": 1.0}, {NAME: 2e5}), [NAME, OLD]) == 2e5


@pytest.mark.parametrize("listed", [NAME.removesuffix(" V1"), NAME.replace("region", "Region"), OLD])
def test_awss_wordings_are_one_quota(listed: str) -> None:
    """With and without a version, either letter case, both verbs."""
    assert index.quota_of(Quotas({listed: 7.0}, {}), [NAME, OLD]) == 7


def test_what_nobody_lists_is_said() -> None:
    """The names that were looked for, and the two ways out."""
    with pytest.raises(RuntimeError) as said:
        index.quota_of(Quotas({"another": 1.0}, {}), [NAME, OLD])
    assert NAME in str(said.value) and OLD in str(said.value)
    assert "bedrock_models.csv" in str(said.value) and "quota_alarm_share: null" in str(said.value)
