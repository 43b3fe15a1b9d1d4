"""What Lambda refuses beyond its service model."""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

from loadproof.localcloud.controlplane.wire import AwsError, Caller, Params
from loadproof.localcloud.refusals.rules import Rule, check_tags, require

_INVALID, _MISSING = "InvalidParameterValueException", "ResourceNotFoundException"
# As AWS told them in 2026 ("Value ... at 'runtime' failed to satisfy constraint", recorded): all others are over.
_RUNTIMES = [
    "nodejs24.x",
    "nodejs22.x",
    "nodejs20.x",
    "nodejs18.x",
    "nodejs16.x",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
    "python3.9",
    "python3.8",
    "java25",
    "java21",
    "java17",
    "java11",
    "java8.al2",
    "ruby3.4",
    "ruby3.3",
    "ruby3.2",
    "dotnet10",
    "dotnet8",
    "dotnet6",
    "provided.al2023",
    "provided.al2",
]
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html#configuration-envvars-runtime
_RESERVED = {
    "_HANDLER", "_X_AMZN_TRACE_ID", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_EXECUTION_ENV", "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "AWS_LAMBDA_FUNCTION_VERSION", "AWS_LAMBDA_INITIALIZATION_TYPE",
    "AWS_LAMBDA_LOG_GROUP_NAME", "AWS_LAMBDA_LOG_STREAM_NAME", "AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_LAMBDA_RUNTIME_API", "LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR",
}  # fmt: skip
_MOST_ENVIRONMENT_BYTES, _MOST_LAYERS, _MOST_NAME = 4096, 5, 64
_MOST = {"Timeout": 900, "MemorySize": 10240}
_ACCOUNT_CONCURRENCY, _LEAST_UNRESERVED = 1000, 100
_SOLE_BATCH = 10  # larger batches need a window
_FUNCTION_ARN = re.compile(r"arn:aws[\w-]*:lambda:([\w-]+):(\d{12}):function:([\w-]+)(?::([\w$-]+))?")
_SERVICE_PRINCIPAL = re.compile(r"[\w.-]+\.amazonaws\.com(\.cn)?|\*|\d{12}|arn:aws[\w-]*:(iam|sts)::.*")


def _check_runtime(caller: Caller, params: Params) -> None:
    from moto.core.utils import get_service_model  # noqa: PLC0415  a second of CPU to load

    runtime = params.get("Runtime")
    if runtime is None or runtime in _RUNTIMES:
        return
    if runtime in get_service_model("lambda").shape_for("Runtime").enum:
        raise AwsError(
            _INVALID,
            f"The runtime parameter of {runtime} is no longer supported for creating or updating AWS Lambda functions. "
            "We recommend you use a supported runtime while creating or updating functions.",
        )
    valid = ", ".join(_RUNTIMES)
    message = f"Value {runtime} at 'runtime' failed to satisfy constraint: Member must satisfy enum value set: "
    raise AwsError(_INVALID, f"{message}[{valid}] or be a valid ARN")


def _first_create(caller: Caller, params: Params) -> None:
    name = str(params.get("FunctionName", ""))
    if len(name) > _MOST_NAME and ":" not in name:
        message = f"1 validation error detected: Value '{name}' at 'functionName' failed to satisfy constraint: "
        raise AwsError(_INVALID, f"{message}Member must have length less than or equal to {_MOST_NAME}")
    _check_runtime(caller, params)


def _create(caller: Caller, params: Params) -> None:
    if params.get("PackageType", "Zip") == "Zip":
        for field in ("Runtime", "Handler"):
            require(params.get(field), _INVALID, f"{field} is a mandatory parameter for functions with a .zip package.")
    check_tags(params.get("Tags") or {}, _INVALID)
    _check_code(caller, params["Code"])
    _check_settings(caller, params)


def _check_settings(caller: Caller, params: Params) -> None:
    if "CapacityProviderConfig" not in params:  # the model's larger bounds are those of managed instances
        for field, most in _MOST.items():
            message = (
                f"1 validation error detected: Value '{params.get(field)}' at '{field[0].lower()}{field[1:]}' "
                "failed to "
                f"satisfy constraint: Member must have value less than or equal to {most}"
            )
            require(params.get(field, 0) <= most, "ValidationException", message)
    _check_role(caller, params.get("Role"))
    variables = (params.get("Environment") or {}).get("Variables") or {}
    reserved = sorted(variables.keys() & _RESERVED)
    require(
        not reserved,
        _INVALID,
        "Lambda was unable to configure your environment variables because the environment variables you have provided "
        "contains reserved keys that are currently not supported for modification. Reserved keys used in this "
        f"request: {', '.join(reserved)}",
    )
    measured = json.dumps(variables, separators=(",", ":"))
    require(
        len(measured.encode()) <= _MOST_ENVIRONMENT_BYTES,
        _INVALID,
        "Lambda was unable to configure your environment variables because the environment variables you have provided "
        f"exceeded the 4KB limit. String measured: {measured}",
    )
    layers = params.get("Layers") or []
    require(len(layers) <= _MOST_LAYERS, _INVALID, f"Cannot reference more than {_MOST_LAYERS} layers.")
    _check_network(caller, params.get("VpcConfig") or {})


def _check_role(caller: Caller, role_arn: str | None) -> None:
    from moto.iam.models import iam_backends  # noqa: PLC0415  a second of CPU to load

    if role_arn is None:
        return
    role = next((one for one in iam_backends[caller.account]["aws"].roles.values() if one.arn == role_arn), None)
    trusted = role is not None and "lambda.amazonaws.com" in str(role.assume_role_policy_document)
    require(trusted, _INVALID, "The role defined for the function cannot be assumed by Lambda.")


def _check_network(caller: Caller, config: Mapping[str, Any]) -> None:
    from moto.ec2.models import ec2_backends  # noqa: PLC0415  a second of CPU to load

    backend = ec2_backends[caller.account][caller.region]
    subnets = {name for zone in backend.subnets.values() for name in zone}
    for name in config.get("SubnetIds") or []:
        message = (
            "Error occurred while DescribeSubnets. EC2 Error Code: InvalidSubnetID.NotFound. EC2 Error Message: The "
            f"subnet ID '{name}' does not exist"
        )
        require(name in subnets, _INVALID, message)
    groups = {name for network in backend.groups.values() for name in network}
    for name in config.get("SecurityGroupIds") or []:
        message = (
            "Error occurred while DescribeSecurityGroups. EC2 Error Code: InvalidGroup.NotFound. EC2 Error Message: "
            f"The security group '{name}' does not exist"
        )
        require(name in groups, _INVALID, message)


def _check_code(caller: Caller, code: Mapping[str, Any]) -> None:
    if "ImageUri" in code:
        return
    if "ZipFile" in code:
        try:
            content = base64.b64decode(code["ZipFile"])
        except (binascii.Error, TypeError):
            content = b""
        require(_is_zip(content), _INVALID, _NO_ZIP)
        return
    require("S3Bucket" in code, _INVALID, "Please provide a source for function code.")
    found = _stored(caller, code["S3Bucket"], code.get("S3Key", ""))
    require(_is_zip(found), _INVALID, _NO_ZIP)


_NO_ZIP = "Could not unzip uploaded file. Please check your file, then try to upload again."


def _is_zip(content: bytes) -> bool:
    return zipfile.is_zipfile(io.BytesIO(content))


def _stored(caller: Caller, bucket_name: str, key: str) -> bytes:
    from moto.s3.models import s3_backends  # noqa: PLC0415  a second of CPU to load

    bucket = s3_backends[caller.account]["aws"].buckets.get(bucket_name)
    message = (
        "Error occurred while GetObject. S3 Error Code: NoSuchBucket. S3 Error Message: The specified bucket does "
        "not exist"
    )
    if bucket is None:
        raise AwsError(_INVALID, message)
    found = bucket.keys.get(key)
    message = (
        "Error occurred while GetObject. S3 Error Code: NoSuchKey. S3 Error Message: The specified key does not exist."
    )
    require(found is not None, _INVALID, message)
    return bytes(found.value)


def _function(caller: Caller, reference: str, qualifier: str | None = None) -> Any:
    """moto's function, None when there is none; a reference to another region or another version is refused."""
    from moto.awslambda.models import lambda_backends  # noqa: PLC0415  a second of CPU to load

    arn = _FUNCTION_ARN.fullmatch(reference)
    name = reference.rsplit(":", maxsplit=1)[-1] if arn is None else arn[3]
    if arn is not None:
        message = f"Functions from '{arn[1]}' are not reachable in this region ('{caller.region}')"
        require(arn[1] == caller.region, _MISSING, message, 404)
        if arn[4] and qualifier:
            message = "The derived qualifier from the function name does not match the specified qualifier."
            require(arn[4] == qualifier, _INVALID, message)
    elif ":" in reference:
        name = reference.split(":", maxsplit=1)[0]
    try:
        return lambda_backends[caller.account][caller.region].get_function(name)
    except Exception:  # moto's own answer says what is missing
        return None


def _named(caller: Caller, params: Params) -> None:
    """Operations on one function: it must be of this region, and its two qualifiers must agree."""
    _function(caller, params["FunctionName"], params.get("Qualifier"))


def _existing(caller: Caller, params: Params) -> Any:
    found = _function(caller, params["FunctionName"], params.get("Qualifier"))
    arn = caller.arn("lambda", f"function:{params['FunctionName'].split(':')[-1]}")
    require(found is not None, _MISSING, f"Function not found: {arn}", 404)
    return found


def _delete(caller: Caller, params: Params) -> None:
    _named(caller, params)
    message = "$LATEST version cannot be deleted without deleting the function."
    require(params.get("Qualifier") != "$LATEST", _INVALID, message)


def _invoke(caller: Caller, params: Params) -> None:
    found = _function(caller, params["FunctionName"], params.get("Qualifier"))
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
    from moto.awslambda.models import lambda_backends  # noqa: PLC0415  a second of CPU to load

    if qualifier in (None, "$LATEST"):
        return
    arn = caller.arn("lambda", f"function:{name}:{qualifier}")
    try:
        lambda_backends[caller.account][caller.region].get_function(f"{name}:{qualifier}")
    except Exception:  # whatever moto calls it
        raise AwsError(_MISSING, f"Function not found: {arn}", 404) from None


def _reserve(caller: Caller, params: Params) -> None:
    _existing(caller, params)
    message = (
        "Specified ReservedConcurrentExecutions for function decreases account's UnreservedConcurrentExecution below "
        f"its minimum value of [{_LEAST_UNRESERVED}]."
    )
    require(params["ReservedConcurrentExecutions"] <= _ACCOUNT_CONCURRENCY - _LEAST_UNRESERVED, _INVALID, message)


def _publish(caller: Caller, params: Params) -> None:
    found = _existing(caller, params)
    asked = params.get("CodeSha256")
    message = (
        f"CodeSHA256 ({asked}) is different from current CodeSHA256 in $LATEST ({found.code_sha_256}). "
        "Please try again with the CodeSHA256 in $LATEST."
    )
    require(not asked or asked == found.code_sha_256, _INVALID, message)
    _no_revision(params)


def _no_revision(params: Params) -> None:
    """Nobody was told a revision here, so none that is asked for can be the latest."""
    message = (
        "The Revision Id provided does not match the latest Revision Id. Call the GetFunction/GetAlias API to retrieve "
        "the latest Revision Id"
    )
    require("RevisionId" not in params, "PreconditionFailedException", message, 412)


def _create_alias(caller: Caller, params: Params) -> None:
    found = _existing(caller, params)
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
    arn = f"{found.function_arn}:{params['Name']}"
    known = params["Name"] in _aliases(caller, params["FunctionName"])
    require(not known, "ResourceConflictException", f"Alias already exists: {arn}", 409)


def _update_alias(caller: Caller, params: Params) -> None:
    found = _existing(caller, params)
    known = params["Name"] in _aliases(caller, params["FunctionName"])
    require(known, _MISSING, f"Alias not found: {found.function_arn}:{params['Name']}", 404)


def _aliases(caller: Caller, name: str) -> Iterable[str]:
    from moto.awslambda.models import lambda_backends  # noqa: PLC0415  a second of CPU to load

    backend: Any = lambda_backends[caller.account][caller.region]
    return [str(one.name) for one in backend.list_aliases(name)]


def _permit(caller: Caller, params: Params) -> None:
    found = _existing(caller, params)
    message = "The provided principal was invalid. Please check the principal and try again."
    principal = params["Principal"]
    known = _SERVICE_PRINCIPAL.fullmatch(principal) and ".nonaws." not in principal
    require(known, _INVALID, message)
    message = "We currently do not support adding policies for $LATEST."
    require(params.get("Qualifier") != "$LATEST", _INVALID, message)
    sid = params["StatementId"]
    message = (
        f"The statement id ({sid}) provided already exists. Please provide a new statement id, or remove the existing "
        "statement."
    )
    require(sid not in _statements(found), "ResourceConflictException", message, 409)


def _forbid(caller: Caller, params: Params) -> None:
    found = _existing(caller, params)
    known = _statements(found)
    require(known, _MISSING, "No policy is associated with the given resource.", 404)
    message = f"Statement {params['StatementId']} is not found in resource policy."
    require(params["StatementId"] in known, _MISSING, message, 404)


def _statements(function: Any) -> set[str]:
    policy = function.policy
    return {str(one.get("Sid")) for one in policy.statements} if policy is not None else set()


def _tag(caller: Caller, params: Params) -> None:
    arn = _FUNCTION_ARN.fullmatch(params["Resource"])
    message = "Tags on function aliases and versions are not supported. Please specify a function ARN."
    require(arn is None or arn[4] is None, _INVALID, message)
    check_tags(params.get("Tags") or {}, _INVALID)


def _map(caller: Caller, params: Params) -> None:
    source = params.get("EventSourceArn")
    require(source or params.get("SelfManagedEventSource"), _INVALID, "Unrecognized event source.")
    require(_function(caller, params["FunctionName"]) is not None, _INVALID, "Function does not exist")
    _check_source(caller, str(source or ""))
    _check_batch(params, 0)
    _check_filters(params)
    for known in _mappings(caller):
        same = known.event_source_arn == source and known.function_arn.endswith(
            f":{params['FunctionName'].split(':')[-1]}"
        )
        message = (
            f'An event source mapping with SQS arn (" {source} ") and function (" {params["FunctionName"]} ") already '
            f"exists. Please update or delete the existing mapping with UUID {known.uuid}"
        )
        require(not same, "ResourceConflictException", message, 409)


def _check_source(caller: Caller, arn: str) -> None:
    from moto.sqs.models import sqs_backends  # noqa: PLC0415  a second of CPU to load

    if ":sqs:" not in arn:
        require(arn.startswith("arn:"), _INVALID, "Unrecognized event source.")
        return
    queues: Any = sqs_backends[caller.account][caller.region].queues
    message = (
        "Error occurred while ReceiveMessage. SQS Error Code: AWS.SimpleQueueService.NonExistentQueue. "
        "SQS Error Message: The specified queue does not exist."
    )
    require(arn.rpartition(":")[2] in queues, _INVALID, message)


def _check_batch(params: Params, window_s: int) -> None:
    message = "Maximum batch window in seconds must be greater than 0 if maximum batch size is greater than 10"
    window_s = params.get("MaximumBatchingWindowInSeconds", window_s)
    require(params.get("BatchSize", 1) <= _SOLE_BATCH or window_s, _INVALID, message)


def _check_filters(params: Params) -> None:
    for one in (params.get("FilterCriteria") or {}).get("Filters") or []:
        try:
            pattern = json.loads(one.get("Pattern") or "")
        except ValueError:
            pattern = None
        require(isinstance(pattern, dict), _INVALID, "Invalid filter pattern definition.")


def _mapping(caller: Caller, params: Params) -> None:
    known = [one for one in _mappings(caller) if one.uuid == params["UUID"]]
    require(known, _MISSING, "The resource you requested does not exist.", 404)


def _update_mapping(caller: Caller, params: Params) -> None:
    _mapping(caller, params)
    _check_batch(params, 0)
    _check_filters(params)


def _mappings(caller: Caller) -> list[Any]:
    from moto.awslambda.models import lambda_backends  # noqa: PLC0415  a second of CPU to load

    return list(lambda_backends[caller.account][caller.region]._event_source_mappings.values())


def _layer(caller: Caller, params: Params) -> None:
    _check_code(caller, params.get("Content") or {})


def _configure(caller: Caller, params: Params) -> None:
    _named(caller, params)
    _check_settings(caller, params)


def _no_event_config(caller: Caller, params: Params) -> None:
    qualifier = params.get("Qualifier", "$LATEST")
    if _function(caller, params["FunctionName"]) is None:
        arn = caller.arn("lambda", f"function:{params['FunctionName']}:{qualifier}")
        raise AwsError(_MISSING, f"The function {arn} doesn't have an EventInvokeConfig", 404)


def _no_address(caller: Caller, params: Params) -> None:
    if _function(caller, params["FunctionName"]) is None:
        raise AwsError(_MISSING, "The resource you requested does not exist.", 404)


FIRST: dict[str, Rule] = {"CreateFunction": _first_create, "UpdateFunctionConfiguration": _check_runtime}
RULES: dict[str, Rule] = {
    "CreateFunction": _create,
    "UpdateFunctionConfiguration": _configure,
    "GetFunction": _named,
    "GetFunctionConfiguration": _named,
    "GetFunctionEventInvokeConfig": _no_event_config,
    "GetFunctionUrlConfig": _no_address,
    "DeleteFunction": _delete,
    "Invoke": _invoke,
    "PutFunctionConcurrency": _reserve,
    "PublishVersion": _publish,
    "CreateAlias": _create_alias,
    "UpdateAlias": _update_alias,
    "AddPermission": _permit,
    "RemovePermission": _forbid,
    "TagResource": _tag,
    "CreateEventSourceMapping": _map,
    "UpdateEventSourceMapping": _update_mapping,
    "DeleteEventSourceMapping": _mapping,
    "GetEventSourceMapping": _mapping,
    "PublishLayerVersion": _layer,
}
