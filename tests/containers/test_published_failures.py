"""What people published of LLM containers on SageMaker: each is caught before AWS, or listed with why not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cases import CASES, container_of, profile_of

from loadproof.catalog.contracts import Running, refusals_of
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


def held_out(how: str) -> list[Any]:
    return [case for case in CASES if case.get("held_out") == how]


def test_of_those_that_were_written_down_first_nine_of_ten_are_caught() -> None:
    """At first 3 of 29, and 26 now; of a second set 4 of 10, and 9 now. The ledger has the reasons of the rest."""
    first = [*held_out("caught at first"), *held_out("missed at first")]
    second = [*held_out("second, caught at first"), *held_out("second, missed at first")]
    assert (len(held_out("caught at first")), len(first)) == (3, 29)
    assert (len(held_out("second, caught at first")), len(second)) == (4, 10)
    assert [sum(case["caught"]["by"] != "nothing" for case in cases) for cases in (first, second)] == [26, 9]


# A published pair that starts: the first version that knows the model, and newer ones; and accelerators that suffice.
STARTS = (
    ("vllm:0.10.1-gpu-py312-cu128-ubuntu22.04-sagemaker", "openai/gpt-oss-20b", "mxfp4", "A10G"),
    ("vllm:0.8.4-gpu-py312-cu124-ubuntu22.04-sagemaker", "Qwen/Qwen3-30B-A3B", "none", "A10G"),
    ("vllm:0.14.0-gpu-py312-cu129-ubuntu22.04-sagemaker", "Qwen/Qwen2.5-1.5B", "fp8", "T4"),
    ("vllm:0.33.0-gpu-py312-cu130-ubuntu24.04-sagemaker", "zai-org/GLM-5", "fp8", "H100"),
    ("djl-inference:0.33.0-lmi15.0.0-cu128", "meta-llama/Llama-4-Scout-17B-16E-Instruct", "none", "H100"),
    ("djl-inference:0.30.0-lmi12.0.0-cu124", "Qwen/Qwen2.5-7B", "none", "A10G"),
    ("sglang:0.5.1-gpu-py312-cu128-ubuntu22.04-sagemaker", "openai/gpt-oss-20b", "mxfp4", "H100"),
    ("sglang:0.5.20-gpu-py312-cu130-ubuntu24.04-sagemaker", "Qwen/Qwen3-8B", "none", "A10G"),
    (
        "huggingface-pytorch-tgi-inference:2.6.0-tgi3.2.3-gpu-py311-cu124-ubuntu22.04",
        "google/gemma-3-12b-it",
        "",
        "A10G",
    ),
    ("huggingface-pytorch-tgi-inference:2.1.1-tgi1.4.3-gpu-py310-cu121-ubuntu20.04", "Qwen/Qwen2.5-7B", "", "A10G"),
    ("huggingface-pytorch-tgi-inference:2.1.1-tgi1.4.2-gpu-py310-cu121-ubuntu20.04", "google/gemma-7b", "", "A10G"),
)


@pytest.mark.parametrize(("image", "model", "quantization", "accelerator"), STARTS)
def test_what_is_published_to_start_is_not_refused(image: str, model: str, quantization: str, accelerator: str) -> None:
    """No version is refused that knows the model, nor an accelerator that suffices."""
    variables = {"SM_NUM_GPUS": "4"}
    running = Running(
        image=image, model_id=model, accelerator=accelerator, quantization=quantization, variables=variables
    )
    assert not list(refusals_of(running))


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
