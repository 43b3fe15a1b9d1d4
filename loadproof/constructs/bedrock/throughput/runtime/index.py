"""Custom resource: provisioned throughput of a Bedrock model, made, waited for, and taken down if AWS lets it go."""

import time
from typing import Any

import boto3
from botocore.exceptions import ClientError

from loadproof.wire.custom_resource import NotReadyError, RefusedError, respond, with_retries

PATIENCE_S = 780.0  # within the function's 15 minutes
LONGEST_PAUSE_S = 10.0


def handler(event: dict[str, Any], context: object) -> None:
    """Answers once it is known how it ends: a run that Lambda ends is run again, so nothing guards its time."""
    given = event["ResourceProperties"]

    def work() -> dict[str, object]:
        bedrock = boto3.client("bedrock")
        if event["RequestType"] != "Delete":
            return {"Arn": in_service(bedrock, given)}
        delete(bedrock, given["Name"])
        return {}

    respond(event, None, given["Name"], work, given["Name"])


def in_service(bedrock: Any, given: dict[str, Any]) -> str:
    """Its ARN, once it serves. Units, model and commitment are in its name: nothing of them ever changes in place."""
    found = described(bedrock, given["Name"])
    tags = [{"key": name, "value": value} for name, value in given["Tags"].items()]
    if found is None:
        asked = {"modelUnits": int(given["ModelUnits"]), "provisionedModelName": given["Name"]}
        asked |= {"modelId": given["ModelId"], "tags": tags}
        asked |= {"commitmentDuration": given["Commitment"]} if given.get("Commitment") else {}
        bedrock.create_provisioned_model_throughput(**asked)
        found = settled(bedrock, given["Name"])
    else:
        found = settled(bedrock, given["Name"])
        retag(bedrock, found["provisionedModelArn"], tags)
    if found["status"] != "InService":
        raise RefusedError(
            f"{given['Name']}: it is {found['status']}: {found.get('failureMessage', 'no reason given')}"
        )
    return str(found["provisionedModelArn"])


def retag(bedrock: Any, arn: str, tags: list[dict[str, str]]) -> None:
    present = bedrock.list_tags_for_resource(resourceARN=arn)["tags"]
    stale = {tag["key"] for tag in present} - {tag["key"] for tag in tags}
    if stale:
        bedrock.untag_resource(resourceARN=arn, tagKeys=sorted(stale))
    if tags:
        bedrock.tag_resource(resourceARN=arn, tags=tags)


def delete(bedrock: Any, name: str) -> None:
    """Gone, or why not: AWS keeps what is committed, and bills it."""
    found = described(bedrock, name)
    if found is None:
        return
    if found["status"] == "Creating":
        found = settled(bedrock, name)
    until = found.get("commitmentExpirationTime")
    if until is not None and until.timestamp() > time.time():
        raise RefusedError(
            f"{name}: committed until {until:%Y-%m-%d %H:%M} UTC. AWS deletes it no sooner and bills it until then. "
            "Delete it after that day, or leave it behind: cdk destroy again, retaining this resource"
        )
    bedrock.delete_provisioned_model_throughput(provisionedModelId=found["provisionedModelArn"])


def settled(bedrock: Any, name: str) -> dict[str, Any]:
    until_s = time.monotonic() + PATIENCE_S
    pause_s = 0.5
    while True:
        found = described(bedrock, name) or {"status": "gone"}
        if found["status"] not in ("Creating", "Updating"):
            return found
        if time.monotonic() > until_s:
            raise NotReadyError(f"{name} is still {found['status']}")
        time.sleep(pause_s)
        pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)


def described(bedrock: Any, name: str) -> dict[str, Any] | None:
    """None where there is none."""
    try:
        found: dict[str, Any] = with_retries(lambda: bedrock.get_provisioned_model_throughput(provisionedModelId=name))
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        raise
    return found
