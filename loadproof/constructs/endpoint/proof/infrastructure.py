"""What runs is what was deployed, and answers: after every deployment that changes the profile or what it runs on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from aws_cdk import CfnResource
from constructs import Construct

from loadproof.constructs.cdk.custom_resource import custom_resource
from loadproof.constructs.cdk.python_function import LAMBDA_LIMIT_S, Program, PythonFunction
from loadproof.constructs.cdk.statements import Statement, allow, use_of_key
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.endpoint.copy_bounds import copy_bounds, instance_bounds
from loadproof.constructs.endpoint.inference_component import InferenceComponent
from loadproof.constructs.endpoint.model_endpoint import ModelEndpoint
from loadproof.invocation.codecs import GenerationRequest, codec_for
from loadproof.profiles import profile_hash, protocol_of
from loadproof.profiles.images import image_of
from loadproof.profiles.names import VARIANT_NAME
from loadproof.profiles.schema import AsyncInference, Component
from loadproof.wire.documents import Document

CODE: Final = Path(__file__).parent / "runtime"
# Several, of different kinds: an adapter may answer some questions as its base does.
PROMPTS: Final = (
    "Count from one to ten: one, two,",
    "Summarize in one sentence: The quarterly report shows that sales rose while costs fell.",
    "Classify the sentiment of this review as positive or negative: The food was cold and late.",
)
ANSWER_TOKENS: Final = 32


class Scaled(Protocol):
    """What has a scalable target: with new bounds that moves the count into them."""

    @property
    def target(self) -> CfnResource: ...


class Proof(Construct):
    """Fails the deployment, with what it found, where SageMaker runs something else, or something does not answer.

    Each model is asked one question; one with adapters, and each of them, a few, whose answers must not be the base's.
    Nobody wakes what has no copy.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint: ModelEndpoint, scaling: Sequence[Scaled] = ()
    ) -> None:
        super().__init__(scope, construct_id)
        deployment = endpoint.deployment
        components = [one for component in endpoint.components for one in _components(endpoint, component)]
        names = [component["Name"] for component in components]
        function = PythonFunction(
            self,
            "Function",
            environment=deployment.environment,
            description=f"Looks at {endpoint.name} after a deployment, and asks it",
            program=Program(CODE, handler="proof.handler.handler"),
            statements=[*_statements(deployment, endpoint.name, names)],
        )
        later = _asynchronous(deployment)
        asked = {
            "EndpointName": endpoint.name,
            "EndpointConfigName": endpoint.config_name,
            "ProfileSha256": profile_hash(deployment.profile),
            **({"AsyncInput": later.input_s3_uri} if later else {}),
            **({"Components": components} if components else {"Variants": [_variant(endpoint)]}),
        }
        resource = custom_resource(
            self, "Resource", function_arn=function.arn, timeout_s=LAMBDA_LIMIT_S + 60, properties=asked
        )
        # Of the configuration and of components it knows by their attributes.
        resource.add_resource_dependency(endpoint.resource)
        # A scalable target with new bounds moves the count into them.
        for one_scaling in scaling:
            resource.add_resource_dependency(one_scaling.target)


def _statements(deployment: Deployment, endpoint: str, components: Sequence[str]) -> Iterator[Statement]:
    arn = deployment.arn("sagemaker", f"endpoint/{endpoint}")
    parts = [deployment.arn("sagemaker", f"inference-component/{name}") for name in components]
    yield allow("sagemaker:DescribeEndpoint", on=arn)
    if parts:
        yield allow("sagemaker:DescribeInferenceComponent", on=parts)
    yield allow(
        "cloudformation:DescribeStacks", on=deployment.arn("cloudformation", f"stack/{deployment.stack_name}/*")
    )
    if (later := _asynchronous(deployment)) is None:
        yield allow("sagemaker:InvokeEndpoint", on=[arn, *parts])
        return
    yield allow("sagemaker:InvokeEndpointAsync", on=arn)
    asked, *places = (
        uri.removeprefix("s3://").rstrip("/")
        for uri in (later.input_s3_uri, later.output_s3_uri, later.failure_s3_uri)
        if uri
    )
    ours, probes = deployment.in_this_account, deployment.s3_arn(f"{asked}/loadproof-proof/*")
    yield allow("s3:DeleteObject", "s3:PutObject", on=probes, when=ours)
    yield allow("s3:GetObject", on=[deployment.s3_arn(f"{place}/*") for place in places], when=ours)
    yield from use_of_key(deployment.environment, "s3")


def _asynchronous(deployment: Deployment) -> AsyncInference | None:
    endpoint = deployment.profile.endpoint
    return endpoint.async_inference if endpoint else None


def _components(endpoint: ModelEndpoint, made: InferenceComponent) -> Iterator[Document]:
    """The component and its adapters, which must not answer as it does."""
    asks = _asks(made.component, PROMPTS if made.adapters else PROMPTS[:1])
    yield {
        "Name": made.name,
        "ModelName": made.model_name,
        "Image": image_of(made.component.container, endpoint.deployment.environment.region),
        "Asks": asks,
        # A template that somebody edits keeps the profile's hash: what the edit touches is asked again all the same.
        "ChangedAt": made.resource.attr_last_modified_time,
        **_counts(endpoint.deployment, made.component, copy_bounds(made.component)),
    }
    for adapter in made.adapters:
        name, changed_at = str(adapter.inference_component_name), adapter.attr_last_modified_time
        yield {"Name": name, "Base": made.name, "ChangedAt": changed_at, "Asks": asks}


def _asks(component: Component, prompts: Sequence[str]) -> list[str]:
    """Requests as the container takes them, answered the same each time."""
    codec = codec_for(protocol_of(component.container))
    requests = [GenerationRequest(prompt, ANSWER_TOKENS, stream=False, temperature=0.0) for prompt in prompts]
    return [codec.encode(request).decode() for request in requests]


def _variant(endpoint: ModelEndpoint) -> Document:
    """A plain variant has one copy an instance."""
    deployment = endpoint.deployment
    component, machines = deployment.components[0], deployment.profile.endpoint
    assert machines is not None  # ModelEndpoint refused a profile without
    return {
        "Name": VARIANT_NAME,
        "Image": image_of(component.container, deployment.environment.region),
        "Asks": _asks(component, PROMPTS[:1]),
        **_counts(deployment, component, instance_bounds(component, machines)),
    }


def _counts(deployment: Deployment, component: Component, bounds: tuple[int, int]) -> dict[str, int]:
    """Nothing holds a count that is scaled within its bounds while its scaling is paused."""
    if deployment.scaling_paused and component.scaling is not None:
        return {}
    fewest, most = bounds
    return {"Fewest": fewest, "Most": most}
