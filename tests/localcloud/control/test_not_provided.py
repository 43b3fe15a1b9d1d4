"""Operations that neither the local cloud nor moto has: an error in the service's protocol, and no second try."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

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
        ("logs", "list_anomalies", {}),  # JSON
        ("sns", "list_sms_sandbox_phone_numbers", {}),  # Query
        ("ec2", "describe_fast_launch_images", {}),  # EC2's own
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
