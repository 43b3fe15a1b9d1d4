"""Does it fit? Rules against the catalog: instances, models, memory, sharding (LP3xx)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil
from typing import Final

from loadproof import catalog
from loadproof.catalog import Architecture, Instance
from loadproof.errors import InputError
from loadproof.profiles.checks.facts import (
    GB,
    accelerator_of,
    alternatives,
    architecture_of,
    catalog_image,
    copies_per_instance,
    cuda_of,
    instance_types,
    known_instances,
    kv_bytes_per_token,
    longest_request_limit,
    memory_share,
    weight_bytes,
)
from loadproof.profiles.checks.rule import Finding, Placed, Subject, rule
from loadproof.profiles.settings import accelerators_per_copy, supported_quantizations, tensor_parallel_degree


@rule(
    "LP301",
    "Unknown instance type",
    reason="Without its accelerators, memory and price nothing can be checked, planned or priced.",
    fix="Use a known type, or add its row to loadproof/catalog/data/instances.csv.",
)
def unknown_instance(subject: Subject) -> Iterator[Finding]:
    endpoint = subject.profile.endpoint
    for path, name in instance_types(endpoint) if endpoint else ():
        if name not in catalog.instances():
            family = f"{name.rsplit('.', 1)[0]}."
            sizes = [known for known in catalog.instances() if known.startswith(family)]
            mend = f"use one of {', '.join(sizes)}" if sizes else f"add its row{_near(name, catalog.instances())}"
            yield Finding(path, f"unknown instance type `{name}`", mend)


@rule(
    "LP302",
    "Unknown model",
    reason="Memory and step times follow from the model's shape, which the catalog does not have.",
    fix="Give `model.architecture` (the numbers stand in the model's config.json), or correct `model.id`.",
    scope="component",
)
def unknown_model(placed: Placed) -> Iterator[Finding]:
    model = placed.component.model
    if placed.profile.backend == "sagemaker" and architecture_of(model) is None:
        mend = f"give model.architecture{_near(model.id, catalog.architectures())}"
        yield Finding(placed.at("model", "id"), f"the catalog does not know `{model.id}`", mend)


@rule(
    "LP303",
    "Unknown container version",
    reason="Only images in the catalog have a known registry, CUDA version and protocol.",
    fix="Use a listed version, or give `image` instead.",
    scope="component",
)
def unknown_version(placed: Placed) -> Iterator[Finding]:
    container = placed.component.container
    if container.version is None or container.image is not None:
        return
    known = [image.version for image in catalog.container_images() if image.family == container.family]
    if container.version not in known:
        found = f"no {container.family} image of version {container.version} in the catalog"
        yield Finding(placed.at("container", "version"), found, f"use one of {', '.join(known)}, or give image")


@rule(
    "LP304",
    "Weights exceed the accelerators' memory",
    reason="The server stops while loading, after the machine was paid for.",
    fix="Use a larger instance, more accelerators a copy, or a quantized checkpoint.",
    scope="component",
)
def weights_too_large(placed: Placed) -> Iterator[Finding]:
    for instance, shape, memory, allowed in _memories(placed):
        weights = weight_bytes(placed.component.model, shape)
        if weights > allowed:
            count = accelerators_per_copy(placed.component)
            share = f"{allowed / GB:.0f} GB usable of " if allowed < memory else ""
            yield Finding(
                placed.at("model"),
                f"weights of {weights / GB:.0f} GB exceed {share}{memory / GB:.0f} GB GPU memory "
                f"({count} x {instance.accelerator} of {instance.instance_type})",
                "use a larger instance, more accelerators a copy, or a quantized checkpoint",
            )


@rule(
    "LP305",
    "Tensor parallel degree does not divide the attention heads",
    reason="Every accelerator takes the same number of heads; servers refuse anything else.",
    fix="Use a divisor of the model's attention heads.",
    scope="component",
)
def degree_divides_heads(placed: Placed) -> Iterator[Finding]:
    degree = tensor_parallel_degree(placed.component)
    shape = architecture_of(placed.component.model)
    if shape and shape.heads % degree:
        fitting = [value for value in (1, 2, 4, 8, 16, 32) if shape.heads % value == 0 and value <= 8]
        yield Finding(
            _degree_path(placed),
            f"{degree} does not divide the model's {shape.heads} attention heads",
            f"use {alternatives(fitting)}",
        )


@rule(
    "LP306",
    "Tensor parallel degree does not fit the key-value heads",
    reason="Key-value heads are split evenly, or each is copied to the same number of accelerators.",
    fix="Use a degree that divides the key-value heads, or a multiple of them.",
    scope="component",
)
def degree_fits_kv_heads(placed: Placed) -> Iterator[Finding]:
    degree = tensor_parallel_degree(placed.component)
    shape = architecture_of(placed.component.model)
    if shape is None or shape.heads % degree:
        return
    if shape.kv_heads % degree and degree % shape.kv_heads:
        fits = [n for n in (1, 2, 4, 8, 16) if shape.heads % n == 0 and not (shape.kv_heads % n and n % shape.kv_heads)]
        yield Finding(
            _degree_path(placed),
            f"{degree} neither divides the model's {shape.kv_heads} key-value heads nor is a multiple of them",
            f"use {alternatives(fits)}",
        )


@rule(
    "LP307",
    "A copy wants more accelerators than the instance has",
    reason="A copy lives on one instance; CreateInferenceComponent would wait for room that never comes.",
    fix="Lower the accelerators of a copy, or use a larger instance.",
    scope="component",
)
def copy_exceeds_instance(placed: Placed) -> Iterator[Finding]:
    wanted = accelerators_per_copy(placed.component)
    for path, instance in known_instances(placed.endpoint):
        if wanted > instance.accelerator_count:
            yield Finding(
                _accelerators_path(placed, path),
                f"a copy wants {wanted} accelerators, {instance.instance_type} has {instance.accelerator_count}",
                f"lower it to {instance.accelerator_count}, or use a larger instance",
            )


@rule(
    "LP308",
    "Tensor parallel degree and accelerators a copy disagree",
    reason="More shards than accelerators cannot start; fewer leave accelerators paid for and idle.",
    fix="Make the two equal, or leave one of them out.",
    scope="component",
)
def degree_equals_accelerators(placed: Placed) -> Iterator[Finding]:
    degree, accelerators = tensor_parallel_degree(placed.component), accelerators_per_copy(placed.component)
    path = placed.at("copies", "accelerators_per_copy")
    if degree > accelerators:
        found = f"a copy has {accelerators} accelerators for a tensor parallel degree of {degree}"
        yield Finding(path, found, f"raise it to {degree}")
    elif degree < accelerators and not _neuron(placed):
        found = f"a copy has {accelerators} accelerators, but the model shards over {degree}"
        yield Finding(path, found, f"lower it to {degree}, or raise tensor_parallel_degree", "warning")


@rule(
    "LP309",
    "Copies do not fit the instances",
    reason="Copies past the room wait as InsufficientCapacity, and scaling stops below its own maximum.",
    fix="Raise endpoint.max_instances, or lower the copies' maximum.",
)
def copies_exceed_instances(subject: Subject) -> Iterator[Finding]:
    endpoint = subject.profile.endpoint
    if endpoint is None or endpoint.hosting != "inference_components":
        return
    for _, instance in known_instances(endpoint):
        rooms = [(placed, copies_per_instance(placed, instance)) for placed in subject.components]
        if any(room == 0 for _, room in rooms):
            continue  # LP307 or LP310 says which copy does not fit at all
        whole = ceil(sum(Fraction(placed.component.copies.max, room) for placed, room in rooms))
        if whole > endpoint.max_instances:
            copies = sum(placed.component.copies.max for placed, _ in rooms)
            path = rooms[-1][0].at("copies", "max") if len(rooms) > 1 else ("copies", "max")
            yield Finding(
                path,
                f"{copies} copies need {whole} instances of {instance.instance_type} "
                f"({', '.join(f'{room} a machine' for _, room in rooms)}), max_instances is {endpoint.max_instances}",
                f"raise endpoint.max_instances to {whole}, or lower copies.max",
            )


@rule(
    "LP310",
    "A copy reserves more than the machine has",
    reason="memory_mib_per_copy and cpus_per_copy are reservations: a copy that cannot get them never starts.",
    fix="Lower the reservation, or use a larger instance.",
    scope="component",
)
def copy_exceeds_host(placed: Placed) -> Iterator[Finding]:
    copies = placed.component.copies
    for _, instance in known_instances(placed.endpoint):
        host_mib = int(instance.host_memory_gib * 1024)
        if copies.memory_mib_per_copy > host_mib:
            found = f"{copies.memory_mib_per_copy} MiB a copy exceed the {host_mib} MiB of {instance.instance_type}"
            yield Finding(placed.at("copies", "memory_mib_per_copy"), found, f"lower it well below {host_mib}")
        if copies.cpus_per_copy and copies.cpus_per_copy > instance.vcpu:
            found = f"{copies.cpus_per_copy:g} vCPUs a copy exceed the {instance.vcpu} of {instance.instance_type}"
            yield Finding(placed.at("copies", "cpus_per_copy"), found, f"lower it to at most {instance.vcpu}")


@rule(
    "LP311",
    "The longest request does not fit beside the weights",
    reason="Servers reserve KV cache for one request of full length, and refuse to start without room for it.",
    fix="Lower the longest request (max_total_tokens, max_model_len, context_length), or give the copy more memory.",
    scope="component",
)
def no_room_for_a_request(placed: Placed) -> Iterator[Finding]:
    limit = longest_request_limit(placed)
    if limit is None:
        return
    name, tokens = limit
    model = placed.component.model
    for instance, shape, _, allowed in _memories(placed):
        left = allowed - weight_bytes(model, shape)
        needed = tokens * kv_bytes_per_token(model, shape, placed)
        if left <= 0 or needed <= left:
            continue  # weights that do not fit at all are LP304's
        fitting = int(left // kv_bytes_per_token(model, shape, placed)) // 256 * 256
        unset = name == "the model's context"
        yield Finding(
            placed.at("container", "settings") if unset else placed.at(*name.split(".")),
            f"one request of {tokens} tokens{f' ({name})' if unset else ''} needs {needed / GB:.1f} GB of KV cache, "
            f"the weights leave {left / GB:.1f} GB on {instance.instance_type}",
            f"set a limit of at most {fitting} tokens, or give the copy more memory",
            "warning" if unset else None,
        )


@rule(
    "LP312",
    "The accelerator cannot compute in this type",
    reason="A T4 has no bfloat16: servers refuse to start, or compute far slower.",
    fix="Use dtype fp16, or a newer accelerator.",
    scope="component",
)
def dtype_unsupported(placed: Placed) -> Iterator[Finding]:
    for _, instance in known_instances(placed.endpoint):
        if instance.accelerator == "T4" and placed.component.model.dtype == "bf16":
            found = f"{instance.instance_type} ({instance.accelerator}) has no bf16"
            yield Finding(placed.at("model", "dtype"), found, "write dtype: fp16, or use a newer accelerator")


@rule(
    "LP313",
    "The host's driver is older than the image's CUDA",
    reason="The container dies with CannotStartContainerError and leaves no log.",
    fix="Leave endpoint.ami_version out (the fitting host is chosen), or name one of the image's CUDA generation.",
    scope="component",
)
def cuda_needs_newer_host(placed: Placed) -> Iterator[Finding]:
    endpoint, wanted = placed.endpoint, cuda_of(placed.component.container)
    if wanted is None:
        return
    hosts = catalog.host_images()
    fitting = [name for name, host in hosts.items() if host.cuda and _major(host.cuda) >= _major(wanted)]
    if endpoint.ami_version is not None:
        cuda = hosts[endpoint.ami_version].cuda
        if cuda is not None and _major(cuda) < _major(wanted):
            found = f"the image needs CUDA {wanted}, host {endpoint.ami_version} has a driver for CUDA {cuda}"
            yield Finding(("endpoint", "ami_version"), found, f"use {' or '.join(fitting)}, or leave it out")
    elif catalog_image(placed.component.container) is None and _major(wanted) >= 13:
        found = f"the image needs CUDA {wanted}, the default host's driver is older"
        yield Finding(placed.at("container", "image"), found, f"write endpoint.ami_version: {' or '.join(fitting)}")


@rule(
    "LP314",
    "Volume on an instance with disks of its own",
    reason="SageMaker refuses VolumeSizeInGB for instance types with local NVMe disks.",
    fix="Leave volume_gib out.",
)
def volume_refused(subject: Subject) -> Iterator[Finding]:
    endpoint = subject.profile.endpoint
    if endpoint is None or endpoint.volume_gib is None:
        return
    for _, instance in known_instances(endpoint):
        if instance.has_local_disk:
            found = f"{instance.instance_type} has local disks and takes no volume"
            yield Finding(("endpoint", "volume_gib"), found, "delete it")


@rule(
    "LP315",
    "Image and accelerator of different makers",
    reason="CUDA images cannot use Inferentia and Trainium, and a GPU needs a GPU host.",
    fix="Use a GPU instance, or a Neuron image (container.image) with the Neuron host.",
    scope="component",
)
def wrong_vendor(placed: Placed) -> Iterator[Finding]:
    endpoint = placed.endpoint
    for path, instance in known_instances(endpoint):
        vendor = accelerator_of(instance).vendor
        if vendor == "AWS" and cuda_of(placed.component.container) is not None:
            found = f"the {placed.component.container.family} image is for CUDA, {instance.instance_type} is Neuron"
            yield Finding(path, found, "use a GPU instance, or give a Neuron image")
        host = catalog.host_images().get(endpoint.ami_version or "")
        if host is not None and host.vendor != vendor:
            found = f"host {host.ami_version} is for {host.vendor}, {instance.instance_type} has {vendor} accelerators"
            yield Finding(("endpoint", "ami_version"), found, "leave it out")


@rule(
    "LP316",
    "Longer than the model's context",
    reason="Positions past the context were never trained; servers refuse the setting.",
    fix="Lower it to the model's context.",
    scope="component",
)
def longer_than_context(placed: Placed) -> Iterator[Finding]:
    shape, limit = architecture_of(placed.component.model), longest_request_limit(placed)
    if shape is None or limit is None or limit[1] <= shape.context:
        return
    found = f"{limit[1]} tokens exceed the model's context of {shape.context}"
    yield Finding(placed.at(*limit[0].split(".")), found, f"lower it to at most {shape.context}")


@rule(
    "LP317",
    "Quantization the server does not know",
    reason="The server would refuse the checkpoint, or load it wrongly.",
    fix="Use a supported quantization, or another container family.",
    scope="component",
)
def quantization_unsupported(placed: Placed) -> Iterator[Finding]:
    model, family = placed.component.model, placed.component.container.family
    allowed = supported_quantizations(family)
    if model.quantization not in allowed:
        found = f"{family} does not serve {model.quantization}"
        yield Finding(placed.at("model", "quantization"), found, f"use {', '.join(allowed)}, or another family")


@rule(
    "LP318",
    "No fp8 units on the accelerator",
    reason="Weights are then unpacked to 16 bits for every step: memory is saved, time is not.",
    fix="Use an accelerator with fp8 (L4, L40S, H100 and newer), or expect fp16 speed.",
    scope="component",
    severity="warning",
)
def fp8_emulated(placed: Placed) -> Iterator[Finding]:
    for _, instance in known_instances(placed.endpoint):
        if placed.component.model.quantization == "fp8" and accelerator_of(instance).fp8_tflops is None:
            found = f"{instance.accelerator} of {instance.instance_type} has no fp8 units"
            yield Finding(placed.at("model", "quantization"), found, "use L4, L40S, H100 or newer for fp8 speed")


@rule(
    "LP319",
    "Image not published in the region",
    reason="The deployment fails minutes in, when SageMaker cannot pull the image.",
    fix="Use another version, another region, or an image of your own.",
    scope="placement",
)
def image_not_in_region(subject: Subject) -> Iterator[Finding]:
    for placed in subject.components:
        image = catalog_image(placed.component.container)
        if image is None or subject.environment is None:
            continue
        region = subject.environment.region
        try:
            catalog.image_uri(image, region)
        except InputError:
            found = f"the catalog has no {image.family} {image.version} image in {region}"
            yield Finding(placed.at("container"), found, "use another version, or give container.image")


@rule(
    "LP320",
    "Architecture that contradicts itself",
    reason="Every prediction follows from these numbers.",
    fix="Copy them from the model's config.json.",
    scope="component",
)
def inconsistent_architecture(placed: Placed) -> Iterator[Finding]:
    own = placed.component.model.architecture
    if own is None:
        return
    path = placed.at("model", "architecture")
    if own.num_attention_heads % own.num_key_value_heads:
        found = f"{own.num_key_value_heads} key-value heads do not divide {own.num_attention_heads} attention heads"
        yield Finding((*path, "num_key_value_heads"), found, "copy both from config.json")
    if own.num_experts_per_token > own.num_experts:
        found = f"{own.num_experts_per_token} experts a token exceed {own.num_experts} experts"
        yield Finding((*path, "num_experts_per_token"), found, "copy both from config.json")
    if own.active_parameters_b is not None and own.active_parameters_b > own.parameters_b:
        found = f"{own.active_parameters_b:g} billion active parameters exceed {own.parameters_b:g} in total"
        yield Finding((*path, "active_parameters_b"), found, "write billions in both")


def _memories(placed: Placed) -> Iterator[tuple[Instance, Architecture, float, float]]:
    """(instance, model shape, bytes of a copy's accelerators, bytes the engine may use) for each known instance."""
    shape = architecture_of(placed.component.model)
    for _, instance in known_instances(placed.endpoint) if shape else ():
        count = min(accelerators_per_copy(placed.component), instance.accelerator_count)
        memory = float(accelerator_of(instance).memory_bytes) * count
        assert shape is not None
        yield instance, shape, memory, memory * memory_share(placed.component.container)


def _neuron(placed: Placed) -> bool:
    """Neuron counts cores, not chips, in its tensor parallel degree."""
    return any(accelerator_of(instance).vendor == "AWS" for _, instance in known_instances(placed.endpoint))


def _degree_path(placed: Placed) -> tuple[str | int, ...]:
    if placed.component.container.settings.tensor_parallel_degree is not None:
        return placed.at("container", "settings", "tensor_parallel_degree")
    return placed.at("copies", "accelerators_per_copy")


def _accelerators_path(placed: Placed, default: tuple[str | int, ...]) -> tuple[str | int, ...]:
    if placed.component.copies.accelerators_per_copy is not None:
        return placed.at("copies", "accelerators_per_copy")
    if placed.component.container.settings.tensor_parallel_degree is not None:
        return placed.at("container", "settings", "tensor_parallel_degree")
    return default


def _major(cuda: str) -> int:
    return int(cuda.split(".")[0])


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f", or use {' or '.join(near)}" if near else " (rows in loadproof/catalog/data)"


RULES: Final = (
    unknown_instance,
    unknown_model,
    unknown_version,
    weights_too_large,
    degree_divides_heads,
    degree_fits_kv_heads,
    copy_exceeds_instance,
    degree_equals_accelerators,
    copies_exceed_instances,
    copy_exceeds_host,
    no_room_for_a_request,
    dtype_unsupported,
    cuda_needs_newer_host,
    volume_refused,
    wrong_vendor,
    longer_than_context,
    quantization_unsupported,
    fp8_emulated,
    image_not_in_region,
    inconsistent_architecture,
)
