"""Honest clients notice nothing of the seal: boto3 in all its ways of signing, sessions, presigned addresses."""

from __future__ import annotations

import gzip
import io
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from cloud_clients import boto3_client, trusting_role

from loadproof.invocation.openai_path import bearer_token
from loadproof.invocation.sigv4 import Credentials
from loadproof.localcloud.local import LocalCloud

Aws = Callable[[str], Any]
ROLE = "arn:aws:iam::{account}:role/OrganizationAccountAccessRole"


@pytest.fixture(scope="module")
def bucket(aws: Aws) -> Iterator[str]:
    aws("s3").create_bucket(Bucket="honest")
    yield "honest"


def session_client(cloud: LocalCloud, service: str, account: str) -> Any:
    """A client with the keys of an assumed role."""
    sts = boto3_client(cloud, "sts")
    role = trusting_role(cloud) if account == cloud.account else ROLE.format(account=account)
    keys = sts.assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    return boto3.client(
        service,
        region_name=cloud.region,
        endpoint_url=cloud.endpoint_url,
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
    )


@pytest.mark.parametrize("key", ["plain", "a b+c%20d/é~(1)'*.txt", "x//y/../z", "a=b&c;d:e@f,g"])
def test_keys_of_objects_as_they_come(key: str, aws: Aws, bucket: str) -> None:
    """S3 signs a path as it is, escapes and dots and all."""
    aws("s3").put_object(Bucket=bucket, Key=key, Body=b"x", Metadata={"a_b": "two  blanks"})
    assert aws("s3").get_object(Bucket=bucket, Key=key)["Body"].read() == b"x"
    assert key in [one["Key"] for one in aws("s3").list_objects_v2(Bucket=bucket, Prefix=key)["Contents"]]
    aws("s3").delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}]})


def test_large_objects_in_parts(aws: Aws, bucket: str) -> None:
    """A multi-part upload of a stream, and a part of it back."""
    body = bytes(range(256)) * 40_000
    aws("s3").upload_fileobj(io.BytesIO(body), bucket, "large")
    assert (
        aws("s3").get_object(Bucket=bucket, Key="large", Range="bytes=9000000-9000009")["Body"].read()
        == body[9000000:9000010]
    )


def test_a_compressed_object_stays_compressed(aws: Aws, bucket: str) -> None:
    """Its bytes are signed as they are sent, and kept so."""
    packed = gzip.compress(b"text")
    aws("s3").put_object(Bucket=bucket, Key="packed", Body=packed, ContentEncoding="gzip")
    assert aws("s3").get_object(Bucket=bucket, Key="packed")["Body"].read() == packed


def test_requests_that_boto3_compresses(aws: Aws) -> None:
    """PutMetricData beyond 10 KB goes out in gzip, signed as it is sent."""
    data = [{"MetricName": f"metric-{number:03}", "Value": 1.0} for number in range(300)]
    aws("cloudwatch").put_metric_data(Namespace="Honest", MetricData=data)
    assert len(aws("cloudwatch").list_metrics(Namespace="Honest")["Metrics"]) == 300


@pytest.mark.parametrize("version", ["s3", "s3v4"])
@pytest.mark.parametrize("style", ["path", "virtual"])
def test_presigned_addresses(version: str, style: str, cloud: LocalCloud, aws: Aws, bucket: str) -> None:
    """Of both versions and both styles, put and got by whoever has them."""
    s3 = boto3_client(cloud, "s3", signature_version=version, s3={"addressing_style": style})
    where = {"Bucket": bucket, "Key": f"presigned/{version} {style}"}
    urlopen(cloud, s3.generate_presigned_url("put_object", Params=where), b"sent", "PUT")
    assert urlopen(cloud, s3.generate_presigned_url("get_object", Params=where)) == b"sent"


def test_a_presigned_address_of_a_session(cloud: LocalCloud, aws: Aws, bucket: str) -> None:
    """Its token is in the address."""
    s3 = session_client(cloud, "s3", cloud.account)
    aws("s3").put_object(Bucket=bucket, Key="of-session", Body=b"x")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "of-session"})
    assert urlopen(cloud, url) == b"x"


def test_a_presigned_address_of_who_calls(cloud: LocalCloud) -> None:
    """STS's own, as EKS and Vault take it for a proof of who somebody is; not S3's list of buckets."""
    sts = session_client(cloud, "sts", cloud.account)
    said = urlopen(cloud, sts.generate_presigned_url("get_caller_identity", HttpMethod="GET"))
    assert b"assumed-role/any/session</Arn>" in said


@pytest.mark.parametrize("service", ["cloudformation", "sns"])
def test_presigned_addresses_go_to_their_service(service: str, cloud: LocalCloud) -> None:
    """To those that are ours and to those that are moto's."""
    action = {"cloudformation": "list_stacks", "sns": "list_topics"}[service]
    url = boto3_client(cloud, service).generate_presigned_url(action, HttpMethod="GET")
    answer = urlopen(cloud, url)
    assert f"{service}.amazonaws.com/doc/".encode() in answer


def urlopen(cloud: LocalCloud, url: str, body: bytes | None = None, method: str = "GET") -> bytes:
    """Like a client whose resolver knows that names below localhost are this machine."""
    host = url.split("/")[2]
    request = urllib.request.Request(
        url.replace(host, f"127.0.0.1:{cloud.state.port}", 1), body, {"Host": host, "Content-Type": ""}, method=method
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read()) from None


def test_a_roles_session(cloud: LocalCloud) -> None:
    """Its keys are good for every service, and an account of its own is another's world."""
    assert session_client(cloud, "sts", cloud.account).get_caller_identity()["Arn"].endswith("assumed-role/any/session")
    other = session_client(cloud, "sagemaker", "222222222222")
    role = "arn:aws:iam::222222222222:role/none"
    with pytest.raises(ClientError, match="Could not assume role"):
        image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/server:1"
        other.create_model(ModelName="m", ExecutionRoleArn=role, PrimaryContainer={"Image": image})


def test_a_stack_of_another_account_asks_in_its_name(cloud: LocalCloud, aws: Aws) -> None:
    """CloudFormation asks the other services with its caller's keys, so what it makes is in the caller's account."""
    template = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "far"}}}}
    cloudformation = session_client(cloud, "cloudformation", "333333333333")
    cloudformation.create_stack(StackName="far", TemplateBody=json.dumps(template))
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="far", WaiterConfig={"Delay": 0.1, "MaxAttempts": 200}
    )
    found = session_client(cloud, "sqs", "333333333333").list_queues()["QueueUrls"]
    assert found == [f"{cloud.endpoint_url}/333333333333/far"]


def test_a_users_key_until_it_is_deleted(cloud: LocalCloud, aws: Aws) -> None:
    """IAM's keys are this cloud's to verify; a deleted one opens nothing."""
    aws("iam").create_user(UserName="honest")
    key = aws("iam").create_access_key(UserName="honest")["AccessKey"]
    client = boto3.client(
        "sts",
        region_name=cloud.region,
        endpoint_url=cloud.endpoint_url,
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
    )
    assert client.get_caller_identity()["Arn"].endswith("user/honest")
    aws("iam").delete_access_key(UserName="honest", AccessKeyId=key["AccessKeyId"])
    with pytest.raises(ClientError) as refused:
        client.get_caller_identity()
    assert refused.value.response["Error"]["Code"] == "InvalidClientTokenId"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


@pytest.mark.parametrize(
    ("service", "ask", "code"),
    [
        ("s3", lambda client: client.list_buckets(), "SignatureDoesNotMatch"),
        ("sqs", lambda client: client.list_queues(), "SignatureDoesNotMatch"),
        ("iam", lambda client: client.list_roles(), "SignatureDoesNotMatch"),
        ("sagemaker", lambda client: client.list_models(), "SignatureDoesNotMatch"),
        ("lambda", lambda client: client.list_functions(), "SignatureDoesNotMatch"),
        ("bedrock", lambda client: client.list_foundation_models(), "SignatureDoesNotMatch"),
    ],
)
def test_each_protocol_is_told_in_its_own_words(
    service: str, ask: Callable[[Any], Any], code: str, cloud: LocalCloud
) -> None:
    """A wrong secret: XML for S3 and the Query protocol, JSON elsewhere, with AWS's code."""
    client = boto3.client(
        service,
        region_name=cloud.region,
        endpoint_url=cloud.endpoint_url,
        aws_access_key_id=cloud.state.access_key,
        aws_secret_access_key="wrong",
        config=Config(retries={"total_max_attempts": 1}),
    )
    with pytest.raises(ClientError) as refused:
        ask(client)
    assert refused.value.response["Error"]["Code"] == code
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_a_bearer_token_of_our_keys(cloud: LocalCloud) -> None:
    """It comes through the gate: what refuses it is the runtime, which has no such endpoint."""
    token = bearer_token(Credentials(cloud.state.access_key, cloud.state.secret_key), cloud.region)
    url = f"{cloud.endpoint_url}/endpoints/none/openai/v1/chat/completions"
    request = urllib.request.Request(url, b"{}", {"Authorization": f"Bearer {token}"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60)
    assert refused.value.code == 400
    assert b"none" in refused.value.read()


def test_a_role_lets_in_whom_its_trust_policy_names(cloud: LocalCloud, aws: Aws) -> None:
    """A user by name, and a session by its role; nobody else, in AWS's words."""
    iam, keys = aws("iam"), {}
    for name in ("named", "stranger"):
        iam.create_user(UserName=name)
        keys[name] = iam.create_access_key(UserName=name)["AccessKey"]
    session = session_client(cloud, "sts", cloud.account)
    user = f"arn:aws:iam::{cloud.account}:user/named"
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": [user, trusting_role(cloud)]}}
    iam.create_role(RoleName="choosy", AssumeRolePolicyDocument=json.dumps({"Statement": trust}))
    role = {"RoleArn": f"arn:aws:iam::{cloud.account}:role/choosy", "RoleSessionName": "session"}
    session.assume_role(**role)
    clients = {
        name: boto3.client(
            "sts",
            region_name=cloud.region,
            endpoint_url=cloud.endpoint_url,
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
        )
        for name, key in keys.items()
    }
    clients["named"].assume_role(**role)
    with pytest.raises(
        ClientError, match=r"User: arn:aws:iam::\d+:user/stranger is not authorized to perform: sts:Ass"
    ):
        clients["stranger"].assume_role(**role)
