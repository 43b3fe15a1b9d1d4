"""What SageMaker refuses, each rule with the message a client reads. Sources: API reference, observed refusals."""

from __future__ import annotations

import re
from collections.abc import Callable

from loadproof.catalog.readers import accelerators, host_images, instances
from loadproof.localcloud.controlplane.sagemaker.capacity import (
    copy_size,
    instance_bounds,
    instance_size,
    instance_types,
    specification_for,
)
from loadproof.localcloud.controlplane.sagemaker.deployments import faults
from loadproof.localcloud.controlplane.sagemaker.store import Endpoint, Store, refuse
from loadproof.localcloud.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document

_REGISTRY = re.compile(r"\d{12}\.dkr\.ecr(-fips)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/")
RoleCheck = Callable[[str, str], str | None]  # (account, role ARN) -> why SageMaker cannot assume it


def check_role(roles: RoleCheck, caller: Caller, role_arn: str) -> None:
    """SageMaker assumes the execution role at once; a missing role or a wrong trust policy is refused."""
    reason = roles(caller.account, role_arn)
    if reason is not None:
        raise refuse(
            f"Could not assume role {role_arn}. Please ensure that the role exists and allows principal "
            f"'sagemaker.amazonaws.com' to assume the role. ({reason})"
        )


def check_model(params: Params) -> None:
    """A model has one container or a list, and an image or a model package in each."""
    if bool(params.get("PrimaryContainer")) == bool(params.get("Containers")):
        raise refuse("Exactly one of PrimaryContainer and Containers is required.")
    _check_host_names(params)
    for container in params.get("Containers") or [params["PrimaryContainer"]]:
        if not container.get("Image") and not container.get("ModelPackageName"):
            raise refuse("A container needs an Image or a ModelPackageName.")
        _check_image(container, inside=bool(params.get("VpcConfig")))
        if container.get("ModelDataUrl") and container.get("ModelDataSource"):
            raise refuse("ModelDataUrl and ModelDataSource are mutually exclusive.")
        source = container.get("ModelDataSource", {}).get("S3DataSource", {})
        if source.get("S3DataType") == "S3Prefix" and not source.get("S3Uri", "").endswith("/"):
            raise refuse(f"S3Uri {source.get('S3Uri')} of a S3DataSource of S3DataType S3Prefix must end with '/'.")
        if sum(len(k) + len(v) for k, v in container.get("Environment", {}).items()) > 32 * 1024:
            raise refuse("The environment of a container is limited to 32 KB.")


def _check_host_names(params: Params) -> None:
    """ContainerDefinition, ContainerHostname: of each container of a pipeline or of none, and each its own."""
    containers = params.get("Containers") or []
    names = [one["ContainerHostname"] for one in containers if one.get("ContainerHostname")]
    direct = (params.get("InferenceExecutionConfig") or {}).get("Mode") == "Direct"
    if len(names) < len(containers) and (names or direct):
        raise refuse(
            "ContainerHostname is required for every container when one has it, or when they are called directly."
        )
    if len(set(names)) != len(names):
        raise refuse(f"ContainerHostname must be unique among the containers of a model, found {', '.join(names)}.")


def _check_image(container: Document, *, inside: bool) -> None:
    """Images lie in a private ECR registry, unless the container says that its own network reaches another one."""
    image = container.get("Image") or ""
    reached = (container.get("ImageConfig") or {}).get("RepositoryAccessMode") == "Vpc"
    if reached and not inside:
        raise refuse("RepositoryAccessMode Vpc needs a VpcConfig, through which the registry is reached.")
    if image and not reached and not _REGISTRY.match(image):
        raise refuse(f'Using non-ECR image "{image}" without Vpc repository access mode is not supported.')


def check_config(store: Store, caller: Caller, params: Params) -> None:
    """Every variant by itself, then the rules for hosting inference components."""
    refused = [one for one in ("ShadowProductionVariants", "ExplainerConfig") if params.get(one)]
    if refused:
        raise AwsError("UnsupportedOperation", f"The local cloud does not provide {', '.join(refused)}.")
    if params.get("AsyncInferenceConfig"):
        _check_asynchronous(params)
    variants = params["ProductionVariants"]
    names = [variant["VariantName"] for variant in variants]
    if len(set(names)) != len(names):
        raise refuse(f"Variant names must be unique, found {', '.join(names)}.")
    for variant in variants:
        _check_variant(store, caller, variant, params)
        _check_host(variant, params)


def _check_asynchronous(params: Params) -> None:
    """Components are never asynchronous; what has no effect here is refused by name."""
    hosts = [variant["VariantName"] for variant in params["ProductionVariants"] if hosts_components(variant)]
    if hosts:
        raise refuse(
            f"AsyncInferenceConfig needs a ModelName in every variant: {', '.join(hosts)} hosts inference components."
        )
    output = params["AsyncInferenceConfig"]["OutputConfig"]
    if not output.get("S3OutputPath"):
        raise AwsError("UnsupportedOperation", "The local cloud needs AsyncInferenceConfig.OutputConfig.S3OutputPath.")
    if output.get("NotificationConfig", {}).get("IncludeInferenceResponseIn"):
        raise AwsError("UnsupportedOperation", "The local cloud does not provide IncludeInferenceResponseIn.")


def _check_host(variant: Document, params: Params) -> None:
    """What the API's documentation says of disks and routing, and its model does not."""
    for row in [instances().get(kind) for kind in instance_types(variant)]:
        given = [name for name, found in (("KmsKeyId", params), ("VolumeSizeInGB", variant)) if found.get(name)]
        if row is not None and row.has_local_disk and given:
            raise refuse(f"{' and '.join(given)} must not be given: {row.instance_type} has local storage of its own.")
        host = host_images().get(variant.get("InferenceAmiVersion", ""))
        chip = accelerators().get(row.accelerator) if row is not None else None
        if host is not None and chip is not None and host.vendor != chip.vendor:
            raise refuse(
                f"InferenceAmiVersion {host.ami_version} is of {host.vendor}'s accelerators; "
                f"{variant['VariantName']} runs on {chip.name}."
            )
    routing = variant.get("RoutingConfig", {})
    if (routing.get("RoutingStrategy") == "PREFIX_AWARE") != bool(routing.get("PrefixAwareRoutingConfig")):
        raise refuse("RoutingStrategy PREFIX_AWARE and PrefixAwareRoutingConfig must be given together.")


def _check_variant(store: Store, caller: Caller, variant: Document, params: Params) -> None:
    name = variant["VariantName"]
    kinds = [kind for kind in ("InstanceType", "InstancePools", "ServerlessConfig") if variant.get(kind)]
    if len(kinds) != 1:
        raise refuse(
            f"Variant {name} needs exactly one of InstanceType, InstancePools and ServerlessConfig, "
            f"found {', '.join(kinds) or 'none'}."
        )
    if kinds[0] == "ServerlessConfig":
        raise AwsError("UnsupportedOperation", "The local cloud does not provide serverless variants.")
    model_name = variant.get("ModelName")
    if model_name:
        store.models.find(caller, model_name)
        if not variant.get("InitialInstanceCount"):
            raise refuse(f"Variant {name} needs an InitialInstanceCount of at least 1.")
        # AWS took it of other endpoints, to no effect, until 2026: hashicorp/terraform-provider-aws pull 45926, 48767.
        if (variant.get("ManagedInstanceScaling") or {}).get("Status") == "ENABLED":
            raise refuse("ManagedInstanceScaling is only supported for inference component endpoints.")
    elif not params.get("ExecutionRoleArn"):
        raise refuse(
            f"ExecutionRoleArn is required: variant {name} has no ModelName, so it hosts inference components."
        )
    fewest, most = instance_bounds(variant)
    if fewest > most:
        raise refuse(
            f"Variant {name}: MinInstanceCount {fewest} must be less than or equal to MaxInstanceCount {most}."
        )
    if not fewest <= int(variant.get("InitialInstanceCount", max(fewest, 1))) <= most:
        raise refuse(
            f"Variant {name}: InitialInstanceCount {variant['InitialInstanceCount']} must lie between "
            f"MinInstanceCount {fewest} and MaxInstanceCount {most}."
        )


def hosts_components(variant: Document) -> bool:
    return not variant.get("ModelName")


def check_specifications(
    store: Store, caller: Caller, specifications: list[Document], variant: Document, endpoint_name: str
) -> None:
    """A component's specifications against its variant: one for all instance types, or one each for several."""
    if len(specifications) > 1:
        kinds = [one.get("InstanceType") for one in specifications]
        if None in kinds or len(set(kinds)) != len(kinds):
            raise refuse("Each of several Specifications needs an InstanceType of its own.")
        foreign = [str(kind) for kind in kinds if kind not in instance_types(variant)]
        if foreign:
            raise refuse(
                f"Variant {variant['VariantName']} has no instances of type {', '.join(foreign)}; "
                f"it has {', '.join(instance_types(variant))}."
            )
    for specification in specifications:
        _check_specification(store, caller, specification, endpoint_name)
    if not specifications[0].get("BaseInferenceComponentName"):
        check_fits(specifications, variant)


def _check_specification(store: Store, caller: Caller, specification: Document, endpoint_name: str) -> None:
    """One specification by itself: model or image, and what it reserves."""
    base_name = specification.get("BaseInferenceComponentName")
    needs = specification.get("ComputeResourceRequirements")
    if base_name:
        _check_adapter(store, caller, specification, base_name, endpoint_name)
        return
    model_name = specification.get("ModelName")
    image = specification.get("Container", {}).get("Image")
    if bool(model_name) == bool(image):
        raise refuse("A specification needs either a ModelName or a Container with an Image.")
    if model_name:
        store.models.find(caller, model_name)
        _check_agrees(store, caller, model_name, endpoint_name)
    if not needs:
        raise refuse("ComputeResourceRequirements are required for a base inference component.")
    if needs.get("MaxMemoryRequiredInMb", needs["MinMemoryRequiredInMb"]) < needs["MinMemoryRequiredInMb"]:
        raise refuse("MaxMemoryRequiredInMb must not be less than MinMemoryRequiredInMb.")


def _check_agrees(store: Store, caller: Caller, model_name: str, endpoint_name: str) -> None:
    """A model runs on its endpoint's machines: both must say the same about role, network and isolation."""
    endpoint = store.endpoints.named(caller, endpoint_name)
    config = store.configs.named(caller, endpoint.config_name) if endpoint is not None else None
    if config is None:
        return
    model = store.models.find(caller, model_name).request
    for name in ("ExecutionRoleArn", "VpcConfig", "EnableNetworkIsolation"):
        if (model.get(name) or None) != (config.request.get(name) or None):
            raise refuse(f"{name} of model {model_name} differs from that of endpoint configuration {config.name}.")


def _check_adapter(store: Store, caller: Caller, specification: Document, base_name: str, endpoint_name: str) -> None:
    base = store.components.named(caller, base_name)
    if base is None or base.endpoint_name != endpoint_name:
        raise refuse(f"Base inference component {base_name} does not exist on endpoint {endpoint_name}.")
    if base.base_name:
        raise refuse(f"{base_name} is an adapter itself and cannot be a base inference component.")
    if specification.get("ComputeResourceRequirements"):
        raise refuse("An adapter must not have ComputeResourceRequirements: it runs in its base component.")
    if not specification.get("Container", {}).get("ArtifactUrl"):
        raise refuse("An adapter needs Container.ArtifactUrl.")


def check_fits(specifications: list[Document], variant: Document) -> None:
    """One copy must fit on one instance of some type of the variant, and on its own type where it names one."""
    refused = []
    for kind in instance_types(variant):
        specification = specification_for(specifications, kind)
        offer = instance_size(kind)
        if specification is None or offer is None or offer.holds(copy_size(specification)):
            continue
        size = copy_size(specification)
        refused.append(
            f"One copy requests {size.accelerators:g} accelerators, {size.cpus:g} vCPUs and {size.memory_mib:g} MB, "
            f"but {kind} has {offer.accelerators:g}, {offer.cpus:g} and {offer.memory_mib:g} MB."
        )
    if refused and (len(specifications) > 1 or len(refused) == len(instance_types(variant))):
        raise refuse(" ".join(refused))


def check_update(store: Store, endpoint: Endpoint, config: Document, scaled: frozenset[str]) -> None:
    """A new configuration against what runs: components keep their variant and still fit, scaled variants stay.

    `scaled` names the variants that are scalable targets: AWS refuses to remove them or to change their instance type.
    """
    new = {variant["VariantName"]: variant for variant in config["ProductionVariants"]}
    old = {variant.name: variant.config for variant in endpoint.variants}
    for component in store.components_of(endpoint.caller, endpoint.name):
        variant = new.get(component.variant_name)
        if variant is None or not hosts_components(variant):
            raise refuse(
                f"Variant {component.variant_name} hosts inference component {component.name} "
                "and cannot be removed or given a ModelName."
            )
        check_fits(component.specifications, variant)
    held = [
        name
        for name in sorted(scaled & old.keys())
        if name not in new or instance_types(new[name]) != instance_types(old[name])
    ]
    if held:
        raise refuse(
            f'The variant(s) "[{", ".join(held)}]" must be deregistered as scalable targets with AutoScaling before '
            "they can be removed or have their instance type updated."
        )


def check_deployment(store: Store, endpoint: Endpoint, config: Document, settings: Document) -> None:
    """A DeploymentConfig against both fleets: names must match, rolling is for one variant, sizes for its capacity."""
    names = {variant["VariantName"] for variant in config["ProductionVariants"]}
    if names != {variant.name for variant in endpoint.variants}:
        raise refuse("A deployment configuration needs the same variant names in the old and the new configuration.")
    if "RollingUpdatePolicy" in settings and len(names) > 1:
        raise refuse("RollingUpdatePolicy is not supported for endpoints with several production variants.")
    _check_alarms(store, endpoint.caller, settings)
    for variant in endpoint.variants:
        check_settings(settings, variant.current_count)


def check_settings(settings: Document, capacity: int | None) -> None:
    """The sizes of a DeploymentConfig (API reference: TrafficRoutingConfig, RollingUpdatePolicy)."""
    for fault in faults(settings, capacity):
        raise refuse(fault)


def check_component_deployment(store: Store, caller: Caller, settings: Document, copies: int) -> None:
    """A component's rolling update; a batch of one copy is allowed even where there is only one."""
    _check_alarms(store, caller, settings)
    check_settings(settings, max(2, copies))


def _check_alarms(store: Store, caller: Caller, settings: Document) -> None:
    names = [alarm["AlarmName"] for alarm in settings.get("AutoRollbackConfiguration", {}).get("Alarms", [])]
    missing = [name for name in names if store.alarm_state(caller, name) is None]
    if missing:
        raise refuse(f"Could not find CloudWatch alarm(s) {', '.join(missing)} of AutoRollbackConfiguration.")
