"""Typed access to the vendored rows. Facts are rows with a source, never subclasses.

The files in `data/` are read once, on first use. Empty cells are None: a price nobody published is not 0.
"""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from loadproof.catalog.architecture import Architecture
from loadproof.catalog.provenance import unverified
from loadproof.errors import InputError

DATA = Path(__file__).parent / "data"

# Instance families with NVMe disks on the machine. Source: EC2 instance type pages.
LOCAL_DISK_FAMILIES = frozenset(
    [
        "g4dn",
        "g5",
        "g6",
        "g6e",
        "g7",
        "g7e",
        "p4d",
        "p4de",
        "p5",
        "p5e",
        "p5en",
        "p6-b200",
        "p6-b300",
        "p6e-gb200",
        "trn1",
        "trn1n",
        "trn2",
    ]
)
Row = Mapping[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One GPU or Neuron chip. Bandwidths in GB/s (1e9), memory in bytes, compute in TFLOP/s (dense)."""

    name: str
    vendor: str
    memory_bytes: int
    bandwidth_gb_per_s: float
    bf16_tflops: float
    fp8_tflops: float | None
    link_gb_per_s: float
    nvlink: bool
    source: str
    note: str
    multiprocessors: int | None = None  # streaming multiprocessors of a GPU; None for Neuron
    date: str = ""
    min_cuda: str | None = None  # first CUDA that knows the chip, for image and host; None where every one here does

    @property
    def unverified(self) -> bool:
        return unverified(self.source)


@dataclass(frozen=True, slots=True)
class Instance:
    """One SageMaker instance type. `usd_per_hour` is None where no on-demand price is known."""

    instance_type: str
    family: str
    accelerator: str
    accelerator_count: int
    fabric: str
    vcpu: int
    host_memory_gib: float
    usd_per_hour: float | None
    price_region: str
    price_source: str
    price_derived: bool
    source: str
    price_date: str = ""  # when that price was seen, as exactly as known: `2026-08-17`, `2026-07`, `2026`
    date: str = ""

    @property
    def unverified(self) -> bool:
        return unverified(self.source)

    @property
    def price_unverified(self) -> bool:
        return unverified(self.price_source)

    @property
    def has_local_disk(self) -> bool:
        """True for NVMe disks of its own: SageMaker then refuses a volume size and a key for it."""
        return self.family in LOCAL_DISK_FAMILIES


@dataclass(frozen=True, slots=True)
class ContainerImage:
    """One published serving image. `cuda` is None for images without CUDA."""

    family: str
    version: str
    account_group: str
    repository: str
    tag: str
    cuda: str | None
    protocol: str
    absent_regions: frozenset[str]  # regions that have an account but not this tag
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class HostImage:
    """One SageMaker host image (InferenceAmiVersion). `cuda` is its driver's own version, None on Neuron.

    `starts_cuda`: the CUDA generations (`12`) whose images are known to start on it.
    """

    ami_version: str
    vendor: str
    driver: str
    cuda: str | None
    source: str
    date: str
    starts_cuda: frozenset[str] = frozenset()


def rows(file_name: str) -> list[Row]:
    with (DATA / file_name).open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def _optional(cell: str) -> float | None:
    return float(cell) if cell else None


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Accelerators by name (`A10G`)."""
    return {
        row["accelerator"]: Accelerator(
            name=row["accelerator"],
            vendor=row["vendor"],
            memory_bytes=int(float(row["mem_bytes_usable"])),
            bandwidth_gb_per_s=float(row["bw_GBps"]),
            bf16_tflops=float(row["bf16_dense_tflops"]),
            fp8_tflops=_optional(row["fp8_dense_tflops"]),
            link_gb_per_s=float(row["link_GBps_per_dir_per_gpu"]),
            nvlink=row["nvlink"] == "1",
            source=row["source"],
            note=row["note"],
            multiprocessors=int(row["sm_count"]) if row["sm_count"] else None,
            date=row["date"],
            min_cuda=row["min_cuda"] or None,
        )
        for row in rows("accelerators.csv")
    }


@cache
def instances() -> Mapping[str, Instance]:
    """Instance types by name (`ml.g5.12xlarge`)."""
    return {
        row["instance_type"]: Instance(
            instance_type=row["instance_type"],
            family=row["family"],
            accelerator=row["accelerator"],
            accelerator_count=int(row["accelerator_count"]),
            fabric=row["gpu_fabric"],
            vcpu=int(row["vcpu"]),
            host_memory_gib=float(row["host_mem_gib"]),
            usd_per_hour=_optional(row["usd_per_hour_sagemaker"]),
            price_region=row["price_region"],
            price_source=row["price_source"],
            price_derived=row["price_derived"] == "yes",
            source=row["shape_source"],
            price_date=row["price_date"],
            date=row["date"],
        )
        for row in rows("instances.csv")
    }


@cache
def instance_regions() -> Mapping[str, frozenset[str]]:
    """Regions that offer an instance type for hosting; no entry where nobody published it."""
    return {row["instance_type"]: frozenset(row["regions"].split()) for row in rows("instance_regions.csv")}


@cache
def regions_without(capability: Literal["inference_components", "scale_to_zero"]) -> frozenset[str]:
    """Regions whose CloudFormation has no inference components, or that refuse a minimum of 0 instances."""
    return frozenset(row["region"] for row in rows("region_limits.csv") if row["without"] == capability)


@cache
def architectures() -> Mapping[str, Architecture]:
    """Model shapes by Hugging Face id (`meta-llama/Llama-3.1-8B`)."""
    return {
        row["hf_id"]: Architecture(
            name=row["model"],
            hf_id=row["hf_id"],
            layers=int(row["layers"]),
            hidden=int(row["hidden"]),
            heads=int(row["heads"]),
            kv_heads=int(row["kv_heads"]),
            head_dim=int(row["head_dim"]),
            intermediate=int(row["intermediate"]),
            vocab=int(row["vocab"]),
            context=int(row["context"]),
            experts=int(row["experts"]),
            experts_per_token=int(row["experts_per_token"]),
            moe_intermediate=int(row["moe_intermediate"]),
            allreduces_per_layer=int(row["allreduces_per_layer"]),
            parameters_b=float(row["params_b"]),
            active_parameters_b=float(row["active_params_b"]),
            source=row["source"],
            sliding_window=int(row["sliding_window"]),
            sliding_layers=int(row["sliding_layers"]),
            linear_layers=int(row["linear_layers"]),
            state_bytes=int(row["state_bytes"]),
            kv_latent_dim=int(row["kv_latent_dim"]),
            date=row["date"],
            quantization=row["quantization"],
        )
        for row in rows("models.csv")
    }


@cache
def container_images() -> tuple[ContainerImage, ...]:
    """Published images, newest first within each family."""
    return tuple(
        ContainerImage(
            family=row["family"],
            version=row["version"],
            account_group=row["account_group"],
            repository=row["repository"],
            tag=row["tag"],
            cuda=row["cuda"] or None,
            protocol=row["protocol"],
            absent_regions=frozenset(row["absent_regions"].split()),
            source=row["source"],
            date=row["date"],
        )
        for row in rows("containers.csv")
    )


@cache
def host_images() -> Mapping[str, HostImage]:
    """Host images by InferenceAmiVersion."""
    return {
        row["ami_version"]: HostImage(
            ami_version=row["ami_version"],
            vendor=row["vendor"],
            driver=row["driver"],
            cuda=row["cuda"] or None,
            source=row["source"],
            date=row["date"],
            starts_cuda=frozenset(row["starts_cuda"].split()),
        )
        for row in rows("hosts.csv")
    }


def instance(instance_type: str) -> Instance:
    """The row of an instance type. Raises InputError with the nearest known names."""
    return find(instances(), instance_type, "instance type")


def accelerator(name: str) -> Accelerator:
    """The row of an accelerator. Raises InputError with the nearest known names."""
    return find(accelerators(), name, "accelerator")


def architecture(model_id: str) -> Architecture | None:
    """The shape of a model by Hugging Face id; instruct and chat variants share their base model's shape.

    None when the catalog does not know it: the profile must then give `model.architecture`.
    """
    known = architectures()
    for candidate in _same_shape(model_id):
        if candidate in known:
            return known[candidate]
    return None


def container_image(family: str, version: str | None = None) -> ContainerImage:
    """The image of a server family, newest when no version is asked for. Raises InputError if there is none."""
    of_family = [image for image in container_images() if image.family == family]
    if version is None and of_family:
        return of_family[0]
    return find({image.version: image for image in of_family}, version or "", f"{family} version")


def _same_shape(model_id: str) -> Iterable[str]:
    yield model_id
    for suffix in ("-Instruct", "-instruct", "-chat-hf", "-Instruct-hf", "-it"):
        if model_id.endswith(suffix):
            stem = model_id.removesuffix(suffix)
            yield stem
            yield f"{stem}-hf"
    yield f"{model_id}-Instruct"


def find(table: Mapping[str, T], key: str, what: str) -> T:
    if key in table:
        return table[key]
    near = difflib.get_close_matches(key, table, n=3, cutoff=0.6) or sorted(table)[:5]
    raise InputError(f"unknown {what} `{key}`; known: {', '.join(near)} (rows in loadproof/catalog/data)")
