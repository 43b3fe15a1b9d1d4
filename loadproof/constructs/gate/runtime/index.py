"""Custom resource: starts the benchmark of what was just deployed. Lambda runs this text inline.

With gate rollback it leaves without an answer: the benchmark's state machine gives it to CloudFormation, at the end.
"""

import json
import os
import time
from functools import partial
from typing import Any

import boto3

from loadproof.wire.custom_resource import respond, rolling_back, with_retries


def handler(event: dict[str, Any], context: object) -> None:
    name = event["ResourceProperties"]["Name"]
    respond(event, context, name, partial(prove, event), "the benchmark could not be started")


def prove(event: dict[str, Any]) -> dict[str, Any] | None:
    """What was proven before needs no new proof on the way back."""
    given = event["ResourceProperties"]
    if event["RequestType"] == "Delete" or rolling_back(boto3.client("cloudformation"), event["StackId"]):
        return {}
    asked, waits = json.loads(given["Input"]), given["Gate"] == "rollback"
    if waits:
        to = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
        to["PhysicalResourceId"] = given["Name"]
        asked["answer"] = {"url": event["ResponseURL"], "accepts": given["Accepts"], "to": to}
    start(boto3.client("stepfunctions"), asked)
    return None if waits else {}


def start(machines: Any, asked: dict[str, Any]) -> None:
    name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{asked['profile']}"
    machine = os.environ["STATE_MACHINE"]
    with_retries(partial(machines.start_execution, stateMachineArn=machine, name=name, input=json.dumps(asked)))
