"""Settings of one server that contradict each other (LP230-LP233, LP238-LP239)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.rule import Finding, Placed, rule
from loadproof.profiles.schema import (
    LmiSettings,
    SglangSpeculative,
    Speculative,
    TgiSettings,
    VllmSettings,
    VllmSpeculative,
)
from loadproof.profiles.secrets import shown
from loadproof.profiles.settings import MOUNTED_WEIGHTS
from loadproof.profiles.tree import Path


@rule(
    "LP230",
    "TGI token limits contradict each other",
    reason="TGI stops at start-up: an answer needs room past the prompt, and a prompt must fit a prefill and a batch.",
    fix="max_input_tokens < max_total_tokens ≤ max_batch_total_tokens, max_input_tokens ≤ max_batch_prefill_tokens.",
    scope="component",
)
def tgi_limits(placed: Placed) -> Iterator[Finding]:
    settings = placed.component.container.settings
    if not isinstance(settings, TgiSettings):
        return
    prompt, total = settings.max_input_tokens, settings.max_total_tokens
    prefill, batch = settings.max_batch_prefill_tokens, settings.max_batch_total_tokens
    if prompt is not None and total is not None and total <= prompt:
        found = f"max_total_tokens {total} leaves no room past max_input_tokens {prompt}"
        yield Finding(_at(placed, "max_total_tokens"), found, f"write more than {prompt}")
    if prompt is not None and prefill is not None and prefill < prompt:
        found = f"max_batch_prefill_tokens {prefill} cannot hold a prompt of max_input_tokens {prompt}"
        yield Finding(_at(placed, "max_batch_prefill_tokens"), found, f"write at least {prompt + 50}, or leave it out")
    if batch is not None and total is not None and batch < total:
        found = f"max_batch_total_tokens {batch} cannot hold one request of max_total_tokens {total}"
        yield Finding(_at(placed, "max_batch_total_tokens"), found, f"write at least {total}, or leave it out")


@rule(
    "LP231",
    "Rolling and dynamic batching mixed",
    reason="LMI batches continuously (rolling) or by time (dynamic); fields of the other kind are ignored.",
    fix="Use batch_size and max_batch_delay_ms with rolling_batch: disable, max_rolling_batch_* otherwise.",
    scope="component",
)
def lmi_batching(placed: Placed) -> Iterator[Finding]:
    settings = placed.component.container.settings
    if not isinstance(settings, LmiSettings):
        return
    rolling = ("max_rolling_batch_size", "max_rolling_batch_prefill_tokens")
    dynamic = ("batch_size", "max_batch_delay_ms")
    off = settings.rolling_batch == "disable"
    for name in rolling if off else dynamic:
        if getattr(settings, name) is not None:
            found = f"`{name}` has no use with rolling_batch {'disable' if off else settings.rolling_batch or 'auto'}"
            mend = "delete it, or write rolling_batch: auto" if off else "delete it, or write rolling_batch: disable"
            yield Finding(_at(placed, name), found, mend)
    if settings.paged_attention is False and settings.rolling_batch in (None, "auto", "vllm"):
        found = "vLLM always pages its KV cache"
        yield Finding(_at(placed, "paged_attention"), found, "delete it", "warning")


@rule(
    "LP232",
    "Step too small for a request",
    reason="Without chunked prefill a whole prompt runs in one step, and each sequence needs a token in it.",
    fix="Raise max_num_batched_tokens, or leave chunked prefill on.",
    scope="component",
)
def vllm_step(placed: Placed) -> Iterator[Finding]:
    settings = placed.component.container.settings
    if not isinstance(settings, VllmSettings) or settings.max_num_batched_tokens is None:
        return
    step, longest, sequences = settings.max_num_batched_tokens, settings.max_model_len, settings.max_num_seqs
    path = _at(placed, "max_num_batched_tokens")
    if settings.enable_chunked_prefill is False and longest is not None and step < longest:
        found = f"{step} tokens a step cannot hold a prompt of max_model_len {longest} without chunked prefill"
        yield Finding(path, found, f"write at least {longest}, or enable_chunked_prefill: true")
    if sequences is not None and step < sequences:
        found = f"{step} tokens a step are fewer than max_num_seqs {sequences}"
        yield Finding(path, found, f"write at least {sequences}")


@rule(
    "LP233",
    "Engine the image no longer has",
    reason="LMI 15 (0.33) removed lmi-dist; TensorRT-LLM lives in images of its own up to 0.33.",
    fix="Use auto or vllm, or give an image that has the engine.",
    scope="component",
)
def lmi_engine(placed: Placed) -> Iterator[Finding]:
    container = placed.component.container
    if not isinstance(container.settings, LmiSettings) or container.image is not None:
        return
    engine = container.settings.rolling_batch
    if engine == "lmi-dist":
        yield Finding(_at(placed, "rolling_batch"), "lmi-dist was removed in LMI 0.33", "write auto")
    if engine == "trtllm":
        found = "the catalog's LMI images have no TensorRT-LLM"
        yield Finding(_at(placed, "rolling_batch"), found, "write auto, or give container.image of a -tensorrtllm tag")


@rule(
    "LP238",
    "Speculative decoding that its method cannot do",
    reason="The server stops at start-up, or ignores the field and proposes nothing.",
    fix="Name a draft for draft_model, eagle and eagle3, and only there; a field of another method goes.",
    scope="component",
)
def speculative_fields(placed: Placed) -> Iterator[Finding]:
    wanted = getattr(placed.component.container, "speculative", None)
    if not isinstance(wanted, Speculative):
        return
    path, method = placed.at("container", "speculative"), wanted.method
    drafted = method in ("draft_model", "eagle", "eagle3")
    if drafted and wanted.draft_model is None:
        yield Finding(path, f"method {method} needs `draft_model`", "add `draft_model: /opt/ml/model/draft`")
    if not drafted and wanted.draft_model is not None:
        yield Finding((*path, "draft_model"), f"method {method} proposes without a draft model", "delete it")
    if isinstance(wanted, VllmSpeculative):
        if method != "ngram" and wanted.longest_ngram_tokens is not None:
            found = f"`longest_ngram_tokens` has no use with method {method}"
            yield Finding((*path, "longest_ngram_tokens"), found, "delete it, or write method: ngram")
        if not drafted and wanted.draft_tensor_parallel_degree is not None:
            found = f"`draft_tensor_parallel_degree` has no use with method {method}"
            yield Finding((*path, "draft_tensor_parallel_degree"), found, "delete it")
    if isinstance(wanted, SglangSpeculative):
        yield from _tree(path, wanted)
    engine = getattr(placed.component.container.settings, "rolling_batch", None)
    if engine in ("disable", "trtllm"):
        yield Finding(path, f"rolling_batch {engine} has no vLLM that speculates", "write rolling_batch: auto")


def _tree(path: Path, wanted: SglangSpeculative) -> Iterator[Finding]:
    """A tree of `branches` at each of `tokens` levels; `checked_tokens` of it are checked, the root among them."""
    if wanted.method == "ngram":
        for name in ("branches", "checked_tokens"):
            if name in wanted.model_fields_set:
                yield Finding((*path, name), f"`{name}` has no use with method ngram", "delete it")
    elif wanted.branches > 1 and wanted.checked_tokens is None:
        found = f"{wanted.branches} branches make a tree, and nothing says how much of it is checked"
        yield Finding(path, found, f"add `checked_tokens: {wanted.tokens * wanted.branches + 1}`, or fewer")
    elif wanted.branches == 1 and wanted.checked_tokens not in (None, wanted.tokens + 1):
        found = f"a single branch of {wanted.tokens} tokens checks {wanted.tokens + 1}, found {wanted.checked_tokens}"
        yield Finding((*path, "checked_tokens"), found, "delete it, or raise branches")


@rule(
    "LP239",
    "Draft model out of reach",
    reason="Network isolation keeps the server from the hub: it stays Creating until its time-out.",
    fix="Put the draft into the artifact beside the model, and name its folder under /opt/ml/model.",
    scope="component",
)
def draft_out_of_reach(placed: Placed) -> Iterator[Finding]:
    wanted = getattr(placed.component.container, "speculative", None)
    if not isinstance(wanted, Speculative) or wanted.draft_model is None:
        return
    if placed.endpoint.network_isolation and not wanted.draft_model.startswith(f"{MOUNTED_WEIGHTS}/"):
        found = f"a draft from the hub needs network, network_isolation is true; found `{shown(wanted.draft_model)}`"
        mend = f"write a folder of the artifact such as {MOUNTED_WEIGHTS}/draft, or network_isolation: false"
        yield Finding(placed.at("container", "speculative", "draft_model"), found, mend)


def _at(placed: Placed, name: str) -> tuple[str | int, ...]:
    return placed.at("container", "settings", name)


RULES: Final = (tgi_limits, lmi_batching, vllm_step, lmi_engine, speculative_fields, draft_out_of_reach)
