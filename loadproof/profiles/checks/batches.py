"""Batches that the server cannot hold, or that are smaller than what is sent (LP354-LP356)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.families import FAMILIES
from loadproof.profiles.checks.facts import (
    GB,
    accelerator_of,
    architecture_of,
    known_instances,
    mean_tokens,
    memory_share,
)
from loadproof.profiles.checks.physics import LEAST_PREFILL_TOKENS
from loadproof.profiles.checks.rule import Found, Placed, component_rule
from loadproof.profiles.settings import accelerators_per_copy
from loadproof.profiles.tree import Path

LEAST_FREE_SHARE: Final = 0.01  # CUDA's own context takes some 0.4 to 0.6 GB of 24 to 141
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
    mend="Write at most 0.98; 0.9 is what servers take by default.",
)
def no_memory_left(placed: Placed) -> Iterator[Found]:
    share = memory_share(placed.component.container)
    if placed.component.container.family in _VLLM and share > 1 - LEAST_FREE_SHARE:
        found = f"{share:g} of the memory is never free: CUDA's context is in it"
        yield Found(_path(placed, "memory_setting"), found, "write at most 0.98, or leave it out")


@component_rule(
    "LP355",
    "Batch whose logits alone exceed the memory",
    reason="vLLM warms its sampler up with as many sequences as a batch may hold (`CUDA out of memory occurred when "
    "warming up sampler`): sequences · vocabulary · 4 bytes, beside the weights.",
    mend="Write hundreds: what is in flight at most.",
)
def logits_too_large(placed: Placed) -> Iterator[Found]:
    most, shape = _count(placed, "sequences_setting"), architecture_of(placed.component.model)
    if most is None or shape is None or placed.component.container.family not in _VLLM:
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


def _count(placed: Placed, which: str) -> int | None:
    container = placed.component.container
    family = FAMILIES[container.family]
    count: int | None = family.value(container.settings, getattr(family, which))
    return count


def _path(placed: Placed, which: str) -> Path:
    return placed.at("container", "settings", getattr(FAMILIES[placed.component.container.family], which))
