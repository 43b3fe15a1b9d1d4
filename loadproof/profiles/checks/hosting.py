"""Backend, instances, routing, components: rules across fields about where copies live, and what runs in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loadproof.catalog import is_gated
from loadproof.profiles.checks.rule import MAIN, Found, Placed, Subject, component_rule, rule
from loadproof.profiles.schema import (
    Copies,
    HubSource,
    JumpStartSource,
    Profile,
    S3Source,
)
from loadproof.profiles.settings import container_variables, reserved_variables

_MOST_VARIABLES: Final = 100
_MOST_VARIABLE_BYTES: Final = 32 * 1024
_LONGEST_VALUE_BYTES: Final = 1024
_PACKED: Final = (".tar.gz", ".tgz")
_ALARM_PERIOD_S: Final = 60


@rule(
    "LP201",
    "A part the backend needs is missing",
    reason="SageMaker needs weights, a container and instances; Bedrock needs none of them.",
    mend="Add the part, or change `backend`.",
)
def missing_for_backend(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    if profile.backend != "sagemaker":
        return
    if profile.container is None:
        yield Found((), "backend sagemaker needs `container`", "add `container:` with `family: lmi`, for example")
    if profile.endpoint is None:
        found = "backend sagemaker needs `endpoint`"
        yield Found((), found, "add `endpoint:` with `instance_type: ml.g6e.2xlarge`, for example")
    for placed in subject.components:
        if placed.component.model.source is None:
            found = "backend sagemaker needs `model.source`"
            yield Found(placed.at("model"), found, "add `source:` with `type: s3` and `s3_uri`, or `type: hub`")


@rule(
    "LP202",
    "A part the backend has no use for",
    reason="It would be ignored, and a reader would believe otherwise.",
    mend="Delete the part, or change `backend`.",
)
def useless_for_backend(subject: Subject) -> Iterator[Found]:
    profile = subject.profile
    if profile.backend == "sagemaker":
        if profile.bedrock is not None:
            yield Found(("bedrock",), "`bedrock` has no use with backend sagemaker", "delete it")
        return
    for name in ("container", "endpoint", "scaling", "adapters", "components"):
        if getattr(profile, name):
            yield Found((name,), f"`{name}` has no use with backend bedrock", "delete it")
    if profile.copies != Copies():
        yield Found(("copies",), "`copies` has no use with backend bedrock", "delete it")
    for name in ("source", "architecture", "quantization", "trust_remote_code"):
        if getattr(profile.model, name) not in (None, "none", False):
            yield Found(("model", name), "Bedrock hosts the weights itself", f"delete `{name}`")


@rule(
    "LP203",
    "Instance type and instance pools",
    reason="An endpoint runs on one type, or is filled from pools; SageMaker takes exactly one of the two.",
    mend="Keep one of `instance_type` and `instance_pools`.",
)
def one_way_to_name_instances(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    if endpoint.instance_type is None and not endpoint.instance_pools:
        found = "neither instance_type nor instance_pools is given"
        yield Found(("endpoint",), found, "add `instance_type: ml.g6e.2xlarge`, for example")
    if endpoint.instance_type is not None and endpoint.instance_pools:
        found = "instance_type and instance_pools are both given"
        yield Found(("endpoint", "instance_pools"), found, "keep one of them")


@rule(
    "LP204",
    "Instance bounds the wrong way round",
    reason="SageMaker refuses a minimum above the maximum.",
    mend="Lower min_instances or raise max_instances.",
)
def instance_bounds(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    if endpoint.min_instances > endpoint.max_instances:
        found = f"min_instances {endpoint.min_instances} is above max_instances {endpoint.max_instances}"
        yield Found(("endpoint", "min_instances"), found, f"lower it to {endpoint.max_instances}, or raise the other")


@component_rule(
    "LP205",
    "Copy bounds the wrong way round",
    reason="Application Auto Scaling refuses a minimum above the maximum.",
    mend="Lower copies.min or raise copies.max.",
)
def copy_bounds(placed: Placed) -> Iterator[Found]:
    copies = placed.component.copies
    if copies.min > copies.max:
        found = f"min {copies.min} is above max {copies.max}"
        yield Found(placed.at("copies", "min"), found, f"raise copies.max to {copies.min}, or lower copies.min")


@rule(
    "LP218",
    "Routing fields and strategy disagree",
    reason="prefix_aware needs both of its fields, and no other strategy takes them.",
    mend="Give prefix_length_bytes and concurrency_threshold with prefix_aware, and only with it.",
)
def routing_fields(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    routing = endpoint.routing
    for name in ("prefix_length_bytes", "concurrency_threshold"):
        given = getattr(routing, name) is not None
        if routing.strategy == "prefix_aware" and not given:
            example = "4096" if name == "prefix_length_bytes" else "16"
            yield Found(("endpoint", "routing"), f"prefix_aware needs `{name}`", f"add `{name}: {example}`")
        elif given and routing.strategy != "prefix_aware":
            found = f"`{name}` has no use with {routing.strategy}"
            yield Found(("endpoint", "routing", name), found, "delete it, or write strategy: prefix_aware")
    if routing.strategy == "prefix_aware" and endpoint.max_instances == 1:
        found = "SageMaker routes by prefix from two instances on, max_instances is 1"
        yield Found(("endpoint", "routing", "strategy"), found, "raise endpoint.max_instances", "warning")


@rule(
    "LP219",
    "Instance pools that repeat",
    reason="SageMaker fills pools by priority; equal types or priorities leave the order open.",
    mend="Give every pool its own type and priority.",
)
def pools_repeat(subject: Subject) -> Iterator[Found]:
    endpoint = subject.endpoint
    for name in ("instance_type", "priority"):
        seen: set[object] = set()
        for at, pool in enumerate(endpoint.instance_pools):
            value = getattr(pool, name)
            if value in seen:
                path = ("endpoint", "instance_pools", at, name)
                yield Found(path, f"{name} {value} is already taken", "give every pool its own")
            seen.add(value)


@rule(
    "LP220",
    "Not possible on this kind of hosting",
    reason="A plain variant holds one model, its copies are its instances; async inference has no components.",
    mend="Use hosting: inference_components, or leave the field out.",
)
def hosting_kind(subject: Subject) -> Iterator[Found]:
    profile, endpoint = subject.profile, subject.endpoint
    if endpoint.async_inference is not None:
        yield from _asynchronous(profile)
    if endpoint.hosting == "inference_components":
        if endpoint.async_inference is not None:
            found = "async inference cannot target inference components"
            yield Found(("endpoint", "async_inference"), found, "write hosting: plain_variant, or delete it")
        return
    mend = "write hosting: inference_components, or delete it"
    if endpoint.scale_in is not None:
        found = "managed instance scaling exists for inference components only"
        yield Found(("endpoint", "scale_in"), found, mend)
    if profile.copies.placement is not None:
        yield Found(("copies", "placement"), "a plain variant has one copy an instance", mend)
    if profile.components:
        yield Found(("components",), "a plain variant holds one model", mend)
    if profile.adapters:
        yield Found(("adapters",), "a plain variant takes no adapters", mend)
    if profile.scaling is not None and profile.scaling.to_zero is not None and endpoint.async_inference is None:
        yield Found(("scaling", "to_zero"), "a plain variant cannot go to zero in real time", mend)
    if profile.copies.min not in (0, 1, endpoint.min_instances):
        found = f"a plain variant has one copy an instance, so copies.min {profile.copies.min} has no use"
        yield Found(("copies", "min"), found, f"write endpoint.min_instances: {profile.copies.min}", "warning")


def _asynchronous(profile: Profile) -> Iterator[Found]:
    """InvokeEndpoint is refused there, with and without a stream: only InvokeEndpointAsync is served."""
    if profile.buffer is not None and profile.buffer.enabled:
        found = "an asynchronous endpoint has a queue of its own, and refuses the consumer's requests"
        yield Found(("buffer",), found, "delete it, or delete endpoint.async_inference")
    found = "a benchmark waits for each answer, and an asynchronous endpoint refuses such requests"
    if profile.benchmark.gate != "none":
        yield Found(("benchmark", "gate"), found, "write gate: none, or delete endpoint.async_inference")
    if profile.benchmark.schedule is not None:
        yield Found(("benchmark", "schedule"), found, "delete it, or delete endpoint.async_inference")


@rule(
    "LP221",
    "Names that collide",
    reason="Components and adapters become inference components of one endpoint; `main` is the profile's own model, "
    "and an adapter is named after its base and itself.",
    mend="Give each its own name.",
)
def names_collide(subject: Subject) -> Iterator[Found]:
    seen = {MAIN}
    for placed in subject.components:
        if placed.path:
            yield from _taken(placed.component.name, placed.at("name"), seen)
    for placed in subject.components:
        for at, adapter in enumerate(placed.component.adapters):
            yield from _taken(f"{placed.component.name}-{adapter.name}", placed.at("adapters", at, "name"), seen)


def _taken(name: str, path: tuple[str | int, ...], seen: set[str]) -> Iterator[Found]:
    if name in seen:
        yield Found(path, f"name `{name}` is already taken", "choose another")
    seen.add(name)


@component_rule(
    "LP222",
    "Adapters the server will not load",
    reason="LMI and vLLM load adapters only with LoRA switched on, and read nothing else about LoRA without it.",
    mend="Write enable_lora: true in container.settings.",
)
def adapters_need_lora(placed: Placed) -> Iterator[Found]:
    container = placed.component.container
    off = getattr(container.settings, "enable_lora", True) is not True
    if placed.component.adapters and off:
        found = f"{container.family} loads adapters only with enable_lora"
        yield Found(placed.at("adapters"), found, "write container.settings.enable_lora: true")
    for name in ("max_lora_rank", "max_loras"):
        if off and getattr(container.settings, name, None) is not None:
            found, mend = f"`{name}` has no use without enable_lora", "write enable_lora: true, or delete it"
            yield Found(placed.at("container", "settings", name), found, mend, "warning")


@component_rule(
    "LP224",
    "Licence not accepted",
    reason="JumpStart's Llama artifacts are refused until AcceptEula says yes: somebody must decide that.",
    mend="Read the licence, then write accept_eula: true.",
)
def licence_not_accepted(placed: Placed) -> Iterator[Found]:
    model = placed.component.model
    if isinstance(model.source, JumpStartSource) and "llama" in model.id.lower() and not model.source.accept_eula:
        found = "this artifact asks for its licence to be accepted"
        yield Found(placed.at("model", "source"), found, "read it, then write accept_eula: true")


@component_rule(
    "LP225",
    "S3 address and compression disagree",
    reason="An uncompressed artifact is a prefix, a compressed one is a single tar.gz; SageMaker refuses the other.",
    mend="End a prefix with a slash; write compression: gzip for a tar.gz. An adapter is always a tar.gz.",
)
def s3_form(placed: Placed) -> Iterator[Found]:
    for at, adapter in enumerate(placed.component.adapters):
        if not adapter.s3_uri.endswith(_PACKED):
            yield Found(
                placed.at("adapters", at, "s3_uri"), "an adapter is one tar.gz object", "pack it, and name the .tar.gz"
            )
    source = placed.component.model.source
    if not isinstance(source, S3Source | JumpStartSource):
        return
    path, packed = placed.at("model", "source", "s3_uri"), source.s3_uri.endswith(_PACKED)
    compression = source.compression if isinstance(source, S3Source) else "none"
    if compression == "gzip" and not packed:
        yield Found(path, "compression gzip needs one tar.gz object", "name the .tar.gz, or write compression: none")
    elif compression == "none" and packed:
        yield Found(path, "a tar.gz without compression gzip", "write compression: gzip, or a prefix")
    elif compression == "none" and not source.s3_uri.endswith("/"):
        yield Found(path, "a prefix without its closing slash", "add the slash")


@component_rule(
    "LP226",
    "Gated model without a token",
    reason="The hub answers 401 for gated weights, and the deployment fails.",
    mend="Stage the weights in S3, or name the secret that holds a token.",
)
def gated_without_token(placed: Placed) -> Iterator[Found]:
    model = placed.component.model
    if is_gated(model.id) and isinstance(model.source, HubSource) and model.source.token_secret_arn is None:
        found = f"`{model.id}` is gated on the hub, and there is no token"
        yield Found(placed.at("model", "source"), found, "use an S3 source, or add token_secret_arn")


@rule(
    "LP234",
    "Metrics too rare for alarms and scaling",
    reason="With enhanced metrics period_s holds for requests, errors and latency too. Alarms want three bad minutes "
    "of five and take missing ones for good, so they would never fire; scaling looks every minute as well.",
    mend="Write period_s: 60 or less, or enhanced: false.",
)
def metrics_too_rare(subject: Subject) -> Iterator[Found]:
    metrics = subject.endpoint.metrics
    if metrics.enhanced and metrics.period_s > _ALARM_PERIOD_S:
        found = f"requests and latency every {metrics.period_s} s, alarms look every {_ALARM_PERIOD_S} s"
        yield Found(("endpoint", "metrics", "period_s"), found, "write 60, or enhanced: false")
    elif "period_s" in metrics.model_fields_set and not metrics.enhanced and not metrics.detailed:
        found = "a period of metrics of which none is published: neither detailed nor enhanced"
        yield Found(("endpoint", "metrics", "period_s"), found, "delete it, or write detailed: true", "warning")


@component_rule(
    "LP235",
    "Version, CUDA and image",
    reason="`image` replaces the catalog's image: `version` belongs to the one, `cuda` to the other.",
    mend="Keep `version` alone, or `image` with `cuda` where its tag does not say.",
)
def version_and_image(placed: Placed) -> Iterator[Found]:
    container = placed.component.container
    if container.version is not None and container.image is not None:
        yield Found(placed.at("container", "version"), "version and image are both given", "keep one of them")
    if container.cuda is not None and container.image is None:
        yield Found(placed.at("container", "cuda"), "the catalog knows the CUDA of its own images", "delete it")


@component_rule(
    "LP236",
    "A variable that a typed field sets",
    reason="Two places for one setting: the plan reads the field, the server reads the variable.",
    mend="Move the value to the typed field.",
)
def variable_is_typed(placed: Placed) -> Iterator[Found]:
    container = placed.component.container
    reserved = reserved_variables(placed.component)
    for name in container.environment:
        if name in reserved:
            found = f"{name} is set by `{reserved[name]}`"
            yield Found(placed.at("container", "environment", name), found, "move the value there")


@component_rule(
    "LP237",
    "Environment too large",
    reason="SageMaker takes at most 100 variables, typed settings among them, of 1 KiB each and 32 KiB together.",
    mend="Delete variables, or put long ones into a file of the artifact.",
)
def environment_too_large(placed: Placed) -> Iterator[Found]:
    path, own = placed.at("container", "environment"), placed.component.container.environment
    variables = container_variables(placed.component)
    size = sum(len(name.encode()) + len(value.encode()) for name, value in variables.items())
    if len(variables) > _MOST_VARIABLES or size > _MOST_VARIABLE_BYTES:
        found = f"{len(variables)} variables of {size} bytes, allowed are {_MOST_VARIABLES} of {_MOST_VARIABLE_BYTES}"
        yield Found(path, found, "delete some")
    for name in sorted(name for name, value in own.items() if len(value.encode()) > _LONGEST_VALUE_BYTES):
        found = f"a value of {len(own[name].encode())} bytes, allowed are {_LONGEST_VALUE_BYTES}"
        yield Found((*path, name), found, "shorten it, or put it into a file of the artifact")
