"""Accelerators, instances, models and container images: vendored rows with source and date, and their readers."""

from loadproof.catalog.addresses import price_addresses
from loadproof.catalog.architecture import Architecture, KvCache
from loadproof.catalog.formats import FormatRow, format_on
from loadproof.catalog.models import (
    architecture,
    architectures,
    is_gated,
    is_packed,
    model_ids,
    named_quantization,
    near_models,
    published_elsewhere,
)
from loadproof.catalog.readers import (
    Accelerator,
    ContainerImage,
    HostImage,
    Instance,
    accelerator,
    accelerators,
    container_image,
    container_images,
    host_images,
    instance,
    instance_regions,
    instances,
    regions_without,
)
from loadproof.catalog.registries import image_uri, layer_arn, misspelt_region, registry
from loadproof.catalog.weights import bytes_per_parameter, weight_bytes

__all__ = [
    "Accelerator",
    "Architecture",
    "ContainerImage",
    "FormatRow",
    "HostImage",
    "Instance",
    "KvCache",
    "accelerator",
    "accelerators",
    "architecture",
    "architectures",
    "bytes_per_parameter",
    "container_image",
    "container_images",
    "format_on",
    "host_images",
    "image_uri",
    "instance",
    "instance_regions",
    "instances",
    "is_gated",
    "is_packed",
    "layer_arn",
    "misspelt_region",
    "model_ids",
    "named_quantization",
    "near_models",
    "price_addresses",
    "published_elsewhere",
    "regions_without",
    "registry",
    "weight_bytes",
]
