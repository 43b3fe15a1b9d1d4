"""The founding posts' own formulas: what an accelerator's datasheet alone says about serving a model.

Source: AWS Machine Learning Blog, "Benchmark and optimize endpoint deployment in Amazon SageMaker JumpStart"
(2024-01-29): decoding is bound by memory bandwidth until the batch reaches the accelerator's arithmetic intensity,
and the KV cache bounds the batch. They know no server, no fabric and no overhead; `StepTimes` does. They are shown
because they explain a choice of accelerator in one line, and are no predictions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from loadproof.catalog import Accelerator, Architecture, Instance, KvCache, weight_bytes


@dataclass(frozen=True, slots=True)
class BandwidthPrice:
    """What memory bandwidth costs on the instance type where an accelerator is cheapest."""

    accelerator: str
    instance_type: str
    usd_per_hour_per_accelerator: float
    usd_per_hour_per_gb_per_s: float
    derived: bool
    unverified: bool


def arithmetic_intensity(accelerator: Accelerator) -> float:
    """FLOP per byte = FLOP/s / (byte/s): the work an accelerator can do on a byte while it reads the next one."""
    return accelerator.bf16_tflops * 1e12 / (accelerator.bandwidth_gb_per_s * 1e9)


def critical_batch_size(accelerator: Accelerator, bytes_per_parameter: float = 2.0) -> float:
    """Sequences at which a decode step turns from bandwidth-bound to compute-bound.

    A step reads each parameter once (`bytes_per_parameter`) and does 2 FLOP with it for every sequence, so its
    intensity is `2 · batch / bytes_per_parameter`; equal to the accelerator's at
    `batch = intensity · bytes_per_parameter / 2`. In 16 bits that is the intensity itself. The KV cache's own reads,
    which no batch shares, are left out.
    """
    return arithmetic_intensity(accelerator) * bytes_per_parameter / 2


def least_accelerators(
    accelerator: Accelerator,
    shape: Architecture,
    sequence_tokens: int,
    batch: float | None = None,
    *,
    bytes_per_parameter: float = 2.0,
    bytes_per_value: float = 2.0,
) -> int | None:
    """The fewest N with `N · memory ≥ weights + N · batch · cache of one sequence on each`.

    `batch` None: the critical batch size, past which more sequences cost as much as they bring. Up to as many
    accelerators as there are key-value heads each takes its share of the cache, so N = ⌈(weights + batch · cache) /
    memory⌉; past them every further one holds copies of heads. None where no N is enough.
    """
    count = critical_batch_size(accelerator, bytes_per_parameter) if batch is None else batch
    weights = weight_bytes(shape, bytes_per_parameter)

    def holds(n: int) -> bool:
        cache = KvCache(shape, bytes_per_value, n).bytes_of(sequence_tokens)
        return n * accelerator.memory_bytes >= weights + n * count * cache

    # Past the heads only weights and state are still divided: what does not fit then is found in one step more.
    shares = max(1, 1 if shape.kv_latent_dim else shape.kv_heads)
    for n in range(1, shares + 1):
        if holds(n):
            return n
    spare = accelerator.memory_bytes - count * (
        KvCache(shape, bytes_per_value, shares).bytes_of(sequence_tokens) - shape.state_bytes / shares
    )
    needed = weights + count * shape.state_bytes
    return ceil(needed / spare) if spare > 0 else None


def bandwidth_price(accelerator: Accelerator, instances: Iterable[Instance]) -> BandwidthPrice | None:
    """USD an hour for each GB/s = instance price / (accelerators · bandwidth), on the cheapest instance type.

    None where no instance type with that accelerator has a known price.
    """
    prices = [
        BandwidthPrice(
            accelerator=accelerator.name,
            instance_type=instance.instance_type,
            usd_per_hour_per_accelerator=instance.usd_per_hour / instance.accelerator_count,
            usd_per_hour_per_gb_per_s=instance.usd_per_hour
            / (instance.accelerator_count * accelerator.bandwidth_gb_per_s),
            derived=instance.price_derived,
            unverified=instance.price_unverified,
        )
        for instance in instances
        if instance.accelerator == accelerator.name and instance.usd_per_hour is not None
    ]
    return min(prices, key=lambda price: price.usd_per_hour_per_gb_per_s, default=None)


def ranked_by_bandwidth_price(
    accelerators: Iterable[Accelerator], instances: Iterable[Instance]
) -> list[BandwidthPrice]:
    """Accelerators by what a GB/s of theirs costs, cheapest first; those without a known price are left out."""
    known = list(instances)
    found = [price for each in accelerators if (price := bandwidth_price(each, known)) is not None]
    return sorted(found, key=lambda price: (price.usd_per_hour_per_gb_per_s, price.accelerator))
