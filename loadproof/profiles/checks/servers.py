"""Settings of one server that contradict each other (LP230-LP233)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.rule import Finding, Placed, rule
from loadproof.profiles.schema import LmiSettings, TgiSettings, VllmSettings


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


def _at(placed: Placed, name: str) -> tuple[str | int, ...]:
    return placed.at("container", "settings", name)


RULES: Final = (tgi_limits, lmi_batching, vllm_step, lmi_engine)
