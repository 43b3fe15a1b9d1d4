"""What servers stop at before they load a weight: each case is one that a server's own source refuses.

Sources: vllm/config (world size, heads, max_model_len, dtype, LoRA ranks, AWQ's config file), text-generation-inference
launcher/src/main.rs (token limits, both names of the input's limit, quantizations), djl-serving releases (lmi-dist);
huggingface_hub/constants.py (offline).
"""

from __future__ import annotations

import re

import pytest

from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.model_server.contract import Place
from loadproof.localcloud.model_server.named import with_model
from loadproof.localcloud.model_server.start import CannotStartError, twin_deployment

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
TGI = f"{REGISTRY}/huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04"
LMI = f"{REGISTRY}/djl-inference:0.36.0-lmi27.0.0-cu130"
NEURON = f"{REGISTRY}/huggingface-pytorch-tgi-inference:2.1.2-optimum0.0.27-neuronx-py310-ubuntu22.04"
LMI15 = f"{REGISTRY}/djl-inference:0.33.0-lmi15.0.0-cu128"
LMI29 = f"{REGISTRY}/djl-inference:0.38.0-lmi29.0.0-cu130"
VLLM = f"{REGISTRY}/vllm:0.29.0-gpu-py312-cu130-ubuntu24.04-sagemaker"
SGLANG = f"{REGISTRY}/sglang:0.5.19-gpu-py312-cu130-ubuntu24.04-sagemaker"
MODEL = "Qwen/Qwen3-8B"  # 32 attention heads, 8 key-value heads, 40,960 positions
HOSTS = {TGI: "al2-ami-sagemaker-inference-gpu-3-1", LMI15: "al2-ami-sagemaker-inference-gpu-3-1"}
NEWEST = "al2023-ami-sagemaker-inference-gpu-4-1"


def started(image: str, variables: dict[str, str], instance_type: str = "ml.g6.12xlarge") -> None:
    """Four L4, all of them one copy's. Raises CannotStartError."""
    named = {"SM_SGLANG_MODEL_PATH": MODEL} if image == SGLANG else {"HF_MODEL_ID": MODEL}
    view = ContainerView(image, {**named, **variables}, None, {}, ami_version=HOSTS.get(image, NEWEST))
    twin_deployment(with_model(view, lambda s3_uri: None), Place(instance_type, 4))


@pytest.mark.parametrize(
    ("image", "variables", "says"),
    [
        (VLLM, {"SM_VLLM_TENSOR_PARALLEL_SIZE": "8"}, "World size (8) is larger than the number of available GPUs (4)"),
        (VLLM, {"SM_VLLM_TENSOR_PARALLEL_SIZE": "4", "SM_VLLM_PIPELINE_PARALLEL_SIZE": "2"}, "World size (8)"),
        (LMI, {"OPTION_TENSOR_PARALLEL_DEGREE": "8"}, "World size (8)"),
        (SGLANG, {"SM_SGLANG_TP_SIZE": "8"}, "World size (8)"),
        (TGI, {"SM_NUM_GPUS": "8"}, "World size (8)"),
        (
            VLLM,
            {"SM_VLLM_TENSOR_PARALLEL_SIZE": "3"},
            "attention heads (32) must be divisible by tensor parallel size (3)",
        ),
        (
            VLLM,
            {"SM_VLLM_MAX_MODEL_LEN": "40961"},
            "greater than the derived max_model_len (max_position_embeddings=40960",
        ),
        (LMI, {"OPTION_MAX_MODEL_LEN": "262144"}, "max_position_embeddings=40960"),
        (VLLM, {"SM_VLLM_DTYPE": "int8"}, "invalid value 'int8'"),
        (LMI, {"OPTION_DTYPE": "fp17"}, "invalid value 'fp17'"),
        (VLLM, {"SM_VLLM_QUANTIZATION": "awq"}, "Cannot find the config file for awq"),
        (
            VLLM,
            {"SM_VLLM_ENABLE_LORA": "true", "SM_VLLM_MAX_LORA_RANK": "7"},
            "max_lora_rank (7) must be one of 1, 8, 16",
        ),
        (VLLM, {"SM_VLLM_MAX_MODEL_LENN": "2048"}, "unrecognized arguments: --max-model-lenn"),
        (VLLM, {"SM_VLLM_HF_OVERRIDES": "{'a': 1}"}, "argument --hf-overrides: Value {'a': 1} cannot be converted"),
        (VLLM, {"SM_VLLM_QUANTIZATION": "awqq"}, "Unknown quantization method: awqq. Must be one of"),
        (LMI29, {"OPTION_QUANTIZE": "awqq"}, "Unknown quantization method: awqq"),
        (SGLANG, {"SM_SGLANG_TP_SIZES": "1"}, "unrecognized arguments: --tp-sizes"),
        (SGLANG, {"SM_SGLANG_QUANTIZATION": "fp9"}, "argument --quantization: invalid choice: fp9"),
        (
            VLLM,
            {"SM_VLLM_ENABLE_AUTO_TOOL_CHOICE": "true", "SM_VLLM_TOOL_CALL_PARSER": "llama3"},
            "invalid tool call parser: llama3 (chose from {",
        ),
        (
            LMI29,
            {"OPTION_ENABLE_AUTO_TOOL_CHOICE": "true", "OPTION_TOOL_CALL_PARSER": "qwen"},
            "invalid tool call parser: qwen",
        ),
        (VLLM, {"SM_VLLM_LIMIT_MM_PER_PROMPT": "image=2"}, "--limit-mm-per-prompt: Value image=2 cannot be converted"),
        (VLLM, {"SM_VLLM_MAX_LOGPROBS": "many"}, "argument --max-logprobs: Value many cannot be converted to int"),
        (VLLM, {"SM_VLLM_RUNNER": "embed"}, "argument --runner: invalid choice: 'embed' (choose from auto, draft"),
        (VLLM, {"SM_VLLM_SCHEDULING_POLICY": "fifo"}, "invalid choice: 'fifo' (choose from fcfs, priority)"),
        (VLLM, {"SM_VLLM_REASONING_PARSER": "deepseek-r1"}, "invalid reasoning parser: deepseek-r1"),
        (SGLANG, {"SM_SGLANG_TOOL_CALL_PARSER": "llama3_json"}, "argument --tool-call-parser"),
        (SGLANG, {"SM_SGLANG_TOOL_CALL_PARSER": "k2_horizon"}, "argument --tool-call-parser"),  # since 0.5.20
        (SGLANG, {"SM_SGLANG_REASONING_PARSER": "deepseek_r1"}, "argument --reasoning-parser"),
        (VLLM, {"SM_VLLM_PORT": "8000"}, "did not pass the ping health check"),
        (VLLM, {"SM_VLLM_HOST": "127.0.0.1"}, "did not pass the ping health check"),
        (LMI29, {"OPTION_ENGINE": "DeepSpeed"}, "Deep learning engine not found"),
        (VLLM, {"SM_VLLM_MAX_NUM_BATCHED_TOKENS": "64", "SM_VLLM_MAX_NUM_SEQS": "256"}, "fewer than max_num_seqs 256"),
        (LMI, {"OPTION_ROLLING_BATCH": "lmi-dist"}, "lmi-dist was removed"),
        (LMI15, {"OPTION_ROLLING_BATCH": "lmi-dist"}, "lmi-dist was removed"),
        (TGI, {"MAX_INPUT_TOKENS": "4096", "MAX_TOTAL_TOKENS": "4096"}, "leaves no room past max_input_tokens"),
        (TGI, {"MAX_INPUT_TOKENS": "4000", "MAX_INPUT_LENGTH": "3000"}, "Both `max_input_tokens` (4000)"),
        (VLLM, {"HF_HUB_OFFLINE": "1"}, "offline mode is enabled. To disable it, please unset HF_HUB_OFFLINE"),
        (TGI, {"TRANSFORMERS_OFFLINE": "true"}, "please unset TRANSFORMERS_OFFLINE"),
        (TGI, {"HF_MODEL_QUANTIZE": "int3"}, "invalid value 'int3' for '--quantize"),
        (TGI, {"HF_MODEL_QUANTIZE": "awq", "DTYPE": "float16"}, "Only 1 can be set between `dtype` and `quantize`"),
        (TGI, {"NUM_SHARD": "3"}, "attention heads (32) must be divisible by tensor parallel size (3)"),
        (TGI, {"MAX_BEST_OF": "many"}, "argument --max-best-of: Value many cannot be converted"),
        (SGLANG, {"SM_SGLANG_KV_CACHE_DTYPE": "fp8"}, "argument --kv-cache-dtype: invalid choice: 'fp8'"),
        (SGLANG, {"SM_SGLANG_CONTEXT_LENGTH": "8K"}, "argument --context-length: Value 8K cannot be converted"),
        (LMI29, {"OPTION_BLOCK_SIZE": "big"}, "argument --block-size: Value big cannot be converted to int"),
    ],
)
def test_what_a_server_stops_at(image: str, variables: dict[str, str], says: str) -> None:
    """Its words are those of the server."""
    with pytest.raises(CannotStartError, match=re.escape(says)):
        started(image, variables)


@pytest.mark.parametrize(
    ("degree", "variables", "starts"),
    [
        ("2", {}, True),  # 768 / 2 = 3 blocks of 128
        ("4", {}, False),  # 768 / 4 = 192: one and a half
        ("4", {"SM_VLLM_ENABLE_EXPERT_PARALLEL": "true"}, True),  # experts are shared out whole
    ],
)
def test_fp8_weights_are_cut_along_their_blocks(degree: str, variables: dict[str, str], *, starts: bool) -> None:
    """https://github.com/vllm-project/vllm/issues/17569: 192 is not divisible by weight quantization block_n = 128."""
    named = {"HF_MODEL_ID": "Qwen/Qwen3-30B-A3B-FP8", "SM_VLLM_MAX_MODEL_LEN": "4096"}
    asked = {**named, **variables, "SM_VLLM_TENSOR_PARALLEL_SIZE": degree}
    if starts:
        started(VLLM, asked)
        return
    with pytest.raises(CannotStartError, match="weight = 192 is not divisible by weight quantization block_n = 128"):
        started(VLLM, asked)


def test_a_t4_has_no_bfloat16() -> None:
    """vllm/platforms/cuda.py, `check_if_supports_dtype`: capability 8.0 and later."""
    with pytest.raises(CannotStartError, match=r"T4 GPU has compute capability 7\.5"):
        started(VLLM, {"SM_VLLM_DTYPE": "bfloat16", "SM_VLLM_MAX_MODEL_LEN": "2048"}, "ml.g4dn.12xlarge")


@pytest.mark.parametrize(
    ("image", "instance_type", "says"),
    [
        (TGI, "ml.inf2.24xlarge", "No CUDA GPUs are available"),
        (NEURON, "ml.g6.12xlarge", "no neuron device found"),
    ],
)
def test_an_image_of_another_maker_does_not_start(image: str, instance_type: str, says: str) -> None:
    """torch/cuda/__init__.py (`_lazy_init`); Neuron runtime's troubleshooting guide. `check` says so too (LP315).

    Published: cuda-image-on-inf1 in tests/containers/published_failures.yaml; here a notebook's deployment started.
    """
    with pytest.raises(CannotStartError, match=says):
        started(image, {}, instance_type)


def test_an_image_older_than_the_chip_does_not_start() -> None:
    """NVIDIA's CUDA Features Archive 12.9.1: code for sm_120 begins with CUDA 12.8; TGI's images are of 12.4.

    `check` says so of a profile (LP324); what a notebook deploys must not do better here than on AWS.
    """
    with pytest.raises(CannotStartError, match=r"no kernel image .* needs 12\.8 or newer"):
        started(TGI, {}, "ml.g7e.12xlarge")


@pytest.mark.parametrize(
    "variables",
    [
        {"SM_VLLM_TENSOR_PARALLEL_SIZE": "4"},
        {"SM_VLLM_MAX_MODEL_LEN": "65536", "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
        {
            "SM_VLLM_MAX_MODEL_LEN": "65536",
            "SM_VLLM_HF_OVERRIDES": '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}',
        },
        {"SM_VLLM_QUANTIZATION": "fp8"},
        {"SM_VLLM_ENABLE_LORA": "true", "SM_VLLM_MAX_LORA_RANK": "64"},
        {"SM_VLLM_DTYPE": "half"},
        {"SM_VLLM_MAX_MODEL_LEN": "8k", "SM_VLLM_MAX_NUM_BATCHED_TOKENS": "8K"},
        {"SM_VLLM_MAX_MODEL_LEN": "auto"},
        {"SM_VLLM_LIMIT_MM_PER_PROMPT": '{"image": 2}', "SM_VLLM_RUNNER": "generate", "SM_VLLM_MAX_LOGPROBS": "5"},
        {"SM_VLLM_TOKENIZER_MODE": "one_of_a_plugin", "RUNNER": "mine", "SM_VLLM_PORT": "8080"},
        {"SM_VLLM_ENABLE_AUTO_TOOL_CHOICE": "true", "SM_VLLM_TOOL_CALL_PARSER": "hermes"},
        {"SM_VLLM_TOOL_CALL_PARSER": "nobody_looks_at_it"},
        {
            "SM_VLLM_ENABLE_AUTO_TOOL_CHOICE": "true",
            "SM_VLLM_TOOL_CALL_PARSER": "ours",
            "SM_VLLM_TOOL_PARSER_PLUGIN": "/opt/ml/model/ours.py",
        },
        {"HF_HUB_OFFLINE": "0"},
    ],
)
def test_what_it_starts_with(variables: dict[str, str]) -> None:
    """fp8 is made while loading, a longer context where somebody says that it is meant."""
    started(VLLM, variables)


def test_fields_of_the_other_kind_of_batching_are_ignored_and_stop_nothing() -> None:
    """LMI takes SERVING_BATCH_SIZE beside a rolling batch, and makes nothing of it."""
    started(LMI, {"OPTION_ROLLING_BATCH": "vllm", "SERVING_BATCH_SIZE": "8"})
