"""Facts about SageMaker, Application Auto Scaling and CloudFormation that the local cloud promises to share."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

Client = Callable[[str], Any]


def refusal(call: Callable[..., Any], **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


@contextmanager
def stack(cfn: Any, name: str, template: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A stack for the length of the block, once it has come to rest; removed in any case."""
    arn = cfn.create_stack(StackName=name, TemplateBody=json.dumps(template))["StackId"]
    try:
        yield rest(cfn, arn)
    finally:
        cfn.delete_stack(StackName=name)
        assert rest(cfn, arn)["StackStatus"] == "DELETE_COMPLETE"


def rest(cfn: Any, name: str) -> dict[str, Any]:
    end_s = time.monotonic() + 300
    while time.monotonic() < end_s:
        found: dict[str, Any] = cfn.describe_stacks(StackName=name)["Stacks"][0]
        if not found["StackStatus"].endswith("_IN_PROGRESS"):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{name} is still {found['StackStatus']}")


def queue(**properties: Any) -> dict[str, Any]:
    return {"Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": properties}}}


def test_missing_endpoint_is_a_validation_exception(client: Client, name: str) -> None:
    code, message = refusal(client("sagemaker").describe_endpoint, EndpointName=name)
    assert code == "ValidationException"
    assert message.startswith('Could not find endpoint "arn:aws')


def test_missing_component_is_a_validation_exception(client: Client, name: str) -> None:
    code, message = refusal(client("sagemaker").describe_inference_component, InferenceComponentName=name)
    assert code == "ValidationException"
    assert "Could not find inference component" in message


def test_component_on_a_missing_endpoint_is_refused(client: Client, name: str) -> None:
    code, _ = refusal(
        client("sagemaker").create_inference_component,
        InferenceComponentName=name,
        EndpointName=name,
        VariantName="AllTraffic",
        Specification={
            "Container": {"Image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.33.0"},
            "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024},
        },
        RuntimeConfig={"CopyCount": 1},
    )
    assert code == "ValidationException"


def test_endpoint_of_a_missing_configuration_is_refused(client: Client, name: str) -> None:
    code, message = refusal(client("sagemaker").create_endpoint, EndpointName=name, EndpointConfigName=name)
    assert code == "ValidationException"
    assert message.startswith('Could not find endpoint configuration "arn:aws')


def test_configuration_of_a_missing_model_is_refused(client: Client, name: str) -> None:
    variant = {"VariantName": "v", "ModelName": name, "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
    code, message = refusal(
        client("sagemaker").create_endpoint_config, EndpointConfigName=name, ProductionVariants=[variant]
    )
    assert code == "ValidationException"
    assert message.startswith('Could not find model "arn:aws')


def test_constraint_message_names_value_place_and_rule(client: Client, name: str) -> None:
    variant = {"VariantName": "v", "ModelName": name, "InstanceType": "ml.imaginary", "InitialInstanceCount": 1}
    code, message = refusal(
        client("sagemaker").create_endpoint_config, EndpointConfigName=name, ProductionVariants=[variant]
    )
    assert code == "ValidationException"
    assert "1 validation error detected: Value 'ml.imaginary' at 'productionVariants.1.member.instanceType'" in message
    assert "failed to satisfy constraint: Member must satisfy enum value set: [" in message


def test_update_of_a_missing_endpoint_is_refused(client: Client, name: str) -> None:
    code, message = refusal(client("sagemaker").update_endpoint, EndpointName=name, EndpointConfigName=name)
    assert code == "ValidationException"
    assert message.startswith("Could not find endpoint")


def test_sizes_of_a_deployment_are_bounded_by_the_model(client: Client, name: str) -> None:
    routing = {"Type": "CANARY", "WaitIntervalInSeconds": 3601, "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10}}
    code, message = refusal(
        client("sagemaker").update_endpoint,
        EndpointName=name,
        EndpointConfigName=name,
        DeploymentConfig={"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}},
    )
    assert code == "ValidationException"
    assert "Member must have value less than or equal to 3600" in message


def test_scaling_what_does_not_exist_is_refused(client: Client, name: str) -> None:
    code, _ = refusal(
        client("application-autoscaling").register_scalable_target,
        ServiceNamespace="sagemaker",
        ResourceId=f"inference-component/{name}",
        ScalableDimension="sagemaker:inference-component:DesiredCopyCount",
        MinCapacity=0,
        MaxCapacity=1,
    )
    assert code == "ValidationException"


def test_policy_without_a_target_is_object_not_found(client: Client, name: str) -> None:
    code, message = refusal(
        client("application-autoscaling").put_scaling_policy,
        PolicyName="p",
        PolicyType="TargetTrackingScaling",
        ServiceNamespace="sagemaker",
        ResourceId=f"inference-component/{name}",
        ScalableDimension="sagemaker:inference-component:DesiredCopyCount",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 1.0,
            "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerInferenceComponentInvocationsPerCopy"},
        },
    )
    assert code == "ObjectNotFoundException"
    assert message.startswith("No scalable target registered for service namespace: sagemaker")


def test_missing_stack_is_a_validation_error(client: Client, name: str) -> None:
    assert refusal(client("cloudformation").describe_stacks, StackName=name) == (
        "ValidationError",
        f"Stack with id {name} does not exist",
    )


def test_missing_change_set_has_its_own_code(client: Client, name: str) -> None:
    cfn = client("cloudformation")
    with stack(cfn, name, queue()):
        code, _ = refusal(cfn.describe_change_set, StackName=name, ChangeSetName="never")
    assert code == "ChangeSetNotFound"


def test_update_without_changes_is_refused(client: Client, name: str) -> None:
    cfn = client("cloudformation")
    with stack(cfn, name, queue()):
        code, message = refusal(cfn.update_stack, StackName=name, TemplateBody=json.dumps(queue()))
    assert (code, message) == ("ValidationError", "No updates are to be performed.")


def test_failed_creation_ends_rolled_back_with_a_reason(client: Client, name: str) -> None:
    cfn = client("cloudformation")
    with stack(cfn, name, queue(VisibilityTimeout=43_201)) as found:
        assert found["StackStatus"] == "ROLLBACK_COMPLETE"
        events = cfn.describe_stack_events(StackName=name)["StackEvents"]
        failed = [event for event in events if event["ResourceStatus"] == "CREATE_FAILED"]
        assert [event["LogicalResourceId"] for event in failed] == ["Queue"]
        assert failed[0]["ResourceStatusReason"]


def test_rename_is_a_replacement_and_the_output_follows(client: Client, name: str) -> None:
    """The change set says so beforehand; afterwards the old queue is gone."""
    cfn, sqs = client("cloudformation"), client("sqs")
    before, after = queue(QueueName=f"{name}-1"), queue(QueueName=f"{name}-2")
    for template in (before, after):
        template["Outputs"] = {"Url": {"Value": {"Ref": "Queue"}}}
    with stack(cfn, name, before):
        cfn.create_change_set(StackName=name, ChangeSetName="rename", TemplateBody=json.dumps(after))
        while cfn.describe_change_set(StackName=name, ChangeSetName="rename")["Status"].endswith("_IN_PROGRESS"):
            time.sleep(1)
        change = cfn.describe_change_set(StackName=name, ChangeSetName="rename")["Changes"][0]["ResourceChange"]
        assert (change["Action"], change["Replacement"]) == ("Modify", "True")
        cfn.execute_change_set(StackName=name, ChangeSetName="rename")
        time.sleep(0.2)
        assert rest(cfn, name)["Outputs"][0]["OutputValue"].endswith(f"/{name}-2")
        assert refusal(sqs.get_queue_url, QueueName=f"{name}-1")[0].endswith(("NonExistentQueue", "QueueDoesNotExist"))
