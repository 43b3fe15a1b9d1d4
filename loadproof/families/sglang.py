"""SGLang in AWS's own image: predicted as if it were vLLM, for nobody has measured it here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from pydantic import Field

from loadproof.families.family import (
    MOUNTED_WEIGHTS,
    Container,
    ContainerFamily,
    Contradiction,
    ModelVariables,
    PublishedImage,
    PublishedName,
    Settings,
    Speculation,
    Speculative,
    as_published,
    draft_contradictions,
)
from loadproof.families.vllm import engine_limits
from loadproof.vocabulary import Fraction, PositiveInt, setting

# A flag for each field, where vLLM takes one JSON map.
_SPECULATIVE: Final = "SM_SGLANG_SPECULATIVE_"
_FLAGS: Final = ("ALGORITHM", "DRAFT_MODEL_PATH", "NUM_STEPS", "EAGLE_TOPK", "NUM_DRAFT_TOKENS")
_MAX_PREFILL_TOKENS: Final = 16384  # a step's, where -1 turns chunks off (arg_groups/fields/schedule.py)
_ALGORITHM: Final = {
    "draft_model": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "EAGLE",  # the model's own heads are an EAGLE head without weights of its own
    "ngram": "NGRAM",
}


class SglangSettings(Settings):
    """AWS's SGLang container: SM_SGLANG_X becomes --x."""

    tensor_parallel_degree: PositiveInt | None = setting("SM_SGLANG_TP_SIZE", "accelerators one copy shards over")
    max_running_requests: PositiveInt | None = setting(
        "SM_SGLANG_MAX_RUNNING_REQUESTS", "sequences in the running batch"
    )
    context_length: PositiveInt | None = setting("SM_SGLANG_CONTEXT_LENGTH", "prompt plus answer, in tokens")
    chunked_prefill_size: PositiveInt | None = setting(
        "SM_SGLANG_CHUNKED_PREFILL_SIZE", "prompt tokens prefilled in one step"
    )
    mem_fraction_static: Fraction | None = setting(
        "SM_SGLANG_MEM_FRACTION_STATIC", "share of each GPU's memory for weights and KV cache"
    )
    disable_radix_cache: bool | None = setting("SM_SGLANG_DISABLE_RADIX_CACHE", "do not reuse shared prefixes")


class SglangSpeculative(Speculative):
    """As SGLang's `--speculative-*` have it."""

    branches: PositiveInt = Field(default=1, description="alternatives kept at each proposed token (EAGLE's tree)")
    checked_tokens: PositiveInt | None = Field(
        default=None, description="tokens of the tree checked in one step; default: tokens + 1, a single branch"
    )


class SglangContainer(Container):
    family: Literal["sglang"]
    settings: SglangSettings = Field(default_factory=SglangSettings.model_construct)
    speculative: SglangSpeculative | None = None


def _write_speculative(wanted: SglangSpeculative) -> dict[str, str]:
    flags: dict[str, object] = {"ALGORITHM": _ALGORITHM[wanted.method]}
    if wanted.method == "ngram":
        flags["NUM_DRAFT_TOKENS"] = wanted.tokens
    else:
        flags["NUM_STEPS"] = wanted.tokens
        flags["EAGLE_TOPK"] = wanted.branches
        flags["NUM_DRAFT_TOKENS"] = wanted.checked_tokens or wanted.tokens + 1
    if wanted.draft_model is not None:
        flags["DRAFT_MODEL_PATH"] = wanted.draft_model
    return {f"{_SPECULATIVE}{flag}": str(value) for flag, value in flags.items()}


def _read_speculative(variables: Mapping[str, str]) -> SglangSpeculative | None:
    flags = {flag: variables[f"{_SPECULATIVE}{flag}"] for flag in _FLAGS if f"{_SPECULATIVE}{flag}" in variables}
    draft = flags.get("DRAFT_MODEL_PATH")
    methods = {"EAGLE": "eagle" if draft else "mtp"}
    methods |= {algorithm: method for method, algorithm in _ALGORITHM.items() if algorithm not in methods}
    method = methods.get(flags.get("ALGORITHM", ""))
    named: dict[str, object] = {"method": method, "draft_model": draft}
    if method == "ngram":
        named["tokens"] = flags.get("NUM_DRAFT_TOKENS")
    else:
        named |= {"tokens": flags.get("NUM_STEPS"), "branches": flags.get("EAGLE_TOPK", "1")}
        named["checked_tokens"] = flags.get("NUM_DRAFT_TOKENS")
    try:
        counts = ("tokens", "branches", "checked_tokens")
        whole = {name: int(str(value)) if name in counts else value for name, value in named.items() if value}
        return SglangSpeculative.model_validate(whole)
    except ValueError:
        return None


def _speculative_contradictions(container: SglangContainer, wanted: SglangSpeculative) -> Iterator[Contradiction]:
    """A tree of `branches` at each of `tokens` levels; `checked_tokens` of it are checked, the root among them."""
    yield from draft_contradictions(wanted)
    if wanted.method == "ngram":
        for name in ("branches", "checked_tokens"):
            if name in wanted.model_fields_set:
                yield Contradiction(("speculative", name), f"`{name}` has no use with method ngram", "delete it")
    elif wanted.branches > 1 and wanted.checked_tokens is None:
        found = f"{wanted.branches} branches make a tree, and nothing says how much of it is checked"
        mend = f"add `checked_tokens: {wanted.tokens * wanted.branches + 1}`, or fewer"
        yield Contradiction(("speculative",), found, mend)
    elif wanted.branches == 1 and wanted.checked_tokens not in (None, wanted.tokens + 1):
        found = f"a single branch of {wanted.tokens} tokens checks {wanted.tokens + 1}, found {wanted.checked_tokens}"
        yield Contradiction(("speculative", "checked_tokens"), found, "delete it, or raise branches")


FAMILY = ContainerFamily(
    name="sglang",
    called="SGLang",
    listed=4,
    preferred=4,
    container=SglangContainer,
    settings=SglangSettings,
    former_variables={"HF_MODEL_ID": "model.id or model.source"},
    switched_off=lambda variable: {},  # `true` becomes a bare flag, and `false` is what an unset one is
    holds_longest=False,  # tp_worker.py: max_req_len is the smaller of context and cache
    bare_flags=True,
    suffixed={"context_length": "sglang"},
    words={"chunked_prefill_size": {"-1": _MAX_PREFILL_TOKENS}},
    degree_variables={
        "SM_SGLANG_PP_SIZE": "",
        "SM_SGLANG_PIPELINE_PARALLEL_SIZE": "",
        "SM_SGLANG_DP_SIZE": "SM_SGLANG_ENABLE_DP_ATTENTION",
        "SM_SGLANG_DATA_PARALLEL_SIZE": "SM_SGLANG_ENABLE_DP_ATTENTION",
    },
    model_variables=ModelVariables(
        model="SM_SGLANG_MODEL_PATH",
        revision="SM_SGLANG_REVISION",
        trust_remote_code="SM_SGLANG_TRUST_REMOTE_CODE",
        dtype="SM_SGLANG_DTYPE",
        quantization="SM_SGLANG_QUANTIZATION",
        # deep-learning-containers docs/sglang/deployment/sagemaker.md, "Specifying the Model".
        looked_up=("SM_SGLANG_MODEL_PATH", MOUNTED_WEIGHTS),
        unnamed="set SM_SGLANG_MODEL_PATH, or give model data",
    ),
    quantizations={"fp8": "fp8", "int8": "w8a8_int8", "awq": "awq", "gptq": "gptq", "mxfp4": "mxfp4"},
    speculation=Speculation(
        variables=tuple(f"{_SPECULATIVE}{flag}" for flag in _FLAGS),
        write=_write_speculative,
        read=_read_speculative,
        check=_speculative_contradictions,
    ),
    protocol="openai-chat",  # its /invocations is the chat route: sglang/srt/entrypoints/http_server.py
    image=PublishedImage("sglang", "sglang.json"),
    published=PublishedName(r"sglang", r"sglang(?:[\s/_-]*openai)?", "", as_published),
    longest_setting="context_length",
    sequences_setting="max_running_requests",
    step_tokens_setting="chunked_prefill_size",
    memory_setting="mem_fraction_static",
    memory_share=1.0,
    server_row=lambda settings: "sglang",
    limits=engine_limits,
    frees_past_window=lambda settings: True,
    alike_since=((0, 5),),
    measured_lines=((0, 5),),
    keeps_prompts=lambda settings: settings.disable_radix_cache is not True,
)
