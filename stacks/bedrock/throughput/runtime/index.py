"""Custom resource: provisioned throughput of a Bedrock model, made, waited for, and taken down if AWS lets it go."""

import json
import time
import traceback
import urllib.request
from typing import Any

PATIENCE_S = 780.0  # within the function's 15 minutes
LONGEST_PAUSE_S = 10.0


class NotReadyError(Exception):
    """Still on its way: the function fails, and Lambda runs it again with the same event, twice."""


def handler(event: dict[str, Any], context: object) -> None:
    """Answers CloudFormation once it is known how it ends."""
    given = event["ResourceProperties"]
    status, reason, data = "SUCCESS", "", {}
    try:
        import boto3

        bedrock = boto3.client("bedrock")
        if event["RequestType"] == "Delete":
            delete(bedrock, given["Name"])
        else:
            data["Arn"] = in_service(bedrock, given)
    except NotReadyError:
        raise
    except Exception as error:
        traceback.print_exc()
        status, reason = "FAILED", f"{given['Name']}: {error or type(error).__name__}"
    answer = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    answer.update(Status=status, Reason=reason[:1000], PhysicalResourceId=given["Name"], Data=data)
    request = urllib.request.Request(
        event["ResponseURL"], json.dumps(answer).encode(), {"Content-Type": ""}, method="PUT"
    )
    urllib.request.urlopen(request, timeout=30).close()


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
        raise RuntimeError(f"it is {found['status']}: {found.get('failureMessage', 'no reason given')}")
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
        raise RuntimeError(
            f"committed until {until:%Y-%m-%d %H:%M} UTC. AWS deletes it no sooner and bills it until then. "
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
    """None where there is none. New rights may take a minute to hold."""
    from botocore.exceptions import ClientError

    for patience in range(12, -1, -1):
        try:
            found: dict[str, Any] = bedrock.get_provisioned_model_throughput(provisionedModelId=name)
            return found
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "ResourceNotFoundException":
                return None
            if "AccessDenied" not in code or not patience:
                raise
            time.sleep(5)
    return None
