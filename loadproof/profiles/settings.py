"""Typed container settings to environment variables and back: each family's own entries (`loadproof.families`).

The way in and the way back read the same entries, so what a stack deploys is what the local cloud understands.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_origin

from loadproof.catalog.arguments import whole_number
from loadproof.catalog.contracts import adapter_switch, fact
from loadproof.catalog.readers import ContainerImage, container_images
from loadproof.errors import InputError
from loadproof.families import FAMILIES, MOUNTED_WEIGHTS, ContainerFamily, Settings
from loadproof.profiles.schema import (
    Component,
    Container,
    Family,
    HubSource,
    Model,
    Profile,
)
from loadproof.vocabulary import Quantization
from loadproof.wire.payloads import ContainerProtocol

_DEFAULT_LORA_RANK: Final = 16  # vLLM's
# vllm/envs.py, sglang/srt/environ.py: a request longer than the model's context is let through.
_LONGER_ALLOWED: Final = ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")
ON: Final = frozenset({"1", "true"})  # what a server takes a switch for
# huggingface_hub/constants.py: HF_HUB_OFFLINE, Transformers' older name for it, and ENV_VARS_TRUE_VALUES.
_OFFLINE: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TRUE_ON_THE_HUB: Final = frozenset({"1", "ON", "YES", "TRUE"})
# What gives the model another context than its config.json: SM_VLLM_HF_OVERRIDES, SM_SGLANG_JSON_MODEL_OVERRIDE_ARGS.
_STRETCHING: Final = re.compile(r"ROPE_SCALING=|OVERRIDE\w*=.*(rope_|max_position_embeddings)", re.DOTALL)


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


def protocol_of(container: Container) -> ContainerProtocol:
    """The payloads the container speaks: its family's, or what a custom one says."""
    family = FAMILIES[container.family]
    said: ContainerProtocol = family.protocol or family.value(container.settings, "protocol")
    return said


def tensor_parallel_degree(component: Component) -> int:
    """Accelerators one model shards over: as written, else all of the copy's."""
    return component.container.settings.tensor_parallel_degree or accelerators_per_copy(component)


def catalog_image(container: Container) -> ContainerImage | None:
    """The catalog's image of a container; None for an own image or a version nobody knows."""
    if container.image is not None:
        return None
    of_family = [image for image in container_images() if image.family == container.family]
    if container.version is None:
        return of_family[0] if of_family else None
    return next((image for image in of_family if image.version == container.version), None)


def image_name(container: Container) -> str:
    """Repository and tag of the container's image; empty for a version nobody knows."""
    image = catalog_image(container)
    return container.image or (f"{image.repository}:{image.tag}" if image else "")


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
    family = FAMILIES[container.family]
    variables = _model_variables(component, staged)
    settings = container.settings.model_copy(update={"tensor_parallel_degree": tensor_parallel_degree(component)})
    variables.update(adapter_variables(component))
    for name, variable in family.setting_variables.items():
        value = getattr(settings, name)
        if value is False:
            variables.update(family.switched_off(variable))
        elif value is not None:
            variables[variable] = "true" if value is True else str(value)
    speculative = getattr(container, "speculative", None)
    if family.speculation is not None and speculative is not None:
        variables.update(family.speculation.write(speculative))
    return variables | container.environment


def adapter_variables(component: Component) -> dict[str, str]:
    """What the image needs before it loads adapters while it runs, and room for the largest rank among them.

    Sources: container_contracts.csv (`adapter_switch`, `lora_ranks`). A setting that is written wins.
    """
    image = image_name(component.container)
    switch, family = adapter_switch(image), FAMILIES[component.container.family]
    if not component.adapters:
        return {}
    variables = {switch: "true"} if switch else {}
    largest = max((adapter.rank or 0 for adapter in component.adapters), default=0)
    ranks = [int(rank) for rank in (fact(image, "lora_ranks") or "").split()]
    room = next((rank for rank in ranks if rank >= largest), largest)
    if largest > _DEFAULT_LORA_RANK and "max_lora_rank" in family.setting_variables:
        variables[family.setting_variables["max_lora_rank"]] = str(room)
    return variables


def longer_context(variables: Mapping[str, str]) -> Literal["stretched", "allowed"] | None:
    """How a context longer than the model's own is meant: its positions are stretched, or the server's check is off.

    Sources: vllm/config/model.py, sglang/srt/configs/model_config.py; Qwen3's model cards stretch with YaRN.
    """
    if any(_STRETCHING.search(f"{name}={value}") for name, value in variables.items()):
        return "stretched"
    allowed = any(variables.get(name, "").strip().lower() in ON for name in _LONGER_ALLOWED)
    return "allowed" if allowed else None


def offline_by(variables: Mapping[str, str]) -> str | None:
    """The variable that forbids the server to ask the hub; None without one."""
    return next((name for name in _OFFLINE if variables.get(name, "").upper() in _TRUE_ON_THE_HUB), None)


def settings_from_variables(family: Family, variables: Mapping[str, str]) -> Settings:
    """The typed settings a deployed container's variables stand for; unknown variables are ignored.

    Raises InputError when a known variable holds a value its setting does not allow.
    """
    of_family = FAMILIES[family]
    found: dict[str, object] = {}
    for name, variable in of_family.setting_variables.items():
        off = of_family.switched_off(variable)
        given = next((one for one in (variable, *_former(of_family, name)) if one in variables), None)
        if given is not None:
            text = "true" if of_family.bare_flags and not variables[given] else variables[given]
            annotation, words = of_family.settings.model_fields[name].annotation, of_family.words.get(name, {})
            found[name] = _read_variable(given, text, annotation, words, of_family.suffixed.get(name))
        elif off and all(variables.get(one, "").lower() == value for one, value in off.items()):
            found[name] = False
    for name, value in of_family.unset.items():
        found.setdefault(name, value)
    try:
        settings: Settings = of_family.settings.model_validate(found)
    except ValueError as error:
        names = ", ".join(of_family.setting_variables[name] for name in found)
        raise InputError(f"container variables of family {family} out of bounds (among {names})") from error
    return settings


def _former(family: ContainerFamily[Any, Any], setting: str) -> list[str]:
    """Other variables that say the same, older ones mostly."""
    return [one for one, field in family.former_variables.items() if field == f"container.settings.{setting}"]


def quantization_from_variables(family: Family, variables: Mapping[str, str]) -> Quantization:
    """The checkpoint's quantization as a deployed container's variables tell it; `none` without one."""
    names = FAMILIES[family].model_variables
    value = "" if names is None else variables.get(names.quantization, "")
    found = (quantization for quantization, written in FAMILIES[family].quantizations.items() if written == value)
    return next(found, "none")


def reserved_variables(component: Component) -> dict[str, str]:
    """Variable -> the profile field that sets it, for every variable `environment` must leave alone."""
    family = FAMILIES[component.container.family]
    names = family.model_variables
    if names is None:
        return {}
    reserved = {
        **family.former_variables,
        names.model: "model.id or model.source",
        names.revision: "model.source.revision",
        names.trust_remote_code: "model.trust_remote_code",
        names.dtype: "model.dtype",
        names.quantization: "model.quantization",
    }
    for name, variable in family.setting_variables.items():
        reserved |= dict.fromkeys((variable, *family.switched_off(variable)), f"container.settings.{name}")
    if family.speculation is not None:
        reserved |= dict.fromkeys(family.speculation.variables, "container.speculative")
    return reserved


def supported_quantizations(family: Family) -> tuple[Quantization, ...]:
    """What a family's typed settings can serve, `none` included."""
    return ("none", *FAMILIES[family].quantizations)


def _model_variables(component: Component, staged: bool) -> dict[str, str]:
    family, model = FAMILIES[component.container.family], component.model
    names = family.model_variables
    if names is None:
        return {}
    variables = {names.model: MOUNTED_WEIGHTS}
    if isinstance(model.source, HubSource) and not staged:
        variables[names.model] = model.id
        variables[names.revision] = model.source.revision
    if model.trust_remote_code:
        variables[names.trust_remote_code] = "true"
    if model.quantization in family.quantizations:
        variables[names.quantization] = family.quantizations[model.quantization]
    if model.quantization == "none" or names.dtype_beside_quantization:
        variables[names.dtype] = names.dtypes[model.dtype]
    return variables


def _read_variable(
    variable: str, text: str, annotation: object, words: Mapping[str, int | None], suffixed: str | None
) -> object:
    """`words` stand for a number; `suffixed`: whose server takes an ending."""
    kind, word = _scalar_kind(annotation), text.strip().lower()
    if word in words:
        return words[word]
    try:
        if kind is bool:
            return {"true": True, "false": False}[word]
        return kind(text) if suffixed is None else whole_number(suffixed, text)
    except (KeyError, ValueError):
        raise InputError(f"variable {variable} does not hold the {kind.__name__} its setting needs") from None


def _scalar_kind(annotation: object) -> type[bool | int | float | str]:
    """bool, int, float or str inside Optional, Annotated and Literal."""
    if annotation in (bool, int, float, str):
        return typing.cast("type[str]", annotation)
    origin = get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        return _scalar_kind(next(arm for arm in get_args(annotation) if arm is not type(None)))
    if origin is typing.Annotated:
        return _scalar_kind(get_args(annotation)[0])
    return str  # Literal of words
