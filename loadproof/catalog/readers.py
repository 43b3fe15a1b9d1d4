"""Typed access to the vendored rows. Facts are rows with a source, never subclasses.

The files in `data/` are read once, on first use. Empty cells are None: a price nobody published is not 0.
"""

from __future__ import annotations

import csv
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeVar, get_type_hints

from loadproof.catalog.provenance import unverified
from loadproof.errors import InputError

DATA = Path(__file__).parent / "data"

# Instance families with NVMe disks on the machine. Source: EC2 instance type pages.
LOCAL_DISK_FAMILIES = frozenset(
    ["g4dn", "g5", "g6", "g6e", "g7", "g7e", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "p6e-gb200"]
) | {"trn1", "trn1n", "trn2"}
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
    price_date: str = ""  # when that price was seen, as exactly as known: `2026-08-17`, `2026-07`
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


def rows(file: str | Path) -> list[Row]:
    """The rows of a file of the catalog's, or of one by its whole path."""
    with (DATA / file).open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def _whole(cell: str) -> int:
    number = float(cell)
    if not number.is_integer():
        raise ValueError(f"expected a whole number, found `{cell}`")
    return int(number)


def _truth(cell: str) -> bool:
    return cell in ("yes", "1")


_CELLS: Final[Mapping[object, Callable[[str], object]]] = {
    str: str,
    int: _whole,
    float: float,
    bool: _truth,
    str | None: lambda cell: cell or None,
    int | None: lambda cell: _whole(cell) if cell else None,
    float | None: lambda cell: float(cell) if cell else None,
}
_LISTS: Final[Mapping[object, Callable[[Iterable[str]], object]]] = {
    tuple[str, ...]: tuple,
    tuple[int, ...]: lambda words: tuple(map(int, words)),
    frozenset[str]: frozenset,
}


def table(
    kind: type[T], file: str | Path, columns: Mapping[str, str] | None = None, between: str | None = None
) -> list[T]:
    """A file's rows, each as `kind`: every field from the column of its name, or the one in `columns`, read as its
    type says. `between` stands between the words of a list (None: spaces). A field without a column keeps its default.
    """
    found = []
    types = get_type_hints(kind)
    for row in rows(file):
        cells = {name: row.get((columns or {}).get(name, name)) for name in types}
        values = {name: _value(types[name], cell, between) for name, cell in cells.items() if cell is not None}
        found.append(kind(**values))
    return found


def _value(wanted: object, cell: str, between: str | None) -> object:
    as_list = _LISTS.get(wanted)
    return as_list(filter(None, cell.split(between))) if as_list else _CELLS[wanted](cell)


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Accelerators by name (`A10G`)."""
    columns = {
        "name": "accelerator",
        "memory_bytes": "mem_bytes_usable",
        "bandwidth_gb_per_s": "bw_GBps",
        "bf16_tflops": "bf16_dense_tflops",
        "fp8_tflops": "fp8_dense_tflops",
        "link_gb_per_s": "link_GBps_per_dir_per_gpu",
        "multiprocessors": "sm_count",
    }
    return {row.name: row for row in table(Accelerator, "accelerators.csv", columns)}


@cache
def instances() -> Mapping[str, Instance]:
    """Instance types by name (`ml.g5.12xlarge`)."""
    columns = {
        "fabric": "gpu_fabric",
        "host_memory_gib": "host_mem_gib",
        "usd_per_hour": "usd_per_hour_sagemaker",
        "source": "shape_source",
    }
    return {row.instance_type: row for row in table(Instance, "instances.csv", columns)}


@cache
def instance_regions() -> Mapping[str, frozenset[str]]:
    """Regions that offer an instance type for hosting; no entry where nobody published it."""
    return {row["instance_type"]: frozenset(row["regions"].split()) for row in rows("instance_regions.csv")}


@cache
def regions_without(capability: Literal["inference_components", "scale_to_zero"]) -> frozenset[str]:
    """Regions whose CloudFormation has no inference components, or that refuse a minimum of 0 instances."""
    return frozenset(row["region"] for row in rows("region_limits.csv") if row["without"] == capability)


@cache
def container_images() -> tuple[ContainerImage, ...]:
    """Published images, newest first within each family."""
    return tuple(table(ContainerImage, "containers.csv"))


@cache
def host_images() -> Mapping[str, HostImage]:
    """Host images by InferenceAmiVersion."""
    return {row.ami_version: row for row in table(HostImage, "hosts.csv")}


def instance(instance_type: str) -> Instance:
    """The row of an instance type. Raises InputError with the nearest known names."""
    return find(instances(), instance_type, "instance type")


def accelerator(name: str) -> Accelerator:
    """The row of an accelerator. Raises InputError with the nearest known names."""
    return find(accelerators(), name, "accelerator")


def container_image(family: str, version: str | None = None) -> ContainerImage:
    """The image of a server family, newest when no version is asked for. Raises InputError if there is none."""
    of_family = [image for image in container_images() if image.family == family]
    if version is None and of_family:
        return of_family[0]
    return find({image.version: image for image in of_family}, version or "", f"{family} version")


def find(table: Mapping[str, T], key: str, what: str) -> T:
    if key in table:
        return table[key]
    near = difflib.get_close_matches(key, table, n=3, cutoff=0.6) or sorted(table)[:5]
    raise InputError(f"unknown {what} `{key}`; known: {', '.join(near)} (rows in loadproof/catalog/data)")
