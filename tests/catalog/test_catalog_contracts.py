"""Container contracts as rows: what an image names and packs, what it refuses, and where it starts."""

from __future__ import annotations

import re

import pytest

from loadproof.catalog import ContainerImage, accelerators, container_images, host_images
from loadproof.catalog.contracts import (
    _NAMED,
    Running,
    adapter_switch,
    contract_refusals,
    cuda_of_image,
    default_hosts,
    fact,
    facts,
    refusals_of,
    software_of,
    starts_on,
    within,
)

LMI = "1.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.38.0-lmi29.0.0-cu130"
GPU_3 = host_images()["al2-ami-sagemaker-inference-gpu-3-1"]
GPU_4 = host_images()["al2023-ami-sagemaker-inference-gpu-4-1"]


@pytest.mark.parametrize(
    ("image", "software"),
    [
        (LMI, {"djl": "0.38.0", "lmi_image": "29.0.0", "vllm": "0.28.0"}),  # DLC's own page says what it packs
        ("djl-inference:0.33.0-tensorrtllm0.21.0-cu128", {"djl": "0.33.0", "trtllm": "0.21.0"}),
        ("huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04", {"tgi": "3.3.6"}),
        ("huggingface-pytorch-tgi-inference:1.13.1-optimum0.0.20-neuronx-py310", {"optimum_neuron": "0.0.20"}),
        ("vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker", {"vllm": "0.30.0"}),
        ("huggingface-vllm:0.28.0-transformers5.15.0-gpu", {"vllm": "0.28.0", "transformers": "5.15.0"}),
        ("own-server:1.2", {}),
    ],
)
def test_software_that_an_image_names(image: str, software: dict[str, str]) -> None:
    """From its repository and tag, and what that is published to pack."""
    assert software_of(image) == software


@pytest.mark.parametrize(
    ("version", "since", "before", "holds"),
    [
        ("0.30", "0.30.0", "", True),
        ("1.3.1", "", "1.3.3", True),
        ("1.3.3", "", "1.3.3", False),
        ("0.9.3", "0.10.0", "", False),  # by number, not by letter
    ],
)
def test_versions_are_compared_as_numbers(version: str, since: str, before: str, holds: bool) -> None:
    """`since` is included, `before` is not."""
    assert within(version, since, before) is holds


@pytest.mark.parametrize("image", container_images(), ids=lambda image: f"{image.family}-{image.version}")
def test_each_image_of_the_catalog_has_a_contract(image: ContainerImage) -> None:
    """Its software is read from its tag where its repository's names any, and its CUDA starts on a host."""
    name = f"{image.repository}:{image.tag}"
    assert bool(software_of(name)) == any(re.search(pattern, image.repository) for _, pattern, _ in _NAMED if pattern)
    assert cuda_of_image(name) == image.cuda
    assert any(starts_on(image.cuda, host, name) for host in host_images().values())


def test_every_fact_and_refusal_has_a_source_that_can_be_looked_up() -> None:
    """An address, or the name of a file in a public repository."""
    for row in (*facts(), *contract_refusals(), *default_hosts().values()):
        assert "https://" in row.source or "/" in row.source, row
        assert row.date


def test_lmi_batches_32_unless_its_engine_is_written_out() -> None:
    """DJL Serving's own default, whatever its documentation says."""
    assert fact(LMI, "sequences") == "32"
    assert fact(LMI, "sequences_of_named_engine") == "256"


def test_vllm_needs_a_variable_for_adapters_and_lmi_does_not() -> None:
    """The routes of vLLM's server; DJL Serving has its own."""
    assert adapter_switch("vllm:0.30.0-gpu") == "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
    assert adapter_switch(LMI) is None


@pytest.mark.parametrize(
    ("cuda", "host", "image", "starts"),
    [
        ("12.4", GPU_3, "", True),
        ("13.0", GPU_3, "", False),
        ("13.0", GPU_4, "", True),
        ("12.9", GPU_4, "ray:2-cu129", False),  # deep-learning-containers pull 6187
        ("12.9", GPU_4, "vllm:0.15.1-gpu-py312-cu129", True),  # AWS's own example runs it
    ],
)
def test_a_host_starts_images_of_its_generation(cuda: str, host: object, image: str, starts: bool) -> None:
    """Older and newer ones die there without a log."""
    assert starts_on(cuda, host, image) is starts  # type: ignore[arg-type]


def test_what_is_not_known_refuses_nothing() -> None:
    """An own image, or a model without a name."""
    assert not list(refusals_of(Running(image="own:1")))


@pytest.mark.parametrize(
    ("image", "model_id", "refused"),
    [
        ("huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6", "Qwen/Qwen3-VL-8B-Instruct", ["qwen3_vl"]),
        ("huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6", "Qwen/Qwen3-VL-30B-A3B-Instruct", ["qwen3_vl_moe"]),
        ("huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6", "ByteDance-Seed/Seed-OSS-36B-Instruct", ["seed_oss"]),
        ("huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6", "allenai/Olmo-3-7B-Instruct", ["olmo3"]),
        # Transformers 4.54 has them, and requires a newer huggingface_hub than this TGI's.
        ("huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6", "zai-org/GLM-4.5-Air", ["glm4_moe"]),
        ("huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6", "LGAI-EXAONE/EXAONE-4.0-32B", ["exaone4"]),
        ("huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6", "LiquidAI/LFM2-1.2B", ["lfm2"]),
        # Since 4.53: nobody published whether this TGI is older.
        ("huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6", "HuggingFaceTB/SmolLM3-3B", []),
        ("huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6", "Qwen/Qwen3-8B", []),
        ("huggingface-pytorch-inference:2.6.0-transformers4.51.3-gpu", "zai-org/GLM-4.5-Air", ["glm4_moe"]),
        ("huggingface-pytorch-inference:2.6.0-transformers4.57.1-gpu", "zai-org/GLM-4.5-Air", []),
        ("vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker", "Qwen/Qwen3.5-27B", []),
        ("huggingface-vllm:0.28.0-transformers4.57.1-gpu", "Qwen/Qwen3.5-27B", []),
    ],
)
def test_a_model_type_newer_than_an_image_s_transformers(image: str, model_id: str, refused: list[str]) -> None:
    """It is refused where nothing else in the image knows it, and where the version of Transformers is known."""
    assert [one.id for one in refusals_of(Running(image=image, model_id=model_id))] == refused


def test_a_refusal_holds_only_where_all_its_conditions_do() -> None:
    """AWQ under LMI 18 fails on a driver below 550, and only there."""
    image = "djl-inference:0.36.0-lmi18.0.0-cu128"
    old = Running(image=image, quantization="awq", driver="535")
    new = Running(image=image, quantization="awq", driver="550")
    plain = Running(image=image, quantization="none", driver="535")
    assert [[one.id for one in refusals_of(running)] for running in (old, new, plain)] == [
        ["lmi-18-awq-driver"],
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("running", "refusal"),
    [
        (Running(image="a:1-cu130", accelerator="V100"), "cuda-13-on-v100"),
        (Running(image="vllm:0.30.0-gpu-cu130", accelerator="GB200"), "x86-on-grace"),
        (Running(image="djl-inference:0.29.0-neuronx-sdk2.19.1", model_id="Qwen/Qwen3-8B"), "djl-before-qwen3"),
        (
            Running(image="huggingface-pytorch-inference:2.1.0-transformers4.37.0-gpu", model_id="m/Llama-3.1-8B"),
            "transformers-llama-3.1",
        ),
        (
            Running(image="huggingface-pytorch-inference:2.6.0-transformers4.49.0-gpu", model_id="Qwen/Qwen3-4B"),
            "transformers-qwen3",
        ),
        (  # compute capability 12.0
            Running(
                image="sglang:0.5.20-gpu-py312-cu130-ubuntu24.04-sagemaker",
                accelerator="RTX PRO 6000 Server",
                variables={"SM_SGLANG_ATTENTION_BACKEND": "fa3"},
            ),
            "sglang-fa3",
        ),
    ],
)
def test_refusals_that_no_published_case_shows(running: Running, refusal: str) -> None:
    """From release notes and model cards instead of somebody's endpoint."""
    assert refusal in [one.id for one in refusals_of(running)]


def test_every_accelerator_of_a_refusal_is_one_of_the_catalog() -> None:
    """Their names hold spaces, so that a semicolon stands between them."""
    named = {name for one in contract_refusals() if one.accelerators for name in one.accelerators.split("; ")}
    assert named <= set(accelerators())


def test_an_arm_image_runs_on_grace() -> None:
    """Only x86 images are refused there."""
    assert not list(refusals_of(Running(image="vllm:0.30.0-arm64-gpu-cu130", accelerator="GB200")))
