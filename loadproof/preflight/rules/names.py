"""Stacks in a state that takes no deployment, names that somebody else has, and what earlier stacks left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from loadproof.catalog import registry
from loadproof.preflight.account import Account, UnseenError
from loadproof.preflight.needs import Kind, Named, Stack
from loadproof.preflight.rules.rule import Found, named_rule, stack_rule
from loadproof.wire.documents import Document


@dataclass(frozen=True, slots=True)
class _Lookup:
    """How a resource of a kind is looked for by its name, and how it is deleted."""

    service: str
    operation: str
    param: str
    absent: tuple[str, ...]
    delete: str


_LOOKUPS: Final[dict[Kind, _Lookup]] = {
    "endpoint": _Lookup(
        "sagemaker", "describe_endpoint", "EndpointName", ("ValidationException: Could not find",),
        "sagemaker delete-endpoint --endpoint-name",
    ),
    "inference component": _Lookup(
        "sagemaker", "describe_inference_component", "InferenceComponentName", ("ValidationException: Could not find",),
        "sagemaker delete-inference-component --inference-component-name",
    ),
    "queue": _Lookup(
        "sqs", "get_queue_url", "QueueName",
        ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"),
        "sqs delete-queue --queue-url",
    ),
    "dashboard": _Lookup(
        "cloudwatch", "get_dashboard", "DashboardName", ("ResourceNotFound", "DashboardNotFoundError"),
        "cloudwatch delete-dashboards --dashboard-names",
    ),
    "state machine": _Lookup(
        "stepfunctions", "describe_state_machine", "stateMachineArn", ("StateMachineDoesNotExist",),
        "stepfunctions delete-state-machine --state-machine-arn",
    ),
}  # fmt: skip
_STUCK: Final = ("UPDATE_ROLLBACK_FAILED", "ROLLBACK_FAILED", "DELETE_FAILED", "CREATE_FAILED", "UPDATE_FAILED")


@stack_rule(
    "LA141",
    "The stack takes no deployment",
    reason="A stack that is busy refuses every update until it is done, and one whose rollback or deletion failed "
    "refuses them until somebody mends it.",
    mend="Wait, continue the rollback, or delete the stack.",
)
def stack_stuck(need: Stack) -> Iterator[Found]:
    status = _status(need)
    about = f"--stack-name {need.name} --region {need.account.region}"
    if status == "UPDATE_ROLLBACK_FAILED":
        yield Found(
            need.name,
            f"it is {status}",
            f"aws cloudformation continue-update-rollback {about}",
            needed="a stack that can be updated",
        )
    elif status in _STUCK:
        yield Found(
            need.name,
            f"it is {status}",
            f"aws cloudformation delete-stack {about}",
            needed="a stack that can be updated",
        )
    elif status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS":
        yield Found(
            need.name,
            f"it is {status}",
            f"aws cloudformation wait stack-update-complete {about}",
            needed="a stack at rest",
        )


@stack_rule(
    "LA142",
    "A failed creation left its stack",
    reason="The CDK CLI deletes a stack in ROLLBACK_COMPLETE before it makes it again. That takes minutes, and what "
    "the deletion cannot remove is then in the way by its name.",
    mend="Read why it failed, then delete it.",
    severity="warning",
)
def stack_rolled_back(need: Stack) -> Iterator[Found]:
    if _status(need) == "ROLLBACK_COMPLETE":
        mend = f"aws cloudformation delete-stack --stack-name {need.name} --region {need.account.region}"
        yield Found(need.name, "it is ROLLBACK_COMPLETE", mend, needed="no stack, or one that can be updated")


@named_rule(
    "LA143",
    "A name is taken",
    reason="Whoever finds these resources goes by their names, so the template fixes them. Where one of that name "
    "stands outside of the stack, made by hand or left by an earlier one, CloudFormation refuses to make it.",
    mend="Delete what has the name, if nobody uses it, or rename the profile.",
)
def name_taken(need: Named) -> Iterator[Found]:
    lookup = _LOOKUPS.get(need.kind)
    if lookup is None:
        return
    account = need.account
    asked = need.name
    if need.kind == "state machine":
        partition = registry(account.region).partition
        asked = f"arn:{partition}:states:{account.region}:{account.id}:stateMachine:{need.name}"
    found = account.read(lookup.service, lookup.operation, {lookup.param: asked}, lookup.absent)
    if found is None or _is_ours(account, need.stack, need.name):
        return
    handle = found.get("QueueUrl", asked)
    yield Found(
        need.name,
        f"{need.kind} {need.name} is there and stack {need.stack} has not made it",
        f"aws {lookup.delete} {handle} --region {account.region}",
        needed="a name that is free",
    )


@named_rule(
    "LA144",
    "A log group was left behind",
    reason="SageMaker writes what it still holds when an endpoint is deleted, and so makes the log group again after "
    "`cdk destroy` has deleted it: without retention, without a key, and in the way of the next deployment, which "
    "fails because the name exists.",
    mend="Delete the log group; export it first if somebody needs what it says.",
)
def log_group_left(need: Named) -> Iterator[Found]:
    group = _log_group(need)
    if group is None or _is_ours(need.account, need.stack, need.name):
        return
    days = group.get("retentionInDays")
    kept = f"kept for {days} days" if days else "kept for ever"
    yield Found(
        need.name,
        f"log group is there ({kept}) and stack {need.stack} has not made it",
        f"aws logs delete-log-group --log-group-name {need.name} --region {need.account.region}",
        needed="a name that is free",
    )


@named_rule(
    "LA145",
    "A log group is kept for another time than the environment says",
    reason="Somebody changed the retention by hand. CloudFormation does not see it, so it stays: logs that cost money "
    "for ever, or that are gone when they are needed.",
    mend="Set it back.",
    severity="warning",
)
def retention_differs(need: Named) -> Iterator[Found]:
    group = _log_group(need)
    if group is None or not _is_ours(need.account, need.stack, need.name):
        return
    days = group.get("retentionInDays")
    if days != need.retention_days:
        yield Found(
            need.name,
            f"kept for {days} days" if days else "kept for ever",
            f"aws logs put-retention-policy --log-group-name {need.name} --retention-in-days {need.retention_days} "
            f"--region {need.account.region}",
            needed=f"{need.retention_days} days",
        )


def _log_group(need: Named) -> Document | None:
    if need.kind != "log group":
        return None
    params = {"logGroupNamePrefix": need.name}
    groups = need.account.listed("logs", "describe_log_groups", "logGroups", params)
    return next((one for one in groups if one["logGroupName"] == need.name), None)


def _status(need: Stack) -> str:
    """Empty where there is none."""
    found = need.account.read(
        "cloudformation", "describe_stacks", {"StackName": need.name}, ("ValidationError: Stack",)
    )
    stacks = (found or {}).get("Stacks", [])
    if len(stacks) > 1:
        raise UnseenError(f"CloudFormation answered with {len(stacks)} stacks for {need.name}")
    return str(stacks[0]["StackStatus"]) if stacks else ""


def _is_ours(account: Account, stack: str, name: str) -> bool:
    """Whether the stack holds a resource of that name, by its physical id: the name, an ARN or a URL of it."""
    params, absent = {"StackName": stack}, ("ValidationError: Stack",)
    resources = account.listed("cloudformation", "list_stack_resources", "StackResourceSummaries", params, absent)
    return any(
        one.get("PhysicalResourceId", "") == name
        or one.get("PhysicalResourceId", "").endswith((f"/{name}", f":{name}"))
        for one in resources
        if one.get("ResourceStatus") != "DELETE_COMPLETE"
    )
