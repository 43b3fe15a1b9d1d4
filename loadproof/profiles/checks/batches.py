"""Batches that the server cannot hold, or that are smaller than what is sent (LP354-LP356, LP388)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.catalog import Architecture
from loadproof.families import FAMILIES
from loadproof.profiles.checks.facts import (
    GB,
    accelerator_of,
    architecture_of,
    known_instances,
    least_step_ms,
    mean_tokens,
    memory_share,
    weight_bytes,
)
from loadproof.profiles.checks.physics import LEAST_PREFILL_TOKENS
from loadproof.profiles.checks.rule import Found, Placed, component_rule
from loadproof.profiles.settings import accelerators_per_copy
from loadproof.profiles.tree import Path

LEAST_FREE_SHARE: Final = 0.01  # CUDA's own context takes some 0.4 to 0.6 GB of 24 to 141
MOST_STATIC_SHARE: Final = 0.95  # of 80 GB 4: SGLang asks for 5 to 8 to be left
TGI_ADMITS: Final = 128  # max_concurrent_requests where nothing is set
FAR_BEYOND: Final = 10  # times the loosest bound
VALUE_BYTES: Final = 2  # of activations and adapters
LORA_RANK: Final = 16  # where nothing is set
LOGIT_BYTES: Final = 4  # the sampler's are fp32
CLEARLY: Final = 2  # times a batch: what waits, waits for a whole answer
LEAST_CHUNK_TOKENS, MANY_CHUNKS = 128, 4  # a GPU computes some hundred tokens while it reads the weights once
MOST_BY_DEFAULT: Final = 1024  # sequences of a batch where nothing is set: vLLM's on a large accelerator
_VLLM: Final = ("vllm", "lmi")
_CHUNKED: Final = (*_VLLM, "sglang")


@component_rule(
    "LP354",
    "Share of the memory that is never free",
    reason="vLLM does not start where less is free than it is to take (`Free memory on device ... is less than desired "
    "GPU memory utilization`), and CUDA's context alone takes half a gigabyte.",
    mend="Write at most 0.98; 0.9 is what servers take by default. SGLang's share leaves out activations and CUDA "
    "graphs, which take gigabytes: at most 0.95.",
)
def no_memory_left(placed: Placed) -> Iterator[Found]:
    share = memory_share(placed.component.container)
    if placed.component.container.family in _VLLM and share > 1 - LEAST_FREE_SHARE:
        found = f"{share:g} of the memory is never free: CUDA's context is in it"
        yield Found(_path(placed, "memory_setting"), found, "write at most 0.98, or leave it out")
    elif placed.component.container.family == "sglang" and MOST_STATIC_SHARE < share < 1:
        found = f"{share:g} of the memory for weights and cache leave activations and CUDA graphs too little"
        yield Found(_path(placed, "memory_setting"), found, "write at most 0.95, or leave it out", "warning")


@component_rule(
    "LP355",
    "Batch that alone exceeds the memory",
    reason="vLLM warms its sampler up with as many sequences as a batch may hold (`CUDA out of memory occurred when "
    "warming up sampler`): sequences · vocabulary · 4 bytes, beside the weights. It tries a step of the most tokens: "
    "tokens · 2 · intermediate · 2 bytes for one layer's. And it keeps room for max_loras adapters of max_lora_rank: "
    "rank · (inputs + outputs of every projection) · 2 bytes each.",
    mend="Write hundreds of sequences, thousands of tokens and some adapters: what is in flight at most.",
)
def logits_too_large(placed: Placed) -> Iterator[Found]:
    most, shape = _count(placed, "sequences_setting") or 0, architecture_of(placed.component.model)
    settings = placed.component.container.settings
    if shape is None or placed.component.container.family not in _VLLM:
        return
    logits = float(most) * shape.vocab * LOGIT_BYTES
    count = accelerators_per_copy(placed.component)
    memories = [
        accelerator_of(one).memory_bytes * min(count, one.accelerator_count)
        for _, one in known_instances(placed.endpoint)
    ]
    if memories and logits > min(memories):
        found = f"{most:,} sequences have logits of {logits / GB:,.0f} GB, in {min(memories) / GB:,.0f} GB of memory"
        yield Found(_path(placed, "sequences_setting"), found, "write what is in flight at most")
    left = min(memories, default=0.0) - weight_bytes(placed.component.model, shape)
    if left <= 0 or shape.experts or shape.kv_latent_dim or shape.linear_layers:  # of other projections
        return
    step, adapters = _count(placed, "step_tokens_setting") or 0, getattr(settings, "max_loras", None) or 0
    activations = 2 * shape.intermediate * VALUE_BYTES * step
    if activations > left:
        found = f"{step:,} tokens a step take {activations / GB:,.0f} GB in a layer, and weights leave {left / GB:,.0f}"
        yield Found(_path(placed, "step_tokens_setting"), found, "write thousands: 2,048 to 16,384")
    rank = max((one.rank or 0 for one in placed.component.adapters), default=0)
    rank = getattr(settings, "max_lora_rank", None) or max(rank, LORA_RANK)
    loras = adapters * rank * _sides(shape) * VALUE_BYTES
    if loras > left:
        found = (
            f"{adapters:,} adapters of rank {rank} take {loras / GB:,.0f} GB, and the weights leave {left / GB:,.0f}"
        )
        mend = "write how many are asked for at once"
        yield Found(placed.at("container", "settings", "max_loras"), found, mend)


def _sides(shape: Architecture) -> int:
    """Inputs and outputs of all projections: query and output, key and value, gate, up and down."""
    query, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = 2 * (shape.hidden + query) + 2 * (shape.hidden + keys)
    return shape.layers * (attention + 3 * (shape.hidden + shape.intermediate))


@component_rule(
    "LP356",
    "Batch that does not go with what is sent",
    reason="Requests beyond a batch wait until an answer in it has ended, and the objectives are proven with all of "
    "them in flight. A step below the sequences of a batch serves some of them in turn, and one of few tokens reads "
    "all weights for each few of a prompt; one above all their tokens, or adapters beyond the sequences, are memory "
    "for nothing.",
    mend="Let a copy's batch hold what is in flight on it, and a step hold its sequences and hundreds of tokens.",
    severity="warning",
)
def batch_beside_load(placed: Placed) -> Iterator[Found]:
    in_flight = placed.profile.objectives.at_concurrency if placed.is_main else 0  # the main model's alone
    endpoint = placed.endpoint
    each_an_instance = endpoint.hosting == "plain_variant"
    copies = max(1, endpoint.min_instances if each_an_instance else placed.component.copies.min)
    sequences, step, longest = (
        _count(placed, name) for name in ("sequences_setting", "step_tokens_setting", "longest_setting")
    )
    if sequences is not None and in_flight > CLEARLY * sequences * copies:
        found = f"{in_flight} in flight, of which {sequences * copies} are in a batch and the others wait"
        mend = f"write at least {-(-in_flight // copies)}, or lower objectives.at_concurrency"
        yield Found(_path(placed, "sequences_setting"), found, mend)
    read = placed.is_main and placed.component.container.family in _CHUNKED
    prompt = mean_tokens(placed.profile.workload.first_prompts) if read else 0
    if step is not None and LEAST_PREFILL_TOKENS <= step < LEAST_CHUNK_TOKENS and prompt > MANY_CHUNKS * step:
        found = f"a prompt of {prompt:,.0f} tokens takes {-(-prompt // step):,.0f} steps of {step}"
        yield Found(_path(placed, "step_tokens_setting"), found, "write 2,048 or more, or leave it out")
    if placed.component.container.family not in _VLLM:
        return
    path, batch = _path(placed, "step_tokens_setting"), sequences or MOST_BY_DEFAULT
    if step is not None and sequences is None and step < in_flight:
        yield Found(path, f"{step} tokens a step for {in_flight} in flight", "write 2,048 or more, or leave it out")
    if step is not None and longest is not None and step > batch * longest:
        found = f"{step:,} tokens a step are more than {batch:,} requests of {longest:,} have"
        yield Found(path, found, f"write at most {batch * longest:,}, or leave it out")
    loras = getattr(placed.component.container.settings, "max_loras", None)
    if loras is not None and loras > batch:
        found = f"{loras:,} adapters at once in batches of {batch:,} sequences at most"
        yield Found(placed.at("container", "settings", "max_loras"), found, "write how many are asked for at once")


@component_rule(
    "LP388",
    "Server that turns its callers away",
    reason="LMI answers 503 to what finds its queue full, and the objectives are proven with that many at once. TGI "
    "lets waiting requests in when they are waiting_served_ratio times those at work, of which it admits "
    "max_concurrent_requests, or after max_waiting_tokens steps: until then they wait behind whole answers.",
    mend="Leave the setting out, or write a queue of hundreds, a ratio around 1 and some tens of steps.",
    severity="warning",
)
def turned_away(placed: Placed) -> Iterator[Found]:
    settings, profile = placed.component.container.settings, placed.profile
    queue, in_flight = getattr(settings, "job_queue_size", None), profile.objectives.at_concurrency
    if placed.is_main and queue is not None and queue < in_flight / max(1, placed.component.copies.min):
        found = f"a queue of {queue} for {in_flight} requests that may come at once"
        yield Found(placed.at("container", "settings", "job_queue_size"), found, "write hundreds, or leave it out")
    ratio = getattr(settings, "waiting_served_ratio", None)
    admitted = getattr(settings, "max_concurrent_requests", None) or TGI_ADMITS
    if ratio is not None and ratio > admitted:
        found = f"{ratio:g} times as many waiting as at work, where {admitted} are admitted"
        yield Found(placed.at("container", "settings", "waiting_served_ratio"), found, "write about 1, or leave it out")
    steps, step_ms = getattr(settings, "max_waiting_tokens", None), min(least_step_ms(placed), default=0.0)
    bounds = [bound for name, bound in profile.objectives.bounds.items() if name.startswith(("ttft_", "e2e_"))]
    if steps is not None and bounds and steps * step_ms > FAR_BEYOND * max(bounds):
        found = f"{steps:,} steps of at least {step_ms:.0f} ms before a waiting request is let in"
        yield Found(placed.at("container", "settings", "max_waiting_tokens"), found, "write some tens, or leave it out")


def _count(placed: Placed, which: str) -> int | None:
    container = placed.component.container
    family = FAMILIES[container.family]
    count: int | None = family.value(container.settings, getattr(family, which))
    return count


def _path(placed: Placed, which: str) -> Path:
    return placed.at("container", "settings", getattr(FAMILIES[placed.component.container.family], which))
