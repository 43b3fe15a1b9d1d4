"""One copy of a model on its accelerators: all the planner and the twin need, from a profile or from a container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from loadproof import catalog
from loadproof.capacity.calibrated import calibrated_rows, calibrated_speculation
from loadproof.capacity.servers import FabricRow, ServerRow, efficiency_row, fabric_row, fitted_prompts, server_row
from loadproof.capacity.speculation import Speculation, speculation_of
from loadproof.catalog.weights import DTYPE_BYTES, QUANTIZED_BYTES
from loadproof.errors import InputError
from loadproof.families import FAMILIES, BatchLimits, Settings, Speculative
from loadproof.profiles.schema import ArchitectureOverride, Calibration, Component, Family, Profile
from loadproof.profiles.settings import accelerators_per_copy as accelerators_of
from loadproof.profiles.settings import (
    components_of,
    quantization_from_variables,
    settings_from_variables,
    tensor_parallel_degree,
)


@dataclass(frozen=True, slots=True)
class PlannedDeployment:
    """One model on one instance type: `copies` of it, each over `accelerators` accelerators.

    `copies_per_instance` is how many fit by accelerators alone; `cost` uses it for the copy's share of an hour.
    """

    model_id: str
    architecture: catalog.Architecture
    instance: catalog.Instance
    accelerator: catalog.Accelerator
    accelerators: int
    weight_bytes_per_parameter: float
    kv_bytes_per_value: float
    family: Family
    version: str
    server: ServerRow
    fabric: FabricRow
    memory_fraction: float
    limits: BatchLimits
    copies: int
    quantization: str = "none"
    frees_past_window: bool = False  # the server frees what layers with a sliding window no longer read
    speculation: Speculation | None = None

    @property
    def copies_per_instance(self) -> int:
        return max(1, self.instance.accelerator_count // self.accelerators)


def deployment_of(profile: Profile, component: Component | None = None) -> PlannedDeployment:
    """The deployment of one component of a profile (default: the profile's own model), at its fewest copies.

    Raises InputError where the backend has no machines to plan (Bedrock) or the catalog lacks model or instance.
    """
    endpoint = profile.endpoint
    if profile.backend != "sagemaker" or endpoint is None:
        raise InputError(f"{profile.name}: nothing to plan, Bedrock shows no machines; use backend sagemaker")
    component = component or components_of(profile)[0]
    instance_type = endpoint.instance_type or min(endpoint.instance_pools, key=lambda pool: pool.priority).instance_type
    container, model = component.container, component.model
    published = FAMILIES[container.family].image is not None
    newest = catalog.container_image(container.family).version if published else ""
    deployment = _deployment(
        _Server(container.family, container.version or newest, container.settings),
        model_id=model.id,
        architecture=_architecture(model.id, model.architecture),
        instance_type=instance_type,
        accelerators=min(accelerators_of(component), max(1, tensor_parallel_degree(component))),
        dtype=model.dtype,
        quantization=model.quantization,
        copies=max(1, component.copies.min),
    )
    deployment = speculating(deployment, getattr(container, "speculative", None))
    return deployment if profile.calibration is None else with_calibration(deployment, profile.calibration)


def with_calibration(deployment: PlannedDeployment, calibration: Calibration) -> PlannedDeployment:
    """The deployment with one's own measurements for its rows; unchanged where they are of another server or chip."""
    measured_on = (calibration.server.family, calibration.accelerator)
    if measured_on != (deployment.family, deployment.accelerator.name):
        return deployment
    server, fabric, accelerator = calibrated_rows(
        calibration, deployment.server, deployment.fabric, deployment.accelerator
    )
    speculation = calibrated_speculation(calibration, deployment.speculation)
    return replace(deployment, server=server, fabric=fabric, accelerator=accelerator, speculation=speculation)


def deployment_from_container(
    *,
    family: Family,
    version: str,
    variables: Mapping[str, str],
    model_id: str,
    architecture: catalog.Architecture | None,
    instance_type: str,
    accelerators_per_copy: int,
    copies: int,
) -> PlannedDeployment:
    """The same from deployed resources: image family and version, environment variables, instance type.

    `architecture` None asks the catalog by `model_id`. Raises InputError for an unknown model, instance type or a
    variable that is no number where one is needed.
    """
    settings = settings_from_variables(family, variables)
    degree = settings.tensor_parallel_degree or accelerators_per_copy
    shape = architecture or _architecture(model_id, None)
    written = quantization_from_variables(family, variables)
    deployment = _deployment(
        _Server(family, version, settings),
        model_id=model_id,
        architecture=shape,
        instance_type=instance_type,
        accelerators=max(1, min(degree, accelerators_per_copy)),
        dtype=_dtype(family, variables),
        quantization=shape.quantization if written == "none" else written,  # the checkpoint's own where nothing is said
        copies=max(1, copies),
    )
    speculation = FAMILIES[family].speculation
    return speculating(deployment, speculation.read(variables) if speculation is not None else None)


def speculating(deployment: PlannedDeployment, wanted: Speculative | None) -> PlannedDeployment:
    """The same deployment with a container's `speculative`."""
    return replace(deployment, speculation=speculation_of(wanted, deployment.architecture))


def quantized(deployment: PlannedDeployment, quantization: str) -> PlannedDeployment:
    """The same deployment with weights stored so. Raises InputError for a way nobody knows the size of."""
    if quantization not in ("none", *QUANTIZED_BYTES):
        raise InputError(f"quantization: expected one of none, {', '.join(QUANTIZED_BYTES)}, found `{quantization}`")
    packed_bytes = catalog.bytes_per_parameter(quantization)
    return _reaching(replace(deployment, quantization=quantization, weight_bytes_per_parameter=packed_bytes))


def architecture_from_tag(text: str) -> catalog.Architecture:
    """`layers=32 hidden=4096 ...` (the tag `loadproof:architecture`) as an Architecture; unnamed fields are 0 or ''.

    Raises InputError naming the word that cannot be read or the field that is missing.
    """
    values: dict[str, Any] = {"source": "tag loadproof:architecture", "quantization": "none"}
    kinds = {field.name: field.type for field in fields(catalog.Architecture)}
    for word in text.split():
        name, _, value = word.partition("=")
        if name not in kinds or not value:
            raise InputError(f"loadproof:architecture: cannot read `{word}`; expected field=number")
        try:
            values[name] = value if kinds[name] == "str" else float(value) if "." in value else int(value)
        except ValueError:
            raise InputError(f"loadproof:architecture: `{word}` is no number; expected field=number") from None
    needed = {"layers", "hidden", "heads", "kv_heads", "head_dim", "parameters_b"}
    if missing := sorted(needed - values.keys()):
        raise InputError(f"loadproof:architecture: {', '.join(missing)} missing; found `{text}`")
    values.setdefault("active_parameters_b", values["parameters_b"])
    values.setdefault("allreduces_per_layer", 2)
    for name, kind in kinds.items():
        values.setdefault(name, "" if kind == "str" else 0)
    return catalog.Architecture(**values)


def architecture_as_tag(shape: catalog.Architecture) -> str:
    """What `architecture_from_tag` reads back; names, sources and whatever is 0 are left out."""
    values = {field.name: getattr(shape, field.name) for field in fields(catalog.Architecture)}
    kept = {name: value for name, value in values.items() if value and name not in ("name", "hf_id", "source")}
    return " ".join(f"{name}={value}" for name, value in kept.items())


class _Server(NamedTuple):
    family: Family
    version: str
    settings: Settings


def _deployment(
    served_by: _Server,
    *,
    model_id: str,
    architecture: catalog.Architecture,
    instance_type: str,
    accelerators: int,
    dtype: str,
    quantization: str,
    copies: int,
) -> PlannedDeployment:
    instance = catalog.instance(instance_type)
    if accelerators > instance.accelerator_count:
        raise InputError(
            f"{instance_type} has {instance.accelerator_count} accelerators, one copy asks for {accelerators}; "
            "lower the tensor parallel degree or take a larger instance"
        )
    accelerator = catalog.accelerator(instance.accelerator)
    family, version, settings = served_by
    known = FAMILIES[family]
    server = server_row(known.server_row(settings), version)
    server = replace(server, fitted_prompts=fitted_prompts(server.family, accelerator.name))
    deployment = PlannedDeployment(
        model_id=model_id,
        architecture=architecture,
        instance=instance,
        accelerator=accelerator,
        accelerators=accelerators,
        weight_bytes_per_parameter=catalog.bytes_per_parameter(quantization, dtype),
        kv_bytes_per_value=1.0 if known.fp8_cache(settings) else DTYPE_BYTES[dtype],
        family=family,
        version=version,
        server=server,
        fabric=fabric_row(instance.fabric, accelerators, family),
        memory_fraction=known.value(settings, known.memory_setting) or server.memory_fraction,
        limits=known.limits(known, settings, architecture, accelerator),
        copies=copies,
        quantization=quantization,
        frees_past_window=known.frees_past_window(settings),
    )
    return _reaching(deployment)


def _reaching(deployment: PlannedDeployment) -> PlannedDeployment:
    """The same deployment with the compute that prompts reach on its accelerator, of its model and its weights."""
    server, chip = deployment.server, deployment.accelerator
    row = efficiency_row(
        server.family,
        chip.name,
        mixture=bool(deployment.architecture.experts),
        fp8=deployment.quantization == "fp8" and bool(chip.fp8_tflops),
    )
    if row is None:
        return deployment
    return replace(
        deployment, server=replace(server, compute_efficiency=row.compute_efficiency, prompt_doubt=row.doubt)
    )


def _dtype(family: Family, variables: Mapping[str, str]) -> str:
    """fp32 where a variable says so; the 16-bit types weigh the same, and are what servers choose by themselves."""
    names = FAMILIES[family].model_variables
    return "fp32" if names is not None and variables.get(names.dtype, "").endswith("32") else "bf16"


def _architecture(model_id: str, override: ArchitectureOverride | None) -> catalog.Architecture:
    if override is not None:
        return override.shape(model_id)
    found = catalog.architecture(model_id)
    if found is None:
        raise InputError(
            f"the catalog does not know the shape of `{model_id}`; give model.base, model.config_json, or "
            "model.architecture (the fields of the model's config.json)"
        )
    return found
