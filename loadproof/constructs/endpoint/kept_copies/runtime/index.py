"""Custom resource: how many copies a component is to have after a change of it. Lambda runs this text inline."""

import time
from typing import Any

import boto3
from botocore.exceptions import ClientError

from loadproof.wire.custom_resource import respond, with_retries

PATIENCE_S = 750.0  # and a minute for new rights: within the function's 900 s
POLL_S = 5.0


def handler(event: dict[str, Any], context: object) -> None:
    """A rollback asks anew, with the bounds from before: the count is kept there too."""
    given = event["ResourceProperties"]
    name = given["ComponentName"]

    def work() -> dict[str, Any]:
        if event["RequestType"] == "Delete":
            return {}
        bounds = [int(given[bound]) for bound in ("FirstCopies", "FewestCopies", "MostCopies")]
        return {"CopyCount": kept(present(name), *bounds)}

    respond(event, context, name, work, f"the copies of {name} are unknown")


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
    """The component, None where there is none."""
    sagemaker = boto3.client("sagemaker")
    try:
        found: dict[str, Any] = with_retries(
            lambda: sagemaker.describe_inference_component(InferenceComponentName=name)
        )
    except ClientError as error:
        said = error.response["Error"]
        if said["Code"] == "ValidationException" and "Could not find" in said["Message"]:
            return None
        raise
    return found
