"""Operations that neither the local cloud nor moto has: an error in the service's protocol, and no second try."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cloud_clients import signed_headers

from loadproof.localcloud.local import LocalCloud

Aws = Callable[[str], Any]


@pytest.mark.parametrize(
    ("service", "operation", "params"),
    [
        ("bedrock", "create_guardrail", {"name": "a", "blockedInputMessaging": "b", "blockedOutputsMessaging": "c"}),
        ("bedrock", "list_guardrails", {}),
        (
            "bedrock-runtime",
            "apply_guardrail",
            {
                "guardrailIdentifier": "abcdefgh1234",
                "guardrailVersion": "1",
                "source": "INPUT",
                "content": [{"text": {"text": "a"}}],
            },
        ),
        (
            "lambda",
            "get_provisioned_concurrency_config",
            {"FunctionName": "a", "Qualifier": "1"},
        ),  # REST, no such route
        ("logs", "list_anomalies", {}),  # JSON
        ("sns", "list_sms_sandbox_phone_numbers", {}),  # Query
        ("ec2", "describe_fast_launch_images", {}),  # EC2's own
        ("dynamodb", "execute_statement", {"Statement": 'SELECT * FROM "a"'}),
        ("dynamodb", "batch_execute_statement", {"Statements": [{"Statement": 'SELECT * FROM "a"'}]}),
        ("dynamodb", "execute_transaction", {"TransactStatements": [{"Statement": 'SELECT * FROM "a"'}]}),
        (
            "s3",
            "select_object_content",
            {
                "Bucket": "any",
                "Key": "a",
                "Expression": "SELECT * FROM s3object",
                "ExpressionType": "SQL",
                "InputSerialization": {"CSV": {}},
                "OutputSerialization": {"CSV": {}},
            },
        ),
    ],
)
def test_what_is_not_here_is_refused_in_words(
    aws: Aws, service: str, operation: str, params: Mapping[str, Any]
) -> None:
    """docs/local-cloud.md: "a type or feature not provided says so". moto alone answers with HTML and a 500.

    SDKs try a 500 again (botocore/retries/standard.py) and tell the user of a fault of AWS's.
    """
    with pytest.raises(ClientError) as refused:
        getattr(aws(service), operation)(**params)
    told = refused.value.response
    assert told["Error"]["Code"] == "NotImplemented"
    assert "does not provide" in told["Error"]["Message"]
    assert told["ResponseMetadata"]["HTTPStatusCode"] < 500
    assert told["ResponseMetadata"]["RetryAttempts"] == 0


def test_an_action_of_another_service_is_invalid(cloud: LocalCloud) -> None:
    """SQS's, signed for IAM: https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html, InvalidAction."""
    body = b"Action=ListQueues&Version=2012-11-05"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    headers = signed_headers(cloud, "iam", "POST", "/", body, form)
    request = urllib.request.Request(cloud.endpoint_url, body, headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60)
    assert refused.value.code == 400
    assert b"<Code>InvalidAction</Code>" in refused.value.read()
