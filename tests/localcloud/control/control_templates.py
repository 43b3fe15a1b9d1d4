"""Templates in the shape of a deployed profile, small enough to read, and a way to apply them."""

from __future__ import annotations

import json
import time
from typing import Any

TGI_IMAGE = (
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-tgi-inference:"
    "2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04"
)
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


def endpoint_template(
    name: str,
    *,
    instance_type: str = "ml.g5.12xlarge",
    copies: int = 1,
    accelerators: int = 1,
    max_copies: int = 4,
    image: str = TGI_IMAGE,
) -> dict[str, Any]:
    """Role, model, configuration, endpoint, component, scalable target and policy of one endpoint."""
    component = f"{name}-main"
    resources = {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        "Model": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {
                "ExecutionRoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                "PrimaryContainer": {
                    "Image": image,
                    "Environment": {
                        "HF_MODEL_ID": "meta-llama/Llama-3.1-8B-Instruct",
                        "MAX_INPUT_TOKENS": "1024",
                        "MAX_TOTAL_TOKENS": "2048",
                    },
                },
                "Tags": [{"Key": "loadproof:model-id", "Value": "meta-llama/Llama-3.1-8B-Instruct"}],
            },
        },
        "Config": {
            "Type": "AWS::SageMaker::EndpointConfig",
            "Properties": {
                "ExecutionRoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                "ProductionVariants": [
                    {
                        "VariantName": "AllTraffic",
                        "InstanceType": instance_type,
                        "InitialInstanceCount": 1,
                        "ManagedInstanceScaling": {
                            "Status": "ENABLED",
                            "MinInstanceCount": 1,
                            "MaxInstanceCount": 2,
                        },
                        "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
                    }
                ],
            },
        },
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {
                "EndpointName": name,
                "EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]},
                "Tags": [{"Key": "team", "Value": "ml"}],
            },
        },
        "Component": {
            "Type": "AWS::SageMaker::InferenceComponent",
            "Properties": {
                "InferenceComponentName": component,
                "EndpointName": {"Fn::GetAtt": ["Endpoint", "EndpointName"]},
                "VariantName": "AllTraffic",
                "Specification": {
                    "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
                    "ComputeResourceRequirements": {
                        "NumberOfAcceleratorDevicesRequired": accelerators,
                        "MinMemoryRequiredInMb": 4096,
                    },
                },
                "RuntimeConfig": {"CopyCount": copies},
            },
        },
        "Target": {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "DependsOn": "Component",
            "Properties": {
                "ServiceNamespace": "sagemaker",
                "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
                "ResourceId": f"inference-component/{component}",
                "MinCapacity": 1,
                "MaxCapacity": max_copies,
            },
        },
        "Policy": {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": "track",
                "PolicyType": "TargetTrackingScaling",
                "ScalingTargetId": {"Ref": "Target"},
                "TargetTrackingScalingPolicyConfiguration": {
                    "TargetValue": 8,
                    "ScaleInCooldown": 300,
                    "ScaleOutCooldown": 60,
                    "PredefinedMetricSpecification": {
                        "PredefinedMetricType": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
                    },
                },
            },
        },
    }
    outputs = {"EndpointName": {"Value": {"Fn::GetAtt": ["Endpoint", "EndpointName"]}}}
    return {"Resources": resources, "Outputs": outputs}


def queue_template(name: str, **properties: Any) -> dict[str, Any]:
    """One queue: the smallest thing to deploy."""
    return {"Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name, **properties}}}}


def settled(cloudformation: Any, stack: str) -> dict[str, Any]:
    """The stack once nothing is in progress any more."""
    for _ in range(1500):
        found: dict[str, Any] = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
        if not found["StackStatus"].endswith("_IN_PROGRESS"):
            return found
        time.sleep(0.02)
    raise AssertionError(f"{stack} is still {found['StackStatus']}")


def create(cloudformation: Any, stack: str, template: dict[str, Any], **options: Any) -> dict[str, Any]:
    created = cloudformation.create_stack(
        StackName=stack, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_IAM"], **options
    )
    return settled(cloudformation, created["StackId"])


def update(cloudformation: Any, stack: str, template: dict[str, Any], **options: Any) -> dict[str, Any]:
    body = json.dumps(template)
    cloudformation.update_stack(StackName=stack, TemplateBody=body, Capabilities=["CAPABILITY_IAM"], **options)
    return settled(cloudformation, stack)


def delete(cloudformation: Any, stack: str, **more: Any) -> dict[str, Any]:
    arn = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackId"]
    cloudformation.delete_stack(StackName=stack, **more)
    return settled(cloudformation, arn)


def reasons(cloudformation: Any, stack: str) -> dict[str, str]:
    """Why resources failed, by logical id."""
    events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    return {
        event["LogicalResourceId"]: event["ResourceStatusReason"]
        for event in events
        if event["ResourceStatus"].endswith("_FAILED") and "ResourceStatusReason" in event
    }
