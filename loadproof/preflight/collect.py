"""From an environment and its profiles to what they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from loadproof.catalog import registry
from loadproof.catalog.bedrock import NO_PREFIX, quota_names
from loadproof.preflight.account import Account
from loadproof.preflight.needs import (
    ADDRESSES_PER_INSTANCE,
    AlarmTopic,
    BedrockQuotaNeed,
    Bootstrap,
    Image,
    Instances,
    Key,
    Kind,
    Named,
    Need,
    Reservation,
    Secret,
    Stack,
    Subnets,
    Weights,
)
from loadproof.profiles import components_of, is_staged, names
from loadproof.profiles.images import ecr_image, image_of
from loadproof.profiles.on_bedrock import bedrock_row, bedrock_settings
from loadproof.profiles.schema import Component, Endpoint, Environment, HubSource, JumpStartSource, Profile, S3Source

_STATES: Final = "/aws/vendedlogs/states/"


@dataclass(frozen=True, slots=True)
class Deployments:
    """Profiles of one environment that are about to be deployed together. `qualifier` is that of its bootstrap."""

    environment_name: str
    environment: Environment
    profiles: tuple[Profile, ...]
    qualifier: str

    @property
    def hosted(self) -> tuple[Profile, ...]:
        """Those on SageMaker."""
        return tuple(profile for profile in self.profiles if profile.endpoint is not None)

    @property
    def benchmarked(self) -> tuple[Profile, ...]:
        """Those whose benchmark runs in the cloud, after a deployment or at times."""
        return tuple(one for one in self.profiles if one.benchmark.gate != "none" or one.benchmark.schedule is not None)

    def endpoint_name(self, profile: Profile) -> str:
        return names.endpoint_name(self.environment_name, profile.name)

    def stack_name(self, profile: Profile) -> str:
        return names.stack_name(self.environment_name, profile.name)

    @property
    def benchmark_stack(self) -> str | None:
        """The stack of the environment's benchmarks; None without one."""
        return names.stack_name(self.environment_name, names.BENCHMARK) if self.environment.benchmark else None

    @property
    def stacks(self) -> tuple[str, ...]:
        """Every stack that is made or updated."""
        own = [self.stack_name(profile) for profile in self.profiles]
        if self.benchmark_stack:
            own.append(self.benchmark_stack)
        if self.environment.network is not None and self.environment.network.vpc_endpoints:
            own.append(names.stack_name(self.environment_name, names.NETWORK))
        return tuple(own)


def needs_of(deployments: Deployments, account: Account) -> tuple[Need, ...]:
    """Everything that rules look at. Raises InputError for an image that lies outside of Amazon ECR."""
    return (
        Bootstrap(account, deployments.qualifier),
        *(Stack(account, name) for name in deployments.stacks),
        *_instances(deployments, account),
        *_job_instances(deployments, account),
        *_reservations(deployments, account),
        *_weights(deployments, account),
        *_secrets(deployments, account),
        *_images(deployments, account),
        *_key(deployments, account),
        *_named(deployments, account),
        *_subnets(deployments, account),
        *_bedrock(deployments, account),
        AlarmTopic(
            account, deployments.environment, tuple(deployments.stack_name(one) for one in deployments.profiles)
        ),
    )


def resources_of(deployments: Deployments, account: Account) -> Mapping[str, list[str]]:
    """The ARNs that the rights are over, by the names that `READS` has for them."""
    needs = needs_of(deployments, account)
    partition = registry(account.region).partition
    here = f"{account.region}:{account.id}"
    weights = [need for need in needs if isinstance(need, Weights)]
    buckets = {need.bucket for need in weights} | {need.bucket for need in needs if isinstance(need, Bootstrap)}
    images = [need.image for need in needs if isinstance(need, Image)]
    topic = deployments.environment.alarm_topic_arn
    topics = (
        [topic] if topic else [f"arn:{partition}:sns:{here}:loadproof-*"] * bool(deployments.environment.alarm_emails)
    )
    return {
        "stacks": [f"arn:{partition}:cloudformation:{here}:stack/{name}/*" for name in deployments.stacks],
        "repositories": [
            f"arn:{partition}:ecr:{one.region}:{one.account}:repository/{one.repository}" for one in images
        ],
        "buckets": [f"arn:{partition}:s3:::{bucket}" for bucket in buckets],
        "objects": [
            f"arn:{partition}:s3:::{need.bucket}/{need.key}{'' if need.is_object else '*'}" for need in weights
        ],
        "secrets": [need.arn for need in needs if isinstance(need, Secret)],
        "topics": topics,
        "parameters": [
            f"arn:{partition}:ssm:{here}:parameter{need.parameter}" for need in needs if isinstance(need, Bootstrap)
        ],
    }


def instance_types(endpoint: Endpoint) -> tuple[str, ...]:
    """Its type, or those of its pools: any one may have to give all instances."""
    if endpoint.instance_type is not None:
        return (endpoint.instance_type,)
    return tuple(pool.instance_type for pool in endpoint.instance_pools)


def most_instances(profile: Profile, endpoint: Endpoint) -> int:
    """Instances when everything has scaled out: a plain variant's copies are its instances."""
    if endpoint.hosting == "plain_variant":
        return max(endpoint.max_instances, *(component.copies.max for component in components_of(profile)))
    return endpoint.max_instances


def _instances(deployments: Deployments, account: Account) -> Iterator[Instances]:
    """By type, summed over the profiles. What a reservation gives counts against no quota of its own here."""
    counts: Counter[str] = Counter()
    of: dict[str, list[str]] = {}
    for profile in deployments.hosted:
        endpoint = profile.endpoint
        if endpoint is None or endpoint.capacity_reservation is not None:
            continue
        for kind in instance_types(endpoint):
            counts[kind] += most_instances(profile, endpoint)
            of.setdefault(kind, []).append(deployments.endpoint_name(profile))
    for kind, count in counts.items():
        yield Instances(account, kind, "endpoint", count, tuple(of[kind]), frozenset(of[kind]))


def _job_instances(deployments: Deployments, account: Account) -> Iterator[Instances]:
    """Of the gate's job: benchmarks of profiles that are deployed together run at once."""
    settings, profiles = deployments.environment.benchmark, deployments.benchmarked
    if settings is not None and profiles:
        count = sum(profile.benchmark.hosts for profile in profiles)
        who = tuple(f"benchmark of {profile.name}" for profile in profiles)
        yield Instances(account, settings.instance_type, "processing job", count, who)


def _reservations(deployments: Deployments, account: Account) -> Iterator[Reservation]:
    for profile in deployments.hosted:
        endpoint = profile.endpoint
        if endpoint is not None and endpoint.capacity_reservation is not None:
            count = most_instances(profile, endpoint)
            arn, name = endpoint.capacity_reservation.arn, deployments.endpoint_name(profile)
            yield Reservation(account, arn, instance_types(endpoint), count, name)


def _weights(deployments: Deployments, account: Account) -> Iterator[Weights]:
    key = deployments.environment.kms_key_arn
    for profile in deployments.hosted:
        for component in components_of(profile):
            source = component.model.source
            if isinstance(source, S3Source | JumpStartSource):
                packed = isinstance(source, S3Source) and source.compression == "gzip"
                what, jumpstart = f"weights of {_called(profile, component)}", isinstance(source, JumpStartSource)
                known = not jumpstart and component.container.family != "custom"
                yield Weights(account, source.s3_uri, what, key, packed, jumpstart, known)
            for adapter in component.adapters:
                what = f"adapter {adapter.name} of {_called(profile, component)}"
                yield Weights(account, adapter.s3_uri, what, key, True)


def _called(profile: Profile, component: Component) -> str:
    return profile.name if component.name == "main" else f"{profile.name}/{component.name}"


def _secrets(deployments: Deployments, account: Account) -> Iterator[Secret]:
    sources = [
        component.model.source
        for profile in deployments.hosted
        for component in components_of(profile)
        if isinstance(component.model.source, HubSource)
    ]
    for arn in dict.fromkeys(source.token_secret_arn for source in sources):
        if arn:
            yield Secret(account, arn)


def _images(deployments: Deployments, account: Account) -> Iterator[Image]:
    users: dict[str, list[str]] = {}
    for profile in deployments.hosted:
        for component in components_of(profile):
            image = image_of(component.container, account.region)
            users.setdefault(image, []).append(_called(profile, component))
    if deployments.environment.benchmark is not None:
        users.setdefault(deployments.environment.benchmark.image, []).append("benchmark job")
    for image, what in users.items():
        yield Image(account, ecr_image(image), ", ".join(what))


def _key(deployments: Deployments, account: Account) -> Iterator[Key]:
    """Log groups and alarms' own topics use it as services; all else by roles of the account."""
    environment = deployments.environment
    if environment.kms_key_arn is not None:
        services = [f"logs.{account.region}.amazonaws.com"]
        if environment.alarm_topic_arn is None and environment.alarm_emails:
            services.append("cloudwatch.amazonaws.com")
        yield Key(account, environment.kms_key_arn, tuple(services))


def _named(deployments: Deployments, account: Account) -> Iterator[Named]:
    for profile in deployments.profiles:
        endpoint, stack = deployments.endpoint_name(profile), deployments.stack_name(profile)
        for kind, name in _names(profile, endpoint):
            days = deployments.environment.log_retention_days if kind == "log group" else None
            yield Named(account, kind, name, stack, days)
    if deployments.benchmark_stack is not None:
        stack = deployments.benchmark_stack
        yield Named(account, "state machine", stack, stack)
        days = deployments.environment.log_retention_days
        yield Named(account, "log group", f"{_STATES}{stack}", stack, days)


def _names(profile: Profile, endpoint: str) -> Iterator[tuple[Kind, str]]:
    """The names that a profile's template fixes; what CloudFormation names is never taken."""
    yield "dashboard", endpoint
    if profile.buffer is not None and profile.buffer.enabled:
        yield "queue", names.queue_name(endpoint)
        yield "queue", names.dead_letter_queue_name(endpoint)
    if profile.endpoint is None:
        return
    yield "endpoint", endpoint
    yield "log group", f"/aws/sagemaker/Endpoints/{endpoint}"
    components = components_of(profile)
    if any(is_staged(component.model, profile) for component in components):
        yield "state machine", f"{endpoint}-weights"
    if profile.endpoint.hosting == "inference_components":
        for component in components:
            name = names.inference_component_name(endpoint, component.name)
            yield "inference component", name
            yield "log group", f"/aws/sagemaker/InferenceComponents/{name}"
            for adapter in component.adapters:
                yield "inference component", names.inference_component_name(endpoint, component.name, adapter.name)


def _subnets(deployments: Deployments, account: Account) -> Iterator[Subnets]:
    network = deployments.environment.network
    if network is None:
        return
    instances = sum(
        most_instances(profile, profile.endpoint) for profile in deployments.hosted if profile.endpoint is not None
    )
    if deployments.environment.benchmark is not None:
        instances += sum(profile.benchmark.hosts for profile in deployments.benchmarked)
    addresses = instances * ADDRESSES_PER_INSTANCE
    yield Subnets(account, network.vpc_id, network.subnet_ids, network.security_group_ids, addresses)


def _bedrock(deployments: Deployments, account: Account) -> Iterator[BedrockQuotaNeed]:
    """Where throughput is provisioned, requests count against no quota of these."""
    for profile in deployments.profiles:
        if profile.backend != "bedrock" or bedrock_settings(profile).provisioned_throughput is not None:
            continue
        row = bedrock_row(profile)
        if row is not None:
            prefix = bedrock_settings(profile).inference_profile or NO_PREFIX
            for unit in ("requests", "tokens"):
                yield BedrockQuotaNeed(account, profile.model.id, unit, tuple(quota_names(prefix, unit, row.title)))
