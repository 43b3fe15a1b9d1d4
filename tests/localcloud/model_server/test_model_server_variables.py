"""The model that a container's variables name, as public examples give it."""

from __future__ import annotations

import pytest

from loadproof.localcloud.model_server.start import model_id_in


@pytest.mark.parametrize("name", ["HF_MODEL_ID", "OPTION_MODEL_ID", "SM_VLLM_MODEL"])
def test_a_models_id_is_read_from_its_variable(name: str) -> None:
    assert model_id_in({"OTHER": "x", name: "meta-llama/Llama-3.1-8B-Instruct"}) == "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize("variables", [{}, {"HF_MODEL_ID": "/opt/ml/model"}, {"OPTION_MODEL_ID": "s3://bucket/m/"}])
def test_a_folder_names_no_model(variables: dict[str, str]) -> None:
    assert model_id_in(variables) is None
