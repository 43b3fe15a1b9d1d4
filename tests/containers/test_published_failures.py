"""What people published of LLM containers on SageMaker: each is caught before AWS, or listed with why not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cases import CASES, container_of, profile_of

from loadproof.localcloud.model_server.clock import WallClock
from loadproof.localcloud.model_server.container import CannotStartError, ContainerRequest
from loadproof.localcloud.model_server.contract import Place
from loadproof.localcloud.model_server.start import start_twin
from loadproof.profiles import check_file


def caught_by(way: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["caught"]["by"] == way]


def problems(case: Mapping[str, Any], folder: Path) -> list[Any]:
    path = folder / "published.yaml"
    path.write_text(yaml.safe_dump(profile_of(case)), encoding="utf-8")
    return list(check_file(path).problems)


def says(case: Mapping[str, Any]) -> str:
    """What the local cloud says of it: why the container does not start, or its answer."""

    async def asked() -> str:
        container = start_twin(container_of(case), Place(case["instance"], 1), WallClock())
        answer = await container.invoke(ContainerRequest(b'{"prompt": "Hello", "max_tokens": 1}'))
        text = b"".join([part async for part in answer.parts]).decode()
        await container.close()
        return "" if answer.status == 200 else text

    try:
        return asyncio.run(asked())
    except CannotStartError as error:
        return str(error)


@pytest.mark.parametrize("case", caught_by("check"))
def test_check_names_it_with_its_line(case: Mapping[str, Any], tmp_path: Path) -> None:
    """The expected code stands at the field that is wrong."""
    expected = case["caught"]
    wanted = (expected["code"], expected.get("severity", "error"))
    found = [(one.code, one.severity, one.path) for one in problems(case, tmp_path)]
    assert any((code, severity) == wanted and at.startswith(expected["at"]) for code, severity, at in found), found


@pytest.mark.parametrize("case", caught_by("local_cloud"))
def test_the_local_cloud_says_what_the_image_says(case: Mapping[str, Any]) -> None:
    """A template of somebody's own, deployed here, ends as it would there."""
    assert case["caught"]["says"] in says(case)


@pytest.mark.parametrize("case", caught_by("nothing"))
def test_what_is_not_caught_has_a_reason_and_is_really_not_caught(case: Mapping[str, Any], tmp_path: Path) -> None:
    """The ledger is no excuse: a case that somebody learns to catch leaves it."""
    assert case["caught"]["reason"]
    assert not [one for one in problems(case, tmp_path) if one.severity == "error"]


def test_at_least_nine_of_ten_are_caught() -> None:
    """Fifty and more published failures, 45 of 50 caught."""
    caught = [case for case in CASES if case["caught"]["by"] != "nothing"]
    assert len(CASES) >= 50
    assert len(caught) >= 0.9 * len(CASES)


def test_at_least_forty_failed_on_sagemaker_itself() -> None:
    """The rest are of the engines that AWS's images pack."""
    assert sum(case["scope"] == "sagemaker" for case in CASES) >= 40


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_each_has_its_source_and_says_what_was_assumed(case: Mapping[str, Any]) -> None:
    """A reader can look it up, and sees what the source left open."""
    assert case["source"].startswith("https://")
    assert case["happened"]
    assert case["said"]
    assert case["scope"] in ("sagemaker", "studio", "engine")
