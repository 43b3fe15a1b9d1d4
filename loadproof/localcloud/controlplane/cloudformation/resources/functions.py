"""AWS::Lambda::Function, EventSourceMapping, Permission, LayerVersion. The queue poller runs the functions."""

from __future__ import annotations

import io
import zipfile

from botocore.client import BaseClient

from loadproof.localcloud.controlplane.cloudformation import cfnresponse
from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceFailedError,
    ResourceType,
    Work,
    names,
    picked,
    tag_map,
)
from loadproof.wire.documents import Document


class Function(ResourceType):
    type_name = "AWS::Lambda::Function"
    _configuration = names(
        "Architectures DeadLetterConfig Description Environment EphemeralStorage Handler KmsKeyArn Layers "
        "LoggingConfig MemorySize Role Runtime Timeout TracingConfig VpcConfig"
    )
    supported = _configuration | names("Code FunctionName PackageType ReservedConcurrentExecutions Tags")
    name_property = "FunctionName"
    deletion = ("lambda", "delete_function", "FunctionName")

    def create(self, work: Work, properties: Properties) -> Made:
        _check_function(properties)
        functions, name = work.client("lambda"), self.name(work, properties)
        found = functions.create_function(
            FunctionName=name,
            Code=_code(properties["Code"]),
            Tags=tag_map(work, properties),
            **_api_names(picked(properties, *self._configuration, "PackageType")),
        )
        self._limit(functions, name, {}, properties)
        return Made(name, {"Arn": found["FunctionArn"]})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        _check_function(new)
        functions = work.client("lambda")
        if old["Code"] != new["Code"]:
            functions.update_function_code(FunctionName=physical_id, **_code(new["Code"]))
        request = _api_names(picked(new, *self._configuration - {"Architectures"}))
        found = functions.update_function_configuration(FunctionName=physical_id, **request)
        self._limit(functions, physical_id, old, new)
        return {"Arn": found["FunctionArn"]}

    def _limit(self, functions: BaseClient, name: str, old: Properties, new: Properties) -> None:
        limit = new.get("ReservedConcurrentExecutions")
        if limit is not None:
            functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=int(limit))
        elif "ReservedConcurrentExecutions" in old:
            functions.delete_function_concurrency(FunctionName=name)


# https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
_RESERVED_VARIABLES = names(
    "_HANDLER _X_AMZN_TRACE_ID AWS_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_DEFAULT_REGION AWS_EXECUTION_ENV "
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE AWS_LAMBDA_FUNCTION_NAME AWS_LAMBDA_FUNCTION_VERSION "
    "AWS_LAMBDA_INITIALIZATION_TYPE AWS_LAMBDA_LOG_GROUP_NAME AWS_LAMBDA_LOG_STREAM_NAME "
    "AWS_LAMBDA_RUNTIME_API AWS_REGION AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN LAMBDA_RUNTIME_DIR "
    "LAMBDA_TASK_ROOT"
)


def _check_function(properties: Properties) -> None:
    """What Lambda refuses and moto takes; and what runs here: Python."""
    runtime = str(properties.get("Runtime", ""))
    if not runtime.startswith("python3."):
        raise ResourceFailedError(f"The local cloud runs Python functions only, found Runtime {runtime or '(none)'}.")
    if int(properties.get("Timeout", 3)) > 900:
        raise ResourceFailedError(f"Timeout must be at most 900 seconds, found {properties['Timeout']}.")
    variables = properties.get("Environment", {}).get("Variables", {})
    reserved = sorted(variables.keys() & _RESERVED_VARIABLES)
    if reserved:
        raise ResourceFailedError(
            "Lambda was unable to configure your environment variables because the environment variables you have "
            f"provided contains reserved keys that are currently not supported for modification: {', '.join(reserved)}"
        )
    if sum(len(str(name).encode()) + len(str(value).encode()) for name, value in variables.items()) > 4096:
        raise ResourceFailedError("Environment variables exceed the 4 KB that Lambda allows.")


def _api_names(properties: Properties) -> Properties:
    """CloudFormation says KmsKeyArn as the API says KMSKeyArn."""
    renamed = dict(properties)
    if "KmsKeyArn" in renamed:
        renamed["KMSKeyArn"] = renamed.pop("KmsKeyArn")
    return renamed


def _code(code: Properties) -> Document:
    """The code as the API takes it; inline text becomes CloudFormation's zip, with `cfnresponse` in it."""
    if "ZipFile" in code:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("index.py", code["ZipFile"])
            archive.write(cfnresponse.__file__, "cfnresponse.py")
        return {"ZipFile": packed.getvalue()}
    if "S3Bucket" not in code:
        raise ResourceFailedError(
            "The local cloud runs functions from ZipFile or S3Bucket and S3Key, not from an image."
        )
    return picked(code, "S3Bucket", "S3Key", "S3ObjectVersion")


class EventSourceMapping(ResourceType):
    type_name = "AWS::Lambda::EventSourceMapping"
    _plain = names("BatchSize Enabled FunctionName FunctionResponseTypes MaximumBatchingWindowInSeconds ScalingConfig")
    supported = _plain | {"EventSourceArn", "Tags"}
    deletion = ("lambda", "delete_event_source_mapping", "UUID")

    def create(self, work: Work, properties: Properties) -> Made:
        arn = properties.get("EventSourceArn", "")
        if ":sqs:" not in arn:
            raise ResourceFailedError(f"The local cloud polls SQS queues only, found event source {arn or '(none)'}.")
        self._check(work, arn, properties)
        request = picked(properties, *self._plain)
        found = work.client("lambda").create_event_source_mapping(EventSourceArn=arn, **request)
        return Made(found["UUID"], self._attributes(work, found["UUID"]))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        self._check(work, new["EventSourceArn"], new)
        work.client("lambda").update_event_source_mapping(UUID=physical_id, **picked(new, *self._plain))
        return self._attributes(work, physical_id)

    def _check(self, work: Work, queue_arn: str, properties: Properties) -> None:
        """Lambda's own conditions on a queue and its batches."""
        if int(properties.get("BatchSize", 10)) > 10 and not properties.get("MaximumBatchingWindowInSeconds"):
            raise ResourceFailedError(
                "Maximum batch window in seconds must be greater than 0 if maximum batch size is greater than 10"
            )
        sqs = work.client("sqs")
        url = sqs.get_queue_url(QueueName=queue_arn.rpartition(":")[2])["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
        function = work.client("lambda").get_function_configuration(FunctionName=properties["FunctionName"])
        if int(found["VisibilityTimeout"]) < int(function["Timeout"]):
            raise ResourceFailedError(
                f"Queue visibility timeout: {found['VisibilityTimeout']} seconds is less than Function timeout: "
                f"{function['Timeout']} seconds"
            )

    def _attributes(self, work: Work, uuid: str) -> Document:
        return {"Id": uuid, "EventSourceMappingArn": work.caller.arn("lambda", f"event-source-mapping:{uuid}")}


class Permission(ResourceType):
    type_name = "AWS::Lambda::Permission"
    supported = names("Action FunctionName Principal SourceAccount SourceArn")

    def create(self, work: Work, properties: Properties) -> Made:
        statement = work.generated_name(100)
        work.client("lambda").add_permission(StatementId=statement, **properties)
        return Made(statement, {"Id": statement})

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        work.client("lambda").remove_permission(FunctionName=properties["FunctionName"], StatementId=physical_id)


class LayerVersion(ResourceType):
    type_name = "AWS::Lambda::LayerVersion"
    _plain = names("CompatibleArchitectures CompatibleRuntimes Description LicenseInfo")
    supported = _plain | {"Content", "LayerName"}

    def create(self, work: Work, properties: Properties) -> Made:
        arn = work.client("lambda").publish_layer_version(
            LayerName=properties.get("LayerName") or work.generated_name(100),
            Content=picked(properties["Content"], "S3Bucket", "S3Key", "S3ObjectVersion"),
            **picked(properties, *self._plain),
        )["LayerVersionArn"]
        return Made(arn, {"LayerVersionArn": arn})

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        name, version = physical_id.rsplit(":", 2)[1:]
        work.client("lambda").delete_layer_version(LayerName=name, VersionNumber=int(version))
