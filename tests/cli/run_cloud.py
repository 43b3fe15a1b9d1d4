"""A profile's model on a local cloud, made through SageMaker's API: what `loadproof run` looks at of a deployment."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cloud_clients import boto3_client

from loadproof.localcloud.local import LocalCloud, running
from loadproof.profiles import components_of, container_variables, load_profile
from loadproof.profiles.names import endpoint_name, inference_component_name

_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
_IMAGES = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
_IMAGE_OF = {
    "tgi": f"{_IMAGES}/huggingface-pytorch-tgi-inference:2.7.0-tgi3.3.6-gpu-py311-cu124-ubuntu22.04",
    "lmi": f"{_IMAGES}/djl-inference:0.38.0-lmi29.0.0-cu130",
    "vllm": f"{_IMAGES}/vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker",
}


@contextmanager
def cloud_with(*profiles: Path, name: str = "run") -> Iterator[LocalCloud]:
    """A local cloud on which the main component of each profile is in service."""
    with running(name, transition_s=0.05) as cloud:
        role = boto3_client(cloud, "iam").create_role(RoleName="run", AssumeRolePolicyDocument=json.dumps(_TRUST))
        for file in profiles:
            _serve(boto3_client(cloud, "sagemaker"), file, role["Role"]["Arn"])
        yield cloud


def _serve(sagemaker: Any, file: Path, role_arn: str) -> None:
    profile = load_profile(file)
    assert profile.container is not None and profile.endpoint is not None
    endpoint = endpoint_name(file.parent.name, profile.name)
    component = inference_component_name(endpoint, "main")
    variables = container_variables(components_of(profile)[0])
    sagemaker.create_model(
        ModelName=component,
        ExecutionRoleArn=role_arn,
        PrimaryContainer={"Image": _IMAGE_OF[profile.container.family], "Environment": variables},
        Tags=[{"Key": "loadproof:model-id", "Value": profile.model.id}],
    )
    copies = profile.copies.min
    variant = {
        "VariantName": "AllTraffic",
        "InstanceType": profile.endpoint.instance_type,
        "InitialInstanceCount": copies,
        "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
    }
    sagemaker.create_endpoint_config(
        EndpointConfigName=endpoint, ExecutionRoleArn=role_arn, ProductionVariants=[variant]
    )
    sagemaker.create_endpoint(EndpointName=endpoint, EndpointConfigName=endpoint)
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName=endpoint, WaiterConfig={"Delay": 0.1, "MaxAttempts": 1200}
    )
    sagemaker.create_inference_component(
        InferenceComponentName=component,
        EndpointName=endpoint,
        VariantName="AllTraffic",
        Specification={
            "ModelName": component,
            "ComputeResourceRequirements": {"NumberOfAcceleratorDevicesRequired": 1, "MinMemoryRequiredInMb": 1024},
        },
        RuntimeConfig={"CopyCount": copies},
    )
    deadline_s = time.monotonic() + 120
    while True:
        found = sagemaker.describe_inference_component(InferenceComponentName=component)
        if found["InferenceComponentStatus"] != "Creating":
            break
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    assert found["InferenceComponentStatus"] == "InService", found.get("FailureReason")
