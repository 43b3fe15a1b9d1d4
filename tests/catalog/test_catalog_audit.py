"""`loadproof catalog audit`: what the rows lack, what is stale, what is from memory."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from loadproof.catalog import instances
from loadproof.catalog.audit import AuditFinding, findings
from loadproof.catalog.installed_sdks import ENUMERATIONS, Kind, listed
from loadproof.cli.catalog import audit as audit_command
from loadproof.cli.main import run

TODAY = date(2026, 11, 22)
SAME: dict[Kind, list[str]] = {kind: sorted(listed(kind)) for kind in ENUMERATIONS}


def audited(**given: Any) -> list[AuditFinding]:
    found = {"sdk": SAME, "images": None, "offered": audit_command.offered(), "today": TODAY} | given
    return list(findings(found["sdk"], found["images"], found["offered"], found["today"]))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("instance_type", "ml.g9.xlarge"),
        ("ami", "al2027-ami-sagemaker-inference-gpu-5-1"),
        ("routing_strategy", "STICKY"),
        ("service_tier", "batch"),
    ],
)
def test_what_the_sdk_knows_and_we_lack_is_missing(kind: Kind, name: str) -> None:
    """A type, a host image, a routing strategy and a tier alike."""
    found = audited(sdk={**SAME, kind: [*SAME[kind], name]})
    assert [(one.state, one.key) for one in found if one.state == "missing"] == [("missing", f"{kind} {name}")]


def test_what_the_sdk_lists_no_more_is_stale() -> None:
    """AWS retired it, or it was never there."""
    found = audited(sdk={**SAME, "instance_type": [name for name in SAME["instance_type"] if name != "ml.p3.2xlarge"]})
    assert ("stale", "instance_type ml.p3.2xlarge") in {(one.state, one.key) for one in found}


def test_a_newer_image_is_missing_an_older_one_is_not() -> None:
    """Our newest vLLM is 0.30.0: 0.31.0 is missing, 0.21.0 was left out on purpose."""
    found = audited(images={"vllm": ["0.21.0", "0.30.0", "0.31.0"]})
    assert [one.key for one in found if one.table == "containers.csv"] == ["vllm 0.31.0"]


def test_a_strategy_that_no_profile_can_write_is_said() -> None:
    """The API takes KV_AWARE; profiles offer three strategies."""
    found = [one for one in audited() if one.state == "not offered"]
    assert [one.key for one in found] == ["routing_strategy KV_AWARE"]


@pytest.mark.parametrize(
    ("state", "table", "key"),
    [
        ("no price", "instances.csv", "ml.p5e.48xlarge"),
        ("stale", "instances.csv", "ml.g4dn.12xlarge"),  # 2025-01-26
        ("from memory", "instances.csv", "ml.p5en.48xlarge"),  # derived from EC2's
        ("from memory", "bedrock_models.csv", "mistral.mistral-7b-instruct-v0:2"),
        ("from memory", "bedrock_prefixes.csv", "us"),
        ("no shape", "instances.csv", "ml.inf1.2xlarge"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(state: str, table: str, key: str) -> None:
    """Prices, sources and shapes of our own rows."""
    assert (state, table, key) in {(one.state, one.table, one.key) for one in audited()}


def test_every_price_can_be_looked_up() -> None:
    """A source names a page or a repository's file, never a number in somebody's index, derived prices included."""
    assert [one.key for one in audited() if one.state == "uncheckable"] == []


def test_every_price_has_a_month_at_least() -> None:
    """A year says nothing of a price that changed in June 2025."""
    assert [name for name, row in instances().items() if row.usd_per_hour is not None and len(row.price_date) < 7] == []


def test_a_price_has_the_region_and_the_day_of_its_source() -> None:
    """OKUniversity/agentcore-public-stack @af09e6d: pricing.py has "us-west-2 on-demand USD/hour", CHANGELOG.md 1.23.0
    of 2026-09-20."""
    seen: dict[str, set[tuple[str, str]]] = {}
    for row in instances().values():
        seen.setdefault(row.price_source, set()).add((row.price_region, row.price_date))
    assert {source: places for source, places in seen.items() if len(places) > 1} == {}


def test_what_no_installed_sdk_carries_has_the_command_that_does() -> None:
    """A price that is missing, old or derived; the regions of a profile."""
    mends = {(one.table, one.key): one.mend for one in audited() if one.state != "no shape"}
    assert "Field=instanceName,Value=ml.trn2.48xlarge" in mends["instances.csv", "ml.trn2.48xlarge"]
    assert "profiles eu.* in: aws bedrock list-inference-profiles" in mends["bedrock_prefixes.csv", "eu"]


def test_a_price_is_stale_a_year_after_it_was_seen() -> None:
    """A month counts from its end: 2026-07 is fresh on 2027-07-20 and stale on 2027-08-01."""
    fresh = {one.key for one in audited(today=date(2027, 7, 20)) if one.state == "stale"}
    stale = {one.key for one in audited(today=date(2027, 8, 1)) if one.state == "stale"}
    assert "ml.p6-b200.48xlarge" not in fresh
    assert "ml.p6-b200.48xlarge" in stale


def test_the_command_ends_well_while_nothing_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0 beside findings of other kinds; 1 with --strict."""
    assert run(["catalog", "audit"]) == 0
    assert "from memory" in capsys.readouterr().out
    assert run(["catalog", "audit", "--strict"]) == 1


def test_json_has_every_finding_and_what_was_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """For programs."""
    run(["catalog", "audit", "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert {"table", "key", "state", "found", "mend"} == document["findings"][0].keys()
    assert any("Bedrock" in note for note in document["notes"])


def test_the_command_fails_where_the_sdk_knows_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1: a build with a newer botocore says so."""
    more = {**SAME, "instance_type": [*SAME["instance_type"], "ml.g9.xlarge"]}
    monkeypatch.setattr(audit_command, "enumerations", lambda folder: more)
    assert run(["catalog", "audit"]) == 1
    assert "ml.g9.xlarge" in capsys.readouterr().out
