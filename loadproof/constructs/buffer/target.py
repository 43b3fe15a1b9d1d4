"""What a buffer feeds: one model, known by what invokes it and by what it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loadproof.capacity.deployment import deployment_of
from loadproof.constructs.cdk.statements import Statement
from loadproof.constructs.deployment import Deployment
from loadproof.constructs.endpoint.model_endpoint import ModelEndpoint
from loadproof.errors import InputError
from loadproof.profiles import protocol_of
from loadproof.profiles.schema import HubSource, Model


@dataclass(frozen=True, slots=True)
class BufferTarget:
    """`variables` tell the consumer what to invoke (`ENDPOINT_NAME`, `PROTOCOL`, ...); `statements` let it."""

    name: str
    deployment: Deployment
    variables: Mapping[str, str]
    statements: tuple[Statement, ...]


def sagemaker_target(endpoint: ModelEndpoint) -> BufferTarget:
    """The profile's own model on its endpoint."""
    deployment = endpoint.deployment
    variables = {
        "ENDPOINT_NAME": endpoint.name,
        "PROTOCOL": protocol_of(deployment.components[0].container),
        "MODEL_REVISION": revision(deployment.profile.model),
    }
    if endpoint.main_component_name is not None:
        variables["COMPONENT_NAME"] = endpoint.main_component_name
    context_tokens = _context_tokens(deployment)
    if context_tokens:
        variables["CONTEXT_TOKENS"] = str(context_tokens)
    return BufferTarget(endpoint.name, deployment, variables, (endpoint.invoke_statement(),))


def revision(model: Model) -> str:
    """What tells two versions of the weights apart; part of a result's key."""
    source = model.source
    if isinstance(source, HubSource):
        return source.revision
    return source.s3_uri if source is not None else model.id


def _context_tokens(deployment: Deployment) -> int | None:
    """Prompt and answer together, as the server bounds them; None where the planner cannot tell."""
    try:
        return deployment_of(deployment.profile).limits.max_request_tokens
    except InputError:
        return None
