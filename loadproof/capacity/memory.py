"""Does one copy fit, and how many tokens of KV cache are left? All figures are of one accelerator of the copy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from loadproof import catalog
from loadproof.capacity.deployment import PlannedDeployment
from loadproof.catalog import KvCache
from loadproof.families import BatchLimits

GIB = 1 << 30
# What the prediction of free memory is uncertain by, per accelerator: the spread the calibration rows show.
UNCERTAINTY_GIB = 1.5

Fits = Literal["yes", "marginal", "no"]


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """The memory of each accelerator of a copy, in GiB, and the tokens of KV cache the whole copy can hold.

    `usable = memory · memory_fraction = weights + reserve + activations + kv_cache`; `kv_cache_gib` is negative where
    the weights alone do not fit. `margin_gib` is the KV cache left after the longest request the server admits.
    """

    fits: Fits
    memory_gib: float
    usable_gib: float
    weights_gib: float
    reserve_gib: float
    activations_gib: float
    kv_cache_gib: float
    longest_request_tokens: int
    margin_gib: float
    kv_token_capacity: int


def weight_bytes(deployment: PlannedDeployment) -> float:
    """Bytes of the whole model, as its weights are stored (`catalog.weight_bytes`)."""
    return catalog.weight_bytes(deployment.architecture, deployment.weight_bytes_per_parameter, deployment.quantization)


def kv_cache(deployment: PlannedDeployment) -> KvCache:
    """What one sequence's cache takes on each accelerator: the formula the profile's checks use too."""
    return KvCache(
        deployment.architecture,
        deployment.kv_bytes_per_value,
        deployment.accelerators,
        windowed=deployment.frees_past_window,
    )


def kv_bytes_per_token(deployment: PlannedDeployment) -> float:
    """KV bytes per token = 2 · layers · kv_heads · head_dim · dtype_bytes (over the whole copy).

    Source: the key and the value of every layer's kv heads; grouped-query attention has kv_heads < heads. Layers with
    linear attention keep none, latent attention one vector (`catalog.Architecture`).
    """
    return KvCache(deployment.architecture, deployment.kv_bytes_per_value).bytes_per_token


def kv_bytes_per_token_per_accelerator(deployment: PlannedDeployment) -> float:
    """KV bytes per token on each accelerator = KV bytes per token / min(accelerators, kv_heads).

    Heads are sharded; more accelerators than kv heads hold copies of the same heads.
    """
    return kv_cache(deployment).bytes_per_token


def activation_bytes(deployment: PlannedDeployment) -> float:
    """Peak activations of one prefill step = tokens · (4 · hidden + 3 · intermediate / accelerators) · 2 bytes.

    The largest layer is live once: residual, attention input and output, and the sharded feed-forward block's gate,
    up and product. An estimate (frameworks differ by what they fuse), inside the stated uncertainty.
    """
    shape = deployment.architecture
    width = 4 * shape.hidden + 3 * max(shape.intermediate, shape.moe_intermediate) / deployment.accelerators
    return deployment.limits.step_prefill_tokens * width * 2


def memory_fit(deployment: PlannedDeployment, request_tokens: float | None = None) -> MemoryFit:
    """How the memory of each accelerator divides: `no` when the longest request does not fit, `marginal` when it does
    by less than the prediction's own uncertainty (`UNCERTAINTY_GIB`).

    `kv_token_capacity = kv cache / KV bytes per token`. A sliding window makes a long request's tokens cheaper, and a
    state of fixed size a short one's dearer: with `request_tokens`, the capacity in requests of that length,
    `kv cache / bytes of one · its tokens`; without, every token is counted as one inside the window.
    """
    memory = deployment.accelerator.memory_bytes
    usable = memory * deployment.memory_fraction
    weights = weight_bytes(deployment) / deployment.accelerators
    if deployment.speculation is not None:
        weights += deployment.speculation.draft_bytes / deployment.accelerators
    reserve = deployment.server.reserve_gib * GIB
    activations = activation_bytes(deployment)
    cache = kv_cache(deployment)
    per_token = cache.bytes_of(request_tokens) / request_tokens if request_tokens else cache.bytes_per_token
    kv_room = usable - weights - reserve - activations
    capacity = max(0, int(kv_room / per_token))
    if deployment.limits.batch_total_tokens is not None:
        capacity = min(capacity, deployment.limits.batch_total_tokens)
    longest = deployment.limits.max_request_tokens or 1
    margin = kv_room - cache.bytes_of(longest)
    fits: Fits = "no" if margin < 0 else "marginal" if margin < UNCERTAINTY_GIB * GIB else "yes"
    return MemoryFit(
        fits=fits,
        memory_gib=memory / GIB,
        usable_gib=usable / GIB,
        weights_gib=weights / GIB,
        reserve_gib=reserve / GIB,
        activations_gib=activations / GIB,
        kv_cache_gib=kv_room / GIB,
        longest_request_tokens=longest,
        margin_gib=margin / GIB,
        kv_token_capacity=capacity,
    )


def batch_limits(deployment: PlannedDeployment, request_tokens: float | None = None) -> BatchLimits:
    """The deployment's limits with the KV capacity its memory leaves: what a ContinuousBatcher is made with.

    `request_tokens` as for `memory_fit`: give it where requests are alike.
    """
    return replace(deployment.limits, kv_token_capacity=memory_fit(deployment, request_tokens).kv_token_capacity)
