"""What a model server's own start refuses of the variables it was given, before it loads a weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from loadproof.catalog import Architecture, architecture, container_images, instances
from loadproof.catalog.arguments import (
    too_few_on_cpu,
    unknown_arguments,
    unknown_parsers,
    unreadable_json,
    unreadable_values,
    words_of,
)
from loadproof.catalog.contracts import fact
from loadproof.catalog.formats import torn_blocks, torn_groups
from loadproof.families import FAMILIES, ContainerFamily, Settings
from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.model_server.container import CannotStartError
from loadproof.localcloud.model_server.contract import Place
from loadproof.profiles.schema import Family
from loadproof.profiles.settings import (
    longer_context,
    offline_by,
    quantization_from_variables,
    settings_from_variables,
)

_ENGINES: Final = frozenset({"vllm", "lmi", "sglang"})  # vLLM, LMI around it, and SGLang, which took over its checks
# vllm/config/model.py (ModelDType), sglang/srt/server_args.py, djl-serving's LMI configuration guide, TGI's launcher.
_DTYPES: Final = {
    "vllm": frozenset({"auto", "half", "float16", "bfloat16", "float", "float32"}),
    "lmi": frozenset({"auto", "half", "float16", "fp16", "bfloat16", "bf16", "float", "float32", "fp32", "int8"}),
    "sglang": frozenset({"auto", "half", "float16", "bfloat16", "float", "float32"}),
    "tgi": frozenset({"float16", "bfloat16"}),
}
_BF16: Final = frozenset({"bfloat16", "bf16"})
_CAPABILITY: Final = {"V100": "7.0", "T4": "7.5"}  # of those below 8.0, where bfloat16 begins
# text-generation-inference 3.3.6 launcher/src/main.rs, `enum Quantization`.
_TGI_QUANTIZATIONS: Final = {
    "awq", "compressed-tensors", "eetq", "exl2", "gptq", "marlin", "bitsandbytes", "bitsandbytes-nf4",
    "bitsandbytes-fp4", "fp8",
}  # fmt: skip
_OF_A_CHECKPOINT: Final = ("awq", "gptq")  # nobody quantizes so while loading


def check_arguments(view: ContainerView, place: Place, name: Family) -> None:
    """Raises CannotStartError in the words of the server, where it is known to stop at start-up."""
    if view.adapter:
        return  # its base has started already
    for said in chain(_unread(view), _refused(view, place, name)):
        raise CannotStartError(said)


def _unread(view: ContainerView) -> Iterator[str]:
    yield from (unknown.says for unknown in unknown_arguments(view.image, view.environment))
    yield from (unknown.says for unknown in unknown_parsers(view.image, view.environment))
    yield from (says for _, says in unreadable_json(view.image, view.environment))
    yield from (says for _, says in unreadable_values(view.image, view.environment))


def _refused(view: ContainerView, place: Place, name: Family) -> Iterator[str]:
    settings = settings_from_variables(name, view.environment)
    yield from _contradictions(view, name, settings)
    yield from _words(view, place, name)
    yield from _adapters(view, settings)
    yield from _parallel(view, place, name, settings)


def check_shape(view: ContainerView, name: Family, shape: Architecture, model_id: str) -> None:
    """The same, of what only the model's shape tells."""
    if view.adapter:
        return
    settings = settings_from_variables(name, view.environment)
    degree = settings.tensor_parallel_degree or 1
    for said in (
        *_split(shape, degree),
        *torn_blocks(name, model_id, shape, degree, view.environment),
        *torn_groups(name, model_id, quantization_from_variables(name, view.environment) or "", shape, degree),
        *_longest(view, FAMILIES[name], settings, shape),
        *_offline(view, name, model_id),
        *_unquantized(view, name, model_id),
    ):
        raise CannotStartError(said)


def _contradictions(view: ContainerView, name: Family, settings: Settings) -> Iterator[str]:
    family: ContainerFamily[Any, Any] = FAMILIES[name]
    listed = any(view.image.endswith(f"/{one.repository}:{one.tag}") for one in container_images())
    container = family.container.model_construct(
        family=name, settings=settings, image=None if listed else view.image, environment=dict(view.environment)
    )
    for refusal in family.refusals:
        for one in refusal.check(container) if refusal.stops else ():
            yield f"{one.found}; {one.mend} ({refusal.title})"


def _words(view: ContainerView, place: Place, name: Family) -> Iterator[str]:
    names = FAMILIES[name].model_variables
    if names is None:
        return
    dtype = view.environment.get(names.dtype)
    known = _DTYPES.get(name)
    if dtype and known is not None and dtype.lower() not in known:
        yield f"{names.dtype}: invalid value '{dtype}', possible values: {', '.join(sorted(known))}"
    row = instances().get(place.instance_type)
    capability = _CAPABILITY.get(row.accelerator) if row is not None else None
    if name in _ENGINES and dtype and dtype.lower() in _BF16 and row is not None and capability is not None:
        yield (
            "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your "
            f"{row.accelerator} GPU has compute capability {capability}. You can use float16 instead."
        )
    written = view.environment.get(names.quantization, "")
    methods = words_of(view.image, "sglang" if name == "sglang" else "vllm", "quantization")
    if written and methods and written not in methods:
        says = "argument --quantization: invalid choice" if name == "sglang" else "Unknown quantization method"
        yield f"{says}: {written}. Must be one of {', '.join(sorted(methods))}"
    if name == "tgi":
        yield from _tgi_words(view.environment)


def _tgi_words(variables: Mapping[str, str]) -> Iterator[str]:
    for variable in ("HF_MODEL_QUANTIZE", "QUANTIZE"):
        written = variables.get(variable)
        if written and written not in _TGI_QUANTIZATIONS:
            yield f"invalid value '{written}' for '--quantize <QUANTIZE>'"
    # server/text_generation_server/cli.py
    quantized = [variables[one] for one in ("HF_MODEL_QUANTIZE", "QUANTIZE") if variables.get(one)]
    if "DTYPE" in variables and not all(one.startswith("bitsandbytes") for one in quantized):
        yield "Only 1 can be set between `dtype` and `quantize`, as they both decide how goes the final model."
    both = [variables[one] for one in ("MAX_INPUT_TOKENS", "MAX_INPUT_LENGTH") if one in variables]
    if len(both) == 2:
        yield f"Both `max_input_tokens` ({both[0]}) and `max_input_length` ({both[1]}) are set. Please define only one"


def _adapters(view: ContainerView, settings: Settings) -> Iterator[str]:
    rank, ranks = getattr(settings, "max_lora_rank", None), (fact(view.image, "lora_ranks") or "").split()
    if rank is not None and ranks and str(rank) not in ranks:
        yield f"max_lora_rank ({rank}) must be one of {', '.join(ranks)}"
    said = too_few_on_cpu(view.environment, getattr(settings, "max_loras", None))
    if said is not None:
        yield said[1]


def _parallel(view: ContainerView, place: Place, name: Family, settings: Settings) -> Iterator[str]:
    ranks = FAMILIES[name].ranks(settings.tensor_parallel_degree or 1, view.environment)
    if ranks > place.accelerators_per_copy > 0:
        yield (
            f"World size ({ranks}) is larger than the number of available GPUs ({place.accelerators_per_copy}) "
            "of a copy"
        )


def _split(shape: Architecture, degree: int) -> Iterator[str]:
    if shape.heads % degree:
        yield f"Total number of attention heads ({shape.heads}) must be divisible by tensor parallel size ({degree})."
    elif shape.kv_heads and shape.kv_heads % degree and degree % shape.kv_heads:
        yield f"Total number of key-value heads ({shape.kv_heads}) does not fit tensor parallel size ({degree})."


def _longest(
    view: ContainerView, family: ContainerFamily[Any, Any], settings: Settings, shape: Architecture
) -> Iterator[str]:
    longest = family.value(settings, family.longest_setting)
    meant = longer_context(view.environment) is not None
    if family.longest_is_context and not meant and longest and 0 < shape.context < longest:
        yield (
            f"User-specified max_model_len ({longest}) is greater than the derived max_model_len "
            f"(max_position_embeddings={shape.context} in the model's config.json)."
        )


def _fetched(view: ContainerView, name: Family, model_id: str) -> bool:
    """True for a model that the server gets from the hub, by its id."""
    names = FAMILIES[name].model_variables
    return names is not None and model_id in [view.environment.get(one) for one in (names.model, *names.looked_up)]


def _offline(view: ContainerView, name: Family, model_id: str) -> Iterator[str]:
    variable = offline_by(view.environment)
    if variable is not None and _fetched(view, name, model_id):
        yield f"Cannot reach {model_id}: offline mode is enabled. To disable it, please unset {variable}."


def _unquantized(view: ContainerView, name: Family, model_id: str) -> Iterator[str]:
    """A method that only a checkpoint can have, of one from the hub that has none."""
    written, published = quantization_from_variables(name, view.environment), architecture(model_id)
    if (
        _fetched(view, name, model_id)
        and written in _OF_A_CHECKPOINT
        and published is not None
        and published.quantization == "none"
    ):
        yield f"Cannot find the config file for {written}: {model_id} is not quantized"
