"""What is deployed behind a target: the control plane's answer, one call each, no retries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from loadproof.errors import CouldNotRunError, InputError
from loadproof.invocation.aws_errors import BotoCoreError, ClientError, NoCredentialsError, UnreachedError
from loadproof.invocation.aws_sdk import Client as Client
from loadproof.invocation.aws_sdk import aws_session, guarded, sdk
from loadproof.invocation.credentials import boto3_keys, is_loopback

Answer = dict[str, Any]  # of such a client


@dataclass(frozen=True, slots=True)
class TargetComponent:
    """One inference component. `copies` are those in service now; `image` None where the component names a Model."""

    name: str
    status: str
    copies: int
    image: str | None
    failure_reason: str | None


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """An endpoint and its components; `image` is the first variant's own where there are no components."""

    endpoint: str
    status: str
    failure_reason: str | None
    variants: tuple[str, ...]
    components: tuple[TargetComponent, ...]
    image: str | None


def describe_target(
    endpoint: str, component: str | None = None, *, region: str, endpoint_url: str | None = None
) -> TargetDescription:
    """Describe `endpoint`, with `component` only or all of its components.

    Raises CouldNotRunError if it does not exist, may not be described, cannot be reached, or if `component` belongs
    to another endpoint.
    """
    return describe_with(aws_client("sagemaker", region, endpoint_url), endpoint, component)


def describe_with(client: Client, endpoint: str, component: str | None = None) -> TargetDescription:
    """The same with a boto3 SageMaker client of the caller's own."""
    where = f"{endpoint}/{component}" if component else endpoint
    with described(f"endpoint {where} in {client.meta.region_name}"):
        found = client.describe_endpoint(EndpointName=endpoint)
        names = [component] if component else _component_names(client, endpoint)
        components = tuple(_component(client, name, endpoint) for name in names)
    variants = found.get("ProductionVariants", [])
    images = [image["SpecifiedImage"] for variant in variants for image in variant.get("DeployedImages", [])]
    return TargetDescription(
        endpoint=endpoint,
        status=found["EndpointStatus"],
        failure_reason=found.get("FailureReason"),
        variants=tuple(variant["VariantName"] for variant in variants),
        components=components,
        image=images[0] if images else None,
    )


def find_bedrock_model(name: str, *, provisioned: bool, region: str, endpoint_url: str | None = None) -> str:
    """ARN to invoke of the provisioned throughput, else of the application inference profile, of that name.

    Raises CouldNotRunError if it does not exist or does not serve, may not be described, or cannot be reached.
    """
    client = aws_client("bedrock", region, endpoint_url)
    what = f"{'provisioned throughput' if provisioned else 'application inference profile'} {name} in {region}"
    with described(what):
        if provisioned:
            found = client.get_provisioned_model_throughput(provisionedModelId=name)
            arn, status = str(found["provisionedModelArn"]), found["status"]
        else:
            arn, status = _inference_profile(client, name)
    if status not in ("InService", "ACTIVE"):
        raise CouldNotRunError(f"{what} is {status}; deploy the profile, or wait until it serves")
    return arn


@contextmanager
def described(what: str, mend: str = "") -> Iterator[None]:
    """What AWS answers while `what` is asked after, as CouldNotRunError."""
    try:
        yield
    except ClientError as error:
        details = error.response.get("Error", {})
        raise CouldNotRunError(f"{what}: {details.get('Code', '?')}: {details.get('Message', '?')}{mend}") from error
    except BotoCoreError as error:
        raise CouldNotRunError(f"{what} cannot be described: {error}{_mend_of(error)}") from error


def _mend_of(error: Exception) -> str:
    if isinstance(error, NoCredentialsError):
        return '; set AWS_PROFILE, or point at a local cloud: eval "$(loadproof local env)"'
    if isinstance(error, UnreachedError):
        return "; look at AWS_ENDPOINT_URL, --endpoint-url and the network"
    return ""


def _inference_profile(client: Client, name: str) -> tuple[str, str]:
    pages = client.get_paginator("list_inference_profiles").paginate(typeEquals="APPLICATION")
    for page in pages:
        for found in page["inferenceProfileSummaries"]:
            if found["inferenceProfileName"] == name:
                return found["inferenceProfileArn"], found["status"]
    return "", "not there"


def aws_client(
    service: str,
    region: str | None,
    endpoint_url: str | None,
    *,
    connect_timeout_s: float = 10,
    read_timeout_s: float = 30,
    connections: int = 10,
    session: Any = None,
) -> Client:
    """A boto3 client that tries once; with a local cloud's own keys there.

    `region` None: the environment's. `session`: boto3's, for several clients that share what it reads.
    Raises InputError for a URL that is none, CouldNotRunError.
    """
    try:
        _ = urlsplit(endpoint_url or "").port  # ValueError for a port that is none
        session = session or aws_session(region)
        here = endpoint_url is not None and is_loopback(endpoint_url)
        config = sdk("botocore.config").Config(
            retries={"total_max_attempts": 1},
            connect_timeout=connect_timeout_s,
            read_timeout=read_timeout_s,
            max_pool_connections=connections,
            s3={"addressing_style": "path"} if here else {},  # loopback has no subdomains
        )
        keys = boto3_keys(endpoint_url, session)
        return guarded(session.client(service, region_name=region, endpoint_url=endpoint_url, config=config, **keys))
    except BotoCoreError as error:
        raise CouldNotRunError(f"no {service} client for {region or 'the environment'}: {error}") from error
    except ValueError as error:  # "Invalid endpoint", where a URL is no URL
        raise InputError(
            f"endpoint URL: found {endpoint_url or error}, expected http:// or https:// and a host; "
            "mend --endpoint-url or AWS_ENDPOINT_URL"
        ) from error


def _component_names(client: Client, endpoint: str) -> list[str]:
    pages = client.get_paginator("list_inference_components").paginate(EndpointNameEquals=endpoint)
    return sorted(found["InferenceComponentName"] for page in pages for found in page["InferenceComponents"])


def _component(client: Client, name: str, endpoint: str) -> TargetComponent:
    found = client.describe_inference_component(InferenceComponentName=name)
    if found["EndpointName"] != endpoint:
        raise CouldNotRunError(f"component {name} belongs to endpoint {found['EndpointName']}, not to {endpoint}")
    container = found.get("Specification", {}).get("Container", {})
    deployed = container.get("DeployedImage", {})
    return TargetComponent(
        name=name,
        status=found["InferenceComponentStatus"],
        copies=found.get("RuntimeConfig", {}).get("CurrentCopyCount", 0),
        image=deployed.get("SpecifiedImage") or deployed.get("ResolvedImage"),
        failure_reason=found.get("FailureReason"),
    )
