"""What rules ask about a profile: instances, shapes, sizes. Unknown is None: another rule says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil
from typing import Final

from loadproof import catalog
from loadproof.catalog import Accelerator, Architecture, HostImage, Instance, KvCache
from loadproof.catalog.contracts import cuda_of_image, starts_on
from loadproof.families import FAMILIES
from loadproof.profiles.checks.rule import Placed
from loadproof.profiles.schema import Container, Endpoint, Model, TokenDistribution
from loadproof.profiles.settings import accelerators_per_copy, catalog_image, image_name
from loadproof.profiles.tree import Path

GB: Final = 1e9
GIB: Final = 1 << 30


def instance_types(endpoint: Endpoint) -> Iterator[tuple[Path, str]]:
    """Every instance type of an endpoint with its path."""
    if endpoint.instance_type is not None:
        yield ("endpoint", "instance_type"), endpoint.instance_type
    for at, pool in enumerate(endpoint.instance_pools):
        yield ("endpoint", "instance_pools", at, "instance_type"), pool.instance_type


def known_instances(endpoint: Endpoint) -> Iterator[tuple[Path, Instance]]:
    """The instance types that the catalog knows."""
    for path, name in instance_types(endpoint):
        row = catalog.instances().get(name)
        if row is not None:
            yield path, row


def accelerator_of(instance: Instance) -> Accelerator:
    """The accelerator of an instance."""
    return catalog.accelerator(instance.accelerator)


def architecture_of(model: Model) -> Architecture | None:
    """The model's shape: as written, else the catalog's."""
    return model.architecture.shape(model.id) if model.architecture else catalog.architecture(model.id)


def weight_bytes(model: Model, shape: Architecture) -> float:
    """Bytes of the weights as the profile says they are stored."""
    return catalog.weight_bytes(shape, catalog.bytes_per_parameter(model.quantization, model.dtype), model.quantization)


def least_step_ms(placed: Placed) -> tuple[float, ...]:
    """Milliseconds in which each known instance type reads once what a token uses of the weights, the table of
    embeddings left out. Nothing where the model's shape is unknown.
    """
    model = placed.component.model
    shape = architecture_of(model)
    if shape is None or not shape.parameters_b:
        return ()
    used_b = min(shape.active_parameters_b, shape.parameters_b) - shape.vocab * shape.hidden / 1e9
    read = weight_bytes(model, shape) * max(0.0, used_b / shape.parameters_b)
    count = accelerators_per_copy(placed.component)
    speeds = [accelerator_of(one).bandwidth_gb_per_s * 1e9 * count for _, one in known_instances(placed.endpoint)]
    return tuple(read / speed * 1000 for speed in speeds)


def speculates(placed: Placed) -> bool:
    """True where a step may give several tokens, or its settings are not ours to read."""
    container = placed.component.container
    return container.family == "custom" or getattr(container, "speculative", None) is not None


def least_answer_s(placed: Placed | None) -> float | None:
    """Seconds of an answer of mean length where each token reads the weights once; None where nobody can tell."""
    if placed is None or placed.profile.endpoint is None or speculates(placed):
        return None
    workload, steps_ms = placed.profile.workload, least_step_ms(placed)
    if workload.answer_length != "asked" or workload.classes or workload.steps or workload.dataset is not None:
        return None
    return min(steps_ms) * mean_tokens(workload.output_tokens) / 1000 if steps_ms else None


def kv_cache(placed: Placed, shape: Architecture, accelerators: int) -> KvCache:
    """The cache of one sequence: values of one byte in fp8, else as the model computes."""
    container = placed.component.container
    family, settings = FAMILIES[container.family], container.settings
    value_bytes = (
        1.0 if family.fp8_cache(settings) else catalog.bytes_per_parameter("none", placed.component.model.dtype)
    )
    return KvCache(shape, value_bytes, accelerators, family.frees_past_window(settings))


def memory_share(container: Container) -> float:
    """Share of the accelerators' memory that the engine may use."""
    family = FAMILIES[container.family]
    share = family.value(container.settings, family.memory_setting)
    return family.memory_share if share is None else float(share)


def copies_per_instance(placed: Placed, instance: Instance) -> int:
    """How many copies of one model an empty instance holds, by accelerators, host memory and vCPUs."""
    copies = placed.component.copies
    by_accelerators = instance.accelerator_count // accelerators_per_copy(placed.component)
    by_memory = int(instance.host_memory_gib * 1024 // copies.memory_mib_per_copy)
    by_cpus = int(instance.vcpu // copies.cpus_per_copy) if copies.cpus_per_copy else by_memory
    return max(0, min(by_accelerators, by_memory, by_cpus))


def rooms(components: Iterable[Placed], instance: Instance) -> list[tuple[Placed, int]]:
    """Each model with the copies of it that an empty instance holds. Empty where one does not fit at all.

    That one is told by LP307 or LP310, and rules about shares of an instance have nothing to add.
    """
    found = [(placed, copies_per_instance(placed, instance)) for placed in components]
    return found if all(room for _, room in found) else []


def instances_for(components: Iterable[Placed], instance: Instance, bound: str) -> int:
    """How many of them the fewest, or the most, copies take, at least one; 0 where one model does not fit."""
    held = rooms(components, instance)
    return max(1, ceil(sum(Fraction(getattr(one.component.copies, bound), room) for one, room in held))) if held else 0


def cuda_of(container: Container) -> str | None:
    """CUDA of the container's image: the catalog's word, else the profile's, else what its tag says (`cu130`)."""
    image = catalog_image(container)
    if image is not None:
        return image.cuda
    return container.cuda or cuda_of_image(container.image or "")


def is_neuron_image(container: Container) -> bool:
    """True for an own image whose name says so: AWS's own are all called `-neuronx-`."""
    return "neuron" in (container.image or "")


def knows_chip(cuda: str | None, chip: Accelerator) -> bool:
    """True when this CUDA, of an image or of a host's driver, has code for the accelerator."""
    return chip.min_cuda is None or (cuda is not None and _version(cuda) >= _version(chip.min_cuda))


def fitting_hosts(endpoint: Endpoint, containers: Iterable[Container]) -> tuple[HostImage, ...]:
    """Host images, oldest first, that run every one of the containers on every known instance type."""
    chips = [accelerator_of(instance) for _, instance in known_instances(endpoint)]
    images = [(cuda, image_name(one)) for one in containers if (cuda := cuda_of(one)) is not None]
    return tuple(
        host
        for host in catalog.host_images().values()
        if all(host.vendor == chip.vendor and knows_chip(host.cuda, chip) for chip in chips)
        and all(starts_on(cuda, host, image) for cuda, image in images)
    )


def chosen_host(endpoint: Endpoint, containers: Iterable[Container]) -> str | None:
    """The host image a template names: as written, else the oldest whose driver has the images' CUDA, else the newest
    that fits. None, SageMaker's own choice, where no image says its CUDA: that host's driver may be far older.
    """
    if endpoint.ami_version is not None:
        return endpoint.ami_version
    containers = tuple(containers)
    fitting = fitting_hosts(endpoint, containers)
    if not fitting:
        return None  # LP325
    cudas = [_version(cuda) for one in containers if (cuda := cuda_of(one)) is not None]
    if not cudas:
        makers = {host.vendor for host in fitting}
        all_fit = len(fitting) == sum(host.vendor in makers for host in catalog.host_images().values())
        return None if all_fit else fitting[0].ami_version
    enough = [host for host in fitting if host.cuda is not None and _version(host.cuda) >= max(cudas)]
    return (enough[0] if enough else fitting[-1]).ami_version


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def longest_request_limit(placed: Placed) -> tuple[str, int] | None:
    """The setting that bounds prompt plus answer, and its value; the model's context without one."""
    container = placed.component.container
    family = FAMILIES[container.family]
    if (value := family.value(container.settings, family.longest_setting)) is not None:
        return f"container.settings.{family.longest_setting}", value
    shape = architecture_of(placed.component.model)
    return ("the model's context", shape.context) if shape else None


def mean_tokens(tokens: int | TokenDistribution) -> float:
    """The mean as written; the least count where a distribution has none."""
    return tokens if isinstance(tokens, int) else tokens.mean or tokens.min


def most_tokens(tokens: int | TokenDistribution) -> int | None:
    """The largest count a distribution may give; None when it has no end."""
    if isinstance(tokens, int):
        return tokens
    if tokens.distribution == "fixed":
        return int(tokens.mean) if tokens.mean is not None else None
    return tokens.max
