"""Training plans and reserved capacity that endpoints take their instances from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from loadproof.preflight.needs import Reservation
from loadproof.preflight.rules.rule import Found, reservation_rule
from loadproof.wire.documents import Document

_GONE: Final = ("ResourceNotFound",)


@reservation_rule(
    "LA111",
    "The reservation gives no instances",
    reason="With `capacity_reservation` an endpoint takes instances of that reservation and no others. One that does "
    "not exist, is over or not yet begun, is not for endpoints, or has another type or too few instances, leaves the "
    "endpoint in Creating until it fails.",
    mend="Name a reservation that is active and holds enough, or leave `capacity_reservation` out.",
)
def reservation_gives_nothing(need: Reservation) -> Iterator[Found]:
    asked = f"aws sagemaker search-training-plan-offerings --target-resources endpoint --instance-count {need.count} "
    mend = f"{asked}--instance-type {need.instance_types[0]} --region {need.account.region}"
    plan = _described(need)
    if plan is None:
        yield Found(need.arn, "there is no such reservation", mend, needed=f"one for {need.endpoint}")
        return
    for found, needed in _gaps(need, plan):
        yield Found(need.arn, found, mend, needed=needed)


def _described(need: Reservation) -> Document | None:
    if ":reserved-capacity/" in need.arn:
        params = {"ReservedCapacityArn": need.arn}
        return need.account.read("sagemaker", "describe_reserved_capacity", params, _GONE)
    return need.account.read("sagemaker", "describe_training_plan", {"TrainingPlanName": need.arn}, _GONE)


def _gaps(need: Reservation, plan: Document) -> Iterator[tuple[str, str]]:
    status, end = plan.get("Status", "?"), plan.get("EndTime")
    if status != "Active":
        yield f"its status is {status}", "Active"
    elif end is not None and end <= datetime.now(UTC):
        yield f"it ended at {end:%Y-%m-%d %H:%M} UTC", "one that is not over"
    targets = plan.get("TargetResources")
    if targets is not None and "endpoint" not in targets:
        yield f"it is for {', '.join(targets)}", "one for endpoint"
    types = _types(plan)
    if types and not types & set(need.instance_types):
        yield f"it holds {', '.join(sorted(types))}", " or ".join(need.instance_types)
    total = plan.get("TotalInstanceCount")
    if total is not None and total < need.count:
        yield f"it holds {total} instances", f"{need.count} for {need.endpoint} at most"


def _types(plan: Document) -> set[str]:
    if "InstanceType" in plan:
        return {plan["InstanceType"]}
    return {one["InstanceType"] for one in plan.get("ReservedCapacitySummaries", []) if "InstanceType" in one}
