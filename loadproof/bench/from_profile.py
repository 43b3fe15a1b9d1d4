"""From a profile to a spec: where it is deployed, what to send, what it must meet, what the planner expects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from loadproof.bench.connect import service_url
from loadproof.bench.objectives import NAMES, Objective
from loadproof.bench.prediction import with_prediction
from loadproof.bench.spec import BenchmarkSpec, ImageSpec, ProfileRef, Target, WorkloadSpec
from loadproof.capacity.cost import hourly_cost, price_of
from loadproof.capacity.deployment import PlannedDeployment, deployment_of
from loadproof.capacity.workload import planned_workload
from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.endpoints import TargetDescription, describe_target, find_bedrock_model
from loadproof.loads import Load, checked
from loadproof.profiles import (
    components_of,
    load_environment,
    load_profile,
    profile_document,
    profile_hash,
    protocol_of,
)
from loadproof.profiles.judging import requests_to_judge
from loadproof.profiles.mixture import busiest_per_s, counts_of, image_tokens_of, mixture_of
from loadproof.profiles.names import endpoint_name, inference_component_name
from loadproof.profiles.on_bedrock import bedrock_settings, deployed_name, invoked_id
from loadproof.profiles.schema import Component, Profile, Workload


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """Which deployed thing to benchmark. `environment` None: the folder the profile lies in names it.

    `ask` False: what is deployed is taken to be what the profile says, and AWS is not asked (a dry run).
    """

    file: Path
    environment: str | None = None
    component: str | None = None
    endpoint_url: str | None = None
    ask: bool = True


def spec_of_profile(
    choice: ProfileChoice, adjust: Callable[[BenchmarkSpec], BenchmarkSpec] = lambda spec: spec
) -> BenchmarkSpec:
    """The spec of a profile as it is deployed now; `adjust` may change it before the planner predicts its levels.

    Raises ProfileError or InputError for the files, CouldNotRunError when the endpoint is not there or not InService.
    """
    profile = load_profile(choice.file)
    environment_name, folder = environment_of(choice)
    region = load_environment(folder).region
    if profile.endpoint is None:  # Bedrock: nobody tells its machines, so nothing is predicted, and tokens are paid for
        return adjust(_spec(profile, choice, _bedrock_target(profile, choice, environment_name, region)))
    component = _component(profile, choice)
    target = _target(profile, component, environment_name, region, choice.endpoint_url)
    deployment = deployment_of(profile, component)
    if choice.ask:
        deployment = _with_copies(deployment, _in_service(target, choice.endpoint_url))
    spec = adjust(_priced(_spec(profile, choice, target), profile, deployment))
    if spec.target.local_cloud == "http":
        # Another server answers in the instance's place: neither its price nor its prediction belongs beside that.
        return replace(spec, usd_per_hour=None, price=None)
    planned = planned_workload(profile, component.container)
    return with_prediction(
        spec,
        deployment,
        cached_tokens=min(planned.cached_tokens, spec.workload.shared_prefix_tokens),
        history=planned.history,
        routing="random" if profile.endpoint.routing.strategy == "random" else "least_outstanding",
    )


def _spec(profile: Profile, choice: ProfileChoice, target: Target) -> BenchmarkSpec:
    """What the profile says of its load and of how it is judged."""
    return BenchmarkSpec(
        target=target,
        workload=workload_of(profile, choice.file.parent),
        concurrency=tuple(sorted(set(profile.benchmark.concurrency))),
        requests_per_level=profile.benchmark.requests_per_level,
        warmup_requests=profile.benchmark.warmup_requests,
        request_timeout_s=profile.benchmark.request_timeout_s,
        objectives=objectives_of(profile),
        at_concurrency=profile.objectives.at_concurrency,
        profile=ProfileRef(
            profile.name,
            str(choice.file),
            profile_hash(profile),
            environment_of(choice)[0],
            profile_document(profile),
        ),
        loads=loads_of(profile, choice.file),
        drain_s=profile.benchmark.drain_s,
        requests_at_objectives=requests_to_judge(profile),
    )


def workload_of(profile: Profile, folder: Path) -> WorkloadSpec:
    """What the profile's requests look like; its files lie relative to the profile's `folder`."""
    return workload_spec(profile.workload, folder, profile.benchmark.seed, image_tokens_of(profile) or 0)


def workload_spec(workload: Workload, folder: Path, seed: int, picture_tokens: int = 0) -> WorkloadSpec:
    """A profile's part as what is sent. `picture_tokens` of each session are sent beside its text."""

    def of_text(most: int | None) -> int | None:
        return None if most is None else most - picture_tokens

    images = workload.images
    dataset = str(folder / workload.dataset) if workload.dataset else None
    return WorkloadSpec(
        input_tokens=counts_of(workload.input_tokens),
        output_tokens=counts_of(workload.output_tokens),
        seed=seed,
        shared_prefix_tokens=workload.shared_prefix_tokens,
        name=workload.name,
        unique_prompts=workload.unique_prompts,
        turns=workload.turns,
        think_time_s=float(workload.think_time_s),
        think_time_stddev_s=float(workload.think_time_stddev_s),
        continues=float(workload.continues),
        max_context_tokens=of_text(workload.max_context_tokens),
        first_input_tokens=None if workload.first_input_tokens is None else counts_of(workload.first_input_tokens),
        turn_correlation=workload.turn_correlation or 0.0,
        classes=tuple(
            replace(one, max_context_tokens=of_text(one.max_context_tokens)) for one in mixture_of(workload).classes
        )
        if workload.classes or workload.steps
        else (),
        dataset=dataset,
        tokenizer=str(folder / workload.tokenizer) if workload.tokenizer else None,
        answer_length=workload.answer_length,
        paired_lengths=workload.paired_lengths,
        images=ImageSpec(images.width_px, images.height_px, images.count) if images else None,
    )


def loads_of(profile: Profile, file: Path) -> tuple[Load, ...]:
    """The levels of the profile's phases, or of its arrivals; none for the plain closed loop at each concurrency.

    Raises InputError for a level that cannot be driven.
    """
    arrivals, benchmark = profile.workload.arrivals, profile.benchmark
    if benchmark.phases:
        rows = [{name: getattr(phase, name) for name in type(phase).model_fields} for phase in benchmark.phases]
    elif arrivals.process != "closed":
        timed = benchmark.duration_s is not None or arrivals.process == "trace"
        ends = {"duration_s": benchmark.duration_s, "requests": None if timed else benchmark.requests_per_level}
        rows = [{name: getattr(arrivals, name) for name in type(arrivals).model_fields if name not in _SHAPE} | ends]
        if arrivals.requests_per_s is not None:  # minutes know no day: they are the busiest hour's
            rows[0]["requests_per_s"] = busiest_per_s(arrivals)
    elif benchmark.duration_s is not None:
        levels = sorted(set(benchmark.concurrency))
        rows = [{"concurrency": level, "duration_s": benchmark.duration_s} for level in levels]
    else:
        rows = []
    traced = [row | {"trace": str(file.parent / row["trace"]) if row.get("trace") else None} for row in rows]
    return tuple(checked(Load(**row), f"{file}: level {number}") for number, row in enumerate(traced, start=1))


_SHAPE = ("hours", "days")


def asked_of(profile: Profile, file: Path) -> tuple[tuple[Load, ...], int]:
    """What a profile's benchmark asks for, and which of it its objectives must hold at."""
    benchmark, at = profile.benchmark, profile.objectives.at_concurrency
    loads = loads_of(profile, file)
    if not loads:
        needed = max(benchmark.requests_per_level, benchmark.requests_at_objectives or 0)
        counts = (
            (one, needed if one == at else benchmark.requests_per_level) for one in sorted(set(benchmark.concurrency))
        )
        loads = tuple(Load(concurrency=one, requests=count) for one, count in counts)
    named = [place for place, load in enumerate(loads) if not load.is_open and load.value == at]
    highest = max(range(len(loads)), key=lambda place: (loads[place].is_open, loads[place].value, place))
    return loads, named[-1] if named else highest


def objectives_of(profile: Profile) -> tuple[Objective, ...]:
    """The bounds a profile sets, in the order of their names."""
    bounds = ((name, getattr(profile.objectives, name)) for name in NAMES)
    return tuple(Objective(name, float(bound)) for name, bound in bounds if bound is not None)


def _component(profile: Profile, choice: ProfileChoice) -> Component:
    components = {component.name: component for component in components_of(profile)}
    name = choice.component or next(iter(components))
    if name not in components:
        raise InputError(f"{choice.file}: no component `{name}`; it has {', '.join(components)}")
    return components[name]


def environment_of(choice: ProfileChoice) -> tuple[str, Path]:
    """An environment is a folder: the profile's own, or with --env the one beside it."""
    own = choice.file.resolve().parent
    folder = own if choice.environment is None else own.parent / choice.environment
    if not (folder / "environment.yaml").is_file():
        raise InputError(
            f"{folder}: no environment.yaml, so nothing says where {choice.file.name} is deployed; "
            "give a profile of an environment, or name one with --env"
        )
    return folder.name, folder


def _target(profile: Profile, component: Component, environment: str, region: str, endpoint_url: str | None) -> Target:
    endpoint = endpoint_name(environment, profile.name)
    assert profile.endpoint is not None
    plain = profile.endpoint.hosting == "plain_variant"
    return Target(
        kind="sagemaker",
        endpoint=endpoint,
        component=None if plain else inference_component_name(endpoint, component.name),
        protocol=protocol_of(component.container),
        streaming=profile.workload.streaming,
        endpoint_url=endpoint_url or service_url("SAGEMAKER_RUNTIME"),
        region=region,
    )


def _bedrock_target(profile: Profile, choice: ProfileChoice, environment: str, region: str) -> Target:
    """The deployed profile's inference profile or provisioned throughput; in a dry run the model that it is made of."""
    if choice.component is not None:
        raise InputError(f"{choice.file}: --component {choice.component}: a model of Bedrock's has no components")
    settings, model_id = bedrock_settings(profile), invoked_id(profile)
    if choice.ask:
        model_id = find_bedrock_model(
            deployed_name(environment, profile),
            provisioned=settings.provisioned_throughput is not None,
            region=region,
            endpoint_url=choice.endpoint_url or service_url("BEDROCK"),
        )
    return Target(
        kind="bedrock",
        endpoint=model_id,
        protocol="converse",
        streaming=profile.workload.streaming,
        endpoint_url=choice.endpoint_url or service_url("BEDROCK_RUNTIME"),
        region=region,
        service_tier=None if settings.service_tier == "default" else settings.service_tier,
    )


def _in_service(target: Target, endpoint_url: str | None) -> TargetDescription:
    described = describe_target(
        target.endpoint,
        target.component,
        region=target.region or "",
        endpoint_url=endpoint_url or service_url("SAGEMAKER"),
    )
    for name, status, reason in (
        (described.endpoint, described.status, described.failure_reason),
        *((part.name, part.status, part.failure_reason) for part in described.components),
    ):
        if status != "InService":
            raise CouldNotRunError(f"{name} is {status}, not InService{f': {reason}' if reason else ''}")
    return described


def _with_copies(deployment: PlannedDeployment, described: TargetDescription) -> PlannedDeployment:
    copies = sum(part.copies for part in described.components)
    return replace(deployment, copies=copies) if copies else deployment


def _priced(spec: BenchmarkSpec, profile: Profile, deployment: PlannedDeployment) -> BenchmarkSpec:
    """With the price of the instances that hold the copies in service; unknown where several components share them."""
    assert profile.endpoint is not None
    if profile.components:
        return spec
    instances = max(profile.endpoint.min_instances, ceil(deployment.copies / deployment.copies_per_instance))
    cost = hourly_cost(deployment.instance, instances, instances)
    return replace(spec, usd_per_hour=cost.usd_per_hour_min, price=price_of(deployment.instance) or None)
