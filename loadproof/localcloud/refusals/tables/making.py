"""What DynamoDB refuses of a table's definition and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from loadproof.localcloud.refusals.rules import Moto, Rule, check_tags, require
from loadproof.localcloud.refusals.tables.lookup import INVALID, check_name, existing, table
from loadproof.localcloud.wire import Caller, Params
from loadproof.wire.documents import Document

_GLOBAL, _LOCAL = "GlobalSecondaryIndexes", "LocalSecondaryIndexes"
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
_MOST_INDEXES: Final = {_GLOBAL: 20, _LOCAL: 5}


def _create(caller: Caller, params: Params) -> None:
    check_name(params["TableName"])
    _check_keys(params.get("KeySchema") or [])
    _check_indexes(params)
    _check_stream(params.get("StreamSpecification"))
    _check_encryption(params.get("SSESpecification") or {})
    check_tags([tag["Key"] for tag in params.get("Tags") or []], INVALID)


def _check_keys(schema: list[Mapping[str, str]]) -> None:
    roles, names = [key["KeyType"] for key in schema], [key["AttributeName"] for key in schema]
    message = "Invalid KeySchema: the first key must be a HASH key, and the second a RANGE key"
    require(roles in (["HASH"], ["HASH", "RANGE"], []), INVALID, message)
    message = "Both the Hash Key and the Range Key element in the KeySchema have the same name"
    require(len(set(names)) == len(names), INVALID, message)


def _check_indexes(params: Params) -> None:
    for kind, most in _MOST_INDEXES.items():
        message = f"One or more parameter values were invalid: {kind[:-2]} count exceeds the per-table limit of {most}"
        require(len(params.get(kind) or []) <= most, INVALID, message)
    message = "One or more parameter values were invalid: Table KeySchema does not have a range key, which is required "
    sorted_table = len(params.get("KeySchema") or []) > 1
    require(sorted_table or not params.get(_LOCAL), INVALID, f"{message}when specifying a LocalSecondaryIndex")
    names = []
    for index in _indexes(params):
        _check_keys(index["KeySchema"])
        _check_projection(index["Projection"])
        names.append(index["IndexName"])
    message = "One or more parameter values were invalid: Duplicate index name"
    require(len(set(names)) == len(names), INVALID, message)


def _indexes(params: Params) -> Iterator[Document]:
    for kind in _MOST_INDEXES:
        yield from params.get(kind) or []


def _check_projection(projection: Document) -> None:
    kind, more = projection.get("ProjectionType"), projection.get("NonKeyAttributes")
    start = f"One or more parameter values were invalid: ProjectionType is {kind}, but NonKeyAttributes is "
    require(more or kind != "INCLUDE", INVALID, f"{start}not specified")
    require(not more or kind == "INCLUDE", INVALID, f"{start}specified")


def _check_stream(stream: Document | None) -> None:
    if stream is None:
        return
    message = (
        "One or more parameter values were invalid: StreamViewType is given with a stream that is on, and only then"
    )
    require(bool(stream.get("StreamEnabled")) == ("StreamViewType" in stream), INVALID, message)


def _check_encryption(wanted: Document) -> None:
    kind = wanted.get("SSEType", "KMS")
    require(kind == "KMS", INVALID, f"One or more parameter values were invalid: SSEType {kind} is not supported")
    message = "One or more parameter values were invalid: KMSMasterKeyId is of a table that is encrypted with KMS"
    require(wanted.get("Enabled") or "KMSMasterKeyId" not in wanted, INVALID, message)


def _update(caller: Caller, params: Params) -> None:
    message = "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or "
    some = params.keys() - {"TableName", "AttributeDefinitions"}
    require(some, INVALID, f"{message}SSESpecification or ReplicaUpdates is required")
    _check_encryption(params.get("SSESpecification") or {})
    found = existing(caller, params["TableName"])
    _check_capacity(params, found)
    _check_index_changes(params, found)


def _check_capacity(params: Params, found: Moto) -> None:
    """UpdateTable, BillingMode and ProvisionedThroughput: numbers where capacity is provisioned, and only there."""
    mode, given = params.get("BillingMode") or found.billing_mode, params.get("ProvisionedThroughput")
    start = "One or more parameter values were invalid: "
    message = f"{start}Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is {mode}"
    require(mode != "PAY_PER_REQUEST" or not given, INVALID, message)
    message = f"{start}ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is {mode}"
    require(params.get("BillingMode") != "PROVISIONED" or given, INVALID, message)


def _check_index_changes(params: Params, found: Moto) -> None:
    """One index made or deleted in a call: UpdateTable, GlobalSecondaryIndexUpdates."""
    changes = params.get("GlobalSecondaryIndexUpdates") or []
    made = [one["Create"] for one in changes if "Create" in one]
    gone = [one["Delete"] for one in changes if "Delete" in one]
    message = "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table"
    require(len(made) + len(gone) <= 1, "LimitExceededException", message)
    known = {index.name for index in found.global_indexes or ()}
    defined = {one["AttributeName"] for one in (*(params.get("AttributeDefinitions") or ()), *found.attr)}
    for index in made:
        message = "Attempting to create an index which already exists"
        require(index["IndexName"] not in known, INVALID, message)
        _check_keys(index["KeySchema"])
        unknown = sorted({key["AttributeName"] for key in index["KeySchema"]} - defined)
        message = f"Global Secondary Index hash key not specified in Attribute Definitions: {', '.join(unknown)}"
        require(not unknown, INVALID, message)
    for index in gone + [one["Update"] for one in changes if "Update" in one]:
        message = "Requested resource not found: the index does not exist"
        require(index["IndexName"] in known, "ResourceNotFoundException", message)


def _lives(caller: Caller, params: Params) -> None:
    """Switching on what is on, or off what is off."""
    told = existing(caller, params["TableName"]).ttl
    wanted = params["TimeToLiveSpecification"]
    on = told.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
    known = told.get("AttributeName")
    if on and known != wanted["AttributeName"]:
        message = f"TimeToLive is active on a different AttributeName: current AttributeName is {known}"
        require(False, INVALID, message)
    state = "enabled" if on else "disabled"
    require(wanted["Enabled"] != on, INVALID, f"TimeToLive is already {state}")


def _tag(caller: Caller, params: Params) -> None:
    found = table(caller, params["ResourceArn"])
    kept = [one["Key"] for one in found.tags or ()] if found is not None else []
    check_tags([tag["Key"] for tag in params["Tags"]], INVALID, kept=kept)


RULES: dict[str, Rule] = {
    "CreateTable": _create,
    "UpdateTable": _update,
    "UpdateTimeToLive": _lives,
    "TagResource": _tag,
}
