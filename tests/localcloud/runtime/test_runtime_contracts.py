"""The image's own refusals at the door: hosts it does not start on, and adapters it has no routes for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from runtime_harness import LocalRuntime, container, local_runtime

from loadproof.localcloud.directory import ContainerView

BODY = json.dumps({"prompt": "x", "max_tokens": 2})
LORA = {"SM_VLLM_ENABLE_LORA": "true"}


@pytest.fixture
def cloud() -> Iterator[LocalRuntime]:
    with local_runtime() as running:
        yield running


def adapter(variables: dict[str, str]) -> ContainerView:
    return replace(container("vllm", LORA | variables), adapter=True)


@pytest.mark.parametrize("value", [None, "false", "0"])
def test_an_adapter_of_vllm_is_not_found_without_its_switch(cloud: LocalRuntime, value: str | None) -> None:
    """The component is InService, and its requests end as they do on AWS: ModelError, 404, Not Found."""
    switch = {} if value is None else {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": value}
    cloud.directory.add_component("e", "e-legal", adapter(switch))
    assert cloud.runtime.check_startable(cloud.directory.known_components["e-legal"]) is None
    with pytest.raises(ClientError) as raised:
        cloud.client().invoke_endpoint(EndpointName="e", InferenceComponentName="e-legal", Body=BODY)
    assert raised.value.response["Error"]["Code"] == "ModelError"
    assert raised.value.response["OriginalStatusCode"] == 404  # type: ignore[typeddict-item]
    assert raised.value.response["OriginalMessage"] == '{"detail":"Not Found"}'  # type: ignore[typeddict-item]


def test_with_the_switch_it_answers(cloud: LocalRuntime) -> None:
    """As templates deploy it."""
    cloud.directory.add_component("e", "e-legal", adapter({"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true"}))
    answer = cloud.client().invoke_endpoint(EndpointName="e", InferenceComponentName="e-legal", Body=BODY)
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize(
    ("family", "host", "starts"),
    [
        ("vllm", "al2023-ami-sagemaker-inference-gpu-4-1", True),
        ("vllm", "al2-ami-sagemaker-inference-gpu-3-1", False),
        ("vllm", None, False),  # the default host of g5 has driver 470
        ("tgi", "al2-ami-sagemaker-inference-gpu-3-1", True),
        ("tgi", None, True),  # CUDA 12.4 with its compatibility libraries
        ("tgi", "al2023-ami-sagemaker-inference-gpu-4-1", False),
    ],
)
def test_a_container_starts_on_hosts_of_its_cuda_generation(
    cloud: LocalRuntime, family: str, host: str | None, starts: bool
) -> None:
    """Elsewhere SageMaker says CannotStartContainerError, and there is no log."""
    cloud.directory.add_component("e", "e-main", replace(container(family), ami_version=host))
    problem = cloud.runtime.check_startable(cloud.directory.known_components["e-main"])
    assert (problem is None) is starts
    assert starts or "CannotStartContainerError" in (problem or "")


@pytest.mark.parametrize(
    ("family", "variables", "body", "own_text"),
    [
        ("vllm", {**LORA, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true"}, {"prompt": "x", "max_tokens": 8}, True),
        ("lmi", {"OPTION_ENABLE_LORA": "true"}, {"inputs": "x", "parameters": {"max_new_tokens": 8}}, True),
        ("tgi", {}, {"inputs": "x", "parameters": {"max_new_tokens": 8}}, False),  # answered by the base
    ],
)
def test_an_adapter_answers_in_words_of_its_own(
    cloud: LocalRuntime, family: str, variables: dict[str, str], body: dict[str, object], own_text: bool
) -> None:
    """What the proof looks for: an adapter that answers like its base takes no part."""
    base = container(family, variables)
    legal = replace(base, adapter=True, model_data_s3_uri="s3://models/legal.tar.gz")
    cloud.directory.add_component("e", "e-main", base)
    cloud.directory.add_component("e", "e-legal", legal)
    texts = [
        answer_text(
            cloud.client().invoke_endpoint(EndpointName="e", InferenceComponentName=name, Body=json.dumps(body))
        )
        for name in ("e-main", "e-legal")
    ]
    assert (texts[0] != texts[1]) is own_text


def answer_text(response: Any) -> str:
    document = json.loads(response["Body"].read())
    first = document[0] if isinstance(document, list) else document
    return str(first.get("generated_text") or first["choices"][0]["text"])
