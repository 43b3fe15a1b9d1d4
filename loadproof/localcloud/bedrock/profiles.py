"""Inference profiles: those of applications, and the cross-region ones that Bedrock defines."""

from __future__ import annotations

from collections.abc import Iterable

from loadproof.catalog.bedrock import GLOBAL, NO_PREFIX, bedrock_models, bedrock_prefixes, split_profile_id
from loadproof.localcloud.bedrock.operations import Operations, model_arn, new_id
from loadproof.localcloud.bedrock.store import InferenceProfile
from loadproof.localcloud.wire import AwsError, Caller, Params, paged
from loadproof.wire.documents import Document


class ProfileOperations(Operations):
    """Methods carry the operations' names."""

    def CreateInferenceProfile(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        name, source = params["inferenceProfileName"], params["modelSource"]["copyFrom"]
        model_id, prefix = self._copied(caller, source)
        if any(one.name == name and one.caller.shares_place_with(caller) for one in self._store.profiles.values()):
            raise AwsError("ConflictException", f"An inference profile named {name} exists already.")
        arn = caller.arn("bedrock", f"application-inference-profile/{new_id()}")
        self._tag(arn, params.get("tags"))
        self._store.profiles[arn] = InferenceProfile(
            arn=arn,
            name=name,
            description=params.get("description"),
            caller=caller,
            model_id=model_id,
            prefix=prefix,
            model_arns=tuple(_model_arns(caller, model_id, prefix)),
            created_s=self._store.now_s(),
        )
        return {"inferenceProfileArn": arn, "status": "ACTIVE"}

    def GetInferenceProfile(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        return self._shown(self._profile(caller, params["inferenceProfileIdentifier"]))

    def ListInferenceProfiles(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        kind = params.get("typeEquals", "SYSTEM_DEFINED")
        if kind == "APPLICATION":
            found = [one for one in self._store.profiles.values() if one.caller.shares_place_with(caller)]
        else:
            found = list(_system_profiles(caller))
        rows = [self._shown(one) for one in sorted(found, key=lambda one: one.name)]
        return paged(rows, params, "inferenceProfileSummaries", 100, "maxResults", "nextToken")

    def DeleteInferenceProfile(self, caller: Caller, params: Params) -> None:  # noqa: N802
        profile = self._profile(caller, params["inferenceProfileIdentifier"])
        if profile.arn not in self._store.profiles:
            raise AwsError("ValidationException", "System-defined inference profiles cannot be deleted.")
        self._store.profiles.pop(profile.arn, None)
        self._store.tags.pop(profile.arn, None)

    def _copied(self, caller: Caller, source: str) -> tuple[str, str]:
        """The model and the prefix that an ARN names. Raises AwsError as AWS does for one that is not there."""
        region, kind_and_name = source.split(":", 5)[3::2]
        if region != caller.region:
            raise AwsError("ValidationException", f"The model source {source} is not of region {caller.region}.")
        kind, _, name = kind_and_name.partition("/")
        prefix, model_id = split_profile_id(name) if kind == "inference-profile" else (NO_PREFIX, name)
        model = bedrock_models().get(model_id)
        of_prefix = model is not None and (prefix == NO_PREFIX or prefix in model.prefixes)
        regions = bedrock_prefixes()[prefix].source_regions
        if model is None or not of_prefix or (regions and caller.region not in regions):
            raise AwsError("ResourceNotFoundException", f"Could not resolve the model source {source}.", 404)
        return model_id, prefix

    def _profile(self, caller: Caller, identifier: str) -> InferenceProfile:
        for one in self._store.profiles.values():
            if one.caller.shares_place_with(caller) and identifier in (one.arn, one.profile_id):
                return one
        for one in _system_profiles(caller):
            if identifier in (one.arn, one.profile_id):
                return one
        raise AwsError("ResourceNotFoundException", f"The inference profile {identifier} does not exist.", 404)

    def _shown(self, profile: InferenceProfile) -> Document:
        application = profile.arn in self._store.profiles
        created = self._time(profile.created_s)
        description = {} if profile.description is None else {"description": profile.description}
        return {
            "inferenceProfileName": profile.name,
            **description,
            "createdAt": created,
            "updatedAt": created,
            "inferenceProfileArn": profile.arn,
            "inferenceProfileId": profile.profile_id,
            "models": [{"modelArn": arn} for arn in profile.model_arns],
            "status": "ACTIVE",
            "type": "APPLICATION" if application else "SYSTEM_DEFINED",
        }


def _model_arns(caller: Caller, model_id: str, prefix: str) -> list[str]:
    """Where a profile may send a request; `global` has an ARN without a region beside the caller's own."""
    regions = bedrock_prefixes()[prefix].destination_regions or (caller.region,)
    regions += ("",) if prefix == GLOBAL else ()
    return [model_arn(caller, model_id, region) for region in regions]


def _system_profiles(caller: Caller) -> Iterable[InferenceProfile]:
    for model in bedrock_models().values():
        for prefix in model.prefixes:
            regions = bedrock_prefixes()[prefix].source_regions
            if regions and caller.region not in regions:
                continue
            profile_id = f"{prefix}.{model.model_id}"
            yield InferenceProfile(
                arn=caller.arn("bedrock", f"inference-profile/{profile_id}"),
                name=f"{prefix.upper()} {model.title}",
                description=None,
                caller=caller,
                model_id=model.model_id,
                prefix=prefix,
                model_arns=tuple(_model_arns(caller, model.model_id, prefix)),
                created_s=0.0,
            )
