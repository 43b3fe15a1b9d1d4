"""The rights that preflight needs: one for each question it may ask, on no more than it asks about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from loadproof.wire.documents import Document


class Right(NamedTuple):
    """One action. `on` names what the rights are over, as `resources` of `policy_document` has it; `*` for all."""

    action: str
    on: str = "*"


READS: Final[Mapping[tuple[str, str], Right]] = {
    ("cloudformation", "describe_stacks"): Right("cloudformation:DescribeStacks", "stacks"),
    ("cloudformation", "list_stack_resources"): Right("cloudformation:ListStackResources", "stacks"),
    ("cloudwatch", "get_dashboard"): Right("cloudwatch:GetDashboard"),
    ("ec2", "describe_security_groups"): Right("ec2:DescribeSecurityGroups"),
    ("ec2", "describe_subnets"): Right("ec2:DescribeSubnets"),
    ("ecr", "batch_get_image"): Right("ecr:BatchGetImage", "repositories"),
    ("kms", "describe_key"): Right("kms:DescribeKey"),
    ("kms", "get_key_policy"): Right("kms:GetKeyPolicy"),
    ("logs", "describe_log_groups"): Right("logs:DescribeLogGroups"),
    ("s3", "get_bucket_policy"): Right("s3:GetBucketPolicy", "buckets"),
    ("s3", "head_bucket"): Right("s3:ListBucket", "buckets"),
    ("s3", "head_object"): Right("s3:GetObject", "objects"),
    ("s3", "list_objects_v2"): Right("s3:ListBucket", "buckets"),
    ("sagemaker", "describe_endpoint"): Right("sagemaker:DescribeEndpoint"),
    ("sagemaker", "describe_endpoint_config"): Right("sagemaker:DescribeEndpointConfig"),
    ("sagemaker", "describe_inference_component"): Right("sagemaker:DescribeInferenceComponent"),
    ("sagemaker", "describe_reserved_capacity"): Right("sagemaker:DescribeReservedCapacity"),
    ("sagemaker", "describe_training_plan"): Right("sagemaker:DescribeTrainingPlan"),
    ("sagemaker", "list_endpoints"): Right("sagemaker:ListEndpoints"),
    ("secretsmanager", "describe_secret"): Right("secretsmanager:DescribeSecret", "secrets"),
    ("service-quotas", "list_aws_default_service_quotas"): Right("servicequotas:ListAWSDefaultServiceQuotas"),
    ("service-quotas", "list_service_quotas"): Right("servicequotas:ListServiceQuotas"),
    ("sns", "get_topic_attributes"): Right("sns:GetTopicAttributes", "topics"),
    ("sns", "list_subscriptions_by_topic"): Right("sns:ListSubscriptionsByTopic", "topics"),
    ("sqs", "get_queue_url"): Right("sqs:GetQueueUrl"),
    ("ssm", "get_parameter"): Right("ssm:GetParameter", "parameters"),
    ("sts", "get_caller_identity"): Right("sts:GetCallerIdentity"),
    ("stepfunctions", "describe_state_machine"): Right("states:DescribeStateMachine"),
}


def policy_document(resources: Mapping[str, Iterable[str]]) -> Document:
    """Every right as an IAM policy; `resources` has the ARNs that each `on` stands for. What has none is left out."""
    by_place: dict[str, set[str]] = {}
    for right in READS.values():
        by_place.setdefault(right.on, set()).add(right.action)
    arns = {"*": ["*"], **{place: sorted(set(found)) for place, found in resources.items()}}
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "Preflight" + ("Lists" if place == "*" else place.capitalize()),
                "Effect": "Allow",
                "Action": sorted(actions),
                "Resource": arns[place],
            }
            for place, actions in sorted(by_place.items())
            if arns.get(place)
        ],
    }
