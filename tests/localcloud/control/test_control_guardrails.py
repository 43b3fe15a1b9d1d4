"""Deployments that alarms send back and machines that run out, as CloudFormation sees them, on a real port."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from control_templates import create, delete, endpoint_template, reasons, update

from loadproof.localcloud.plane import CAPACITY_PARAMETER

Aws = Callable[[str], Any]


def guarded(name: str, instance_type: str = "ml.g5.12xlarge", wait_s: int = 0) -> dict[str, Any]:
    """A canary of half the traffic that an alarm of the same stack may send back."""
    template = endpoint_template(name, instance_type=instance_type)
    resources = template["Resources"]
    resources["Alarm"] = {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": f"{name}-errors",
            "Namespace": "AWS/SageMaker",
            "MetricName": "Invocation5XXErrors",
            "Dimensions": [
                {"Name": "EndpointName", "Value": name},
                {"Name": "VariantName", "Value": "AllTraffic"},
            ],
            "Statistic": "Sum",
            "Period": 60,
            "EvaluationPeriods": 1,
            "Threshold": 1,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "TreatMissingData": "ignore",
        },
    }
    resources["Endpoint"]["DependsOn"] = "Alarm"
    resources["Endpoint"]["Properties"]["RetainAllVariantProperties"] = True
    resources["Endpoint"]["Properties"]["DeploymentConfig"] = {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {
                "Type": "CANARY",
                "WaitIntervalInSeconds": wait_s,
                "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50},
            }
        },
        "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": f"{name}-errors"}]},
    }
    return template


def set_alarm(aws: Aws, name: str, state: str) -> None:
    aws("cloudwatch").set_alarm_state(AlarmName=name, StateValue=state, StateReason="the test says so")


def test_endpoint_update_sent_back_by_an_alarm_fails_the_stack_update(aws: Aws) -> None:
    """SageMaker ends InService on the old configuration; CloudFormation fails, and its own rollback leaves it there."""
    cfn, sagemaker = aws("cloudformation"), aws("sagemaker")
    assert create(cfn, "guarded", guarded("guarded"))["StackStatus"] == "CREATE_COMPLETE"
    before = sagemaker.describe_endpoint(EndpointName="guarded")["EndpointConfigName"]
    set_alarm(aws, "guarded-errors", "ALARM")
    stack = update(cfn, "guarded", guarded("guarded", "ml.g5.48xlarge"))
    assert stack["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "was rolled back: The deployment was rolled back because of alarms" in reasons(cfn, "guarded")["Endpoint"]
    found = sagemaker.describe_endpoint(EndpointName="guarded")
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", before)
    configs = sagemaker.list_endpoint_configs(NameContains="guarded")["EndpointConfigs"]
    assert [one["EndpointConfigName"] for one in configs] == [before]

    set_alarm(aws, "guarded-errors", "OK")
    assert update(cfn, "guarded", guarded("guarded", "ml.g5.48xlarge"))["StackStatus"] == "UPDATE_COMPLETE"
    assert sagemaker.describe_endpoint(EndpointName="guarded")["EndpointConfigName"] != before
    assert delete(cfn, "guarded")["StackStatus"] == "DELETE_COMPLETE"


def test_component_update_sent_back_by_an_alarm_fails_the_stack_update(aws: Aws) -> None:
    """The component keeps its old specification, and the stack is as it was."""

    def template(accelerators: int) -> dict[str, Any]:
        found = guarded("rolls")
        component = found["Resources"]["Component"]["Properties"]
        component["Specification"]["ComputeResourceRequirements"]["NumberOfAcceleratorDevicesRequired"] = accelerators
        component["DeploymentConfig"] = {
            "RollingUpdatePolicy": {
                "MaximumBatchSize": {"Type": "COPY_COUNT", "Value": 1},
                "WaitIntervalInSeconds": 0,
            },
            "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "rolls-errors"}]},
        }
        return found

    cfn, sagemaker = aws("cloudformation"), aws("sagemaker")
    assert create(cfn, "rolls", template(1))["StackStatus"] == "CREATE_COMPLETE"
    set_alarm(aws, "rolls-errors", "ALARM")
    assert update(cfn, "rolls", template(2))["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "was rolled back" in reasons(cfn, "rolls")["Component"]
    found = sagemaker.describe_inference_component(InferenceComponentName="rolls-main")
    needs = found["Specification"]["ComputeResourceRequirements"]
    assert (found["InferenceComponentStatus"], needs["NumberOfAcceleratorDevicesRequired"]) == ("InService", 1.0)
    set_alarm(aws, "rolls-errors", "OK")
    assert update(cfn, "rolls", template(2))["StackStatus"] == "UPDATE_COMPLETE"
    assert delete(cfn, "rolls")["StackStatus"] == "DELETE_COMPLETE"


def test_region_without_machines_fails_the_deployment(aws: Aws) -> None:
    """The SSM parameter named for the instance type says how many there are."""
    cfn, ssm = aws("cloudformation"), aws("ssm")
    ssm.put_parameter(Name=f"{CAPACITY_PARAMETER}ml.p5.48xlarge", Value="0", Type="String")
    template = endpoint_template("scarce", instance_type="ml.p5.48xlarge")
    assert create(cfn, "scarce", template)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "InsufficientInstanceCapacity" in reasons(cfn, "scarce")["Endpoint"]
    ssm.delete_parameter(Name=f"{CAPACITY_PARAMETER}ml.p5.48xlarge")
    delete(cfn, "scarce")


def test_second_pool_serves_with_its_own_specification(aws: Aws) -> None:
    """The first pool's machines are out: the copy runs on the second pool's type, with what that type reserves."""
    cfn, ssm = aws("cloudformation"), aws("ssm")
    ssm.put_parameter(Name=f"{CAPACITY_PARAMETER}ml.g6e.2xlarge", Value="0", Type="String")
    template = endpoint_template("pools")
    variant = template["Resources"]["Config"]["Properties"]["ProductionVariants"][0]
    del variant["InstanceType"]
    variant["InstancePools"] = [
        {"InstanceType": "ml.g6e.2xlarge", "Priority": 1},
        {"InstanceType": "ml.g5.12xlarge", "Priority": 2},
    ]
    component = template["Resources"]["Component"]["Properties"]
    model = component.pop("Specification")["ModelName"]
    component["Specifications"] = [
        {
            "InstanceType": kind,
            "ModelName": model,
            "ComputeResourceRequirements": {
                "NumberOfAcceleratorDevicesRequired": accelerators,
                "MinMemoryRequiredInMb": 4096,
            },
        }
        for kind, accelerators in (("ml.g6e.2xlarge", 1), ("ml.g5.12xlarge", 2))
    ]
    assert create(cfn, "pools", template)["StackStatus"] == "CREATE_COMPLETE", reasons(cfn, "pools")
    found = aws("sagemaker").describe_inference_component(InferenceComponentName="pools-main")
    assert found["RuntimeConfig"]["PlacementStatus"] == [
        {"InstanceType": "ml.g6e.2xlarge", "CurrentCopyCount": 0},
        {"InstanceType": "ml.g5.12xlarge", "CurrentCopyCount": 1},
    ]
    answer = aws("sagemaker-runtime").invoke_endpoint(
        EndpointName="pools",
        InferenceComponentName="pools-main",
        ContentType="application/json",
        Body=json.dumps({"inputs": "Hi", "parameters": {"max_new_tokens": 2}}),
    )
    assert json.loads(answer["Body"].read())
    ssm.delete_parameter(Name=f"{CAPACITY_PARAMETER}ml.g6e.2xlarge")
    assert delete(cfn, "pools")["StackStatus"] == "DELETE_COMPLETE"
