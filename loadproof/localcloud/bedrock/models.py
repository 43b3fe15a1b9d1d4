"""What an id that a caller sends means: which model, over which prefix, on whose capacity, in whose metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass

from loadproof.catalog.bedrock import NO_PREFIX, BedrockModel, bedrock_models, bedrock_prefixes, split_profile_id
from loadproof.localcloud.bedrock.errors import BedrockError, invalid
from loadproof.localcloud.bedrock.store import BedrockStore
from loadproof.localcloud.wire import Caller

_CONTEXT_SIZE = re.compile(r":\d+k$")
_ARN = re.compile(r"arn:[a-z-]+:bedrock:(?P<region>[a-z0-9-]*):(?P<account>\d*):(?P<kind>[a-z-]+)/(?P<name>.+)")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes. `metric_id` is the ModelId of its metrics; `units` of provisioned throughput, else None."""

    model: BedrockModel
    prefix: str
    metric_id: str
    key: str
    units: int | None = None


def resolve(store: BedrockStore, caller: Caller, identifier: str) -> Target:
    """Raises BedrockError where Bedrock would refuse the id."""
    arn = _ARN.fullmatch(identifier)
    if arn is None:
        return _by_id(caller, identifier)
    kind, name = arn["kind"], arn["name"]
    if arn["region"] not in ("", caller.region):
        raise invalid("The provided model identifier is invalid.")
    if kind == "foundation-model":
        return _on_demand(_model(name), name)
    if kind == "inference-profile":
        return _by_id(caller, name)
    if kind == "application-inference-profile":
        return _by_application(store, identifier)
    if kind == "provisioned-model":
        return _provisioned(store, identifier)
    raise invalid("The provided model identifier is invalid.")


def _by_id(caller: Caller, identifier: str) -> Target:
    prefix, model_id = split_profile_id(identifier)
    model = _model(model_id)
    if prefix == NO_PREFIX:
        return _on_demand(model, identifier)
    regions = bedrock_prefixes()[prefix].source_regions
    if prefix not in model.prefixes or (regions and caller.region not in regions):
        raise invalid("The provided model identifier is invalid.")
    return Target(model, prefix, identifier, f"{prefix}.{model_id}")


def _on_demand(model: BedrockModel, metric_id: str) -> Target:
    if not model.on_demand:
        raise invalid(
            f"Invocation of model ID {model.model_id} with on-demand throughput isn’t supported. Retry your request "
            "with the ID or ARN of an inference profile that contains this model."
        )
    return Target(model, NO_PREFIX, metric_id, model.model_id)


def _by_application(store: BedrockStore, arn: str) -> Target:
    profile = store.profile(arn)
    if profile is None:
        raise BedrockError("ResourceNotFoundException", f"Could not find the inference profile {arn}.")
    model = _model(profile.model_id)
    key = model.model_id if profile.prefix == NO_PREFIX else f"{profile.prefix}.{model.model_id}"
    return Target(model, profile.prefix, profile.profile_id, key)


def _provisioned(store: BedrockStore, arn: str) -> Target:
    throughput = store.provisioned(arn)
    if throughput is None:
        raise BedrockError("ResourceNotFoundException", f"Could not find the provisioned throughput {arn}.")
    if throughput.status(store.now_s()) == "Creating":
        raise BedrockError("ModelNotReadyException", "The model is not ready yet. Try again in a few minutes.")
    return Target(_model(throughput.model_id), NO_PREFIX, arn, arn, throughput.units)


def known_model(model_id: str) -> BedrockModel | None:
    """The catalog's row; a provisioned model's id may carry its context's size (`amazon.nova-lite-v1:0:24k`)."""
    return bedrock_models().get(_CONTEXT_SIZE.sub("", model_id))


def plain_id(identifier: str) -> str:
    """The id of a model that is named by id or ARN."""
    return identifier.rpartition("/")[2]


def _model(model_id: str) -> BedrockModel:
    model = known_model(model_id)
    if model is None:
        raise invalid("The provided model identifier is invalid.")
    return model
