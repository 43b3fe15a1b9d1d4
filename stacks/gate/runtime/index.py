"""Custom resource: starts the benchmark of what was just deployed. Lambda runs this text inline.

With gate rollback it leaves without an answer: the benchmark's state machine gives it to CloudFormation, at the end.
"""

import json
import os
import time
import traceback
import urllib.request
from typing import Any


def handler(event: dict[str, Any], context: object) -> None:
    given = event["ResourceProperties"]
    to = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    to["PhysicalResourceId"] = given["Name"]
    status, reason = "SUCCESS", ""
    try:
        if event["RequestType"] != "Delete" and not rolling_back(event["StackId"]):
            waits = given["Gate"] == "rollback"
            asked = json.loads(given["Input"])
            if waits:
                asked["answer"] = {"url": event["ResponseURL"], "accepts": given["Accepts"], "to": to}
            start(asked)
            if waits:
                return
    except Exception as error:
        traceback.print_exc()
        status, reason = "FAILED", f"the benchmark could not be started: {type(error).__name__}: {error}"[:900]
    body = json.dumps({**to, "Status": status, "Reason": reason}).encode()
    request = urllib.request.Request(event["ResponseURL"], body, {"Content-Type": ""}, method="PUT")
    urllib.request.urlopen(request, timeout=30).close()


def rolling_back(stack_id: str) -> bool:
    """What was proven before needs no new proof on the way back, and must not stand in the way."""
    found = patiently("cloudformation", "describe_stacks", StackName=stack_id)
    return "ROLLBACK" in found["Stacks"][0]["StackStatus"]


def start(asked: dict[str, Any]) -> None:
    name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{asked['profile']}"
    machine = os.environ["STATE_MACHINE"]
    patiently("stepfunctions", "start_execution", stateMachineArn=machine, name=name, input=json.dumps(asked))


def patiently(service: str, operation: str, **request: Any) -> Any:
    """Ask AWS. New rights may take a minute to hold."""
    import boto3
    from botocore.exceptions import ClientError

    client = boto3.client(service)
    for patience in range(12, -1, -1):
        try:
            return getattr(client, operation)(**request)
        except ClientError as error:
            if "AccessDenied" not in error.response["Error"]["Code"] or not patience:
                raise
            time.sleep(5)
    return None
