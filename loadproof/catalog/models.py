"""Models by Hugging Face id: which shape an id has, and who asks for a licence first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from loadproof.catalog.architecture import Architecture
from loadproof.catalog.readers import rows, table

# How packed checkpoints end their names, and how they are stored; w4a16 packs as GPTQ does.
_PACKED: Final = {
    re.compile(r"[-.](gptq(-int4|-4bit)?|(quantized\.)?w4a16)$", re.IGNORECASE): "gptq",
    re.compile(r"[-.]awq(-int4|-4bit)?$", re.IGNORECASE): "awq",
    re.compile(r"[-.]fp8(-dynamic|-static(-pertensor)?|-kv)?$", re.IGNORECASE): "fp8",
    re.compile(r"[-.](quantized\.)?(w8a8|int8)$", re.IGNORECASE): "int8",
}


@cache
def architectures() -> Mapping[str, Architecture]:
    """Model shapes by Hugging Face id (`meta-llama/Llama-3.1-8B`)."""
    columns = {"name": "model", "parameters_b": "params_b", "active_parameters_b": "active_params_b"}
    return {row.hf_id: row for row in table(Architecture, "models.csv", columns)}


@cache
def finetunes() -> Mapping[str, str]:
    """Models whose shape is another's: the id of that one."""
    return {row["hf_id"]: row["base"] for row in rows("finetunes.csv")}


def architecture(model_id: str) -> Architecture | None:
    """The shape of a model by Hugging Face id; instruct and chat variants share their base model's shape.

    A checkpoint that its name calls quantized (`-AWQ`, `-FP8-dynamic`, `-quantized.w4a16`) is the model of the name's
    rest, whoever packed it. None when the catalog does not know it: the profile must then give `model.architecture`.
    """
    known, bases = architectures(), finetunes()
    for candidate in _same_shape(model_id):
        if (found := bases.get(candidate, candidate)) in known:
            return known[found]
    for ending, quantization in _PACKED.items():
        if packed := ending.search(model_id):
            whole = architecture(_published_as(model_id[: packed.start()]))
            return replace(whole, quantization=quantization) if whole else None
    return None


def model_ids() -> tuple[str, ...]:
    """Every Hugging Face id that the catalog lists, those with another's shape included."""
    return (*architectures(), *finetunes())


def _published_as(model_id: str) -> str:
    """The listed id of the same name, where packers publish under their own."""
    if any(candidate in model_ids() for candidate in _same_shape(model_id)):
        return model_id
    names = {listed.partition("/")[2]: listed for listed in model_ids()}
    found = (names[name] for name in _same_shape(model_id.partition("/")[2]) if name in names)
    return next(found, model_id)


def is_gated(model_id: str) -> bool:
    """True for families whose every model asks for its licence on the hub."""
    return model_id.startswith(("meta-llama/", "google/gemma-", "google/codegemma-"))


def _same_shape(model_id: str) -> Iterable[str]:
    yield model_id
    for suffix in ("-Instruct", "-instruct", "-chat-hf", "-Instruct-hf", "-it"):
        if model_id.endswith(suffix):
            stem = model_id.removesuffix(suffix)
            yield stem
            yield f"{stem}-hf"
    yield f"{model_id}-Instruct"
