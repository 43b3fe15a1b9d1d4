"""A first profile of several copies has room for its updates and its scaling."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.cli.main import run
from loadproof.profiles import check_file, load_profile


@pytest.mark.parametrize(
    ("p95_ms", "traffic", "least", "most", "machines"),
    [("4000", "8", 2, 3, 3), ("4000", "16", 2, 3, 3), ("10000", "200", 4, 6, 3)],
)
def test_a_profile_of_several_copies_is_right(
    p95_ms: str, traffic: str, least: int, most: int, machines: int, tmp_path: Path
) -> None:
    """Half of the copies come beside the old ones: one of two, two of four, of which two share a machine."""
    options = ("--defaults", "--model", "Qwen/Qwen3-8B", "--p95", p95_ms, "--traffic", traffic)
    assert run(["init", str(tmp_path), *options]) == 0
    file = tmp_path / "deploy_profiles" / "dev" / "qwen3-8b.yaml"
    assert [str(problem) for problem in check_file(file).problems] == []
    profile = load_profile(file)
    assert profile.endpoint is not None
    assert (profile.copies.min, profile.copies.max, profile.endpoint.max_instances) == (least, most, machines)


def test_machines_of_a_plain_variant_have_room_too(tmp_path: Path) -> None:
    """eu-west-3 has no inference components: a copy is a machine there."""
    options = ("--defaults", "--model", "Qwen/Qwen3-8B", "--p95", "20000", "--traffic", "60", "--region", "eu-west-3")
    assert run(["init", str(tmp_path), *options]) == 0
    file = tmp_path / "deploy_profiles" / "dev" / "qwen3-8b.yaml"
    assert [str(problem) for problem in check_file(file).problems] == []
    endpoint = load_profile(file).endpoint
    assert endpoint is not None and (endpoint.min_instances, endpoint.max_instances) == (2, 3)
