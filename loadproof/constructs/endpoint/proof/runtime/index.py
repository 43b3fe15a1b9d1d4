"""Custom resource: is what runs what was deployed? An update that SageMaker turned back can look like success."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import boto3

from loadproof.wire.custom_resource import RefusedError, respond, with_retries

MOVING = ("Creating", "Updating", "SystemUpdating", "RollingBack")
PATIENCE_S = 600.0
POLL_S = 5.0


def handler(event: dict[str, Any], context: object) -> None:
    name = event["ResourceProperties"]["EndpointName"]
    respond(event, context, f"{name}-proof", partial(prove, event), f"{name} could not be looked at")


def prove(event: dict[str, Any]) -> dict[str, Any]:
    """Raises RefusedError for anything that is not as deployed."""
    # On the way back the old state is not there yet, and a rollback that fails helps nobody.
    if event["RequestType"] != "Delete" and not rolling_back(boto3.client("cloudformation"), event["StackId"]):
        wrong = settled(boto3.client("sagemaker"), event["ResourceProperties"])
        if wrong:
            raise RefusedError("Not what was deployed: " + "; ".join(wrong))
    return {}


def rolling_back(cloudformation: Any, stack_id: str) -> bool:
    found = with_retries(partial(cloudformation.describe_stacks, StackName=stack_id))
    return "ROLLBACK" in found["Stacks"][0]["StackStatus"]


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
        yield from counted(f"variant {planned['Name']}", "instances", instances(found, planned), planned)
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
        yield from counted(f"component {name}", "copies", found["RuntimeConfig"]["CurrentCopyCount"], planned)


def variant(endpoint: dict[str, Any], planned: dict[str, Any]) -> dict[str, Any]:
    return next((one for one in endpoint["ProductionVariants"] if one["VariantName"] == planned["Name"]), {})


def instances(endpoint: dict[str, Any], planned: dict[str, Any]) -> int:
    return int(variant(endpoint, planned).get("CurrentInstanceCount", 0))


def outside(count: int, planned: dict[str, Any]) -> bool:
    return "Fewest" in planned and not int(planned["Fewest"]) <= count <= int(planned["Most"])


def counted(what: str, unit: str, count: int, planned: dict[str, Any]) -> Iterator[str]:
    if outside(count, planned):
        fewest, most = planned["Fewest"], planned["Most"]
        yield f"{what} has {count} {unit}, not {fewest if fewest == most else f'{fewest} to {most}'}"
