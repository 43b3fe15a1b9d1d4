"""States of an account that the local cloud holds as AWS does: it is never greener than a new account."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest
from botocore.exceptions import ClientError

from loadproof.localcloud.account.denials import PARAMETER as DENIED
from loadproof.localcloud.account.reservations import PARAMETER as RESERVATION
from loadproof.localcloud.refusals.functions.runtimes import blocked

Aws = Callable[[str], Any]
KIND = "ml.g4dn.8xlarge"  # of no other test
QUOTA = f"{KIND} for endpoint usage"


def quota(aws: Aws, name: str) -> dict[str, Any]:
    pages = aws("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    (found,) = [one for page in pages for one in page["Quotas"] if one["QuotaName"] == name]
    return dict(found)


@pytest.fixture
def configured(aws: Aws) -> Iterator[str]:
    """An endpoint configuration of one instance."""
    trust = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    role = aws("iam").create_role(RoleName="quota", AssumeRolePolicyDocument=json.dumps({"Statement": [trust]}))
    variant = {"VariantName": "AllTraffic", "InstanceType": KIND, "InitialInstanceCount": 1}
    aws("sagemaker").create_endpoint_config(
        EndpointConfigName="quota", ProductionVariants=[variant], ExecutionRoleArn=role["Role"]["Arn"]
    )
    yield "quota"
    aws("sagemaker").delete_endpoint_config(EndpointConfigName="quota")
    aws("iam").delete_role(RoleName="quota")


def test_a_new_account_has_no_instances(aws: Aws) -> None:
    """As Service Quotas lists it, for endpoints and for jobs; types that the region lacks are not listed."""
    assert quota(aws, "ml.p5.48xlarge for endpoint usage")["Value"] == 0
    assert quota(aws, "ml.c7i.2xlarge for processing job usage")["Value"] == 0


def test_a_quota_that_was_set_holds(aws: Aws, configured: str) -> None:
    """In SageMaker's own words, by its account and region."""
    code = quota(aws, QUOTA)["QuotaCode"]
    ask = {"ServiceCode": "sagemaker", "QuotaCode": code}
    aws("service-quotas").request_service_quota_increase(**ask, DesiredValue=0)
    with pytest.raises(ClientError, match=f"service limit '{QUOTA}' is 0 Instances, with current") as refused:
        aws("sagemaker").create_endpoint(EndpointName="quota", EndpointConfigName=configured)
    assert refused.value.response["Error"]["Code"] == "ResourceLimitExceeded"
    aws("service-quotas").request_service_quota_increase(**ask, DesiredValue=1)
    aws("sagemaker").create_endpoint(EndpointName="quota", EndpointConfigName=configured)
    aws("sagemaker").get_waiter("endpoint_in_service").wait(
        EndpointName="quota", WaiterConfig={"Delay": 0.1, "MaxAttempts": 1200}
    )
    aws("sagemaker").delete_endpoint(EndpointName="quota")


def test_jobs_stay_within_their_quota(aws: Aws) -> None:
    """What a gate's benchmark meets in a new account."""
    name = "ml.c7i.48xlarge for processing job usage"  # of no other test
    ask = {"ServiceCode": "sagemaker", "QuotaCode": quota(aws, name)["QuotaCode"], "DesiredValue": 1}
    aws("service-quotas").request_service_quota_increase(**ask)
    cluster = {"InstanceCount": 2, "InstanceType": "ml.c7i.48xlarge", "VolumeSizeInGB": 1}
    with pytest.raises(ClientError, match=f"'{name}' is 1 Instances, with current utilization of 0 Instances and a"):
        aws("sagemaker").create_processing_job(
            ProcessingJobName="past-its-quota",
            ProcessingResources={"ClusterConfig": cluster},
            AppSpecification={"ImageUri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/bench:1"},
            RoleArn="arn:aws:iam::123456789012:role/nobody",
        )


def test_a_quota_of_a_service_that_has_none_here_is_refused(aws: Aws) -> None:
    """Better no answer than a wrong one."""
    with pytest.raises(ClientError):
        aws("service-quotas").list_service_quotas(ServiceCode="lambda")


def images(aws: Aws, registry: str, repository: str, **image: str) -> dict[str, Any]:
    found = aws("ecr").batch_get_image(registryId=registry, repositoryName=repository, imageIds=[image])
    return dict(found)


def test_registries_of_aws_hold_what_the_catalog_lists(aws: Aws) -> None:
    """And nothing else: a tag that nobody knows is missing, as is a digest."""
    tag = "0.38.0-lmi29.0.0-cu130"
    assert images(aws, "763104351884", "djl-inference", imageTag=tag)["images"][0]["imageId"]["imageTag"] == tag
    for image in ({"imageTag": "latest"}, {"imageDigest": "sha256:" + "0" * 64}):
        answer = images(aws, "763104351884", "djl-inference", **image)
        assert (answer["images"], answer["failures"][0]["failureCode"]) == ([], "ImageNotFound")


def test_a_registry_of_somebody_else_lets_nobody_in(aws: Aws) -> None:
    """moto would have looked into the caller's own."""
    aws("ecr").create_repository(repositoryName="own")
    with pytest.raises(ClientError, match="is not authorized to perform: ecr:BatchGetImage"):
        images(aws, "999999999999", "own", imageTag="1")


def test_an_address_hears_nothing_before_it_is_confirmed(aws: Aws) -> None:
    """It is listed as pending, and by its ARN once its token came back; a queue need not be asked."""
    sns = aws("sns")
    topic = sns.create_topic(Name="confirmed")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="email", Endpoint="a@example.com")
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:123456789012:confirmed")

    def listed() -> dict[str, str]:
        found = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        return {one["Protocol"]: one["SubscriptionArn"] for one in found}

    assert listed()["email"] == "PendingConfirmation"
    assert listed()["sqs"].startswith(topic)
    with pytest.raises(ClientError, match="Invalid parameter: Token"):
        sns.confirm_subscription(TopicArn=topic, Token="b@example.com")
    confirmed = sns.confirm_subscription(TopicArn=topic, Token="a@example.com")["SubscriptionArn"]
    assert listed()["email"] == confirmed
    sns.delete_topic(TopicArn=topic)


def test_a_training_plan_is_what_its_parameter_says(aws: Aws) -> None:
    """Without one there is no such plan."""
    arn = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/week"
    with pytest.raises(ClientError, match="was not found"):
        aws("sagemaker").describe_training_plan(TrainingPlanName=arn)
    told = json.dumps({"Status": "Active", "EndTime": "2027-01-01T00:00:00+00:00"})
    aws("ssm").put_parameter(Name=f"{RESERVATION}week", Value=told, Type="String")
    found = aws("sagemaker").describe_training_plan(TrainingPlanName=arn)
    assert (found["TrainingPlanArn"], found["Status"], found["EndTime"].year) == (arn, "Active", 2027)


@pytest.mark.parametrize(
    ("action", "service", "ask"),
    [
        ("kms:ListKeys", "kms", lambda client: client.list_keys()),
        ("cloudformation:ListStacks", "cloudformation", lambda client: client.list_stacks()),
        ("ec2:DescribeVpcs", "ec2", lambda client: client.describe_vpcs()),
        ("cloudwatch:DescribeAlarms", "cloudwatch", lambda client: client.describe_alarms()),
    ],
)
def test_a_right_that_is_denied_is_refused(action: str, service: str, ask: Callable[[Any], Any], aws: Aws) -> None:
    """Whatever protocol the service speaks; other actions go on."""
    aws("ssm").put_parameter(Name=DENIED, Value=f"a:B, {action}", Type="String", Overwrite=True)
    try:
        with pytest.raises(ClientError, match=f"not authorized to perform: {action}"):
            ask(aws(service))
        aws("ssm").get_parameter(Name=DENIED)
    finally:
        aws("ssm").delete_parameter(Name=DENIED)
    ask(aws(service))


def test_a_key_is_known_by_its_arn(aws: Aws) -> None:
    """It is disabled, enabled, scheduled for deletion, and kept after all; which leaves it disabled."""
    kms = aws("kms")
    arn = kms.create_key()["KeyMetadata"]["Arn"]

    def state() -> str:
        return str(kms.describe_key(KeyId=arn)["KeyMetadata"]["KeyState"])

    kms.disable_key(KeyId=arn)
    assert state() == "Disabled"
    kms.enable_key(KeyId=arn)
    assert state() == "Enabled"
    kms.schedule_key_deletion(KeyId=arn, PendingWindowInDays=7)
    assert state() == "PendingDeletion"
    kms.cancel_key_deletion(KeyId=arn)
    assert state() == "Disabled"


def test_a_deprecated_runtime_is_taken_until_its_day() -> None:
    """AWS's table of 2026-11: python3.8, deprecated in 2024, until 2027-02-01; nodejs12.x until 2023-03-31."""
    assert not blocked("python3.8", "create-block", date(2027, 1, 31))
    assert blocked("python3.8", "create-block", date(2027, 2, 1))
    assert blocked("nodejs12.x", "create-block", date(2023, 3, 31))


def test_a_runtime_without_a_day_is_taken() -> None:
    """One that only the service's model knows has none yet."""
    assert not blocked("python3.15", "create-block", date(2027, 2, 1))
