"""Requests longer than the model's context: an error, unless a variable says that they are meant (LP316)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from loadproof.profiles import check_file

YARN = json.dumps({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}})


def told(folder: Path, container: dict[str, object]) -> list[str]:
    """What LP316 says, by severity, of Qwen3 8B, whose context is 40,960 tokens."""
    profile = {
        "name": "longer",
        "model": {"id": "Qwen/Qwen3-8B", "source": {"type": "s3", "s3_uri": "s3://models/qwen3-8b/"}},
        "container": container,
        "endpoint": {"instance_type": "ml.g6e.2xlarge"},
        "objectives": {"at_concurrency": 1, "ttft_p95_ms": 500},
        "workload": {"input_tokens": 256, "output_tokens": 64},
    }
    path = folder / "longer.yaml"
    path.write_text(yaml.safe_dump(profile), encoding="utf-8")
    return [one.severity for one in check_file(path).problems if one.code == "LP316"]


def vllm(tokens: int, environment: dict[str, str]) -> dict[str, object]:
    return {"family": "vllm", "settings": {"max_model_len": tokens}, "environment": environment}


@pytest.mark.parametrize(
    "container",
    [
        vllm(131072, {"SM_VLLM_HF_OVERRIDES": YARN}),
        {
            "family": "sglang",
            "settings": {"context_length": 131072},
            "environment": {"SM_SGLANG_JSON_MODEL_OVERRIDE_ARGS": YARN},
        },
    ],
)
def test_stretched_positions_are_as_the_models_card_says(tmp_path: Path, container: dict[str, object]) -> None:
    """Qwen3's card stretches 32,768 tokens to 131,072 with YaRN."""
    assert told(tmp_path, container) == []


def test_a_check_switched_off_is_a_warning(tmp_path: Path) -> None:
    """The server starts; positions past the context were never trained."""
    assert told(tmp_path, vllm(65536, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})) == ["warning"]


@pytest.mark.parametrize(
    "environment",
    [{}, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "0"}, {"SM_VLLM_HF_OVERRIDES": '{"architectures": ["Qwen3ForCausalLM"]}'}],
)
def test_anything_else_is_an_error(tmp_path: Path, environment: dict[str, str]) -> None:
    """A switch that is off, or an override of something else, changes no context."""
    assert told(tmp_path, vllm(65536, environment)) == ["error"]
