"""Custom resource: how many copies a component is to have after a change of it. Lambda runs this text inline."""

import json
import time
import traceback
import urllib.request
from typing import Any


def handler(event: dict[str, Any], context: object) -> None:
    """Always answers CloudFormation. A rollback asks anew, with the bounds from before: the count is kept there too."""
    given = event["ResourceProperties"]
    name = given["ComponentName"]
    status, reason, data = "SUCCESS", "", {}
    try:
        if event["RequestType"] != "Delete":
            bounds = [int(given[bound]) for bound in ("FirstCopies", "FewestCopies", "MostCopies")]
            data["CopyCount"] = kept(present(name), *bounds)
    except Exception as error:
        traceback.print_exc()
        status, reason = "FAILED", f"the copies of {name} are unknown: {type(error).__name__}: {error}"
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer.update(Status=status, Reason=reason[:1000], PhysicalResourceId=name, Data=data)
    request = urllib.request.Request(
        event["ResponseURL"], json.dumps(answer).encode(), {"Content-Type": ""}, method="PUT"
    )
    urllib.request.urlopen(request, timeout=30).close()


def kept(copies: int | None, first: int, fewest: int, most: int) -> int:
    """The present count within its bounds; `first` for a component that is not there yet."""
    return first if copies is None else min(max(copies, fewest), most)


def present(name: str) -> int | None:
    """Copies that scaling wants now, None where there are none to keep. New rights may take a minute to hold."""
    import boto3
    from botocore.exceptions import ClientError

    sagemaker = boto3.client("sagemaker")
    for patience in range(12, -1, -1):
        try:
            found = sagemaker.describe_inference_component(InferenceComponentName=name)
            copies: int | None = found.get("RuntimeConfig", {}).get("DesiredCopyCount")
            return copies
        except ClientError as error:
            said = error.response["Error"]
            if said["Code"] == "ValidationException" and "Could not find" in said["Message"]:
                return None
            if said["Code"] != "AccessDeniedException" or not patience:
                raise
            time.sleep(5)
    return None
