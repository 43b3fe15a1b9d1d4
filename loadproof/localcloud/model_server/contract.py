"""What the image itself would say: it does not start on this host or accelerator, or has no routes for adapters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loadproof.catalog import accelerators, host_images, instances
from loadproof.catalog.contracts import (
    Running,
    adapter_switch,
    cuda_of_image,
    default_hosts,
    fact,
    refusals_of,
    starts_on,
)
from loadproof.families import FAMILIES
from loadproof.localcloud.directory import ContainerView
from loadproof.localcloud.model_server.container import (
    CannotStartError,
    ContainerRequest,
    ContainerResponse,
    whole,
)
from loadproof.profiles.checks.facts import knows_chip
from loadproof.profiles.schema import Family
from loadproof.profiles.settings import ON, quantization_from_variables

_NO_LOG: Final = "CannotStartContainerError. Please ensure the model container starts correctly when invoked with "


@dataclass(frozen=True, slots=True)
class Place:
    """Where a container is to run."""

    instance_type: str
    accelerators_per_copy: int


class NoSuchRoute:
    """An adapter of a container that mounted no adapter routes: it answers, and knows nothing of the adapter."""

    async def invoke(self, request: ContainerRequest) -> ContainerResponse:
        return ContainerResponse(404, "application/json", whole(b'{"detail":"Not Found"}'))

    async def close(self) -> None:
        """Nothing runs."""


def check_contract(view: ContainerView, place: Place, family: Family) -> None:
    """Raises CannotStartError with the words of the image, or of SageMaker where the image leaves none."""
    row = instances().get(place.instance_type)
    host = host_images().get(view.ami_version or "") or (default_hosts().get(row.family) if row else None)
    cuda = cuda_of_image(view.image)
    if cuda is not None and host is not None and host.vendor == "NVIDIA" and not starts_on(cuda, host, view.image):
        named = view.ami_version or f"the default host of {host.ami_version}"
        driver = f"driver {host.driver}" if host.driver else "a driver older than CUDA 13"
        raise CannotStartError(
            f"{_NO_LOG}'docker run <image> serve'. (The image is of CUDA {cuda}, {named} with {driver} "
            f"starts CUDA {' and '.join(sorted(host.starts_cuda))}; on AWS there would be no log.)"
        )
    chip = accelerators().get(row.accelerator) if row else None
    if cuda is not None and chip is not None and chip.vendor == "NVIDIA" and not knows_chip(cuda, chip):
        raise CannotStartError(
            "CUDA error: no kernel image is available for execution on the device (The image is of CUDA "
            f"{cuda}, {place.instance_type} with {chip.name} needs {chip.min_cuda} or newer.)"
        )
    for_neuron = "neuron" in view.image.rpartition("/")[2]
    if chip is not None and for_neuron != (chip.vendor == "AWS") and (for_neuron or cuda is not None):
        lacks = "[NRT] nrt_init: no neuron device found" if for_neuron else "RuntimeError: No CUDA GPUs are available"
        raise CannotStartError(f"{lacks} ({place.instance_type} has {chip.name} of {chip.vendor}.)")
    names = FAMILIES[family].model_variables
    running = Running(
        image=view.image,
        model_id=view.tags.get("loadproof:model-id"),
        accelerator=row.accelerator if row else None,
        driver=host.driver if host else None,
        quantization=quantization_from_variables(family, view.environment),
        variables=view.environment,
        mounted=view.model_data_s3_uri is not None and not view.adapter,
        remote_code=names is None or view.environment.get(names.trust_remote_code, "").lower() == "true",
    )
    for refusal in refusals_of(running, "starting"):
        raise CannotStartError(f"{refusal.says} (published: {refusal.source}; {refusal.mend})")


def ignores_adapters(view: ContainerView) -> bool:
    """True where its base answers in an adapter's place."""
    return fact(view.image, "wrong_adapter") is not None


def loads_adapters(view: ContainerView) -> bool:
    """False where SageMaker finds no adapter routes: the image has none, or only with a variable that nobody set."""
    if fact(view.image, "adapter_routes") == "none":
        return ignores_adapters(view)
    switch = adapter_switch(view.image)
    return switch is None or view.environment.get(switch, "").strip().lower() in ON
