"""Typed settings to a container's variables and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles_samples import CHAT, GOOD

from loadproof.errors import InputError
from loadproof.families import FAMILIES
from loadproof.families.lmi import LmiContainer, LmiSettings
from loadproof.families.tgi import TgiContainer, TgiSettings
from loadproof.families.vllm import VllmContainer, VllmSettings
from loadproof.profiles import (
    Component,
    accelerators_per_copy,
    components_of,
    container_variables,
    load_profile,
    quantization_from_variables,
    settings_from_variables,
    tensor_parallel_degree,
)
from loadproof.profiles.schema import (
    Adapter,
    Copies,
    HubSource,
    Model,
    S3Source,
)
from loadproof.profiles.shapes import Boolean, Number, OneOf, Optional, fields_of

S3 = S3Source(type="s3", s3_uri="s3://models/m/")
HUB = HubSource(type="hub", revision="a" * 40)


def component(container: object, model: Model | None = None, copies: Copies | None = None) -> Component:
    return Component(
        name="main", model=model or Model(id="m/m", source=S3), container=container, copies=copies or Copies()
    )


def test_tgi_from_s3() -> None:
    """TGI reads the mounted weights, shards by SM_NUM_GPUS, and is told the type."""
    tgi = TgiContainer(family="tgi", settings=TgiSettings(max_input_tokens=4096, max_total_tokens=5120))
    assert container_variables(component(tgi)) == {
        "HF_MODEL_ID": "/opt/ml/model",
        "DTYPE": "bfloat16",
        "SM_NUM_GPUS": "1",
        "MAX_INPUT_TOKENS": "4096",
        "MAX_TOTAL_TOKENS": "5120",
    }


def test_lmi_from_the_hub() -> None:
    """LMI gets id and commit, its options by OPTION_, its server's by SERVING_."""
    lmi = LmiContainer(
        family="lmi",
        settings=LmiSettings(rolling_batch="disable", batch_size=8, max_batch_delay_ms=50, enable_lora=True),
        environment={"OMP_NUM_THREADS": "4"},
    )
    assert container_variables(
        component(lmi, Model(id="q/q", source=HUB, dtype="fp16"), Copies(accelerators_per_copy=4))
    ) == {
        "HF_MODEL_ID": "q/q",
        "HF_REVISION": "a" * 40,
        "OPTION_DTYPE": "fp16",
        "TENSOR_PARALLEL_DEGREE": "4",
        "OPTION_ROLLING_BATCH": "disable",
        "SERVING_BATCH_SIZE": "8",
        "SERVING_MAX_BATCH_DELAY": "50",
        "OPTION_ENABLE_LORA": "true",
        "OMP_NUM_THREADS": "4",
    }


def test_switching_off_needs_a_variable_of_its_own_for_vllm() -> None:
    """AWS's vLLM entry point drops a false flag: SM_VLLM_NO_... switches off what is on by default."""
    vllm = VllmContainer(family="vllm", settings=VllmSettings(enable_prefix_caching=False, enable_lora=True))
    variables = container_variables(component(vllm))
    assert variables["SM_VLLM_NO_ENABLE_PREFIX_CACHING"] == "true"
    assert variables["SM_VLLM_ENABLE_LORA"] == "true"
    assert "SM_VLLM_ENABLE_PREFIX_CACHING" not in variables
    assert settings_from_variables("vllm", variables).enable_prefix_caching is False


@pytest.mark.parametrize(
    ("family", "quantization", "variable", "value"),
    [
        ("tgi", "awq", "HF_MODEL_QUANTIZE", "awq"),
        ("lmi", "fp8", "OPTION_QUANTIZE", "fp8"),
        ("vllm", "int8", "SM_VLLM_QUANTIZATION", "compressed-tensors"),
        ("sglang", "int8", "SM_SGLANG_QUANTIZATION", "w8a8_int8"),
    ],
)
def test_quantization_there_and_back(family: str, quantization: str, variable: str, value: str) -> None:
    """Each family has its own word for a quantization, and reads it back."""
    model = Model(id="m/m", source=S3, quantization=quantization)
    variables = container_variables(component(FAMILIES[family].container(family=family), model))
    assert variables[variable] == value
    assert quantization_from_variables(family, variables) == quantization
    assert quantization_from_variables(family, {}) == "none"


def setting_values(model: type) -> st.SearchStrategy[dict[str, object]]:
    def value_of(shape: object) -> st.SearchStrategy[object]:
        inner = shape.shape if isinstance(shape, Optional) else shape
        if isinstance(inner, Boolean):
            return st.booleans()
        if isinstance(inner, OneOf):
            return st.sampled_from(inner.allowed)
        if isinstance(inner, Number) and inner.whole:
            return st.integers(int(inner.least or 1), 10**6)
        if isinstance(inner, Number):
            return st.floats(0.01, 1.0)
        return st.text("abc{}:", min_size=1, max_size=9)

    return st.fixed_dictionaries({}, optional={name: value_of(field.shape) for name, field in fields_of(model).items()})


@pytest.mark.parametrize("family", [family.name for family in FAMILIES.values() if family.image])
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_settings_survive_the_way_to_variables_and_back(family: str, data: st.DataObject) -> None:
    """What was written is what the container's variables say, but for false flags SGLang has no word for."""
    known = FAMILIES[family]
    wanted = known.settings(**data.draw(setting_values(known.settings)))
    container = known.container(family=family, settings=wanted)
    found = settings_from_variables(family, container_variables(component(container)))
    expected = wanted.model_dump()
    expected["tensor_parallel_degree"] = expected["tensor_parallel_degree"] or 1
    if family == "sglang" and expected["disable_radix_cache"] is False:
        expected["disable_radix_cache"] = None
    assert found.model_dump() == expected


def test_a_custom_container_carries_what_the_local_cloud_needs() -> None:
    """Protocol and degree travel in variables of Loadproof's own."""
    profile = load_profile(GOOD / "custom-own-model.yaml")
    variables = container_variables(components_of(profile)[0])
    assert variables == {"LOADPROOF_PROTOCOL": "openai", "LOADPROOF_TENSOR_PARALLEL_DEGREE": "1"}
    assert settings_from_variables("custom", variables).protocol == "openai"


def test_a_variable_that_holds_no_number_is_named_without_its_value() -> None:
    """A deployed container whose variable makes no sense is an InputError."""
    with pytest.raises(InputError, match="variable MAX_INPUT_TOKENS does not hold the int") as raised:
        settings_from_variables("tgi", {"MAX_INPUT_TOKENS": "canary"})
    assert "canary" not in str(raised.value)
    with pytest.raises(InputError, match=r"out of bounds .*SM_NUM_GPUS"):
        settings_from_variables("tgi", {"SM_NUM_GPUS": "0"})


def test_max_means_all_accelerators_of_the_copy() -> None:
    """LMI's TENSOR_PARALLEL_DEGREE=max leaves the degree to the copy."""
    assert settings_from_variables("lmi", {"TENSOR_PARALLEL_DEGREE": "max"}).tensor_parallel_degree is None


@pytest.mark.parametrize(
    ("degree", "accelerators", "expected"), [(None, None, (1, 1)), (4, None, (4, 4)), (None, 2, (2, 2)), (2, 4, (2, 4))]
)
def test_degree_and_accelerators_follow_each_other(
    degree: int | None, accelerators: int | None, expected: tuple[int, int]
) -> None:
    """Either one stands for the other where only one is given."""
    vllm = VllmContainer(family="vllm", settings=VllmSettings(tensor_parallel_degree=degree))
    main = component(vllm, copies=Copies(accelerators_per_copy=accelerators))
    assert (tensor_parallel_degree(main), accelerators_per_copy(main)) == expected


def test_the_profiles_own_model_comes_first_as_main(tmp_path: Path) -> None:
    """Further components follow in file order; Bedrock has none."""
    assert [item.name for item in components_of(load_profile(GOOD / "two-models.yaml"))] == ["main", "small"]
    (tmp_path / "bedrock.yaml").write_text(
        CHAT.split("model:")[0]
        + "backend: bedrock\nmodel: {id: amazon.nova-lite-v1:0}\n"
        + "objectives:"
        + CHAT.split("objectives:")[1]
    )
    assert components_of(load_profile(tmp_path / "bedrock.yaml")) == ()


def adapted(rank: int | None, **settings: object) -> dict[str, str]:
    """The variables of vLLM under one adapter."""
    profile = load_profile(GOOD / "vllm-pools.yaml")
    (main, *_) = components_of(profile)
    container = main.container.model_copy(
        update={"settings": main.container.settings.model_copy(update={"enable_lora": True, **settings})}
    )
    adapter = Adapter(name="legal", s3_uri="s3://models/legal.tar.gz", rank=rank)
    return container_variables(main.model_copy(update={"container": container, "adapters": (adapter,)}))


def test_adapters_bring_the_switch_that_vllm_needs() -> None:
    """Without it the server has no adapter routes, and every request for the adapter ends with Not Found."""
    assert adapted(None)["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "true"


@pytest.mark.parametrize(("rank", "told"), [(None, None), (16, None), (17, "32"), (64, "64"), (300, "320")])
def test_the_server_is_told_the_largest_rank_above_its_default(rank: int | None, told: str | None) -> None:
    """vLLM takes ranks up to 16 unless told, and only certain ones."""
    assert adapted(rank).get("SM_VLLM_MAX_LORA_RANK") == told


def test_a_written_rank_wins() -> None:
    """What the profile says is what the server is told."""
    assert adapted(64, max_lora_rank=128)["SM_VLLM_MAX_LORA_RANK"] == "128"
