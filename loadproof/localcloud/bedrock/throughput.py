"""Provisioned throughput: model units with or without a commitment, their statuses and when they may go."""

from __future__ import annotations

from loadproof.localcloud.bedrock.models import known_model, plain_id
from loadproof.localcloud.bedrock.operations import Operations, model_arn, new_id
from loadproof.localcloud.bedrock.store import ProvisionedThroughput
from loadproof.localcloud.wire import AwsError, Caller, Params, paged
from loadproof.wire.documents import Document


class ThroughputOperations(Operations):
    """Methods carry the operations' names."""

    def CreateProvisionedModelThroughput(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        name, model_id = params["provisionedModelName"], plain_id(params["modelId"])
        if known_model(model_id) is None:
            raise AwsError("ValidationException", f"The provided model identifier {model_id} is invalid.")
        present = [one.name for one in self._store.throughputs.values() if one.caller.shares_place_with(caller)]
        if name in present:
            raise AwsError("ValidationException", f"A provisioned model named {name} exists already.")
        arn = caller.arn("bedrock", f"provisioned-model/{new_id()}")
        self._tag(arn, params.get("tags"))
        now_s = self._store.now_s()
        units = params["modelUnits"]
        self._store.throughputs[arn] = ProvisionedThroughput(
            arn=arn,
            name=name,
            caller=caller,
            model_id=model_id,
            units=units,
            desired_units=units,
            commitment=params.get("commitmentDuration"),
            created_s=now_s,
            ready_at_s=now_s + self._store.ready_after_s,
            modified_s=now_s,
        )
        return {"provisionedModelArn": arn}

    def GetProvisionedModelThroughput(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        found = self._throughput(caller, params["provisionedModelId"])
        return self._provisioned_shown(found)

    def ListProvisionedModelThroughputs(self, caller: Caller, params: Params) -> Document:  # noqa: N802
        contains = params.get("nameContains", "")
        rows = [
            self._provisioned_shown(one)
            for one in self._store.throughputs.values()
            if one.caller.shares_place_with(caller) and contains in one.name
        ]
        return paged(rows, params, "provisionedModelSummaries", 100, "maxResults", "nextToken")

    def UpdateProvisionedModelThroughput(self, caller: Caller, params: Params) -> None:  # noqa: N802
        """As AWS has it, only a name, and a custom model's model, can change."""
        found = self._throughput(caller, params["provisionedModelId"])
        if params.get("desiredModelId") not in (None, found.model_id):
            raise AwsError("ValidationException", "The model of a provisioned base model cannot be changed.")
        if found.status(self._store.now_s()) != "InService":
            raise AwsError("ValidationException", f"Provisioned model {found.arn} is not InService.")
        found.name = params.get("desiredProvisionedModelName") or found.name
        found.modified_s = self._store.now_s()

    def DeleteProvisionedModelThroughput(self, caller: Caller, params: Params) -> None:  # noqa: N802
        found = self._throughput(caller, params["provisionedModelId"])
        until_s, now_s = found.committed_until_s, self._store.now_s()
        if until_s is not None and now_s < until_s:
            raise AwsError(
                "ConflictException",
                f"Provisioned model {found.arn} cannot be deleted before its commitment ends at "
                f"{self._time(until_s):%Y-%m-%dT%H:%M:%SZ}.",
            )
        if found.status(now_s) == "Creating":
            raise AwsError("ConflictException", f"Provisioned model {found.arn} is still being created.")
        del self._store.throughputs[found.arn]
        self._store.tags.pop(found.arn, None)

    def _throughput(self, caller: Caller, identifier: str) -> ProvisionedThroughput:
        for one in self._store.throughputs.values():
            if one.caller.shares_place_with(caller) and identifier in (one.arn, one.name, one.arn.rpartition("/")[2]):
                return one
        raise AwsError("ResourceNotFoundException", f"The provisioned model {identifier} does not exist.", 404)

    def _provisioned_shown(self, found: ProvisionedThroughput) -> Document:
        now_s = self._store.now_s()
        status = found.status(now_s)
        base = model_arn(found.caller, found.model_id)
        shown: Document = {
            "modelUnits": found.units,
            "desiredModelUnits": found.desired_units,
            "provisionedModelName": found.name,
            "provisionedModelArn": found.arn,
            "modelArn": base,
            "desiredModelArn": base,
            "foundationModelArn": base,
            "status": status,
            "creationTime": self._time(found.created_s),
            "lastModifiedTime": self._time(found.modified_s),
        }
        if found.commitment is not None and found.committed_until_s is not None:
            shown["commitmentDuration"] = found.commitment
            shown["commitmentExpirationTime"] = self._time(found.committed_until_s)
        return shown
