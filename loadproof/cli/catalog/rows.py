"""Rows of the catalog as documents: what `catalog list` and `catalog show` print, as text or as JSON.

A document's keys carry their units. Every one ends with `source`, `date` and `unverified`, the last from the source's
own words; an instance's price has its own three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loadproof import catalog
from loadproof.capacity import roofline
from loadproof.catalog.provenance import unverified
from loadproof.catalog.registries import registries

GIB = 1 << 30
SEQUENCE_TOKENS = 4096  # what the founding formulas are shown for
Document = dict[str, Any]


def accelerator_row(row: catalog.Accelerator) -> Document:
    price = roofline.bandwidth_price(row, catalog.instances().values())
    return {
        "name": row.name,
        "vendor": row.vendor,
        "memory_gib": round(row.memory_bytes / GIB, 1),
        "bandwidth_gb_per_s": row.bandwidth_gb_per_s,
        "bf16_tflops": row.bf16_tflops,
        "fp8_tflops": row.fp8_tflops,
        "critical_batch_size_16_bit": round(roofline.critical_batch_size(row), 1),
        "usd_per_hour_per_gb_per_s": round(price.usd_per_hour_per_gb_per_s, 6) if price else None,
        "cheapest_instance_type": price.instance_type if price else None,
        "price_derived": price.derived if price else None,
        "price_unverified": price.unverified if price else None,
        "source": row.source,
        "date": row.date,
        "unverified": row.unverified,
    }


def accelerator_document(row: catalog.Accelerator) -> Document:
    ranking = roofline.ranked_by_bandwidth_price(catalog.accelerators().values(), catalog.instances().values())
    names = [price.accelerator for price in ranking]
    listed = accelerator_row(row)
    provenance = {key: listed.pop(key) for key in ("source", "date", "unverified")}
    return {
        **listed,
        "link_gb_per_s": row.link_gb_per_s,
        "nvlink": row.nvlink,
        "multiprocessors": row.multiprocessors,
        "min_cuda": row.min_cuda,
        "arithmetic_intensity_flop_per_byte": round(roofline.arithmetic_intensity(row), 1),
        "critical_batch_size_8_bit": round(roofline.critical_batch_size(row, 1), 1),
        "bandwidth_price_rank": names.index(row.name) + 1 if row.name in names else None,
        "bandwidth_prices_known": len(names),
        "instance_types": [each.instance_type for each in catalog.instances().values() if each.accelerator == row.name],
        "note": row.note or None,
        **provenance,
    }


def instance_row(row: catalog.Instance) -> Document:
    return {
        "name": row.instance_type,
        "accelerator": row.accelerator,
        "accelerators": row.accelerator_count,
        "vcpu": row.vcpu,
        "host_memory_gib": row.host_memory_gib,
        "fabric": row.fabric,
        "usd_per_hour": row.usd_per_hour,
        "price_region": row.price_region or None,
        "price_date": row.price_date or None,
        "price_derived": row.price_derived,
        "price_unverified": row.price_unverified,
        "price_source": row.price_source or None,
        "source": row.source,
        "date": row.date,
        "unverified": row.unverified,
    }


def instance_document(row: catalog.Instance) -> Document:
    chip = catalog.accelerator(row.accelerator)
    listed = instance_row(row)
    memory = {"accelerator_memory_gib": round(chip.memory_bytes * row.accelerator_count / GIB, 1)}
    return {"name": row.instance_type, **memory, "local_disk": row.has_local_disk, **listed}


def model_row(row: catalog.Architecture) -> Document:
    packed_bytes = catalog.bytes_per_parameter(row.quantization)
    return {
        "name": row.name,
        "hf_id": row.hf_id,
        "parameters_b": row.parameters_b,
        "active_parameters_b": row.active_parameters_b,
        "weights_16_bit_gb": round(row.parameters_b * 2, 2),
        "quantization": row.quantization,
        "checkpoint_gb": round(catalog.weight_bytes(row, packed_bytes, row.quantization) / 1e9, 2),
        "kv_bytes_per_token_16_bit": round(catalog.KvCache(row, 2).bytes_per_token),
        "context_tokens": row.context,
        "source": row.source,
        "date": row.date or None,
        "unverified": row.unverified,
    }


def model_document(row: catalog.Architecture) -> Document:
    tokens = min(SEQUENCE_TOKENS, row.context)
    listed = model_row(row)
    provenance = {key: listed.pop(key) for key in ("source", "date", "unverified")}
    return {
        **listed,
        "layers": row.layers,
        "hidden": row.hidden,
        "heads": row.heads,
        "kv_heads": row.kv_heads,
        "head_dim": row.head_dim,
        "intermediate": row.intermediate,
        "vocab": row.vocab,
        "experts": row.experts or None,
        "experts_per_token": row.experts_per_token or None,
        "moe_intermediate": row.moe_intermediate or None,
        "sliding_window_tokens": row.sliding_window or None,
        "sliding_window_layers": row.sliding_layers or None,
        "linear_attention_layers": row.linear_layers or None,
        "sequence_state_bytes": row.state_bytes or None,
        "kv_latent_dim": row.kv_latent_dim or None,
        "weights_8_bit_gb": round(row.parameters_b, 2),
        "kv_cache_gib_of_one_sequence": round(catalog.KvCache(row, 2).bytes_of(tokens) / GIB, 3),
        "sequence_tokens": tokens,
        "least_accelerators_16_bit": [_least(chip, row, tokens) for chip in catalog.accelerators().values()],
        **provenance,
    }


def _least(chip: catalog.Accelerator, row: catalog.Architecture, tokens: int) -> Document:
    return {
        "accelerator": chip.name,
        "for_one_sequence": roofline.least_accelerators(chip, row, tokens, batch=1),
        "at_critical_batch": roofline.least_accelerators(chip, row, tokens),
        "critical_batch_size_16_bit": round(roofline.critical_batch_size(chip), 1),
    }


def container_row(row: catalog.ContainerImage) -> Document:
    return {
        "name": f"{row.family}:{row.version}",
        "repository": row.repository,
        "tag": row.tag,
        "cuda": row.cuda,
        "protocol": row.protocol,
        "absent_regions": sorted(row.absent_regions),
        "source": row.source,
        "date": row.date,
        "unverified": unverified(row.source),
    }


def container_document(row: catalog.ContainerImage) -> Document:
    absent = row.absent_regions
    regions = [region for group, region in registries() if group == row.account_group and region not in absent]
    example = "us-east-1" if "us-east-1" in regions else regions[0]
    return {**container_row(row), "example_uri": catalog.image_uri(row, example), "published_regions": len(regions)}


KINDS: Mapping[str, Callable[[], list[Document]]] = {
    "accelerators": lambda: [accelerator_row(row) for row in catalog.accelerators().values()],
    "instances": lambda: [instance_row(row) for row in catalog.instances().values()],
    "models": lambda: [model_row(row) for row in catalog.architectures().values()],
    "containers": lambda: [container_row(row) for row in catalog.container_images()],
}
