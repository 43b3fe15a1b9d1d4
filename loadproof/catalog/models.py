"""Models by Hugging Face id: which shape an id has, and who asks for a licence first."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from loadproof.catalog.architecture import Architecture
from loadproof.catalog.readers import rows, table

_SLIP: Final = 2  # letters that one who means an id may get wrong
_ALIKE: Final = 0.5  # ratio of two names, below which one is no slip of the other
_ALIKE_ALONE: Final = 0.75  # where neither a number nor the family is the same
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_TUNED: Final = re.compile(r"^meta-|-(instru?ct|chat|it|hf|base|unsloth|bnb|[48]bit|(nv)?fp4|gguf)\b")
_VARIANTS: Final = ("-Instruct", "-instruct", "-chat-hf", "-Instruct-hf", "-Chat", "-chat", "-it")
# How checkpoints that were packed, or unpacked, end their names, and how they are stored; w4a16 packs as GPTQ does.
_PACKED: Final = {
    re.compile(r"[-.](gptq(-int4|-4bit)?|(quantized\.)?w4a16)$", re.IGNORECASE): "gptq",
    re.compile(r"[-.]awq(-int4|-4bit)?$", re.IGNORECASE): "awq",
    re.compile(r"[-.]fp8(-dynamic|-static(-pertensor)?|-kv)?$", re.IGNORECASE): "fp8",
    re.compile(r"[-.](quantized\.)?(w8a8|int8)$", re.IGNORECASE): "int8",
    re.compile(r"[-.]bf16$", re.IGNORECASE): "none",
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
    rest, whoever packed it, and one of a listed name under another publisher is that model published again. None when
    the catalog does not know it: the profile must then give `model.architecture`.
    """
    known, bases = architectures(), finetunes()
    for candidate in _same_shape(model_id):
        if (found := bases.get(candidate, candidate)) in known:
            return known[found]
    ending, quantization = _packing(model_id)
    if quantization is not None:
        whole = architecture(_published_as(model_id.removesuffix(ending)))
        return replace(whole, quantization=quantization) if whole else None
    listed = _published_as(model_id)
    return architecture(listed) if listed != model_id else None


def model_ids() -> tuple[str, ...]:
    """Every Hugging Face id that the catalog lists, those with another's shape included."""
    return (*architectures(), *finetunes())


def published_elsewhere(model_id: str) -> str | None:
    """The listed id that `model_id` has the name of, under another publisher: its weights published again, or a slip.
    None where the id itself is listed, or nothing is."""
    whole = model_id.removesuffix(_packed_ending(model_id))
    listed = _published_as(whole)
    return None if listed == whole else listed


def is_packed(model_id: str) -> bool:
    """Whether its name calls a checkpoint quantized, as packers do."""
    return bool(_packed_ending(model_id))


def named_quantization(model_id: str) -> str | None:
    """The quantization that the ending of a packed checkpoint's name says."""
    return _packing(model_id)[1]


def _published_as(model_id: str) -> str:
    """The listed id of the same name, where packers publish under their own; a name without a publisher is nobody's."""
    if "/" not in model_id or any(candidate in model_ids() for candidate in _same_shape(model_id)):
        return model_id
    names = {listed.partition("/")[2].casefold(): listed for listed in model_ids()}
    wanted = (name.casefold() for name in _same_shape(model_id.rpartition("/")[2]))
    return next((names[name] for name in wanted if name in names), model_id)


def near_models(model_id: str, most: int = 3) -> tuple[str, ...]:
    """Ids that resolve and are like `model_id`: first those a letter or two away, variants of listed ones included and
    nearest first; then listed ones with most of its numbers (release, size), where the family's name counts as one and
    a half."""
    return tuple(dict.fromkeys((*_slips(model_id), *_akin(model_id))))[:most]


def _slips(model_id: str) -> list[str]:
    """Ids at most `_SLIP` letters away, whatever the case, nearest first; of a packed one with the same ending."""
    ending = _packed_ending(model_id)
    wanted = model_id.removesuffix(ending).casefold()
    near: dict[str, tuple[int, str]] = {}
    for candidate in _resolving():
        if abs(len(candidate) - len(wanted)) <= _SLIP:
            edits = _edits(wanted, candidate.casefold())
            if edits <= _SLIP:
                near.setdefault(candidate.casefold(), (edits, candidate))
    return [f"{candidate}{ending}" for _, candidate in sorted(near.values(), key=lambda found: found[0])]


def _packed_ending(model_id: str) -> str:
    """How the name of a packed checkpoint ends; empty for one that is not packed."""
    return _packing(model_id)[0]


def _packing(model_id: str) -> tuple[str, str | None]:
    """That ending, and the quantization that it stands for."""
    found = ((ending.search(model_id), quantization) for ending, quantization in _PACKED.items())
    return next(((match.group(), quantization) for match, quantization in found if match), ("", None))


@cache
def _resolving() -> tuple[str, ...]:
    """Listed ids, then names of the listed ones' variants (`-Instruct`, `-chat-hf`) that have their shape."""
    plain = [listed for listed in model_ids() if not listed.endswith(_VARIANTS)]
    variants = (f"{listed.removesuffix('-hf')}{suffix}" for listed in plain for suffix in _VARIANTS)
    return tuple(dict.fromkeys((*model_ids(), *(name for name in variants if architecture(name) is not None))))


def _edits(one: str, other: str) -> int:
    """Letters to add, take away or change until `one` is `other` (Levenshtein's distance)."""
    before = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        now = [row]
        for column, also in enumerate(other, 1):
            now.append(min(before[column] + 1, now[-1] + 1, before[column - 1] + (letter != also)))
        before = now
    return before[-1]


def _akin(model_id: str) -> list[str]:
    wanted = _bare(model_id)
    numbers, family = set(_NUMBER.findall(wanted)), _family(wanted)

    def unlike(listed: str) -> tuple[float, float]:
        name = _bare(listed)
        shared = len(numbers & set(_NUMBER.findall(name))) + 1.5 * (family == _family(name))
        return -shared, -difflib.SequenceMatcher(None, wanted, name).ratio()

    ordered = sorted((unlike(listed), listed) for listed in model_ids())
    return [listed for (shared, same), listed in ordered if -same >= (_ALIKE if shared else _ALIKE_ALONE)]


def _bare(model_id: str) -> str:
    """The name without its publisher and its tuning."""
    return _TUNED.sub("", model_id.rpartition("/")[2].casefold())


def _family(bare: str) -> str:
    """`llama` of `llama-3.2-8b`: the letters that a name begins with."""
    return bare[: len(bare) - len(bare.lstrip("abcdefghijklmnopqrstuvwxyz"))]


def is_gated(model_id: str) -> bool:
    """True for families whose every model asks for its licence on the hub."""
    return model_id.startswith(
        ("meta-llama/", "google/gemma-", "google/codegemma-", "CohereLabs/c4ai-", "CohereLabs/aya-expanse-")
    )


def _same_shape(model_id: str) -> Iterable[str]:
    yield model_id
    for suffix in _VARIANTS:
        if model_id.endswith(suffix):
            stem = model_id.removesuffix(suffix)
            yield stem
            yield f"{stem}-hf"
    yield f"{model_id}-Instruct"
