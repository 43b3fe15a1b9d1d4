"""What the benchmark's state machine cannot say in its own language: the verdict in words, CloudFormation's answer."""

import json
import os
from typing import Any

import boto3
from botocore.exceptions import ClientError

from loadproof.wire.custom_resource import put


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    if event["do"] == "answer":
        return answer(event["input"])
    return judge(event["run"], event["input"])


def judge(run: str, given: dict[str, Any]) -> dict[str, Any]:
    """The verdict that the run left in done.json; without one INVALID, with the job's own reason."""
    place = f"s3://{os.environ['RESULTS']}/runs/{run}"
    done = left_by(run)
    if done is None:
        outcome, reasons = "INVALID", [f"the benchmark did not finish: {why(given.get('failure'))}"]
    else:
        outcome, reasons = done["outcome"], done["reasons"]
    report = f"{place}/report.html" if done and "report.html" in done.get("files", []) else "none"
    words = f"Benchmark {outcome} of {given['profile']} in {os.environ['ENVIRONMENT']}: {'; '.join(reasons)}."
    words = words[:700] + (f" Report: {report}" if report != "none" else f" Run: {place}")
    return {"outcome": outcome, "reasons": [reason[:500] for reason in reasons[:20]], "words": words, "report": report}


def left_by(run: str) -> dict[str, Any] | None:
    try:
        found = boto3.client("s3").get_object(Bucket=os.environ["RESULTS"], Key=f"runs/{run}/done.json")
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchKey":
            return None
        raise
    done: dict[str, object] = json.loads(found["Body"].read())
    return done


def why(failure: dict[str, str] | None) -> str:
    """Step Functions gives a failed job's whole description as its cause."""
    if failure is None:
        return "its job left no verdict"
    if failure["Error"] == "States.Timeout":
        return "its job did not end in time"
    try:
        job = json.loads(failure["Cause"])
        return str(job.get("ExitMessage") or job.get("FailureReason") or f"its job is {job['ProcessingJobStatus']}")
    except (ValueError, KeyError, AttributeError):
        return f"{failure['Error']}: {failure['Cause']}"


def answer(given: dict[str, Any]) -> dict[str, Any]:
    """Tell CloudFormation, at the address it gave the gate."""
    gate, verdict = given["answer"], given["judged"]["verdict"]
    body = {
        **gate["to"],
        "Status": "SUCCESS" if verdict["outcome"] in gate["accepts"] else "FAILED",
        "Reason": verdict["words"],
        "Data": {"Outcome": verdict["outcome"]},
    }
    put(gate["url"], body)
    return {"status": body["Status"]}
