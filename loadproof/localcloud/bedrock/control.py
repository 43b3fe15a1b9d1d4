"""Bedrock's control plane: one small class a resource, joined into what the wire calls; foundation models and tags."""

from __future__ import annotations

from loadproof.catalog.bedrock import BedrockModel, bedrock_models
from loadproof.localcloud.bedrock.models import plain_id
from loadproof.localcloud.bedrock.operations import model_arn
from loadproof.localcloud.bedrock.profiles import ProfileOperations
from loadproof.localcloud.bedrock.throughput import ThroughputOperations
from loadproof.localcloud.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document


class BedrockApi(ProfileOperations, ThroughputOperations):
    """All operations on one store."""

    def GetFoundationModel(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        model = bedrock_models().get(plain_id(params["modelIdentifier"]))
        if model is None:
            raise AwsError("ValidationException", "The provided model identifier is invalid.")
        return {"modelDetails": _model_summary(caller, model)}

    def ListFoundationModels(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        rows = [_model_summary(caller, model) for model in bedrock_models().values()]
        wanted = params.get("byProvider", "").casefold()
        return {"modelSummaries": [row for row in rows if wanted in ("", row["providerName"].casefold())]}

    def TagResource(self, caller: Caller, params: Params) -> None:  # noqa: N802
        self._tag(self._taggable(params), params["tags"])

    def UntagResource(self, caller: Caller, params: Params) -> None:  # noqa: N802
        tags = self._store.tags.get(self._taggable(params), {})
        for name in params["tagKeys"]:
            tags.pop(name, None)

    def ListTagsForResource(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        tags = self._store.tags.get(self._taggable(params), {})
        return {"tags": [{"key": name, "value": value} for name, value in sorted(tags.items())]}

    def _taggable(self, params: Params) -> str:
        arn = str(params["resourceARN"])
        if arn not in self._store.profiles and arn not in self._store.throughputs:
            raise AwsError("ResourceNotFoundException", f"The resource {arn} does not exist.", 404)
        return arn


def _model_summary(caller: Caller, model: BedrockModel) -> Document:
    provider, _, name = model.title.partition(" ")
    return {
        "modelArn": model_arn(caller, model.model_id),
        "modelId": model.model_id,
        "modelName": name,
        "providerName": provider,
        "inputModalities": ["TEXT", "IMAGE"] if model.image_input else ["TEXT"],
        "outputModalities": ["TEXT"],
        "responseStreamingSupported": True,
        "customizationsSupported": [],
        "inferenceTypesSupported": (["ON_DEMAND"] if model.on_demand else [])
        + (["INFERENCE_PROFILE"] if model.prefixes else []),
        "modelLifecycle": {"status": "ACTIVE"},
    }
