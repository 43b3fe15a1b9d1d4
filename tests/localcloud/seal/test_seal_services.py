"""A signature is good for one service, and nothing is reached by a path alone."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import botocore.session
import pytest
from cloud_clients import boto3_client, signed_headers
from seal_wire import Answer, raw, request_bytes

from loadproof.invocation.openai_path import bearer_token
from loadproof.invocation.sigv4 import Credentials
from loadproof.localcloud.local import LocalCloud
from loadproof.localcloud.seal.services import targets

Aws = Callable[[str], Any]
JSON = "application/x-amz-json-1.0"
PAYLOADS = ("UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
WAYS = (
    "/moto-api{}", "//moto-api{}", "///moto-api{}", "/MOTO-API{}", "/x/../moto-api{}", "/./moto-api{}", "/%6doto-api{}",
    "/moto%2dapi{}", "/%2fmoto-api{}", "/%2Fmoto-api{}", "/%252fmoto-api{}", "/moto-api;x{}", "/moto-api%00{}",
)  # fmt: skip


def create_queue(
    cloud: LocalCloud, name: str, scope: str, region: str | None = None, payload: str | None = None
) -> Answer:
    """SQS's CreateQueue, signed for another service."""
    body = json.dumps({"QueueName": name}).encode()
    headers = {"Content-Type": JSON, "X-Amz-Target": "AmazonSQS.CreateQueue"}
    if payload is not None:
        headers["X-Amz-Content-SHA256"] = payload
    signed = signed_headers(cloud, scope, "POST", "/", body, headers, region=region)
    return raw(cloud, request_bytes("POST", "/", signed, body))


def queues(aws: Aws, prefix: str) -> list[str]:
    found: list[str] = aws("sqs").list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("verb", "rest"), [("POST", "/reset"), ("GET", "/data.json"), ("GET", "/")])
def test_motos_own_api_is_nowhere(cloud: LocalCloud, aws: Aws, way: str, verb: str, rest: str) -> None:
    """However its path is written: the reset, the state of everything, the dashboard."""
    if "still-here" not in [one["Name"] for one in aws("s3").list_buckets()["Buckets"]]:
        aws("s3").create_bucket(Bucket="still-here")
    path = way.format(rest)
    for service, statuses in {
        "s3": (400, 404),
        "iam": (400,),
        "sagemaker": (400,),
        "motoapi.amazonaws.com": (403,),
    }.items():
        answer = raw(cloud, request_bytes(verb, path, signed_headers(cloud, service, verb, path)))
        assert answer.status in statuses, (service, answer)
        assert b"still-here" not in answer.body
    assert "still-here" in [one["Name"] for one in aws("s3").list_buckets()["Buckets"]]


@pytest.mark.parametrize("name", ["moto-api", "moto-api-of-mine", "latest", "favicon.ico", "endpoints", "model"])
def test_a_bucket_may_have_any_name(cloud: LocalCloud, name: str) -> None:
    """By path, as the CLI writes it for names with dots; what is a path elsewhere is a key there."""
    s3 = boto3_client(cloud, "s3", s3={"addressing_style": "path"})
    s3.create_bucket(Bucket=name)
    for key in ("reset", "data.json", "meta-data/iam", "m/invocations", "m/converse"):
        s3.put_object(Bucket=name, Key=key, Body=key.encode())
        assert s3.get_object(Bucket=name, Key=key)["Body"].read() == key.encode()
        s3.delete_object(Bucket=name, Key=key)
    s3.delete_bucket(Bucket=name)


@pytest.mark.parametrize("scope", ["s3", "iam", "sts", "dynamodb", "no-such-service", "sqs.amazonaws.com"])
def test_a_request_is_held_to_the_service_that_it_is_signed_for(cloud: LocalCloud, aws: Aws, scope: str) -> None:
    """As AWS says it: the credential should be scoped to the correct service."""
    answer = create_queue(cloud, "wrong-scope", scope)
    assert answer.status == 403
    assert json.loads(answer.body)["__type"] == "InvalidSignatureException"
    assert queues(aws, "wrong-scope") == []


@pytest.mark.parametrize("scope", ["s3", "sqs", "iam"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_only_s3_takes_a_body_that_is_not_signed(cloud: LocalCloud, aws: Aws, scope: str, payload: str) -> None:
    """Whatever service the signature names."""
    assert create_queue(cloud, "no-body", scope, payload=payload).status == 403
    assert queues(aws, "no-body") == []


def test_signed_chunks_are_chunks(cloud: LocalCloud, aws: Aws) -> None:
    """A body that says so and has none is no body."""
    aws("s3").create_bucket(Bucket="chunkless")
    headers = {"X-Amz-Content-SHA256": PAYLOADS[1]}
    signed = signed_headers(cloud, "s3", "PUT", "/chunkless/it", b"", headers)
    assert raw(cloud, request_bytes("PUT", "/chunkless/it", signed, b"plain")).status == 403
    assert aws("s3").list_objects_v2(Bucket="chunkless")["KeyCount"] == 0


def test_a_region_is_no_part_of_a_host(cloud: LocalCloud) -> None:
    """moto looks a service up by a host that it makes of both: this one would be S3's."""
    assert create_queue(cloud, "region", "sqs", region="s3.us-east-1").status == 403


@pytest.mark.parametrize("path", ["/endpoints/e/invocations", "/model/m/converse"])
@pytest.mark.parametrize("scope", ["s3", "iam", "sqs"])
def test_a_runtime_answers_its_own_signatures_only(cloud: LocalCloud, path: str, scope: str) -> None:
    """A path is nobody's under another service's signature: S3 finds no such bucket, others no such operation."""
    answer = raw(cloud, request_bytes("POST", path, signed_headers(cloud, scope, "POST", path, b"{}"), b"{}"))
    assert answer.status in (400, 404)
    words = (b"NoSuchBucket", b"does not provide", b"InvalidAction")
    assert any(word in answer.body for word in words), answer.body


def test_a_bearer_token_opens_its_runtime_only(cloud: LocalCloud, aws: Aws) -> None:
    """Sent to S3, SQS and the other runtime."""
    token = bearer_token(Credentials(cloud.state.access_key, cloud.state.secret_key), cloud.region)
    host = cloud.endpoint_url.removeprefix("http://")
    bearer = {"Host": host, "Authorization": f"Bearer {token}"}
    target = {"Content-Type": JSON, "X-Amz-Target": "AmazonSQS.CreateQueue"}
    chat = raw(cloud, request_bytes("POST", "/endpoints/none/openai/v1/chat/completions", bearer, b"{}"))
    assert chat.status != 403, chat.body
    for attack in (
        request_bytes("PUT", "/bearer-bucket", bearer),
        request_bytes("POST", "/", bearer | target, b'{"QueueName": "bearer"}'),
        request_bytes("POST", "/model/m/converse", bearer, b"{}"),
    ):
        assert raw(cloud, attack).status == 403
    assert queues(aws, "bearer") == []
    assert "bearer-bucket" not in [one["Name"] for one in aws("s3").list_buckets()["Buckets"]]


@pytest.mark.parametrize(
    ("client", "signed_as", "prefix"),
    [
        ("sqs", "sqs", "AmazonSQS"),
        ("sagemaker", "sagemaker", "SageMaker"),
        ("stepfunctions", "states", "AWSStepFunctions"),
        ("application-autoscaling", "application-autoscaling", "AnyScaleFrontendService"),
        ("cloudwatch", "monitoring", "GraniteServiceVersion20100801"),
        ("service-quotas", "servicequotas", "ServiceQuotasV20190624"),
        ("cloudtrail", "cloudtrail", "CloudTrail_20131101"),
        ("dynamodb", "dynamodb", "DynamoDB_20120810"),
        ("dynamodbstreams", "dynamodb", "DynamoDBStreams_20120810"),
    ],
)
def test_names_in_signatures_are_botocores(client: str, signed_as: str, prefix: str) -> None:
    """As AWS's API references write them, and as botocore's own client signs."""
    model = botocore.session.get_session().get_service_model(client)
    assert model.signing_name == signed_as
    assert prefix in targets()[signed_as]


def test_runtimes_are_signed_for_their_services() -> None:
    """No service of its own: SageMaker's and Bedrock's runtimes sign as those."""
    assert {"sagemaker", "bedrock", "s3", "events", "scheduler", "execute-api"} <= targets().keys()
    assert not {"sagemaker-runtime", "bedrock-runtime"} & targets().keys()


@pytest.mark.parametrize(("version", "status"), [("0.9", 505), ("2.0", 505), ("1.0", 200), ("1.1", 200)])
def test_other_versions_of_http_are_not_spoken(cloud: LocalCloud, version: str, status: int) -> None:
    """RFC 9110, 15.6.6: a major version that the server does not support."""
    signed = {**signed_headers(cloud, "s3", "GET", "/"), "Connection": "close"}
    with socket.create_connection(("127.0.0.1", cloud.state.port), timeout=20) as connection:
        connection.sendall(request_bytes("GET", "/", signed, version=f"HTTP/{version}"))
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answer.split(b" ", 2)[1] == str(status).encode()
    assert (b"ListAllMyBucketsResult" in answer) is (status == 200)
