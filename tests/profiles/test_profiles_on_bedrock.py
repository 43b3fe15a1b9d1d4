"""Backend bedrock: what a profile means there, and the checks' finer cases (the plain ones are in bad/)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from loadproof.profiles import check_file, load_profile
from loadproof.profiles.on_bedrock import bedrock_row, deployed_name, invoked_id, prefix_row
from loadproof.profiles.schema import Profile

LLAMA = "meta.llama3-1-8b-instruct-v1:0"
BASE: dict[str, Any] = {
    "name": "chat",
    "backend": "bedrock",
    "model": {"id": LLAMA},
    "objectives": {"at_concurrency": 4, "e2e_p95_ms": 3000},
    "workload": {"input_tokens": 256, "output_tokens": 64},
}


def written(folder: Path, region: str = "us-east-1", **changes: Any) -> Path:
    environment = {"account": "123456789012", "region": region}
    (folder / "environment.yaml").write_text(yaml.safe_dump(environment), encoding="utf-8")
    file = folder / "chat.yaml"
    file.write_text(yaml.safe_dump({**BASE, **changes}), encoding="utf-8")
    return file


def found(folder: Path, region: str = "us-east-1", **changes: Any) -> list[tuple[str, str, str]]:
    """(code, severity, field) of every problem."""
    problems = check_file(written(folder, region, **changes)).problems
    return [(one.code, one.severity, one.path) for one in problems]


def profile(folder: Path, **changes: Any) -> Profile:
    return load_profile(written(folder, **changes))


def test_a_plain_profile_is_well(tmp_path: Path) -> None:
    """A model, objectives and a workload are all it takes."""
    assert found(tmp_path) == []


def test_what_is_invoked(tmp_path: Path) -> None:
    """With a prefix the cross-region profile's id, else the model's own."""
    assert invoked_id(profile(tmp_path)) == LLAMA
    crossing = profile(tmp_path, bedrock={"inference_profile": "us"})
    assert invoked_id(crossing) == f"us.{LLAMA}"
    assert prefix_row(crossing).destination_regions == ("us-east-1", "us-east-2", "us-west-1", "us-west-2")


def test_a_name_changes_with_what_it_is_made_of_and_nothing_else(tmp_path: Path) -> None:
    """Model, prefix, units and commitment; not objectives, tiers or concurrency."""
    plain = deployed_name("dev", profile(tmp_path))
    assert plain.startswith("loadproof-dev-chat-") and len(plain) == len("loadproof-dev-chat-") + 8
    same = profile(tmp_path, objectives={"at_concurrency": 2, "e2e_p95_ms": 9}, bedrock={"max_concurrency": 3})
    assert deployed_name("dev", same) == plain
    others = [
        {"model": {"id": "amazon.nova-lite-v1:0"}},
        {"bedrock": {"inference_profile": "us"}},
        {"bedrock": {"provisioned_throughput": {"model_units": 1}}},
        {"bedrock": {"provisioned_throughput": {"model_units": 2}}},
        {"bedrock": {"provisioned_throughput": {"model_units": 2, "commitment": "one_month"}}},
    ]
    names = {deployed_name("dev", profile(tmp_path, **changes)) for changes in others}
    assert len(names | {plain}) == len(others) + 1


def test_a_long_name_fits_and_stays_its_own(tmp_path: Path) -> None:
    """Provisioned throughput takes 63 characters at most."""
    one, other = (
        deployed_name("production", profile(tmp_path, model={"id": model_id}).model_copy(update={"name": "a" * 40}))
        for model_id in (LLAMA, "amazon.nova-lite-v1:0")
    )
    assert len(one) <= 63 and len(other) <= 63
    assert one != other


def test_a_context_size_is_no_other_model(tmp_path: Path) -> None:
    """Throughput is sold for `…:24k`; the row is the model's."""
    units = {"provisioned_throughput": {"model_units": 1}}
    row = bedrock_row(profile(tmp_path, model={"id": "amazon.nova-lite-v1:0:24k"}, bedrock=units))
    assert row is not None and row.model_id == "amazon.nova-lite-v1:0"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"copies": {"min": 2, "max": 2}}, [("LP202", "error", "copies")]),
        ({"model": {"id": LLAMA, "quantization": "fp8"}}, [("LP202", "error", "model.quantization")]),
        ({"model": {"id": LLAMA, "trust_remote_code": True}}, [("LP202", "error", "model.trust_remote_code")]),
        (
            {"bedrock": {"service_tier": "priority", "provisioned_throughput": {"model_units": 1}}},
            [("LP294", "error", "bedrock.service_tier")],
        ),
        ({"bedrock": {"inference_profile": "eu"}}, [
            ("LP292", "error", "bedrock.inference_profile"),
            ("LP293", "warning", "bedrock.inference_profile"),
        ]),
        ({"benchmark": {"schedule": "cron(0 3 ? * SUN *)"}}, [("LP297", "error", "benchmark.schedule")]),
        ({"buffer": {"max_concurrency": 4, "batch_size": 2}}, []),
        ({"buffer": {"max_concurrency": 9, "enabled": False}}, []),
    ],
)  # fmt: skip
def test_finer_cases(tmp_path: Path, changes: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    """Each with the code, how bad it is, and the field."""
    codes = {code for code, _, _ in expected} | {"LP202", "LP292", "LP293", "LP294", "LP297", "LP298"}
    assert [one for one in found(tmp_path, **changes) if one[0] in codes] == expected


def test_a_region_of_the_geography_that_no_row_names_is_a_warning(tmp_path: Path) -> None:
    """us-gov-west-1 may or may not belong to `us.`: the rows are a snapshot."""
    problems = found(tmp_path, region="us-gov-west-1", bedrock={"inference_profile": "us"})
    assert ("LP292", "warning", "bedrock.inference_profile") in problems


@pytest.mark.parametrize(
    ("most", "batch_size", "refused"), [(8, 10, True), (1, 1, True), (20, 10, False), (2, 1, False), (8, 4, False)]
)
def test_derived_consumers_stay_within_the_bound_too(tmp_path: Path, most: int, batch_size: int, refused: bool) -> None:
    """Lambda takes no fewer than two consumers, each with its batch: more than the bound is refused for `auto` too."""
    problems = found(tmp_path, bedrock={"max_concurrency": most}, buffer={"batch_size": batch_size})
    assert (("LP298", "error", "buffer.batch_size") in problems) is refused


@pytest.mark.parametrize(("units", "told"), [(50, False), (51, True), (300, True)])
def test_model_units_that_nobody_expects_to_pay_for(tmp_path: Path, units: int, told: bool) -> None:
    place = ("LP357", "warning", "bedrock.provisioned_throughput.model_units")
    assert (place in found(tmp_path, bedrock={"provisioned_throughput": {"model_units": units}})) == told
