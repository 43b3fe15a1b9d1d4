"""Custom resource: is what runs what was deployed, and does it answer? A rolled back update can look like success."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import boto3
from botocore.config import Config

from loadproof.wire.custom_resource import RefusedError, respond, rolling_back, with_retries

from .answers import unanswered

MOVING = ("Creating", "Updating", "SystemUpdating", "RollingBack")
PATIENCE_S = 600.0
POLL_S = 5.0


def handler(event: dict[str, Any], context: object) -> None:
    name = event["ResourceProperties"]["EndpointName"]
    respond(event, context, f"{name}-proof", partial(prove, event), f"{name} could not be looked at")


def prove(event: dict[str, Any]) -> dict[str, Any]:
    """Raises RefusedError for anything that is not as deployed, or does not answer."""
    if event["RequestType"] == "Delete" or rolling_back(boto3.client("cloudformation"), event["StackId"]):
        return {}
    given, sagemaker = event["ResourceProperties"], boto3.client("sagemaker")
    if wrong := settled(sagemaker, given):
        raise RefusedError("Not what was deployed: " + "; ".join(wrong))
    once = Config(retries={"total_max_attempts": 1}, read_timeout=70)
    runtime, s3 = boto3.client("sagemaker-runtime", config=once), boto3.client("s3")
    if wrong := [*unanswered(given, partial(serving, sagemaker, given), runtime, s3)]:
        raise RefusedError("It runs and does not answer: " + "; ".join(wrong))
    return {}


def settled(sagemaker: Any, given: dict[str, Any]) -> list[str]:
    """What is wrong once nothing moves any more, or after ten minutes: scaling may be at work just now."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        moving, wrong = looked_at(sagemaker, given)
        if not wrong or not moving or time.monotonic() > until_s:
            return wrong
        time.sleep(POLL_S)


def looked_at(sagemaker: Any, given: dict[str, Any]) -> tuple[bool, list[str]]:
    """(something still moves, everything that is not as deployed)."""
    endpoint = with_retries(partial(sagemaker.describe_endpoint, EndpointName=given["EndpointName"]))
    statuses, wrong = [endpoint["EndpointStatus"]], [*of_endpoint(endpoint, given)]
    scaled = [(planned, instances(endpoint, planned)) for planned in given.get("Variants", [])]
    for planned in given.get("Components", []):
        name = planned["Name"]
        found = with_retries(partial(sagemaker.describe_inference_component, InferenceComponentName=name))
        statuses.append(found["InferenceComponentStatus"])
        wrong += of_component(found, planned)
        scaled.append((planned, found.get("RuntimeConfig", {}).get("CurrentCopyCount", 0)))
    # A count outside new bounds has not moved yet: scaling brings it in, a little later.
    late = any(outside(count, planned) and planned["Fewest"] != planned["Most"] for planned, count in scaled)
    return late or any(status in MOVING for status in statuses), wrong


def of_endpoint(found: dict[str, Any], given: dict[str, Any]) -> Iterator[str]:
    name, said = given["EndpointName"], f" ({found['FailureReason']})" if found.get("FailureReason") else ""
    if found["EndpointStatus"] != "InService":
        yield f"endpoint {name} is {found['EndpointStatus']}{said}"
    if found["EndpointConfigName"] != given["EndpointConfigName"]:
        yield (
            f"endpoint {name} runs configuration {found['EndpointConfigName']}, not {given['EndpointConfigName']}: "
            f"SageMaker turned the update back{said}"
        )
    for planned in given.get("Variants", []):
        images = [image["SpecifiedImage"] for image in variant(found, planned).get("DeployedImages", [])]
        mend = (
            f"update-endpoint-weights-and-capacities --endpoint-name {name} "
            f"--desired-weights-and-capacities VariantName={planned['Name']},DesiredInstanceCount="
        )
        yield from counted(f"variant {planned['Name']}", "instances", instances(found, planned), planned, mend)
        if images and images != [planned["Image"]]:
            yield f"variant {planned['Name']} runs {', '.join(images)}, not {planned['Image']}"


def of_component(found: dict[str, Any], planned: dict[str, Any]) -> Iterator[str]:
    name, said = planned["Name"], f" ({found['FailureReason']})" if found.get("FailureReason") else ""
    if found["InferenceComponentStatus"] != "InService":
        yield f"component {name} is {found['InferenceComponentStatus']}{said}"
    runs: dict[str, Any] = found.get("Specification") or next(iter(found.get("Specifications", [])), {})
    if planned.get("ModelName") and runs.get("ModelName") != planned["ModelName"]:
        yield f"component {name} runs model {runs.get('ModelName')}, not {planned['ModelName']}{said}"
    image = runs.get("Container", {}).get("DeployedImage", {}).get("SpecifiedImage")
    if image and planned.get("Image") and image != planned["Image"]:
        yield f"component {name} runs {image}, not {planned['Image']}"
    if "Fewest" in planned:
        copies = found["RuntimeConfig"]["CurrentCopyCount"]
        mend = (
            f"update-inference-component-runtime-config --inference-component-name {name} "
            "--desired-runtime-config CopyCount="
        )
        yield from counted(f"component {name}", "copies", copies, planned, mend)


def variant(endpoint: dict[str, Any], planned: dict[str, Any]) -> dict[str, Any]:
    return next((one for one in endpoint["ProductionVariants"] if one["VariantName"] == planned["Name"]), {})


def instances(endpoint: dict[str, Any], planned: dict[str, Any]) -> int:
    return int(variant(endpoint, planned).get("CurrentInstanceCount", 0))


def serving(sagemaker: Any, given: dict[str, Any], name: str) -> bool:
    """A component or variant has a copy: what sleeps at zero is not woken to be asked."""
    if "Variants" in given:
        endpoint = with_retries(partial(sagemaker.describe_endpoint, EndpointName=given["EndpointName"]))
        return instances(endpoint, {"Name": name}) > 0
    found = with_retries(partial(sagemaker.describe_inference_component, InferenceComponentName=name))
    return int(found.get("RuntimeConfig", {}).get("CurrentCopyCount", 0)) > 0


def outside(count: int, planned: dict[str, Any]) -> bool:
    return "Fewest" in planned and not int(planned["Fewest"]) <= count <= int(planned["Most"])


def counted(what: str, unit: str, count: int, planned: dict[str, Any], mend: str) -> Iterator[str]:
    """A rollback puts back what a template says, which a count that somebody set by hand is not."""
    if outside(count, planned):
        fewest, most = int(planned["Fewest"]), int(planned["Most"])
        wanted = fewest if fewest == most else f"{fewest} to {most}"
        nearest = min(max(count, fewest), most)
        yield f"{what} has {count} {unit}, not {wanted}; run `aws sagemaker {mend}{nearest}` and deploy again"
