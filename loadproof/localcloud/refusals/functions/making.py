"""What Lambda refuses of a function that is made or changed: its runtime, settings, role, network and code."""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile

from moto.backends import get_backend

from loadproof.localcloud.account.networks import security_groups, subnets
from loadproof.localcloud.account.roles import role_problem
from loadproof.localcloud.refusals.functions.lookup import INVALID, check_revision, existing, function
from loadproof.localcloud.refusals.functions.runtimes import check_runtime
from loadproof.localcloud.refusals.keys import key_of
from loadproof.localcloud.refusals.rules import Rule, check_tags, moto_of, require
from loadproof.localcloud.wire import AwsError, Caller, Params
from loadproof.wire.documents import Document

# https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html#configuration-envvars-runtime
_RESERVED = {
    "_HANDLER", "_X_AMZN_TRACE_ID", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_EXECUTION_ENV", "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "AWS_LAMBDA_FUNCTION_VERSION", "AWS_LAMBDA_INITIALIZATION_TYPE",
    "AWS_LAMBDA_LOG_GROUP_NAME", "AWS_LAMBDA_LOG_STREAM_NAME", "AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_LAMBDA_RUNTIME_API", "LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR",
}  # fmt: skip
_MOST_ENVIRONMENT_BYTES, _MOST_LAYERS, _MOST_NAME = 4096, 5, 64
_MOST = {"Timeout": 900, "MemorySize": 10240}


def _first_create(caller: Caller, params: Params) -> None:
    name = str(params.get("FunctionName", ""))
    if len(name) > _MOST_NAME and ":" not in name:
        message = f"1 validation error detected: Value '{name}' at 'functionName' failed to satisfy constraint: "
        raise AwsError(INVALID, f"{message}Member must have length less than or equal to {_MOST_NAME}")
    check_runtime(params.get("Runtime"), "create-block")


def _create(caller: Caller, params: Params) -> None:
    if params.get("PackageType", "Zip") == "Zip":
        for field in ("Runtime", "Handler"):
            require(params.get(field), INVALID, f"{field} is a mandatory parameter for functions with a .zip package.")
        message = "Please set PackageType to Image where the code is an ImageUri."
        require("ImageUri" not in params["Code"], INVALID, message)
        require(not params.get("ImageConfig"), INVALID, "ImageConfig is of functions with PackageType Image.")
    else:
        message = "Please don't provide Handler or Runtime or Layer when the intended function PackageType is Image."
        require(not any(params.get(field) for field in ("Runtime", "Handler", "Layers")), INVALID, message)
        message = "Please provide ImageUri when creating a function with packageType Image."
        require("ImageUri" in params["Code"], INVALID, message)
    check_tags(params.get("Tags") or {}, INVALID)
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
        INVALID,
        "Lambda was unable to configure your environment variables because the environment variables you have provided "
        "contains reserved keys that are currently not supported for modification. Reserved keys used in this "
        f"request: {', '.join(reserved)}",
    )
    measured = json.dumps(variables, separators=(",", ":"))
    require(
        len(measured.encode()) <= _MOST_ENVIRONMENT_BYTES,
        INVALID,
        "Lambda was unable to configure your environment variables because the environment variables you have provided "
        f"exceeded the 4KB limit. String measured: {measured}",
    )
    _check_key(caller, variables, params.get("KMSKeyArn") or "")
    _check_snap_start(params)
    _check_logging(params.get("LoggingConfig") or {})
    _check_dead_letters(caller, (params.get("DeadLetterConfig") or {}).get("TargetArn") or "")
    message = "Function must be configured to execute in a VPC to reference access point"
    inside = (params.get("VpcConfig") or {}).get("SubnetIds")
    require(inside or not params.get("FileSystemConfigs"), INVALID, message)
    layers = params.get("Layers") or []
    require(len(layers) <= _MOST_LAYERS, INVALID, f"Cannot reference more than {_MOST_LAYERS} layers.")
    _check_network(caller, params.get("VpcConfig") or {})


def _check_key(caller: Caller, variables: Document, arn: str) -> None:
    """Variables are encrypted with it at once; keys of other accounts cannot be looked at."""
    message = "Lambda was unable to configure access to your environment variables because the KMS key is invalid."
    foreign = f":{caller.region}:{caller.account}:" not in arn
    require(not variables or foreign or key_of(caller, arn) is not None, INVALID, message)


# https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html#snapstart-runtimes
_NO_SNAPS = {"python3.8", "python3.9", "python3.10", "python3.11", "java8", "java8.al2"}
_SNAP_STORAGE_MB = 512


def _check_snap_start(params: Params) -> None:
    if (params.get("SnapStart") or {}).get("ApplyOn") != "PublishedVersions":
        return
    runtime = params.get("Runtime")
    message = f"{runtime} is not supported for SnapStart enabled functions."
    require(runtime not in _NO_SNAPS, INVALID, message)
    storage_mb = (params.get("EphemeralStorage") or {}).get("Size", _SNAP_STORAGE_MB)
    message = "SnapStart does not support ephemeral storage greater than 512 MB."
    require(storage_mb <= _SNAP_STORAGE_MB, INVALID, message)


def _check_logging(config: Document) -> None:
    """https://docs.aws.amazon.com/lambda/latest/api/API_LoggingConfig.html: levels are those of logs in JSON."""
    levels = [field for field in ("ApplicationLogLevel", "SystemLogLevel") if config.get(field)]
    message = "To use ApplicationLogLevel or SystemLogLevel, you must set LogFormat to JSON."
    require(not levels or config.get("LogFormat") == "JSON", INVALID, message)


_LETTERS = {"sqs": "SendMessage on SQS", "sns": "Publish on SNS"}


def _check_dead_letters(caller: Caller, arn: str) -> None:
    """A queue or topic of this account must be there; whether the role may send to it is not looked at."""
    service, _, name = arn.partition("arn:aws:")[2].partition(":")
    require(not arn or service in _LETTERS, INVALID, "A dead letter goes to an SQS queue or an SNS topic.")
    if not name.startswith(f"{caller.region}:{caller.account}:"):
        return
    queues = moto_of("sqs", caller).queues
    topics = moto_of("sns", caller).topics
    message = f"The provided execution role does not have permissions to call {_LETTERS[service]}"
    require(name.rpartition(":")[2] in queues if service == "sqs" else arn in topics, INVALID, message)


def _check_role(caller: Caller, role_arn: str | None) -> None:
    if role_arn is None:
        return
    trusted = role_problem(caller.account, role_arn, "lambda.amazonaws.com") is None
    require(trusted, INVALID, "The role defined for the function cannot be assumed by Lambda.")


def _check_network(caller: Caller, config: Document) -> None:
    known = subnets(caller)
    for name in config.get("SubnetIds") or []:
        message = (
            "Error occurred while DescribeSubnets. EC2 Error Code: InvalidSubnetID.NotFound. EC2 Error Message: The "
            f"subnet ID '{name}' does not exist"
        )
        require(name in known, INVALID, message)
    groups = security_groups(caller)
    for name in config.get("SecurityGroupIds") or []:
        message = (
            "Error occurred while DescribeSecurityGroups. EC2 Error Code: InvalidGroup.NotFound. EC2 Error Message: "
            f"The security group '{name}' does not exist"
        )
        require(name in groups, INVALID, message)


def _check_code(caller: Caller, code: Document) -> None:
    if "ImageUri" in code:
        return
    if "ZipFile" in code:
        try:
            content = base64.b64decode(code["ZipFile"])
        except (binascii.Error, TypeError):
            content = b""
        message = "Please do not provide other FunctionCode parameters when providing a ZipFile."
        require("S3Bucket" not in code, INVALID, message)
        _check_zip(content)
        return
    require("S3Bucket" in code, INVALID, "Please provide a source for function code.")
    found = _stored(caller, code["S3Bucket"], code.get("S3Key", ""))
    _check_zip(found)


_NO_ZIP = "Could not unzip uploaded file. Please check your file, then try to upload again."


def _check_zip(content: bytes) -> None:
    require(zipfile.is_zipfile(io.BytesIO(content)), INVALID, _NO_ZIP)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        require(archive.namelist(), INVALID, "Uploaded file must be a non-empty zip")


def _stored(caller: Caller, bucket_name: str, key: str) -> bytes:
    bucket = get_backend("s3")[caller.account]["aws"].buckets.get(bucket_name)
    message = (
        "Error occurred while GetObject. S3 Error Code: NoSuchBucket. S3 Error Message: The specified bucket does "
        "not exist"
    )
    if bucket is None:
        raise AwsError(INVALID, message)
    found = bucket.keys.get(key)
    message = (
        "Error occurred while GetObject. S3 Error Code: NoSuchKey. S3 Error Message: The specified key does not exist."
    )
    require(found is not None, INVALID, message)
    return bytes(found.value)


def _layer(caller: Caller, params: Params) -> None:
    _check_code(caller, params.get("Content") or {})


def _update_code(caller: Caller, params: Params) -> None:
    found = existing(caller, params)
    check_revision(found, params)
    message = "Please provide ImageUri only for functions with PackageType Image."
    require("ImageUri" not in params or found.package_type == "Image", INVALID, message)
    _check_code(caller, params)


def _configure(caller: Caller, params: Params) -> None:
    check_revision(function(caller, params["FunctionName"], params.get("Qualifier")), params)
    _check_settings(caller, params)


def _first_configure(caller: Caller, params: Params) -> None:
    check_runtime(params.get("Runtime"), "update-block")


FIRST: dict[str, Rule] = {"CreateFunction": _first_create, "UpdateFunctionConfiguration": _first_configure}
RULES: dict[str, Rule] = {
    "CreateFunction": _create,
    "UpdateFunctionConfiguration": _configure,
    "UpdateFunctionCode": _update_code,
    "PublishLayerVersion": _layer,
}
