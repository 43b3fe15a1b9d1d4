"""Accelerators, instances, models and container images: vendored rows with source and date, and their readers."""

from loadproof.catalog.readers import (
    Accelerator,
    Architecture,
    ContainerImage,
    Instance,
    accelerator,
    accelerators,
    architecture,
    architectures,
    container_image,
    container_images,
    instance,
    instances,
)

__all__ = [
    "Accelerator",
    "Architecture",
    "ContainerImage",
    "Instance",
    "accelerator",
    "accelerators",
    "architecture",
    "architectures",
    "container_image",
    "container_images",
    "instance",
    "instances",
]
