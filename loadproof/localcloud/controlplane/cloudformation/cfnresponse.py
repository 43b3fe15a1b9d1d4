"""The module that CloudFormation puts beside inline Python code, by its documented names and signature.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/cfn-lambda-function-code-cfnresponsemodule.html
"""

from __future__ import annotations

import json
import urllib.request
from typing import Protocol

SUCCESS = "SUCCESS"
FAILED = "FAILED"


class LambdaContext(Protocol):
    """What is read of Lambda's context object."""

    log_stream_name: str


def send(
    event: dict[str, str],
    context: LambdaContext,
    responseStatus: str,  # noqa: N803  (its names are AWS's)
    responseData: dict[str, object],  # noqa: N803
    physicalResourceId: str | None = None,  # noqa: N803
    noEcho: bool = False,  # noqa: N803
    reason: str | None = None,
) -> None:
    """Answer for a custom resource. As AWS's own, it prints what fails and raises nothing."""
    body = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")} | {
        "Status": responseStatus,
        "Reason": reason or f"See the details in CloudWatch Log Stream: {context.log_stream_name}",
        "PhysicalResourceId": physicalResourceId or context.log_stream_name,
        "NoEcho": noEcho,
        "Data": responseData,
    }
    request = urllib.request.Request(
        event["ResponseURL"], json.dumps(body).encode(), {"content-type": ""}, method="PUT"
    )
    try:
        with urllib.request.urlopen(request) as answer:
            print("Status code:", answer.status)
    except OSError as error:
        print("send(..) failed executing http.request(..):", error)
