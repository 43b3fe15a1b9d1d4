"""An app as one would write it by hand: N stacks with the same resources a profile's stack has, values written out.

Context: `stacks`, how many; `types`, resource type -> how many of it in each stack; `tags`, how many tags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aws_cdk import App, CfnCustomResource, CfnResource, Duration, Environment, Stack, Tags
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sqs as sqs

ROLE = "arn:aws:iam::123456789012:role/some"
Make = Callable[[Stack, str], object]


def role(stack: Stack, name: str) -> object:
    statement = iam.PolicyStatement(actions=["s3:GetObject", "s3:PutObject"], resources=["arn:aws:s3:::bucket/*"])
    return iam.Role(
        stack,
        name,
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        inline_policies={"own": iam.PolicyDocument(statements=[statement] * 5)},
    )


def function(stack: Stack, name: str) -> object:
    return lambda_.Function(
        stack,
        name,
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="index.handler",
        code=lambda_.Code.from_inline("def handler(event, context): pass"),
        role=iam.Role.from_role_arn(stack, f"{name}-role", ROLE),
        timeout=Duration.seconds(60),
        environment={"A": "1", "B": "2", "C": "3"},
    )


def alarm(stack: Stack, name: str) -> object:
    metric = cloudwatch.Metric(
        namespace="AWS/SageMaker", metric_name="Invocations", dimensions_map={"EndpointName": "e"}
    )
    return cloudwatch.Alarm(stack, name, metric=metric, threshold=1, evaluation_periods=5, datapoints_to_alarm=3)


def bucket(stack: Stack, name: str) -> object:
    return s3.Bucket(stack, name, encryption=s3.BucketEncryption.S3_MANAGED)


def queue(stack: Stack, name: str) -> object:
    return sqs.Queue(stack, name, visibility_timeout=Duration.seconds(300))


def endpoint_config(stack: Stack, name: str) -> object:
    variant = sagemaker.CfnEndpointConfig.ProductionVariantProperty(
        variant_name="AllTraffic", initial_variant_weight=1, initial_instance_count=1, instance_type="ml.g5.xlarge"
    )
    return sagemaker.CfnEndpointConfig(stack, name, production_variants=[variant], execution_role_arn=ROLE)


def component(stack: Stack, name: str) -> object:
    part = sagemaker.CfnInferenceComponent
    return part(
        stack,
        name,
        endpoint_name="e",
        variant_name="AllTraffic",
        specification=part.InferenceComponentSpecificationProperty(
            model_name="m",
            compute_resource_requirements=part.InferenceComponentComputeResourceRequirementsProperty(
                min_memory_required_in_mb=1024, number_of_accelerator_devices_required=1
            ),
        ),
        runtime_config=part.InferenceComponentRuntimeConfigProperty(copy_count=1),
    )


def model(stack: Stack, name: str) -> object:
    container = sagemaker.CfnModel.ContainerDefinitionProperty(image="image", environment={"A": "1", "B": "2"})
    return sagemaker.CfnModel(stack, name, execution_role_arn=ROLE, primary_container=container)


def policy(stack: Stack, name: str) -> object:
    part = autoscaling.CfnScalingPolicy
    return part(
        stack,
        name,
        policy_name=name,
        policy_type="TargetTrackingScaling",
        scaling_target_id="target",
        target_tracking_scaling_policy_configuration=part.TargetTrackingScalingPolicyConfigurationProperty(
            target_value=8,
            predefined_metric_specification=part.PredefinedMetricSpecificationProperty(
                predefined_metric_type="SageMakerInferenceComponentInvocationsPerCopy"
            ),
        ),
    )


def target(stack: Stack, name: str) -> object:
    return autoscaling.CfnScalableTarget(
        stack,
        name,
        service_namespace="sagemaker",
        scalable_dimension="sagemaker:inference-component:DesiredCopyCount",
        resource_id=f"inference-component/{name}",
        min_capacity=1,
        max_capacity=4,
        role_arn=ROLE,
    )


def dashboard(stack: Stack, name: str) -> object:
    metric = cloudwatch.Metric(
        namespace="AWS/SageMaker", metric_name="Invocations", dimensions_map={"EndpointName": "e"}
    )
    widgets = [cloudwatch.GraphWidget(title=f"graph {at}", left=[metric, metric]) for at in range(10)]
    return cloudwatch.Dashboard(stack, name, widgets=[widgets])


MAKERS: dict[str, Make] = {
    "AWS::ApplicationAutoScaling::ScalableTarget": target,
    "AWS::ApplicationAutoScaling::ScalingPolicy": policy,
    "AWS::CloudWatch::Alarm": alarm,
    "AWS::CloudWatch::Dashboard": dashboard,
    "AWS::IAM::Role": role,
    "AWS::Lambda::Function": function,
    "AWS::Logs::LogGroup": lambda stack, name: logs.LogGroup(stack, name),
    "AWS::S3::Bucket": bucket,
    "AWS::SQS::Queue": queue,
    "AWS::SageMaker::Endpoint": lambda stack, name: sagemaker.CfnEndpoint(stack, name, endpoint_config_name="c"),
    "AWS::SageMaker::EndpointConfig": endpoint_config,
    "AWS::SageMaker::InferenceComponent": component,
    "AWS::SageMaker::Model": model,
    "AWS::CloudFormation::CustomResource": lambda stack, name: CfnCustomResource(stack, name, service_token=ROLE),
}


def main() -> None:
    """Synthesize; types without a construct above are made as they are in CDK's base class."""
    app = App(builtin_cloud_formation_validation=False)
    types: dict[str, Any] = app.node.get_context("types")
    for at in range(int(app.node.get_context("stacks"))):
        stack = Stack(app, f"plain-{at:03}", env=Environment(account="123456789012", region="us-east-1"))
        for tag in range(int(app.node.get_context("tags"))):
            Tags.of(stack).add(f"tag-{tag}", "value")
        for kind, count in types.items():
            for number in range(count):
                name = f"{kind.split('::')[-1]}-{number}"
                maker = MAKERS.get(kind)
                if maker is not None:
                    maker(stack, name)
                else:
                    CfnResource(stack, name, type=kind, properties={"Value": "some"})
    app.synth()


if __name__ == "__main__":
    main()
