"""AWS::SageMaker::Model, EndpointConfig, Endpoint, InferenceComponent."""

from __future__ import annotations

from loadproof.localcloud.controlplane.cloudformation.resources.base import (
    Made,
    Properties,
    ResourceFailedError,
    Work,
    picked,
    tag_list,
)
from loadproof.localcloud.controlplane.wire import AwsError
from loadproof.localcloud.documents import Document


def _retag(work: Work, arn: str, new: Properties) -> None:
    """Tags as they are to be: set the new ones, drop the others."""
    wanted = tag_list(work, new)
    names = {tag["Key"] for tag in wanted}
    present = work.call_sagemaker("ListTags", ResourceArn=arn)["Tags"]
    stale = [tag["Key"] for tag in present if tag["Key"] not in names]
    if stale:
        work.call_sagemaker("DeleteTags", ResourceArn=arn, TagKeys=stale)
    if wanted:
        work.call_sagemaker("AddTags", ResourceArn=arn, Tags=wanted)


def _named(work: Work, properties: Properties, name_property: str) -> Properties:
    request = {name: value for name, value in properties.items() if name != "Tags"}
    request.setdefault(name_property, work.generated_name(63))
    tags = tag_list(work, properties)
    return {**request, "Tags": tags} if tags else request


class Model:
    """Everything but tags is create-only, so an edit is a replacement."""

    type_name = "AWS::SageMaker::Model"
    supported = frozenset(
        {
            "Containers",
            "EnableNetworkIsolation",
            "ExecutionRoleArn",
            "ModelName",
            "PrimaryContainer",
            "Tags",
            "VpcConfig",
        }
    )
    name_property = "ModelName"

    def create(self, work: Work, properties: Properties) -> Made:
        request = _named(work, properties, "ModelName")
        arn = work.call_sagemaker("CreateModel", **request)["ModelArn"]
        return Made(arn, {"ModelArn": arn, "ModelName": request["ModelName"]})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        _retag(work, physical_id, new)
        return {"ModelArn": physical_id, "ModelName": _exact_name(work, physical_id, "Models", "Model")}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        name = _exact_name(work, physical_id, "Models", "Model")
        work.call_sagemaker("DeleteModel", ModelName=name)


class EndpointConfig:
    """Everything but tags is create-only."""

    type_name = "AWS::SageMaker::EndpointConfig"
    supported = frozenset(
        {
            "AsyncInferenceConfig", "DataCaptureConfig", "EnableNetworkIsolation", "EndpointConfigName",
            "ExecutionRoleArn", "KmsKeyId", "MetricsConfig", "ProductionVariants", "Tags", "VpcConfig",
        }
    )  # fmt: skip
    name_property = "EndpointConfigName"

    def create(self, work: Work, properties: Properties) -> Made:
        request = _named(work, properties, "EndpointConfigName")
        arn = work.call_sagemaker("CreateEndpointConfig", **request)["EndpointConfigArn"]
        return Made(arn, {"EndpointConfigArn": arn, "EndpointConfigName": request["EndpointConfigName"]})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        _retag(work, physical_id, new)
        name = _exact_name(work, physical_id, "EndpointConfigs", "EndpointConfig")
        return {"EndpointConfigArn": physical_id, "EndpointConfigName": name}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        name = _exact_name(work, physical_id, "EndpointConfigs", "EndpointConfig")
        work.call_sagemaker("DeleteEndpointConfig", EndpointConfigName=name)


class Endpoint:
    """Waits for InService; a new configuration is an update in place."""

    type_name = "AWS::SageMaker::Endpoint"
    supported = frozenset(
        {
            "DeploymentConfig", "EndpointConfigName", "EndpointName", "ExcludeRetainedVariantProperties",
            "RetainAllVariantProperties", "RetainDeploymentConfig", "Tags",
        }
    )  # fmt: skip
    name_property = "EndpointName"

    def create(self, work: Work, properties: Properties) -> Made:
        request = _named(
            work, picked(properties, "EndpointName", "EndpointConfigName", "DeploymentConfig", "Tags"), "EndpointName"
        )
        arn = work.call_sagemaker("CreateEndpoint", **request)["EndpointArn"]
        name = request["EndpointName"]
        work.wait(arn, lambda: _endpoint_status(work, name), "InService", ("Creating",))
        return Made(arn, {"EndpointArn": arn, "EndpointName": name})

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        name = _exact_name(work, physical_id, "Endpoints", "Endpoint")
        _retag(work, physical_id, new)
        request = picked(
            new, "EndpointConfigName", "DeploymentConfig", "RetainAllVariantProperties",
            "ExcludeRetainedVariantProperties", "RetainDeploymentConfig",
        )  # fmt: skip
        if request["EndpointConfigName"] != old["EndpointConfigName"]:
            work.call_sagemaker("UpdateEndpoint", EndpointName=name, **request)
            work.wait(physical_id, lambda: _endpoint_status(work, name), "InService", ("Updating",))
            found = work.call_sagemaker("DescribeEndpoint", EndpointName=name)
            if found["EndpointConfigName"] != request["EndpointConfigName"]:  # SageMaker has gone back by itself
                raise ResourceFailedError(
                    f"Endpoint {name} was rolled back: {found.get('FailureReason', 'no reason given')}"
                )
        return {"EndpointArn": physical_id, "EndpointName": name}

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        name = _exact_name(work, physical_id, "Endpoints", "Endpoint")
        work.call_sagemaker("DeleteEndpoint", EndpointName=name)
        work.wait_gone(lambda: work.call_sagemaker("DescribeEndpoint", EndpointName=name))


class InferenceComponent:
    """Waits for InService. EndpointName and VariantName cannot change: a component never moves."""

    type_name = "AWS::SageMaker::InferenceComponent"
    supported = frozenset(
        {
            "DeploymentConfig", "EndpointArn", "EndpointName", "InferenceComponentName", "RuntimeConfig",
            "Specification", "Specifications", "Tags", "VariantName",
        }
    )  # fmt: skip
    name_property = "InferenceComponentName"

    def create(self, work: Work, properties: Properties) -> Made:
        wanted = picked(
            properties,
            "InferenceComponentName",
            "EndpointName",
            "VariantName",
            "Specification",
            "Specifications",
            "RuntimeConfig",
            "Tags",
        )
        request = _named(work, wanted, "InferenceComponentName")
        name = request["InferenceComponentName"]
        arn = work.call_sagemaker("CreateInferenceComponent", **request)["InferenceComponentArn"]
        work.wait(arn, lambda: _component_status(work, name), "InService", ("Creating",))
        return Made(arn, self._attributes(work, name))

    def update(self, work: Work, physical_id: str, old: Properties, new: Properties) -> Document:
        name = _exact_name(work, physical_id, "InferenceComponents", "InferenceComponent")
        for fixed in ("EndpointName", "VariantName", "InferenceComponentName"):
            if old.get(fixed) != new.get(fixed):
                raise AwsError(
                    "NotUpdatable", f"{fixed} of an inference component cannot change; give it another logical id."
                )
        _retag(work, physical_id, new)
        request = picked(new, "Specification", "Specifications", "RuntimeConfig", "DeploymentConfig")
        if any(old.get(part) != new.get(part) for part in request):
            work.call_sagemaker("UpdateInferenceComponent", InferenceComponentName=name, **request)
            work.wait(physical_id, lambda: _component_status(work, name), "InService", ("Updating",))
            found = work.call_sagemaker("DescribeInferenceComponent", InferenceComponentName=name)
            if found.get("FailureReason"):  # SageMaker has gone back by itself
                raise ResourceFailedError(f"Inference component {name} was rolled back: {found['FailureReason']}")
        return self._attributes(work, name)

    def delete(self, work: Work, physical_id: str, properties: Properties) -> None:
        name = _exact_name(work, physical_id, "InferenceComponents", "InferenceComponent")
        work.call_sagemaker("DeleteInferenceComponent", InferenceComponentName=name)
        work.wait_gone(lambda: work.call_sagemaker("DescribeInferenceComponent", InferenceComponentName=name))

    def _attributes(self, work: Work, name: str) -> Document:
        found = work.call_sagemaker("DescribeInferenceComponent", InferenceComponentName=name)
        return {
            "InferenceComponentArn": found["InferenceComponentArn"],
            "InferenceComponentStatus": found["InferenceComponentStatus"],
            "RuntimeConfig.CurrentCopyCount": found["RuntimeConfig"]["CurrentCopyCount"],
            "RuntimeConfig.DesiredCopyCount": found["RuntimeConfig"]["DesiredCopyCount"],
        }


def _endpoint_status(work: Work, name: str) -> tuple[str, str | None]:
    found = work.call_sagemaker("DescribeEndpoint", EndpointName=name)
    return found["EndpointStatus"], found.get("FailureReason")


def _component_status(work: Work, name: str) -> tuple[str, str | None]:
    found = work.call_sagemaker("DescribeInferenceComponent", InferenceComponentName=name)
    return found["InferenceComponentStatus"], found.get("FailureReason")


def _exact_name(work: Work, arn: str, listing: str, noun: str) -> str:
    """The name behind an ARN, which SageMaker writes in lower case."""
    token: dict[str, str] = {}
    while True:
        page = work.call_sagemaker(f"List{listing}", MaxResults=100, **token)
        for row in page[listing]:
            if row[f"{noun}Arn"] == arn:
                return str(row[f"{noun}Name"])
        if "NextToken" not in page:
            raise AwsError("ValidationException", f'Could not find "{arn}".')
        token = {"NextToken": page["NextToken"]}
