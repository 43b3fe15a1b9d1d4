"""Variables and names that a server takes, and that leave nothing to serve (LP389, LP390)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.facts import GB, GIB, architecture_of, known_instances, mean_tokens, weight_bytes
from loadproof.profiles.checks.rule import Found, Placed, component_rule
from loadproof.profiles.schema import HubSource
from loadproof.profiles.settings import accelerators_per_copy
from loadproof.profiles.tree import Path

PREFIXES: Final = ("SM_VLLM_", "SM_SGLANG_", "OPTION_")
BLOCK_TOKENS: Final = 16  # of vLLM's cache where nothing is set
MOST_BLOCK_TOKENS: Final = 256  # the largest that a kernel of its is made for


@component_rule(
    "LP389",
    "Variable that leaves nothing to serve with",
    reason="With LOAD_FORMAT=dummy the weights are random numbers: answers mean nothing, and nobody is told. "
    "CPU_OFFLOAD_GB of all weights, or of more than the host has, reads them over PCIe at every token, some thirty "
    "times as slow. NUM_GPU_BLOCKS_OVERRIDE times BLOCK_SIZE is the whole cache, in tokens: below one request none is "
    "answered. A block is one request's, however few of its tokens are used.",
    mend="Delete the variable: servers measure what there is.",
    severity="warning",
)
def nothing_to_serve_with(placed: Placed) -> Iterator[Found]:
    for name, value in placed.component.container.environment.items():
        prefix = next((one for one in PREFIXES if name.startswith(one)), None)
        if prefix is None:
            continue
        found = _senseless(placed, name.removeprefix(prefix), value.strip(), prefix)
        if found is not None:
            yield Found(placed.at("container", "environment", name), found, "delete it")


def _senseless(placed: Placed, argument: str, value: str, prefix: str) -> str | None:
    if argument == "LOAD_FORMAT":
        return "the weights are random numbers" if value.lower() == "dummy" else None
    if not value.isdecimal():
        return None
    workload, number = placed.profile.workload, int(value)
    request = mean_tokens(workload.first_prompts) + mean_tokens(workload.output_tokens) if placed.is_main else 0
    if argument == "CPU_OFFLOAD_GB":
        return _offloaded(placed, number)
    if argument == "NUM_GPU_BLOCKS_OVERRIDE":
        block = placed.component.container.environment.get(f"{prefix}BLOCK_SIZE", "")
        tokens = number * (int(block) if block.isdecimal() else BLOCK_TOKENS)
        return f"a cache of {tokens:,} tokens holds no request of {request:,.0f}" if tokens < request else None
    if argument == "BLOCK_SIZE" and number > MOST_BLOCK_TOKENS:
        return f"blocks of {number:,} tokens, each for one request of some {request:,.0f}"
    return None


def _offloaded(placed: Placed, gib: int) -> str | None:
    """vLLM counts GiB, on each accelerator."""
    shape, count = architecture_of(placed.component.model), accelerators_per_copy(placed.component)
    weights = weight_bytes(placed.component.model, shape) if shape else 0.0
    if weights and gib * GIB * count >= weights:
        return f"{gib} GiB offload all {weights / GB:.0f} GB of the weights, which every token reads over PCIe"
    host_gib = min((one.host_memory_gib for _, one in known_instances(placed.endpoint)), default=None)
    if host_gib is not None and gib * count > host_gib:
        return f"{gib * count} GiB in the {host_gib:g} GiB of the host"
    return None


@component_rule(
    "LP390",
    "Revision that no repository has",
    reason="Forty zeros are git's word for no commit at all: the hub answers 404, and the copy never starts.",
    mend="Write the commit's hash as the hub shows it, or leave it out.",
)
def no_revision(placed: Placed) -> Iterator[Found]:
    source = placed.component.model.source
    if isinstance(source, HubSource) and source.revision is not None and set(source.revision) == {"0"}:
        place: Path = placed.at("model", "source", "revision")
        yield Found(place, "zeros are no commit", "write the commit's hash")
