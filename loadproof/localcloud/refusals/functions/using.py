"""What Lambda refuses of a function that is there: calls, versions, aliases, permissions, tags."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from loadproof.localcloud.refusals.functions.lookup import (
    FUNCTION_ARN,
    INVALID,
    MISSING,
    check_revision,
    existing,
    function,
    named,
)
from loadproof.localcloud.refusals.rules import Rule, check_tags, moto_of, require
from loadproof.localcloud.wire import AwsError, Caller, Params

_ACCOUNT_CONCURRENCY, _LEAST_UNRESERVED = 1000, 100
# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html: 6 MB at once, 1 MB later
_MOST_BYTES = {"RequestResponse": 6_291_456, "Event": 1_048_576}
_MOST_CONTEXT_BYTES = 3583
_SERVICE_PRINCIPAL = re.compile(r"[\w.-]+\.amazonaws\.com(\.cn)?|\*|\d{12}|arn:aws[\w-]*:(iam|sts)::.*")


def _delete(caller: Caller, params: Params) -> None:
    named(caller, params)
    message = "$LATEST version cannot be deleted without deleting the function."
    version = params.get("Qualifier")
    require(version != "$LATEST", INVALID, message)
    pointing = [str(one.name) for one in _aliases(caller, params["FunctionName"]) if version in _versions(one)]
    message = f"Version {version} is referenced by aliases: {', '.join(pointing)}"
    require(not pointing, "ResourceConflictException", message, 409)


def _versions(alias: Any) -> set[str]:
    """Those that an alias sends calls to."""
    return {alias.function_version, *(alias.routing_config or {}).get("AdditionalVersionWeights", {})}


def _invoke(caller: Caller, params: Params) -> None:
    kind, length = params.get("InvocationType", "RequestResponse"), len(params.get("Payload") or b"")
    most = _MOST_BYTES.get(kind, length)
    message = f"{length} byte payload is too large for the {kind} invocation type (limit {most} bytes)"
    require(length <= most, "RequestEntityTooLargeException", message, 413)
    message = f"The client context must be at most {_MOST_CONTEXT_BYTES} bytes"
    require(len(params.get("ClientContext") or "") <= _MOST_CONTEXT_BYTES, "InvalidRequestContentException", message)
    found = function(caller, params["FunctionName"], params.get("Qualifier"))
    if found is None:
        return
    try:
        json.loads(params.get("Payload") or b"null")
    except ValueError as error:
        message = f"Could not parse request body into json: Could not parse payload into json: {error}"
        raise AwsError("InvalidRequestContentException", message) from None
    _check_version(caller, params["FunctionName"], params.get("Qualifier"))
    message = "Rate Exceeded."
    require(found.reserved_concurrency not in (0, "0"), "TooManyRequestsException", message, 429)


def _check_version(caller: Caller, name: str, qualifier: str | None) -> None:
    if qualifier in (None, "$LATEST"):
        return
    arn = caller.arn("lambda", f"function:{name}:{qualifier}")
    try:
        moto_of("lambda", caller).get_function(f"{name}:{qualifier}")
    except Exception:  # whatever moto calls it
        raise AwsError(MISSING, f"Function not found: {arn}", 404) from None


def _reserve(caller: Caller, params: Params) -> None:
    existing(caller, params)
    message = (
        "Specified ReservedConcurrentExecutions for function decreases account's UnreservedConcurrentExecution below "
        f"its minimum value of [{_LEAST_UNRESERVED}]."
    )
    require(params["ReservedConcurrentExecutions"] <= _ACCOUNT_CONCURRENCY - _LEAST_UNRESERVED, INVALID, message)


def _publish(caller: Caller, params: Params) -> None:
    found = existing(caller, params)
    asked = params.get("CodeSha256")
    message = (
        f"CodeSHA256 ({asked}) is different from current CodeSHA256 in $LATEST ({found.code_sha_256}). "
        "Please try again with the CodeSHA256 in $LATEST."
    )
    require(not asked or asked == found.code_sha_256, INVALID, message)
    check_revision(found, params)


def _first_alias(caller: Caller, params: Params) -> None:
    weights = (params.get("RoutingConfig") or {}).get("AdditionalVersionWeights") or {}
    if any(not 0 <= weight <= 1 for weight in weights.values()):
        shown = ", ".join(f"{version}={weight}" for version, weight in weights.items())
        message = (
            f"1 validation error detected: Value '{{{shown}}}' at 'routingConfig.additionalVersionWeights' failed "
            "to satisfy "
            "constraint: Map value must satisfy constraint: [Member must have value less than or equal to 1.0, "
            "Member must "
            "have value greater than or equal to 0.0, Member must not be null]"
        )
        raise AwsError("ValidationException", message)


def _create_alias(caller: Caller, params: Params) -> None:
    found = existing(caller, params)
    weights = (params.get("RoutingConfig") or {}).get("AdditionalVersionWeights") or {}
    own = params["FunctionVersion"] in weights
    require(not own, INVALID, "The alias's version and an additional version are the same.")
    _check_published(params["FunctionVersion"], weights)
    arn = f"{found.function_arn}:{params['Name']}"
    known = params["Name"] in [one.name for one in _aliases(caller, params["FunctionName"])]
    require(not known, "ResourceConflictException", f"Alias already exists: {arn}", 409)


def _update_alias(caller: Caller, params: Params) -> None:
    found = existing(caller, params)
    aliases = {one.name: one for one in _aliases(caller, params["FunctionName"])}
    require(params["Name"] in aliases, MISSING, f"Alias not found: {found.function_arn}:{params['Name']}", 404)
    alias = aliases[params["Name"]]
    routing = params.get("RoutingConfig", alias.routing_config) or {}
    _check_published(
        params.get("FunctionVersion", alias.function_version), routing.get("AdditionalVersionWeights") or {}
    )


def _check_published(version: str, weights: Mapping[str, float]) -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/configuring-alias-routing.html."""
    message = "$LATEST is not supported for an alias pointing to more than 1 version"
    require(not weights or version != "$LATEST", INVALID, message)


def _aliases(caller: Caller, name: str) -> list[Any]:
    if function(caller, name) is None:
        return []
    backend: Any = moto_of("lambda", caller)
    return list(backend.list_aliases(name))


def _permit(caller: Caller, params: Params) -> None:
    found = existing(caller, params)
    message = "The provided principal was invalid. Please check the principal and try again."
    principal = params["Principal"]
    known = _SERVICE_PRINCIPAL.fullmatch(principal) and ".nonaws." not in principal
    require(known, INVALID, message)
    message = "We currently do not support adding policies for $LATEST."
    require(params.get("Qualifier") != "$LATEST", INVALID, message)
    message = "FunctionUrlAuthType is only supported for lambda:InvokeFunctionUrl action"
    by_address = params["Action"] == "lambda:InvokeFunctionUrl"
    require(by_address or not params.get("FunctionUrlAuthType"), INVALID, message)
    sid = params["StatementId"]
    message = (
        f"The statement id ({sid}) provided already exists. Please provide a new statement id, or remove the existing "
        "statement."
    )
    require(sid not in _statements(found), "ResourceConflictException", message, 409)


def _forbid(caller: Caller, params: Params) -> None:
    found = existing(caller, params)
    known = _statements(found)
    require(known, MISSING, "No policy is associated with the given resource.", 404)
    message = f"Statement {params['StatementId']} is not found in resource policy."
    require(params["StatementId"] in known, MISSING, message, 404)


def _statements(function: Any) -> set[str]:
    policy = function.policy
    return {str(one.get("Sid")) for one in policy.statements} if policy is not None else set()


def _tag(caller: Caller, params: Params) -> None:
    arn = FUNCTION_ARN.fullmatch(params["Resource"])
    message = "Tags on function aliases and versions are not supported. Please specify a function ARN."
    require(arn is None or arn[4] is None, INVALID, message)
    found = function(caller, params["Resource"]) if arn is not None else None
    check_tags(params.get("Tags") or {}, INVALID, kept=found.tags if found is not None else ())


def _later(caller: Caller, params: Params) -> None:
    existing(caller, params)
    message = "You must specify at least one of error handling or destination setting."
    require(params.keys() - {"FunctionName", "Qualifier"}, INVALID, message)


def _no_event_config(caller: Caller, params: Params) -> None:
    qualifier = params.get("Qualifier", "$LATEST")
    if function(caller, params["FunctionName"]) is None:
        arn = caller.arn("lambda", f"function:{params['FunctionName']}:{qualifier}")
        raise AwsError(MISSING, f"The function {arn} doesn't have an EventInvokeConfig", 404)


def _no_address(caller: Caller, params: Params) -> None:
    if function(caller, params["FunctionName"]) is None:
        raise AwsError(MISSING, "The resource you requested does not exist.", 404)


def _provision(caller: Caller, params: Params) -> None:
    found, qualifier = existing(caller, {"FunctionName": params["FunctionName"]}), params["Qualifier"]
    message = "Provisioned Concurrency Configs cannot be applied to unpublished function versions."
    require(qualifier != "$LATEST", INVALID, message)
    _check_version(caller, found.function_name, qualifier)
    require(False, "NotImplemented", "The local cloud does not provide Lambda's provisioned concurrency.")


def _new_address(caller: Caller, params: Params) -> None:
    """moto keeps one address of a function, whatever its qualifier."""
    found = existing(caller, params)
    message = f"FunctionUrlConfig exists for this Lambda function with function ARN [{found.function_arn}]"
    require(found.url_config is None, "ResourceConflictException", message, 409)


def _address(caller: Caller, params: Params) -> None:
    found = existing(caller, params)
    require(found.url_config is not None, MISSING, "The resource you requested does not exist.", 404)


FIRST: dict[str, Rule] = {"CreateAlias": _first_alias}
RULES: dict[str, Rule] = {
    "GetFunction": named,
    "GetFunctionConfiguration": named,
    "GetFunctionEventInvokeConfig": _no_event_config,
    "GetFunctionUrlConfig": _no_address,
    "PutProvisionedConcurrencyConfig": _provision,
    "CreateFunctionUrlConfig": _new_address,
    "UpdateFunctionUrlConfig": _address,
    "DeleteFunctionUrlConfig": _address,
    "PutFunctionEventInvokeConfig": _later,
    "DeleteFunction": _delete,
    "Invoke": _invoke,
    "PutFunctionConcurrency": _reserve,
    "PublishVersion": _publish,
    "CreateAlias": _create_alias,
    "UpdateAlias": _update_alias,
    "AddPermission": _permit,
    "RemovePermission": _forbid,
    "TagResource": _tag,
}
