"""What the catalog knows of instances, models, images and hosts (LP301-303, 312-315, 317-319, 323-326)."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator
from typing import Final

from loadproof import catalog
from loadproof.catalog import HostImage
from loadproof.catalog.contracts import starts_on
from loadproof.catalog.installed_sdks import listed
from loadproof.errors import InputError
from loadproof.profiles.checks.facts import (
    GIB,
    accelerator_of,
    architecture_of,
    cuda_of,
    fitting_hosts,
    instance_types,
    is_neuron_image,
    known_instances,
    knows_chip,
    weight_bytes,
)
from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, rule
from loadproof.profiles.schema import HubSource
from loadproof.profiles.secrets import shown
from loadproof.profiles.settings import catalog_image, image_name, supported_quantizations

# What SageMaker attaches where nothing is said (developer guide, large model inference hosting: raise it above 30 GB).
_DEFAULT_VOLUME_GIB: Final = 30
_NO_BF16: Final = frozenset({"T4", "V100"})


@rule(
    "LP301",
    "Instance type that SageMaker does not host",
    reason="CreateEndpointConfig takes the types that the SDK's model lists for hosting, and no others.",
    mend="Use a type of that list; `loadproof catalog audit` says when the installed SDK knows more.",
)
def unknown_instance(subject: Subject) -> Iterator[Found]:
    for path, name in instance_types(subject.endpoint):
        if name not in listed("instance_type"):
            family = f"{name.rsplit('.', 1)[0]}."
            sizes = [known for known in catalog.instances() if known.startswith(family)]
            near = f"use one of {', '.join(sizes)}" if sizes else _near(name, catalog.instances()).removesuffix(", or ")
            yield Found(path, f"unknown instance type `{name}`", near or "use a type that hosting lists")


@rule(
    "LP333",
    "Instance type without a shape",
    reason="Without its accelerators, memory and price nothing can be checked, planned or priced.",
    mend="Use a type of `loadproof catalog list instances`, or add its row to loadproof/catalog/data/instances.csv.",
)
def instance_without_shape(subject: Subject) -> Iterator[Found]:
    for path, name in instance_types(subject.endpoint):
        if name in listed("instance_type") and name not in catalog.instances():
            found = f"SageMaker hosts `{name}`, the catalog has no accelerators of it"
            mend = f"{_near(name, catalog.instances())}add its row to loadproof/catalog/data/instances.csv"
            yield Found(path, found, mend)


@component_rule(
    "LP302",
    "Unknown model",
    reason="Memory and step times follow from the model's shape, which the catalog does not have.",
    mend="Correct `model.id`, or say whose shape it has (`model.base`), name its config.json (`model.config_json`), or "
    "write `model.architecture`.",
)
def unknown_model(placed: Placed) -> Iterator[Found]:
    model = placed.component.model
    if placed.profile.backend == "sagemaker" and architecture_of(model) is None:
        near = ", ".join(catalog.near_models(model.id))
        mend = f"{f'use {near}, or ' if near else ''}give model.base, model.config_json or model.architecture"
        yield Found(placed.at("model", "id"), f"the catalog does not know `{model.id}`", mend)


@component_rule(
    "LP380",
    "Model of another publisher",
    severity="warning",
    reason="A publisher that the catalog does not list has published a listed model again, or its name is a slip that "
    "comes out when weights are fetched.",
    mend="Correct `model.id`; where it is meant, write whose shape it has: `model.base`.",
)
def model_of_another_publisher(placed: Placed) -> Iterator[Found]:
    """Packers publish under their own names: a checkpoint that is called quantized is none."""
    model = placed.component.model
    listed = catalog.published_elsewhere(model.id)
    if listed is None or model.architecture or catalog.is_packed(model.id):
        return
    publisher, _, name = model.id.rpartition("/")
    found = f"`{model.id}` is not listed and taken for {listed}, published again by {publisher}"
    theirs = f"{listed.partition('/')[0]}/{name}"
    yield Found(placed.at("model", "id"), found, f"write {theirs}, or, where it is meant, `base: {listed}` beside it")


@component_rule(
    "LP303",
    "Unknown container version",
    reason="Only images in the catalog have a known registry, CUDA version and protocol.",
    mend="Use a listed version, or give `image` instead.",
)
def unknown_version(placed: Placed) -> Iterator[Found]:
    container = placed.component.container
    if container.version is None or container.image is not None:
        return
    known = [image.version for image in catalog.container_images() if image.family == container.family]
    if container.version not in known:
        found = f"no {container.family} image of version `{shown(container.version)}` in the catalog"
        yield Found(placed.at("container", "version"), found, f"use one of {', '.join(known)}, or give image")


@component_rule(
    "LP312",
    "The accelerator cannot compute in this type",
    reason="A T4 or V100 has no bfloat16: vLLM refuses to start (https://github.com/vllm-project/vllm/issues/946). TGI "
    "would take float16 where nobody says a type (text_generation_server/models/causal_lm.py), but the stack always "
    "says one, and model.dtype is bf16 unless written otherwise.",
    mend="Use dtype fp16, or a newer accelerator.",
)
def dtype_unsupported(placed: Placed) -> Iterator[Found]:
    for _, instance in known_instances(placed.endpoint):
        if instance.accelerator in _NO_BF16 and placed.component.model.dtype == "bf16":
            found = f"{instance.instance_type} ({instance.accelerator}) has no bf16"
            in_bf16_alone = placed.component.model.quantization == "mxfp4"
            mend = "" if in_bf16_alone else "write dtype: fp16, or "
            yield Found(placed.at("model", "dtype"), found, f"{mend}use a newer accelerator")


@component_rule(
    "LP313",
    "The host is of another CUDA generation than the image",
    reason="The container dies with CannotStartContainerError, or stays Creating, and leaves no log.",
    mend="Leave endpoint.ami_version out (the fitting host is chosen), or name one of the image's CUDA generation.",
)
def cuda_needs_newer_host(placed: Placed) -> Iterator[Found]:
    version, wanted = placed.endpoint.ami_version, cuda_of(placed.component.container)
    if version is None or wanted is None:
        return
    hosts, image = catalog.host_images(), image_name(placed.component.container)
    if hosts[version].cuda is not None and not starts_on(wanted, hosts[version], image):
        fitting = [name for name, host in hosts.items() if starts_on(wanted, host, image)]
        found = f"the image needs CUDA {wanted}, host {version} starts CUDA {_generations(hosts[version])}"
        yield Found(("endpoint", "ami_version"), found, f"use {' or '.join(fitting)}, or leave it out")


@component_rule(
    "LP324",
    "Image or host older than the accelerator",
    reason="CUDA has no code for chips that came after it: the server dies with `no kernel image is available`.",
    mend="Use a newer version or image, leave endpoint.ami_version out, or use an older accelerator.",
)
def older_than_the_chip(placed: Placed) -> Iterator[Found]:
    endpoint, container = placed.endpoint, placed.component.container
    host = catalog.host_images().get(endpoint.ami_version or "")
    cuda = cuda_of(container)
    for path, instance in known_instances(endpoint):
        chip = accelerator_of(instance)
        needs = f"{instance.instance_type} ({chip.name}) needs CUDA {chip.min_cuda} or newer"
        if cuda is not None and not knows_chip(cuda, chip):
            mend = "use a newer container.version or image, or another instance type"
            yield Found(path, f"{needs}, the {container.family} image has {cuda}", mend)
        if host is not None and host.vendor == chip.vendor and not knows_chip(host.cuda, chip):
            found = f"{needs}, host {host.ami_version} has a driver for CUDA {host.cuda}"
            yield Found(("endpoint", "ami_version"), found, "leave it out")


@rule(
    "LP325",
    "No host image runs all of it",
    reason="All instances of an endpoint run one host image, and every image on it needs that host's CUDA generation.",
    mend="Give pools instance types of one maker, and images of one CUDA generation.",
)
def no_common_host(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    chips = {accelerator_of(instance) for _, instance in known_instances(endpoint)}
    makers = {chip.vendor for chip in chips}
    if len(makers) > 1:
        found = f"the pools mix accelerators of {' and '.join(sorted(makers))}; no host image runs both"
        yield Found(("endpoint", "instance_pools"), found, "keep the instance types of one maker")
        return
    containers = [placed.component.container for placed in subject.components]
    cudas = sorted({cuda for one in containers if (cuda := cuda_of(one)) is not None})
    # What one image lacks for a chip, or an accelerator of another maker, LP315 and LP324 say.
    plain = makers == {"NVIDIA"} and all(knows_chip(cuda, chip) for cuda in cudas for chip in chips)
    if plain and cudas and not fitting_hosts(endpoint, containers):
        names = ", ".join(sorted(chip.name for chip in chips))
        found = f"no host image starts CUDA {' and '.join(cudas)} on {names}"
        mend = "use images of one CUDA generation that the accelerators' hosts start (CUDA 13 for Blackwell)"
        path = ("endpoint", "instance_pools") if endpoint.instance_pools else ("endpoint", "instance_type")
        yield Found(path, found, mend)


@rule(
    "LP314",
    "Volume on an instance with disks of its own",
    reason="SageMaker refuses VolumeSizeInGB for instance types with local NVMe disks.",
    mend="Leave volume_gib out.",
)
def volume_refused(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    for _, instance in known_instances(endpoint):
        if endpoint.volume_gib is not None and instance.has_local_disk:
            found = f"{instance.instance_type} has local disks and takes no volume"
            yield Found(("endpoint", "volume_gib"), found, "delete it")


@component_rule(
    "LP326",
    "Weights too large for the volume",
    reason="The download fills the disk, and the copy fails after minutes with little to read.",
    mend="Raise endpoint.volume_gib, or use an instance type with disks of its own.",
)
def weights_to_disk(placed: Placed) -> Iterator[Found]:
    endpoint, model = placed.endpoint, placed.component.model
    shape = architecture_of(model)
    if shape is None:
        return
    weights_gib = weight_bytes(model, shape) / GIB
    volume_gib = endpoint.volume_gib or _DEFAULT_VOLUME_GIB
    for _, instance in known_instances(endpoint):
        if not instance.has_local_disk and weights_gib > volume_gib:
            found = f"weights of {weights_gib:.0f} GiB on a volume of {volume_gib} GiB of {instance.instance_type}"
            mend = f"write endpoint.volume_gib: {math.ceil(2 * weights_gib)}, which leaves room for the image"
            yield Found(("endpoint", "volume_gib") if endpoint.volume_gib else ("endpoint",), found, mend)


@component_rule(
    "LP315",
    "Image and accelerator of different makers",
    reason="CUDA images cannot use Inferentia and Trainium, and a GPU needs a GPU host.",
    mend="Use a GPU instance, or a Neuron image (container.image) with the Neuron host.",
)
def wrong_vendor(placed: Placed) -> Iterator[Found]:
    endpoint = placed.endpoint
    for path, instance in known_instances(endpoint):
        vendor = accelerator_of(instance).vendor
        if vendor == "AWS" and cuda_of(placed.component.container) is not None:
            found = f"the {placed.component.container.family} image is for CUDA, {instance.instance_type} is Neuron"
            yield Found(path, found, "use a GPU instance, or give a Neuron image")
        if vendor != "AWS" and is_neuron_image(placed.component.container):
            found = f"the image is for Neuron, {instance.instance_type} has {instance.accelerator} GPUs"
            yield Found(path, found, "use an inf2 or trn instance, or give a CUDA image")
        host = catalog.host_images().get(endpoint.ami_version or "")
        if host is not None and host.vendor != vendor:
            found = f"host {host.ami_version} is for {host.vendor}, {instance.instance_type} has {vendor} accelerators"
            yield Found(("endpoint", "ami_version"), found, "leave it out")


@component_rule(
    "LP317",
    "Quantization the server does not know",
    reason="The server would refuse the checkpoint, or load it wrongly.",
    mend="Use a supported quantization, or another container family.",
)
def quantization_unsupported(placed: Placed) -> Iterator[Found]:
    model, family = placed.component.model, placed.component.container.family
    allowed = supported_quantizations(family)
    if model.quantization not in allowed:
        found = f"{family} does not serve {model.quantization}"
        yield Found(placed.at("model", "quantization"), found, f"use {', '.join(allowed)}, or another family")


@component_rule(
    "LP323",
    "Quantization is not the checkpoint's",
    reason="A server finds out by itself, or stops where it is told of another packed format; memory, step times and "
    "costs are predicted for what the profile says.",
    mend="Write the quantization of the published checkpoint. Weights converted otherwise: name them in model.id.",
    severity="warning",
    also=("error",),
)
def quantization_of_another_checkpoint(placed: Placed) -> Iterator[Found]:
    model = placed.component.model
    row = catalog.architecture(model.id) if model.architecture is None else None
    stored = row.quantization if row is not None else catalog.named_quantization(model.id)
    if stored not in (None, "none", model.quantization):
        found = f"the checkpoint of {model.id} is stored in {stored}, found {model.quantization}"
        packed = {stored, model.quantization} <= {"awq", "gptq", "mxfp4"}
        yield Found(placed.at("model", "quantization"), found, f"write {stored}", "error" if packed else None)


@component_rule(
    "LP376",
    "Quantized format of a checkpoint that has none",
    reason="awq, gptq and mxfp4 are made beforehand; no server makes them while it loads, as it does fp8. It says "
    "`Cannot find the config file for awq`. What the hub has under this name is not quantized.",
    mend="Name the repository of the quantized checkpoint in model.id, or write quantization: none or fp8.",
)
def quantized_format_of_none(placed: Placed) -> Iterator[Found]:
    model = placed.component.model
    row = catalog.architecture(model.id)
    made_before = model.quantization in ("awq", "gptq", "mxfp4")
    if not made_before or row is None or model.architecture is not None or row.quantization != "none":
        return
    at_hub = isinstance(model.source, HubSource)
    found = f"{model.id} is not quantized on the hub, found {model.quantization}"
    mend = f"name a repository with {model.quantization} weights"
    if at_hub:
        yield Found(placed.at("model", "quantization"), found, mend)
    else:
        mend = f"{mend}; or, of weights made from it, their own name in model.id and {model.id} in model.base"
        yield Found(placed.at("model", "quantization"), found, mend, "warning")


@component_rule(
    "LP318",
    "No fp8 units on the accelerator",
    reason="Weights are then unpacked to 16 bits for every step: memory is saved, time is not.",
    mend="Use an accelerator with fp8 (L4, L40S, H100 and newer), or expect fp16 speed.",
    severity="warning",
)
def fp8_emulated(placed: Placed) -> Iterator[Found]:
    for _, instance in known_instances(placed.endpoint):
        if placed.component.model.quantization == "fp8" and accelerator_of(instance).fp8_tflops is None:
            found = f"{instance.accelerator} of {instance.instance_type} has no fp8 units"
            yield Found(placed.at("model", "quantization"), found, "use L4, L40S, H100 or newer for fp8 speed")
            continue
        row = catalog.format_on(placed.component.model.quantization, accelerator_of(instance).name)
        if row is not None and row.runs == "never":
            found = f"{instance.accelerator} of {instance.instance_type} has no kernel for {row.format} weights"
            yield Found(placed.at("model", "quantization"), found, "use another format, or T4, A10G and newer")


@rule(
    "LP319",
    "Image not published in the region",
    reason="The deployment fails minutes in, when SageMaker cannot pull the image.",
    mend="Use another version, another region, or an image of your own.",
)
def image_not_in_region(subject: Subject) -> Iterator[Found]:
    for placed in subject.components:
        image = catalog_image(placed.component.container)
        if image is None:
            continue
        try:
            catalog.image_uri(image, subject.region)
        except InputError:
            found = f"the catalog has no {image.family} {image.version} image in {subject.region}"
            mend = "use another version, or give container.image"
            yield Found(placed.at("container"), found, _region_meant(subject.region) or mend)


@rule(
    "LP327",
    "Instance type not offered in the region",
    reason="SageMaker refuses the endpoint's configuration, or finds no such machine when the deployment is under way.",
    mend="Use a type or a region that the catalog pairs, or add the region in instance_regions.csv.",
)
def instance_not_in_region(subject: Subject) -> Iterator[Found]:
    for path, name in instance_types(subject.endpoint):
        offered = catalog.instance_regions().get(name)
        if offered is not None and subject.region not in offered:
            found = f"{name} is not offered in {subject.region}"
            yield Found(path, found, _region_meant(subject.region) or f"it is in {', '.join(sorted(offered))}")


def _region_meant(region: str) -> str:
    """What to do about a region that the catalog does not know at all; empty for one that it does."""
    meant = catalog.misspelt_region(region)
    return f"the catalog knows no region of that name: {meant}" if meant else ""


@rule(
    "LP328",
    "Scale to zero where the region refuses it",
    reason="A minimum of 0 instances has been refused there, so the deployment would fail.",
    mend="Keep one instance, or use another region; delete the row in region_limits.csv if AWS has changed it.",
)
def zero_not_in_region(subject: Subject) -> Iterator[Found]:
    if subject.endpoint.min_instances == 0 and subject.region in catalog.regions_without("scale_to_zero"):
        found = f"{subject.region} refuses a minimum of 0 instances"
        yield Found(("endpoint", "min_instances"), found, "write 1")


@rule(
    "LP329",
    "No inference components in the region",
    reason="CloudFormation has no AWS::SageMaker::InferenceComponent there, so the stack would be refused.",
    mend="Write hosting: plain_variant, or use another region; delete the row in region_limits.csv once AWS has them.",
)
def components_not_in_region(subject: Subject) -> Iterator[Found]:
    components = subject.endpoint.hosting == "inference_components"
    if components and subject.region in catalog.regions_without("inference_components"):
        found = f"{subject.region} has no inference components"
        yield Found(("endpoint", "hosting"), found, "write hosting: plain_variant, or use another region")


def _generations(host: HostImage) -> str:
    return " and ".join(sorted(host.starts_cuda))


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"use {', '.join(near)}, or " if near else ""
