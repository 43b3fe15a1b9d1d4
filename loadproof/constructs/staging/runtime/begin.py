"""Custom resource of staged weights: begins the state machine, lets its last state answer, and clears up.

CloudFormation waits for an answer at a one-time address, up to an hour. This function hands the address on and leaves.
"""

import json
import os
from functools import partial
from typing import Any

import boto3

from loadproof.wire.custom_resource import answer, respond
from loadproof.wire.documents import Document

MACHINE = "MACHINE_ARN"


def handler(event: Document, context: object) -> None:
    """Called by CloudFormation with a request, and by the state machine's last state with what came of it."""
    request = event.get("request", event)
    uri = "s3://{bucket}/{prefix}".format(**request["ResourceProperties"])
    if "request" in event:
        error = event.get("error")
        answer(request, uri, _reason(error) if error else "", {"S3Uri": uri})
        return
    do = _clear if event["RequestType"] == "Delete" else _begin
    respond(event, context, uri, partial(do, event, uri), uri)


def _begin(event: Document, uri: str) -> None:
    source = {name: value for name, value in event["ResourceProperties"].items() if name[0].islower()}
    request = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId", "ResponseURL")}
    request["ResourceProperties"] = {name: source[name] for name in ("bucket", "prefix")}
    source["code"] = source["code"] == "true"
    machines: Any = boto3.client("stepfunctions")
    machines.start_execution(
        stateMachineArn=os.environ[MACHINE],
        name=event["RequestId"],  # a request that is delivered twice begins once
        input=json.dumps({"source": source, "request": request}),
    )


def _clear(event: Document, uri: str) -> Document:
    """Stops what still runs, then takes away parts and files, so that the bucket can go with its stack."""
    source = event["ResourceProperties"]
    machines: Any = boto3.client("stepfunctions")
    running = machines.list_executions(stateMachineArn=os.environ[MACHINE], statusFilter="RUNNING")["executions"]
    for execution in running:
        begun = machines.describe_execution(executionArn=execution["executionArn"])
        if json.loads(begun["input"])["source"]["prefix"] == source["prefix"]:
            machines.stop_execution(executionArn=execution["executionArn"], cause="its stack no longer wants it")
    s3: Any = boto3.client("s3")
    place = {"Bucket": source["bucket"], "Prefix": source["prefix"]}
    for page in s3.get_paginator("list_multipart_uploads").paginate(**place):
        for upload in page.get("Uploads", []):
            s3.abort_multipart_upload(Bucket=source["bucket"], Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_objects_v2").paginate(**place):
        objects = [{"Key": one["Key"]} for one in page.get("Contents", [])]
        if objects and s3.delete_objects(Bucket=source["bucket"], Delete={"Objects": objects}).get("Errors"):
            raise RuntimeError(f"files under {source['prefix']} could not be deleted")
    return {"S3Uri": uri}


def _reason(error: Document) -> str:
    """A state's error holds Lambda's own document as text, in which our message stands."""
    try:
        return str(json.loads(error["Cause"])["errorMessage"])
    except (KeyError, TypeError, ValueError):
        return f"{error.get('Error')}: {error.get('Cause')}"
