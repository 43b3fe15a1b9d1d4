"""Which model a container would load, and the failures that a real container would show."""

from __future__ import annotations

import json

import pytest

from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.model_server.container import CannotStartError
from loadproof.localcloud.model_server.named import with_model
from loadproof.localcloud.model_server.start import MODEL_ID_TAG

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
TGI = f"{REGISTRY}/huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04"
LMI = f"{REGISTRY}/djl-inference:0.36.0-lmi27.0.0-cu130"
VLLM = f"{REGISTRY}/vllm:0.28.0-gpu-py312-cu130-ubuntu24.04-sagemaker"
SGLANG = f"{REGISTRY}/sglang:0.5.19-gpu-py312-cu130-ubuntu24.04-sagemaker"
DATA = "s3://weights/qwen"
CONFIG = {
    "_name_or_path": "own/tuned",
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 512,
}
STORED = {f"{DATA}/config.json": json.dumps(CONFIG).encode()}


def named(image: str, variables: dict[str, str], data: str | None = None, stored: dict[str, bytes] = STORED) -> str:
    """The model's id."""
    return with_model(ContainerView(image, variables, data, {}), stored.get).tags[MODEL_ID_TAG]


@pytest.mark.parametrize(
    ("image", "variables", "data", "model"),
    [
        (TGI, {"HF_MODEL_ID": "Qwen/Qwen3-8B"}, None, "Qwen/Qwen3-8B"),
        (TGI, {"HF_MODEL_ID": "/opt/ml/model"}, DATA, "own/tuned"),
        (LMI, {"OPTION_MODEL_ID": "Qwen/Qwen3-8B"}, None, "Qwen/Qwen3-8B"),
        (LMI, {"OPTION_MODEL_ID": DATA}, None, "own/tuned"),
        (LMI, {}, DATA, "own/tuned"),
        (VLLM, {"SM_VLLM_MODEL": "Qwen/Qwen3-8B", "HF_MODEL_ID": "Qwen/Qwen3-4B"}, DATA, "Qwen/Qwen3-8B"),
        (VLLM, {"HF_MODEL_ID": "Qwen/Qwen3-4B"}, DATA, "own/tuned"),
        (VLLM, {"HF_MODEL_ID": "Qwen/Qwen3-4B"}, None, "Qwen/Qwen3-4B"),
        (SGLANG, {"SM_SGLANG_MODEL_PATH": "Qwen/Qwen3-8B"}, None, "Qwen/Qwen3-8B"),
        (SGLANG, {}, DATA, "own/tuned"),
    ],
)
def test_the_first_that_the_entry_point_finds(
    image: str, variables: dict[str, str], data: str | None, model: str
) -> None:
    """vLLM and SGLang: as AWS's deployment pages list it. TGI: its entry point. LMI: its starting guide."""
    assert named(image, variables, data) == model


def test_a_tag_has_said_it_already() -> None:
    """Nothing is looked up, and nothing is missing."""
    view = ContainerView(TGI, {}, None, {MODEL_ID_TAG: "own/model"})
    assert with_model(view, STORED.get) is view


@pytest.mark.parametrize(
    ("image", "variables", "data", "reason"),
    [
        (TGI, {"MODEL_ID": "Qwen/Qwen3-8B"}, DATA, "HF_MODEL_ID must be set"),
        (VLLM, {}, None, "set SM_VLLM_MODEL, or give model data"),
        (SGLANG, {"HF_MODEL_ID": "Qwen/Qwen3-8B"}, None, "set SM_SGLANG_MODEL_PATH"),
        (TGI, {"HF_MODEL_ID": "/opt/ml/model"}, None, "/opt/ml/model is empty"),
        (TGI, {"HF_MODEL_ID": DATA}, None, "give it as ModelDataSource"),
        (TGI, {"HF_MODEL_ID": "meta-llama/Llama-3.1-8B"}, None, "401 Client Error"),
        (VLLM, {"SM_VLLM_MODEL": "nobody/nothing"}, None, "Put its config.json into S3"),
        (LMI, {}, "s3://weights/none", "config.json: no such file"),
        (LMI, {}, "s3://weights/none.tar.gz", "Could not find model data at s3://weights/none.tar.gz"),
        ("public.ecr.aws/deep-learning-containers/vllm:0.28.0", {"SM_VLLM_MODEL": "a/b"}, None, "public gallery"),
    ],
)
def test_no_model_no_start(image: str, variables: dict[str, str], data: str | None, reason: str) -> None:
    """Never greener than the container: each says what is missing."""
    with pytest.raises(CannotStartError, match=reason):
        named(image, variables, data)


def test_an_archive_that_is_none_does_not_start() -> None:
    """SageMaker unpacks what it downloads."""
    with pytest.raises(CannotStartError, match=r"is no gzipped tar archive"):
        named(LMI, {}, "s3://weights/a.tar.gz", {"s3://weights/a.tar.gz": b"no archive"})
