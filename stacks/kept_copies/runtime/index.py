"""Custom resource: how many copies a component is to have after a change of it. Lambda runs this text inline."""

import json
import time
import traceback
import urllib.request
from typing import Any

PATIENCE_S = 750.0  # and a minute for new rights: within the function's 900 s
POLL_S = 5.0


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
    """Copies that scaling wants, None where there are none to keep; once scaling is done with what it does just now.

    SageMaker changes no component that is Updating, which a scale-out is for minutes. Still so after that time, the
    count is given all the same: SageMaker then refuses the change in its own words.
    """
    until_s = time.monotonic() + PATIENCE_S
    while True:
        found = described(name)
        if found is None or found["InferenceComponentStatus"] != "Updating" or time.monotonic() > until_s:
            break
        time.sleep(POLL_S)
    return None if found is None else found.get("RuntimeConfig", {}).get("DesiredCopyCount")


def described(name: str) -> dict[str, Any] | None:
    """The component, None where there is none. New rights may take a minute to hold."""
    import boto3
    from botocore.exceptions import ClientError

    sagemaker = boto3.client("sagemaker")
    for patience in range(12, -1, -1):
        try:
            found: dict[str, Any] = sagemaker.describe_inference_component(InferenceComponentName=name)
            return found
        except ClientError as error:
            said = error.response["Error"]
            if said["Code"] == "ValidationException" and "Could not find" in said["Message"]:
                return None
            if said["Code"] != "AccessDeniedException" or not patience:
                raise
            time.sleep(POLL_S)
    return None
