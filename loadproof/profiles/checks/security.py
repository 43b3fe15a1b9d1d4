"""Secrets, pinning, remote code, network (LP4xx), and the environment's own rules (LP280-LP283)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from loadproof.profiles.checks.rule import Found, Placed, Subject, component_rule, environment_rule, rule
from loadproof.profiles.names import NETWORK
from loadproof.profiles.schema import Environment, HubSource, JumpStartSource
from loadproof.profiles.secrets import is_secret_key, is_secret_value, shown_key
from loadproof.profiles.tree import Path

_IMAGE: Final = re.compile(
    r"[a-z0-9][a-z0-9.:-]*(?:/[a-z0-9._-]+)+(?::(?P<tag>[A-Za-z0-9_][\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?\Z"
)
_REGISTRY: Final = re.compile(r"\d{12}\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/")
_TOPICS: Final = ("success_topic_arn", "error_topic_arn")
_MOVING_TAGS: Final = ("latest", "nightly", "main", "dev", "stable")
# Values that name a secret's place instead of holding it.
_NOT_A_SECRET: Final = ("", "true", "false", "0", "1")


@component_rule(
    "LP401",
    "Secret in the container's environment",
    reason="DescribeModel, the template and the CDK's output show it to everybody who may read them.",
    mend="Put the secret into Secrets Manager; name a hub token's in model.source.token_secret_arn.",
)
def secret_in_environment(placed: Placed) -> Iterator[Found]:
    for name, value in placed.component.container.environment.items():
        if value.lower() in _NOT_A_SECRET and not is_secret_value(name):
            continue
        if is_secret_key(name) or is_secret_value(value) or is_secret_value(name):
            found = f"{shown_key(name)} looks like a secret (value hidden): DescribeModel exposes it"
            hub = "HF" in name.upper() or "HUGGING" in name.upper()
            mend = "use model.source.token_secret_arn" if hub else "read it from Secrets Manager at start"
            yield Found(placed.at("container", "environment", name), found, mend)


@component_rule(
    "LP402",
    "Image that cannot be pulled, or is not pinned",
    reason="SageMaker pulls from Amazon ECR; a moving tag would let copies of one endpoint run different servers.",
    mend="Write a version tag or a digest (@sha256:...).",
)
def image_not_pinned(placed: Placed) -> Iterator[Found]:
    image = placed.component.container.image
    if image is None:
        return
    path, parsed = placed.at("container", "image"), _IMAGE.match(image)
    if parsed is None:
        example = "123456789012.dkr.ecr.us-east-1.amazonaws.com/server:1.4.2"
        yield Found(path, "not the URI of an image in a registry", f"write it like {example}")
    elif _REGISTRY.match(image) is None:
        yield Found(path, "SageMaker pulls from Amazon ECR only", "push the image there, and write its URI")
    elif parsed.group("digest") is None and parsed.group("tag") is None:
        yield Found(path, "the image has no tag, which means :latest", "add a version tag or a digest")
    elif parsed.group("digest") is None and parsed.group("tag") in _MOVING_TAGS:
        yield Found(path, f"tag `{parsed.group('tag')}` moves", "write a version tag or a digest")


@component_rule(
    "LP403",
    "Code from the model's repository",
    reason="trust_remote_code runs Python that came with the weights; flags that forbid it have been bypassed before.",
    mend="Write false; if the model needs it, keep the network isolated and the revision pinned.",
)
def remote_code(placed: Placed) -> Iterator[Found]:
    if not placed.component.model.trust_remote_code:
        return
    path = placed.at("model", "trust_remote_code")
    if placed.endpoint.network_isolation:
        found = "code from the model's repository will run in the container"
        yield Found(path, found, "write false unless the model needs it", "warning")
    else:
        found = "code from the model's repository would run with network access"
        yield Found(path, found, "write false, or use an S3 source with network_isolation: true")


@rule(
    "LP404",
    "Network open without need",
    reason="A container that loads its weights from S3 needs no outbound network, and cannot leak what it cannot send.",
    mend="Leave endpoint.network_isolation at true.",
    severity="warning",
)
def network_open(subject: Subject) -> Iterator[Found]:
    fetched = any(isinstance(placed.component.model.source, HubSource) for placed in subject.components)
    if not subject.endpoint.network_isolation and not fetched:
        found = "no server fetches weights itself, yet the containers have network access"
        yield Found(("endpoint", "network_isolation"), found, "write true, or delete it")


@component_rule(
    "LP407",
    "Token for a container",
    reason="Weights of the hub are staged in S3, with the token far from the container, only when it has no network.",
    mend="Leave endpoint.network_isolation at true; the build job that stages the weights reads the token.",
)
def token_for_container(placed: Placed) -> Iterator[Found]:
    source = placed.component.model.source
    if isinstance(source, HubSource) and source.token_secret_arn is not None and not placed.endpoint.network_isolation:
        path = placed.at("model", "source", "token_secret_arn")
        found = "the server would have to hold the token, since it fetches the weights itself"
        yield Found(path, found, "delete endpoint.network_isolation: false, so that they are staged in S3")


@component_rule(
    "LP405",
    "ARN of another service",
    reason="It would be refused by the service, or grant a role something that was not meant.",
    mend="Give the ARN of the kind of resource the key names.",
)
def arn_of_service(placed: Placed) -> Iterator[Found]:
    source, endpoint = placed.component.model.source, placed.endpoint
    if isinstance(source, HubSource) and source.token_secret_arn is not None:
        path = placed.at("model", "source", "token_secret_arn")
        yield from _arn_is(source.token_secret_arn, path, "secretsmanager", "secret:")
    if endpoint.capacity_reservation is not None and not placed.path:
        path = ("endpoint", "capacity_reservation", "arn")
        yield from _arn_is(endpoint.capacity_reservation.arn, path, "sagemaker", "")
    if endpoint.async_inference is not None and not placed.path:
        for name in _TOPICS:
            topic = getattr(endpoint.async_inference, name)
            if topic is not None:
                yield from _arn_is(topic, ("endpoint", "async_inference", name), "sns", "")


@rule(
    "LP406",
    "Secret in plain text",
    reason="Profiles are read by everybody who reads the repository, and their text ends in templates and reports.",
    mend="Take the secret out, and replace it where it is valid: it is in the repository's history.",
)
def secret_in_text(subject: Subject) -> Iterator[Found]:
    for path, text in _texts(subject.profile, ()):
        if "environment" not in path and is_secret_value(text):
            yield Found(path, "looks like a secret (value hidden)", "take it out and revoke it")


@environment_rule(
    "LP280",
    "Environment that contradicts itself",
    reason="A key or topic of another region cannot be used, and is refused only at deployment.",
    mend="Use resources of the environment's own region.",
)
def environment_arns(environment: Environment) -> Iterator[Found]:
    for name, service, kind in (("kms_key_arn", "kms", "key/"), ("alarm_topic_arn", "sns", "")):
        arn = getattr(environment, name)
        if arn is None:
            continue
        yield from _arn_is(arn, (name,), service, kind)
        yield from _in_region(arn.split(":")[3], environment.region, (name,))
    job = environment.benchmark
    if job is not None:
        yield from _in_region(_region_of_image(job.image), environment.region, ("benchmark", "image"))
    for key in environment.tags:
        if key.lower().startswith("aws:"):
            yield Found(("tags", key), "tags may not begin with aws:", "rename it")


@environment_rule(
    "LP281",
    "VPC endpoints without route tables",
    reason="S3 is reached through a gateway, which is an entry in the subnets' route tables.",
    mend="Name the route tables of the subnets.",
)
def gateway_without_routes(environment: Environment) -> Iterator[Found]:
    network = environment.network
    if network is not None and network.vpc_endpoints and not network.route_table_ids:
        found = "S3's endpoint needs the subnets' route tables"
        yield Found(("network", "vpc_endpoints"), found, "add network.route_table_ids")


@environment_rule(
    "LP375",
    "Runbook that no alarm can link",
    reason="An alarm's message is read in a mail or on a telephone, where a path of the repository opens nothing.",
    mend="Write the address at which docs/runbook.md is to be read.",
    severity="warning",
)
def runbook_without_address(environment: Environment) -> Iterator[Found]:
    told = "alarm_topic_arn" if environment.alarm_topic_arn else "alarm_emails"
    if getattr(environment, told) and not environment.runbook_url.startswith(("https://", "http://")):
        found = f"alarms will name `{environment.runbook_url}`, which nobody can open from a message"
        yield Found((told,), found, "add runbook_url: https://…, where docs/runbook.md is read")


@rule(
    "LP283",
    "Resource of another region",
    reason="SageMaker pulls images, and reads reservations, topics and secrets, in its own region only; a profile that "
    "extends another region's brings that region's along.",
    mend="Write the one of the environment's region.",
)
def of_another_region(subject: Subject) -> Iterator[Found]:
    for path, region in _regions(subject):
        yield from _in_region(region, subject.region, path)


def _regions(subject: Subject) -> Iterator[tuple[Path, str | None]]:
    """Whatever of a profile names its region, with that region."""
    for placed in subject.components:
        source, image = placed.component.model.source, placed.component.container.image
        if image is not None:
            yield placed.at("container", "image"), _region_of_image(image)
        if isinstance(source, HubSource) and source.token_secret_arn is not None:
            yield placed.at("model", "source", "token_secret_arn"), source.token_secret_arn.split(":")[3]
        if isinstance(source, JumpStartSource) and source.hub_content_arn is not None:
            yield placed.at("model", "source", "hub_content_arn"), source.hub_content_arn.split(":")[3]
    endpoint = subject.endpoint
    if endpoint.capacity_reservation is not None:
        yield ("endpoint", "capacity_reservation", "arn"), endpoint.capacity_reservation.arn.split(":")[3]
    for name in _TOPICS if endpoint.async_inference is not None else ():
        topic = getattr(endpoint.async_inference, name)
        if topic is not None:
            yield ("endpoint", "async_inference", name), topic.split(":")[3]


def _region_of_image(image: str) -> str | None:
    """The region in an image's URI; None where it is none of ECR's, which another rule says."""
    registry = _REGISTRY.match(image)
    return registry["region"] if registry else None


def _in_region(found: str | None, wanted: str, path: Path) -> Iterator[Found]:
    if found is not None and found != wanted:
        yield Found(path, f"region {found or 'none'} is not the environment's {wanted}", f"use one in {wanted}")


@rule(
    "LP282",
    "Profile named like the environment's own stack",
    reason="Two stacks of one name cannot be.",
    mend="Rename the profile.",
)
def named_like_network(subject: Subject) -> Iterator[Found]:
    network = subject.environment.network if subject.environment else None
    if subject.profile.name == NETWORK and network is not None and network.vpc_endpoints:
        yield Found(("name",), f"`{NETWORK}` is the name of the stack of VPC endpoints", "rename it")


def _arn_is(arn: str, path: tuple[str | int, ...], service: str, kind: str) -> Iterator[Found]:
    parts = arn.split(":", 5)
    if parts[2] != service or not parts[5].startswith(kind):
        example = f"arn:aws:{service}:us-east-1:123456789012:{kind}name"
        seen = f"one of {parts[2]}" if parts[2] != service else f"another kind of {service} resource"
        yield Found(path, f"expected an ARN of {service}, found {seen}", f"write it like {example}")


def _texts(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, tuple):
        for at, item in enumerate(value):
            yield from _texts(item, (*path, at))
    elif hasattr(value, "__dict__"):
        for name, item in value.__dict__.items():
            yield from _texts(item, (*path, name))
