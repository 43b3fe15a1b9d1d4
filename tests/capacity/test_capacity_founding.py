"""The founding posts' formulas, worked by hand on round and on real accelerators."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadproof import catalog
from loadproof.capacity.roofline import (
    arithmetic_intensity,
    bandwidth_price,
    critical_batch_size,
    least_accelerators,
    ranked_by_bandwidth_price,
)
from loadproof.catalog import Accelerator, Architecture, KvCache

# 100 TFLOP/s over 500 GB/s, 10 GB of memory.
ROUND = Accelerator(
    *("Round", "nobody", 10_000_000_000, 500.0, 100.0, None, 1.0),
    nvlink=False,
    source="made up",
    note="",
)


def shape(parameters_b: float, kv_heads: int, **more: int) -> Architecture:
    """10 layers with heads of 125: 2 · 10 · kv_heads · 125 · 2 bytes = 5,000 bytes a token and head."""
    return Architecture(
        *("", "", 10, 1000, 8, kv_heads, 125, 4000, 1000, 4096, 0, 0, 0, 2, parameters_b, parameters_b, ""), **more
    )


def llama_7b() -> Architecture:
    found = catalog.architecture("meta-llama/Llama-2-7b-hf")
    assert found is not None
    return found


def test_intensity_is_flops_over_bytes() -> None:
    """100e12 / 500e9 = 200 FLOP a byte; A10G: 70e12 / 600e9 = 116.67; A100-40: 312e12 / 1555e9 = 200.64."""
    assert arithmetic_intensity(ROUND) == 200
    assert arithmetic_intensity(catalog.accelerator("A10G")) == pytest.approx(116.67, abs=0.01)
    assert arithmetic_intensity(catalog.accelerator("A100-40")) == pytest.approx(200.64, abs=0.01)


def test_critical_batch_follows_the_bytes_of_a_parameter() -> None:
    """16 bits: 2 FLOP on 2 bytes, so the intensity itself; 8 bits read half and turn at half the batch."""
    assert critical_batch_size(ROUND) == 200
    assert critical_batch_size(ROUND, 1) == 100
    assert critical_batch_size(ROUND, 4) == 400


def test_least_accelerators_hold_weights_and_critical_batch() -> None:
    """Batch 200 · 1,000 tokens · 20,000 bytes = 4 GB beside 4 GB of weights: one. With 4,000 tokens 16 + 4: two."""
    model = shape(2.0, kv_heads=4)
    assert least_accelerators(ROUND, model, 1000) == 1
    assert least_accelerators(ROUND, model, 4000) == 2
    assert least_accelerators(ROUND, model, 4000, batch=1) == 1


def test_llama_2_7b_at_its_critical_batch_takes_twelve_a10g() -> None:
    """116.67 · 4,096 · 524,288 bytes = 250.5 GB, and 13.5 GB of weights: 264.0 / 23.68 = 11.15, so twelve."""
    assert least_accelerators(catalog.accelerator("A10G"), llama_7b(), 4096) == 12


def test_past_the_heads_accelerators_hold_copies() -> None:
    """One head: each holds all of the cache, 5,000 · 1,000 · 200 = 1 GB; 36 GB of weights over 9 GB spare: four."""
    assert least_accelerators(ROUND, shape(18.0, kv_heads=1), 1000) == 4
    # 2,500 tokens make 2.5 GB: 36 / 7.5 = 4.8, five; 10,000 make 10 GB and leave nothing, however many there are.
    assert least_accelerators(ROUND, shape(18.0, kv_heads=1), 2500) == 5
    assert least_accelerators(ROUND, shape(18.0, kv_heads=1), 10_000) is None


def test_price_of_a_gb_per_second() -> None:
    """A10G: ml.g5.xlarge at 1.408 USD over 600 GB/s = 0.0023467; ml.g5.12xlarge (7.09 over 2,400) is dearer."""
    price = bandwidth_price(catalog.accelerator("A10G"), catalog.instances().values())
    assert price is not None
    assert (price.instance_type, price.usd_per_hour_per_accelerator) == ("ml.g5.xlarge", 1.408)
    assert price.usd_per_hour_per_gb_per_s == pytest.approx(0.0023467, abs=1e-7)
    assert bandwidth_price(ROUND, catalog.instances().values()) is None


def test_ranking_is_cheapest_first_and_leaves_out_what_has_no_price() -> None:
    """Trainium2 has no public price; among the founding posts' two, A100-40 costs less a GB/s than A10G.

    ml.p4d.24xlarge: 25.251286 / (8 · 1,555) = 0.0020298.
    """
    ranking = ranked_by_bandwidth_price(catalog.accelerators().values(), catalog.instances().values())
    names = [price.accelerator for price in ranking]
    figures = [price.usd_per_hour_per_gb_per_s for price in ranking]
    assert figures == sorted(figures)
    assert "Trainium2" not in names
    assert names.index("A100-40") < names.index("A10G")
    assert next(price for price in ranking if price.accelerator == "A100-40").usd_per_hour_per_gb_per_s == (
        pytest.approx(0.0020298, abs=1e-7)
    )


@given(
    st.floats(0.1, 400),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 20_000),
    st.floats(1, 500),
    st.integers(0, 10**6),
)
def test_the_least_count_fits_and_one_less_does_not(
    parameters_b: float, kv_heads: int, tokens: int, batch: float, state: int
) -> None:
    """The definition itself, tried at the answer and just below it."""
    model = shape(parameters_b, kv_heads, state_bytes=state)

    def holds(n: int, slack: float = 1e-9) -> bool:
        cache = KvCache(model, 2, n).bytes_of(tokens)
        return n * ROUND.memory_bytes * (1 + slack) >= parameters_b * 2e9 + n * batch * cache

    least = least_accelerators(ROUND, model, tokens, batch)
    if least is None:
        assert not any(holds(n, -1e-9) for n in (1, 8, 64, 10_000))
    else:
        assert holds(least)
        assert least == 1 or not holds(least - 1, -1e-9)
