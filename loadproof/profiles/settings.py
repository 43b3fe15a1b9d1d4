"""Typed container settings to environment variables and back: one table, the schema's own `variable` entries.

The way in and the way back read the same entries, so what a stack deploys is what the local cloud understands.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, get_args, get_origin

from loadproof.errors import InputError
from loadproof.profiles.schema import (
    Component,
    Container,
    CustomSettings,
    Dtype,
    Family,
    HubSource,
    LmiSettings,
    Model,
    Profile,
    Protocol,
    Quantization,
    SglangSettings,
    SglangSpeculative,
    Speculative,
    TgiSettings,
    VllmSettings,
    VllmSpeculative,
)

Settings = TgiSettings | LmiSettings | VllmSettings | SglangSettings | CustomSettings

MOUNTED_WEIGHTS: Final = "/opt/ml/model"  # where SageMaker puts an S3 artifact

_SETTINGS: Final[dict[Family, type[Settings]]] = {
    "tgi": TgiSettings,
    "lmi": LmiSettings,
    "vllm": VllmSettings,
    "sglang": SglangSettings,
    "custom": CustomSettings,
}
_CUSTOM_PROTOCOL = "LOADPROOF_PROTOCOL"  # a container of one's own has no variable that says what it speaks
_CUSTOM_DEGREE = "LOADPROOF_TENSOR_PARALLEL_DEGREE"

_MODEL_VARIABLE: Final[dict[Family, str]] = {
    "tgi": "HF_MODEL_ID",
    "lmi": "HF_MODEL_ID",
    "vllm": "SM_VLLM_MODEL",
    "sglang": "SM_SGLANG_MODEL_PATH",
}
_REVISION_VARIABLE: Final[dict[Family, str]] = {
    "tgi": "HF_MODEL_REVISION",
    "lmi": "HF_REVISION",
    "vllm": "SM_VLLM_REVISION",
    "sglang": "SM_SGLANG_REVISION",
}
_REMOTE_CODE_VARIABLE: Final[dict[Family, str]] = {
    "tgi": "HF_MODEL_TRUST_REMOTE_CODE",
    "lmi": "OPTION_TRUST_REMOTE_CODE",
    "vllm": "SM_VLLM_TRUST_REMOTE_CODE",
    "sglang": "SM_SGLANG_TRUST_REMOTE_CODE",
}
_DTYPE_VARIABLE: Final[dict[Family, str]] = {
    "tgi": "DTYPE",
    "lmi": "OPTION_DTYPE",
    "vllm": "SM_VLLM_DTYPE",
    "sglang": "SM_SGLANG_DTYPE",
}
_LONG_DTYPE: Final[dict[Dtype, str]] = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_QUANTIZATION_VARIABLE: Final[dict[Family, str]] = {
    "tgi": "HF_MODEL_QUANTIZE",
    "lmi": "OPTION_QUANTIZE",
    "vllm": "SM_VLLM_QUANTIZATION",
    "sglang": "SM_SGLANG_QUANTIZATION",
}
_VLLM_QUANTIZATION: Final[dict[Quantization, str]] = {
    "fp8": "fp8",
    "int8": "compressed-tensors",
    "awq": "awq",
    "gptq": "gptq",
    "mxfp4": "mxfp4",
}
_QUANTIZATION_VALUE: Final[dict[Family, dict[Quantization, str]]] = {
    "tgi": {"fp8": "fp8", "int8": "bitsandbytes", "awq": "awq", "gptq": "gptq"},
    "lmi": _VLLM_QUANTIZATION,
    "vllm": _VLLM_QUANTIZATION,
    "sglang": {"fp8": "fp8", "int8": "w8a8_int8", "awq": "awq", "gptq": "gptq", "mxfp4": "mxfp4"},
}
# vLLM's `--speculative-config`, one JSON map; LMI hands it on. SGLang has a flag for each field.
_VLLM_SPECULATIVE: Final[dict[Family, str]] = {
    "lmi": "OPTION_SPECULATIVE_CONFIG",
    "vllm": "SM_VLLM_SPECULATIVE_CONFIG",
}
_SGLANG_SPECULATIVE: Final = "SM_SGLANG_SPECULATIVE_"
_SGLANG_ALGORITHM: Final = {
    "draft_model": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "EAGLE",  # the model's own heads are an EAGLE head without weights of its own
    "ngram": "NGRAM",
}


def components_of(profile: Profile) -> tuple[Component, ...]:
    """The models on the profile's endpoint: its own first, named `main`. Empty for backend bedrock."""
    if profile.container is None:
        return ()
    main = Component(
        name="main",
        model=profile.model,
        container=profile.container,
        copies=profile.copies,
        scaling=profile.scaling,
        adapters=profile.adapters,
    )
    return (main, *profile.components)


def accelerators_per_copy(component: Component) -> int:
    """Accelerators one copy takes: as written, else its tensor parallel degree, else 1."""
    return component.copies.accelerators_per_copy or component.container.settings.tensor_parallel_degree or 1


def protocol_of(container: Container) -> Protocol:
    """The payloads the container speaks: TGI's and LMI's own, else the OpenAI API's, or what a custom one says."""
    if container.family == "custom":
        return container.settings.protocol
    if container.family in ("tgi", "lmi"):
        return container.family
    return "openai"


def frees_past_window(family: Family, settings: Settings) -> bool:
    """True for servers that free what sliding layers no longer read: vLLM's and SGLang's hybrid caches.

    TGI, a batch padded to one length and servers nobody here knows keep every token.
    """
    return family in ("vllm", "lmi", "sglang") and getattr(settings, "rolling_batch", None) != "disable"


def tensor_parallel_degree(component: Component) -> int:
    """Accelerators one model shards over: as written, else all of the copy's."""
    return component.container.settings.tensor_parallel_degree or accelerators_per_copy(component)


def is_staged(model: Model, profile: Profile) -> bool:
    """True for weights of the hub that a build job puts into S3 first; False where the server fetches them itself.

    A container without a network cannot fetch, so isolation decides.
    """
    return isinstance(model.source, HubSource) and (profile.endpoint is None or profile.endpoint.network_isolation)


def container_variables(component: Component, *, staged: bool = False) -> dict[str, str]:
    """The container's whole environment: model, typed settings, speculation, then `environment` as written.

    `staged` weights of the hub are mounted like any other from S3.
    The tensor parallel degree is always written out, because servers differ in what they assume without it.
    """
    container = component.container
    variables = _model_variables(component, staged)
    settings = container.settings.model_copy(update={"tensor_parallel_degree": tensor_parallel_degree(component)})
    for name, variable in setting_variables(container.family).items():
        value = getattr(settings, name)
        if value is not None:
            variables.update(_written(container.family, variable, value))
    speculative = getattr(container, "speculative", None)
    if speculative is not None:
        variables.update(_speculative_variables(container.family, speculative))
    return variables | container.environment


def settings_from_variables(family: Family, variables: Mapping[str, str]) -> Settings:
    """The typed settings a deployed container's variables stand for; unknown variables are ignored.

    Raises InputError when a known variable holds a value its setting does not allow.
    """
    found: dict[str, object] = {}
    model = _SETTINGS[family]
    for name, variable in setting_variables(family).items():
        if variable in variables:
            annotation = model.model_fields[name].annotation
            found[name] = _read_variable(variable, variables[variable], annotation)
        elif family == "vllm" and variables.get(_switched_off(variable), "").lower() == "true":
            found[name] = False
    if family == "custom":
        found.setdefault("protocol", "openai")
    try:
        return model.model_validate(found)
    except ValueError as error:
        names = ", ".join(setting_variables(family)[name] for name in found)
        raise InputError(f"container variables of family {family} out of bounds (among {names})") from error


def quantization_from_variables(family: Family, variables: Mapping[str, str]) -> Quantization:
    """The checkpoint's quantization as a deployed container's variables tell it; `none` without one."""
    value = variables.get(_QUANTIZATION_VARIABLE.get(family, ""), "")
    for quantization, written in _QUANTIZATION_VALUE.get(family, {}).items():
        if written == value:
            return quantization
    return "none"


def setting_variables(family: Family) -> dict[str, str]:
    """Setting name -> variable name, for one container family."""
    if family == "custom":
        return {"protocol": _CUSTOM_PROTOCOL, "tensor_parallel_degree": _CUSTOM_DEGREE}
    table = {}
    for name, field in _SETTINGS[family].model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and isinstance(extra.get("variable"), str):
            table[name] = str(extra["variable"])
    return table


def reserved_variables(component: Component) -> dict[str, str]:
    """Variable -> the profile field that sets it, for every variable `environment` must leave alone."""
    family = component.container.family
    if family == "custom":
        return {}
    reserved = {
        _MODEL_VARIABLE[family]: "model.id or model.source",
        _REVISION_VARIABLE[family]: "model.source.revision",
        _REMOTE_CODE_VARIABLE[family]: "model.trust_remote_code",
        _DTYPE_VARIABLE[family]: "model.dtype",
        _QUANTIZATION_VARIABLE[family]: "model.quantization",
    }
    for name, variable in setting_variables(family).items():
        reserved[variable] = f"container.settings.{name}"
        if family == "vllm":
            reserved[_switched_off(variable)] = f"container.settings.{name}"
    if family in _VLLM_SPECULATIVE:
        reserved[_VLLM_SPECULATIVE[family]] = "container.speculative"
    if family == "sglang":
        flags = ("ALGORITHM", "DRAFT_MODEL_PATH", "NUM_STEPS", "EAGLE_TOPK", "NUM_DRAFT_TOKENS")
        reserved |= {f"{_SGLANG_SPECULATIVE}{flag}": "container.speculative" for flag in flags}
    return reserved


def supported_quantizations(family: Family) -> tuple[Quantization, ...]:
    """What a family's typed settings can serve, `none` included; everything for custom containers."""
    if family == "custom":
        return get_args(Quantization)
    return ("none", *_QUANTIZATION_VALUE[family])


def _model_variables(component: Component, staged: bool) -> dict[str, str]:
    family, model = component.container.family, component.model
    if family == "custom":
        return {}
    variables = {_MODEL_VARIABLE[family]: MOUNTED_WEIGHTS}
    if isinstance(model.source, HubSource) and not staged:
        variables[_MODEL_VARIABLE[family]] = model.id
        variables[_REVISION_VARIABLE[family]] = model.source.revision
    if model.trust_remote_code:
        variables[_REMOTE_CODE_VARIABLE[family]] = "true"
    if model.quantization != "none":
        value = _QUANTIZATION_VALUE[family].get(model.quantization)
        if value is not None:
            variables[_QUANTIZATION_VARIABLE[family]] = value
    # TGI refuses a dtype beside a quantization: the checkpoint decides there.
    if model.quantization == "none" or family != "tgi":
        short = family == "lmi"
        variables[_DTYPE_VARIABLE[family]] = model.dtype if short else _LONG_DTYPE[model.dtype]
    return variables


def _speculative_variables(family: Family, wanted: Speculative) -> dict[str, str]:
    if isinstance(wanted, VllmSpeculative):
        config = {
            "method": wanted.method,
            "num_speculative_tokens": wanted.tokens,
            "model": wanted.draft_model,
            "draft_tensor_parallel_size": wanted.draft_tensor_parallel_degree,
            "prompt_lookup_max": wanted.longest_ngram_tokens,
        }
        given = {name: value for name, value in config.items() if value is not None}
        return {_VLLM_SPECULATIVE[family]: json.dumps(given)}
    assert isinstance(wanted, SglangSpeculative)
    flags: dict[str, object] = {"ALGORITHM": _SGLANG_ALGORITHM[wanted.method]}
    if wanted.method == "ngram":
        flags["NUM_DRAFT_TOKENS"] = wanted.tokens
    else:
        flags["NUM_STEPS"] = wanted.tokens
        flags["EAGLE_TOPK"] = wanted.branches
        flags["NUM_DRAFT_TOKENS"] = wanted.checked_tokens or wanted.tokens + 1
    if wanted.draft_model is not None:
        flags["DRAFT_MODEL_PATH"] = wanted.draft_model
    return {f"{_SGLANG_SPECULATIVE}{flag}": str(value) for flag, value in flags.items()}


def _written(family: Family, variable: str, value: object) -> dict[str, str]:
    if value is False and family in ("vllm", "sglang"):
        # These entry points turn `true` into a bare flag and leave `false` out: off needs a variable of its own.
        return {_switched_off(variable): "true"} if family == "vllm" else {}
    if isinstance(value, bool):
        return {variable: "true" if value else "false"}
    return {variable: str(value)}


def _switched_off(variable: str) -> str:
    return variable.replace("SM_VLLM_", "SM_VLLM_NO_", 1)


def _read_variable(variable: str, text: str, annotation: Any) -> object:
    kind = _scalar_kind(annotation)
    if kind is int and text.strip().lower() == "max":
        return None  # LMI's word for "all the copy has"
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.strip().lower()]
        return kind(text)
    except (KeyError, ValueError):
        raise InputError(f"variable {variable} does not hold the {kind.__name__} its setting needs") from None


def _scalar_kind(annotation: Any) -> type[bool] | type[int] | type[float] | type[str]:
    """bool, int, float or str inside Optional, Annotated and Literal."""
    if annotation in (bool, int, float, str):
        return typing.cast("type[str]", annotation)
    origin = get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        return _scalar_kind(next(arm for arm in get_args(annotation) if arm is not type(None)))
    if origin is typing.Annotated:
        return _scalar_kind(get_args(annotation)[0])
    return str  # Literal of words
