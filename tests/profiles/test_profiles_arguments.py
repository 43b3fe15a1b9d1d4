"""Variables that become arguments of a server: what its version does not know stops it (LP373), and what it cannot read
(LP366). Sources of the values: server_arguments.csv; of endings, the examples of both functions' own docstrings.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from loadproof.catalog import container_images
from loadproof.catalog.arguments import server_words, unknown_arguments, whole_number, words_of
from loadproof.families import FAMILIES
from loadproof.profiles import check_file

AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
BASE = Path(__file__).parent / "bad" / "base" / "vllm.yaml"


@pytest.mark.parametrize(
    ("family", "environment", "says"),
    [
        (
            "vllm",
            {"SM_VLLM_MAX_MODEL_LENN": "1"},
            "unrecognized arguments: --max-model-lenn; write `container.settings",
        ),
        ("vllm", {"SM_VLLM_GPU_MEMORY_UTILISATION": "1"}, "write `container.settings.gpu_memory_utilization`"),
        ("vllm", {"SM_VLLM_MAX_CPU_LORA_S": "8"}, "--max-cpu-lora-s; write SM_VLLM_MAX_CPU_LORAS"),
        ("vllm", {"SM_VLLM_ENABLE_LORA_BIAS": "true"}, "unrecognized arguments: --enable-lora-bias"),
        ("vllm", {"SM_VLLM_MAX_NUM": "8"}, "ambiguous option: --max-num could match --max-num-batched-tokens"),
        ("sglang", {"SM_SGLANG_CONTEXT_LENGHT": "1"}, "write `container.settings.context_length`"),
        ("sglang", {"SM_SGLANG_XYZZY": "1"}, "unrecognized arguments: --xyzzy; delete it"),
        ("vllm", {"SM_VLLM_ENABLE_LORA_BIAS": "false"}, None),  # the entry point leaves it out
        ("vllm", {"SM_VLLM_MAX_NUM_SEQ": "8"}, None),  # the beginning of one argument is that argument
        ("vllm", {"SM_VLLM_MAX_CPU_LORAS": "8", "SM_SGLANG_XYZZY": "1"}, None),
        ("lmi", {"SM_VLLM_XYZZY": "1", "OPTION_XYZZY": "1"}, None),  # LMI hands on what vLLM knows, and no more
    ],
)
def test_an_argument_that_the_server_does_not_know(
    tmp_path: Path, family: str, environment: dict[str, str], says: str | None
) -> None:
    """In the words of argparse; one that nobody can name the nearest of is told, too."""
    container = {"family": family, "environment": environment, "settings": {}}
    file = tmp_path / "chat.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(BASE.read_text()), "container": container}))
    told = [str(problem) for problem in check_file(file).problems if problem.code == "LP373"]
    assert [(says or "") in one for one in told] == ([True] if says else [])


@pytest.mark.parametrize(
    ("image", "variable", "says"),
    [
        # PyPI's sdists: arg_utils.py has --num-scheduler-steps up to 0.10.0, --kv-cache-memory-bytes from 0.10.2 on.
        ("vllm:0.11.0-gpu-py312-cu128-ubuntu22.04-sagemaker", "SM_VLLM_NUM_SCHEDULER_STEPS", True),
        ("vllm:0.8.5-gpu-py312-cu124-ubuntu22.04-sagemaker", "SM_VLLM_NUM_SCHEDULER_STEPS", False),
        ("vllm:0.10.1-gpu-py312-cu129-ubuntu22.04-sagemaker", "SM_VLLM_KV_CACHE_MEMORY_BYTES", True),
        ("vllm:0.11.0-gpu-py312-cu128-ubuntu22.04-sagemaker", "SM_VLLM_KV_CACHE_MEMORY_BYTES", False),
        ("vllm:0.11.0-gpu-py312-cu128-ubuntu22.04-sagemaker", "SM_VLLM_NO_ENABLE_PREFIX_CACHING", False),
        ("sglang:0.5.5-gpu-py312-cu129-ubuntu22.04-sagemaker", "SM_SGLANG_TENSOR_PARALLEL_SIZE", False),
        ("vllm:0.11.0-of-our-own", "SM_VLLM_NUM_SCHEDULER_STEPS", False),
    ],
)
def test_versions_that_the_catalog_has_no_image_of(image: str, variable: str, says: bool) -> None:
    """As tagged by AWS, its server's sources tell; of an image of one's own nothing is known."""
    assert bool(list(unknown_arguments(f"{AWS}/{image}", {variable: "1"}))) is says


@pytest.mark.parametrize(
    ("image", "name", "known"),
    [
        # PyPI's sdists: llama4_pythonic from vLLM 0.9.0 on, qwen3_coder from 0.10.0; LMI 15 packs 0.8.4, LMI 16 0.10.2.
        ("djl-inference:0.33.0-lmi15.0.0-cu128", "llama4_pythonic", False),
        ("djl-inference:0.34.0-lmi16.0.0-cu128", "llama4_pythonic", True),
        ("vllm:0.8.5-gpu-py312-cu124-ubuntu22.04-sagemaker", "qwen3_coder", False),
        ("vllm:0.11.0-gpu-py312-cu128-ubuntu22.04-sagemaker", "qwen3_coder", True),
        ("vllm:0.11.0-gpu-py312-cu128-ubuntu22.04-sagemaker", "hermes", True),
    ],
)
def test_parsers_of_versions_that_the_catalog_has_no_image_of(image: str, name: str, known: bool) -> None:
    """As registered in its server's sources."""
    assert (name in (words_of(f"{AWS}/{image}", "vllm", "tool_call_parser") or ())) is known


def test_typed_settings_are_arguments_of_every_listed_version() -> None:
    """What was read of sources misses nothing that templates write."""
    for software, prefix in (("vllm", "SM_VLLM_"), ("sglang", "SM_SGLANG_")):
        versions = {one for row in server_words() if row.software == software for one in row.versions}
        written = FAMILIES[software].setting_variables.values()
        assert len(versions) > 18
        for version in versions:
            image = f"{AWS}/{software}:{version}-gpu-py312-cu128-ubuntu22.04-sagemaker"
            asked = {name: "1" for name in written if name.startswith(prefix)}
            assert [(version, one.says) for one in unknown_arguments(image, asked)] == []


@pytest.mark.parametrize(
    ("family", "environment", "says"),
    [
        (
            "sglang",
            {"SM_SGLANG_KV_CACHE_DTYPE": "fp8"},
            "--kv-cache-dtype: invalid choice: 'fp8' (choose from auto, bf16",
        ),
        ("sglang", {"SM_SGLANG_LOG_REQUESTS_LEVEL": "4"}, "invalid choice: '4' (choose from 0, 1, 2, 3)"),
        ("sglang", {"SM_SGLANG_DP_SIZE": "two"}, "argument --dp-size: Value two cannot be converted to int"),
        ("sglang", {"SM_SGLANG_DATA_PARALLEL_SIZE": "two"}, "argument --data-parallel-size: Value two"),  # an alias
        ("sglang", {"SM_SGLANG_ENABLE_METRICS": "1"}, "unrecognized arguments: 1"),
        ("sglang", {"SM_SGLANG_MAX_PREFILL_TOKENS": "8K"}, "Value 8K cannot be converted to int"),  # 8k or 8Ki
        ("sglang", {"SM_SGLANG_PAGE_SIZE": ""}, "argument --page-size: expected one argument"),
        ("sglang", {"SM_SGLANG_MM_PROCESS_CONFIG": "image"}, "Value image cannot be converted to json"),
        ("vllm", {"SM_VLLM_BLOCK_SIZE": "true"}, "argument --block-size: expected one argument"),
        ("vllm", {"SM_VLLM_KV_CACHE_MEMORY_BYTES": "8GB"}, "Value 8GB cannot be converted to int"),
        ("vllm", {"SM_VLLM_KV_CACHE_MEMORY_BYTES": "1.5G"}, "Value 1.5G cannot be converted to int"),
        ("vllm", {"SM_VLLM_COMPILATION_CONFIG": "{level: 3}"}, "--compilation-config: Value {level: 3} cannot be"),
        ("lmi", {"OPTION_BLOCK_SIZE": "big"}, "argument --block-size: Value big cannot be converted to int"),
        ("tgi", {"MAX_BEST_OF": "-1"}, "argument --max-best-of: Value -1 cannot be converted to count"),
        ("tgi", {"MAX_STOP_SEQUENCES": "true"}, "argument --max-stop-sequences: Value true"),
        ("tgi", {"KV_CACHE_DTYPE": "fp8"}, "invalid choice: 'fp8' (choose from fp8_e4m3fn, fp8_e5m2)"),
        ("sglang", {"SM_SGLANG_ENABLE_METRICS": "true", "SM_SGLANG_MAX_PREFILL_TOKENS": "8Ki"}, None),
        ("sglang", {"SM_SGLANG_ENGINE": "diffusion", "SM_SGLANG_NUM_GPUS": "1"}, None),  # a server of its own
        (
            "vllm",
            {"SM_VLLM_KV_TRANSFER_CONFIG": '{"kv_connector": "a 5k", "kv_connector_extra_config": {"b": 80m}}'},
            None,
        ),
        ("vllm", {"SM_VLLM_KV_CACHE_MEMORY_BYTES": "1.5g", "SM_VLLM_ASYNC_SCHEDULING": "true"}, None),
        ("lmi", {"OPTION_BLOCK_SIZE": "32", "OPTION_ASYNC_SCHEDULING": "true", "OPTION_ENTRYPOINT": "true"}, None),
        ("tgi", {"MAX_BEST_OF": "1", "ROPE_FACTOR": "2.0", "SHARDED": "true", "CUDA_GRAPHS": "1,2"}, None),
    ],
)
def test_a_value_that_the_server_does_not_take(
    tmp_path: Path, family: str, environment: dict[str, str], says: str | None
) -> None:
    """One that its parser stops at is told, and nothing of those that it reads."""
    container = {"family": family, "environment": environment, "settings": {}}
    file = tmp_path / "chat.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(BASE.read_text()), "container": container}))
    told = [str(problem) for problem in check_file(file).problems if problem.code in ("LP366", "LP373")]
    assert [(says or "") in one for one in told] == ([True] if says else [])


@pytest.mark.parametrize(
    ("software", "text", "number"),
    [
        *[
            ("vllm", text, number)
            for text, number in {"1k": 1_000, "1K": 1_024, "25.6k": 25_600, "2M": 2 << 20}.items()
        ],
        *[("sglang", text, number) for text, number in {"1k": 1_000, "1M": 1_000_000, "1Mi": 1 << 20}.items()],
        ("sglang", "25.6k", 25_600),
        ("vllm", "-1", -1),
    ],
)
def test_numbers_with_endings(software: str, text: str, number: int) -> None:
    assert whole_number(software, text) == number


def test_every_variable_of_a_profile_is_an_argument_of_every_listed_version() -> None:
    """What templates write starts, by the servers' own lists."""
    for image in container_images():
        name, family = f"{image.repository}:{image.tag}", FAMILIES[image.family]
        if image.family not in ("vllm", "sglang"):
            continue
        names, settings = family.model_variables, family.setting_variables
        switches = [variable for setting, variable in settings.items() if setting.startswith("enable_")]
        written = [*settings.values(), *family.speculation.variables, names.model, names.revision, names.dtype]
        written += [names.quantization, *(off for one in switches for off in family.switched_off(one))]
        assert words_of(name, image.family, "argument"), name
        assert not list(unknown_arguments(name, dict.fromkeys(written, "1"))), name
        assert set(family.quantizations.values()) <= (words_of(name, image.family, "quantization") or set())
