"""Rules about rights: who may do what, to what, and who may become whom (LS0xx).

IAM compares actions without regard to case and takes `*` and `?` anywhere in them, so that is how they are read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from loadproof.templates.rule import Found, found, rule
from loadproof.templates.template import UNKNOWN, Block, Resource, Template, listed, text

_INVOKING: Final = (
    *("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointAsync", "sagemaker:InvokeEndpointWithResponseStream"),
    "sagemaker:InvokeEndpointWithBidirectionalStream",
)
_BROAD_POLICIES: Final = re.compile(r"(?:FullAccess|AdministratorAccess|PowerUserAccess)\Z")
# What AWS's service authorization reference lists without a resource type, or what is asked for before there is a name.
_NAMELESS: Final = re.compile(
    r"""application-autoscaling:Describe\w+
      | cloudwatch:(?:PutMetricData|GetMetricData|ListMetrics)
      | ec2:(?:Describe\w+|CreateNetworkInterface(?:Permission)?|DeleteNetworkInterface(?:Permission)?
             |(?:Una|A)ssignPrivateIpAddresses)
      | ecr:GetAuthorizationToken
      | logs:(?:(?:Create|Get|Update|Delete)LogDelivery|ListLogDeliveries|PutResourcePolicy|Describe\w+)
      | sagemaker:List\w+ | servicequotas:\w+ | xray:(?:PutTraceSegments|PutTelemetryRecords|GetSampling\w+)
    """,
    re.VERBOSE,
)
_ALL_OF_A_KIND: Final = re.compile(
    r"\*|arn:[^:]*:(?!s3:)[^:]*:[^:]*:[^:]*:(?:\*|[\w-]+[/:]\*)|arn:[^:]*:s3:::\*(?:/\*)?"
)
# `loadproof-prod-*` is how `loadproof-prod-eu` begins, too; a hash before the hyphen is nobody else's.
_BEGINNING: Final = re.compile(r"(?:.*[/:])?(?!.*-[0-9a-f]{8}-\*)[\w.-]*\w-\*(?:[:/].*)?")
_WRITES: Final = ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload")
_BUCKET: Final = re.compile(r"arn:[^:]*:s3:::([^/]+)")
_CODE_OF_CDK: Final = re.compile(r"cdk-[a-z0-9]+-assets-")
# What runs a role that is passed to it: with this and iam:PassRole somebody runs his own code as that role.
_RUNS_A_ROLE: Final = (
    *(
        "lambda:CreateFunction",
        "ec2:RunInstances",
        "ecs:RunTask",
        "cloudformation:CreateStack",
        "codebuild:CreateProject",
    ),
    *("glue:CreateJob", "glue:CreateDevEndpoint", "sagemaker:CreateNotebookInstance", "sagemaker:CreateTrainingJob"),
    *(
        "states:CreateStateMachine",
        "states:UpdateStateMachine",
        "scheduler:CreateSchedule",
        "ssm:StartAutomationExecution",
    ),
)
# With each of these alone a role can make itself, or another that it can be, as strong as it likes.
_ESCALATING: Final = (
    *("iam:AddUserToGroup", "iam:AttachGroupPolicy", "iam:AttachRolePolicy", "iam:AttachUserPolicy"),
    *("iam:CreateAccessKey", "iam:CreateLoginProfile", "iam:CreatePolicyVersion", "iam:DeleteRolePermissionsBoundary"),
    *("iam:PutGroupPolicy", "iam:PutRolePermissionsBoundary", "iam:PutRolePolicy", "iam:PutUserPolicy"),
    *("iam:SetDefaultPolicyVersion", "iam:UpdateAssumeRolePolicy", "iam:UpdateLoginProfile"),
    *("lambda:AddPermission", "lambda:UpdateFunctionCode", "lambda:UpdateFunctionConfiguration"),
    *("cloudformation:ExecuteChangeSet", "cloudformation:UpdateStack", "codebuild:UpdateProject"),
    *("iam:UpdateOpenIDConnectProviderThumbprint", "iam:UpdateSAMLProvider"),
    *("kms:PutKeyPolicy", "s3:PutBucketPolicy", "secretsmanager:PutResourcePolicy", "ssm:SendCommand"),
)
# Services that act for whoever asks them to, by the role or the policy that names them.
_DEPUTIES: Final = (
    *("bedrock", "cloudtrail", "cloudwatch", "config", "delivery.logs", "events", "logs", "s3", "sagemaker"),
    *("scheduler", "sns", "ses", "states"),
)
_POLICY_OF: Final = {
    "AWS::KMS::Key": "KeyPolicy",
    "AWS::S3::BucketPolicy": "PolicyDocument",
    "AWS::SecretsManager::ResourcePolicy": "ResourcePolicy",
    "AWS::SNS::TopicPolicy": "PolicyDocument",
    "AWS::SQS::QueuePolicy": "PolicyDocument",
}


@rule(
    "LS007",
    "Right to invoke what is not named",
    reason="A caller could reach every endpoint of the account, and spend their instances.",
    mend="Name the endpoint and each of its components, or ask for a tag of theirs (aws:ResourceTag).",
)
def invokes_unnamed(template: Template) -> Iterator[Found]:
    for resource, statement in template.statements():
        action = next((one for one in _INVOKING if allows(statement, one)), None)
        wide = [place for place in _resources(statement) if "*" in place or "?" in place]
        if action and wide and not _asks(statement, "ResourceTag/"):
            yield found(resource, f"{action} on {wide[0]}", "name the endpoint and its components, or ask for a tag")


@rule(
    "LS010",
    "Rights to everything of a service",
    reason="AmazonSageMakerFullAccess and its like let a container read every bucket and start every job.",
    mend="List the actions on the resources.",
)
def broad_rights(template: Template) -> Iterator[Found]:
    for resource in template.of("AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::IAM::Policy"):
        for policy in listed(resource.properties, "ManagedPolicyArns"):
            if _BROAD_POLICIES.search(text(policy)):
                yield found(resource, f"has {text(policy).rpartition('/')[2]}", "list the actions it needs")
    for resource, statement in template.statements():
        wide = [action for action in _actions(statement) if action == "*" or action.endswith(":*")]
        if wide or "NotAction" in statement or "NotResource" in statement:
            message = f"allows {wide[0]}" if wide else "allows all but what it names"
            yield found(resource, message, "list the actions on the resources")


@rule(
    "LS011",
    "Role that may be handed to any service",
    reason="Who may pass a role to any service may become that role.",
    mend="Name the role, and the one service in the condition iam:PassedToService.",
)
def passes_roles(template: Template) -> Iterator[Found]:
    for resource, statement in template.statements():
        if not allows(statement, "iam:PassRole"):
            continue
        if not _asks(statement, "iam:PassedToService"):
            yield found(resource, "iam:PassRole without iam:PassedToService", "add the condition")
        if any("*" in place for place in _resources(statement)):
            yield found(resource, "iam:PassRole on roles that are not named", "name the role")


@rule(
    "LS012",
    "Right on every resource",
    reason="A right on `*` reaches what other teams own.",
    mend="Name the resources, or ask for a tag of theirs; `*` stays for actions that know no narrower one.",
)
def every_resource(template: Template) -> Iterator[Found]:
    for resource, statement in template.statements():
        wide = [place for place in _resources(statement) if _ALL_OF_A_KIND.fullmatch(place)]
        if not wide or _asks(statement, "ResourceTag/"):
            continue
        for action in _actions(statement):
            if _NAMELESS.fullmatch(action) is None:
                yield found(resource, f"{action} on {wide[0]}", "name the resources")
            elif action == "cloudwatch:PutMetricData" and not _asks(statement, "cloudwatch:namespace"):
                yield found(resource, f"{action} into every namespace", "add the condition cloudwatch:namespace")


@rule(
    "LS013",
    "Role that a service may take for anybody",
    reason="Without a condition another account's job, schedule or machine could be made to run under this role (the "
    "confused deputy).",
    mend="Add aws:SourceAccount (or aws:SourceArn) to the trust.",
)
def trusts_any_account(template: Template) -> Iterator[Found]:
    for resource in template.of("AWS::IAM::Role"):
        for statement in listed(resource.properties.get("AssumeRolePolicyDocument") or {}, "Statement"):
            if _asks(statement, "aws:Source"):
                continue
            for service in _deputies(statement):
                yield found(resource, f"trusts {service} for every account", "add the condition aws:SourceAccount")


@rule(
    "LS014",
    "Bucket that may be somebody else's",
    reason="Names of buckets are the world's: once a bucket is gone, or before it is made, another account can take "
    "its name, and prompts, answers or code then go there or come from there.",
    mend="Add the condition aws:ResourceAccount.",
)
def squatted_bucket(template: Template) -> Iterator[Found]:
    for resource, statement in template.statements():
        if _asks(statement, "aws:ResourceAccount"):
            continue
        named = (_BUCKET.match(place) for place in _resources(statement))
        buckets = [bucket[1] for bucket in named if bucket and UNKNOWN not in bucket[1]]
        writes = next((action for action in _WRITES if allows(statement, action)), None)
        code = [bucket for bucket in buckets if _CODE_OF_CDK.match(bucket)]
        if writes and buckets:
            yield found(resource, f"{writes} in {buckets[0]}, whoever owns it", "add the condition aws:ResourceAccount")
        elif code and allows(statement, "s3:GetObject"):
            yield found(resource, f"code from {code[0]}, whoever owns it", "add the condition aws:ResourceAccount")


@rule(
    "LS015",
    "Role that can raise its own rights",
    reason="Whoever may change policies, trusts or a function's code can give himself the rights of what he changes.",
    mend="Leave it to the deployment; a role of an endpoint needs none of it.",
)
def escalates(template: Template) -> Iterator[Found]:
    for resource, statement in template.statements():
        for action in _ESCALATING:
            if allows(statement, action):
                yield found(resource, f"{action}: whoever has it can have any right", "take the action away")
        if allows(statement, "sts:AssumeRole") and any("*" in place for place in _resources(statement)):
            yield found(resource, "sts:AssumeRole on roles that are not named", "name the role")
    passing = {
        resource.logical_id for resource, statement in template.statements() if allows(statement, "iam:PassRole")
    }
    for resource, statement in template.statements():
        for action in _RUNS_A_ROLE if resource.logical_id in passing else ():
            if allows(statement, action):
                yield found(resource, f"{action} with iam:PassRole: runs its own code as that role", "take one away")


@rule(
    "LS016",
    "Policy that lets in anybody",
    reason="A resource's own policy opens it to the accounts it names: to `*` to everybody, and to a service for "
    "whoever makes that service ask (the confused deputy).",
    mend="Name the account, or add aws:SourceAccount, aws:SourceArn or aws:PrincipalOrgID.",
)
def lets_in_anybody(template: Template) -> Iterator[Found]:
    for resource, statement in _resource_statements(template):
        if _asks(statement, "aws:Source") or _asks(statement, "aws:Principal"):
            continue
        principal = statement.get("Principal")
        named = principal if isinstance(principal, dict) else {"AWS": principal}
        if any(text(one) == "*" for one in listed(named, "AWS")):
            yield found(resource, "allows everybody", "name the account that may")
        for service in _deputies(statement):
            yield found(resource, f"allows {service} for every account", "add aws:SourceAccount")


@rule(
    "LS017",
    "Right on a beginning of names",
    reason="`loadproof-prod-*` is also how the names of `prod-eu` begin: one environment or profile reaches another.",
    mend="Write the names out, or ask for a tag (aws:ResourceTag).",
)
def beginning_of_names(template: Template) -> Iterator[Found]:
    for resource, statement in template.statements():
        begun = [place for place in _resources(statement) if _BEGINNING.fullmatch(place)]
        if begun and not _asks(statement, "ResourceTag/"):
            yield found(resource, f"{_actions(statement)[0]} on {begun[0]}", "write the names out, or ask for a tag")


def allows(statement: Block, action: str) -> bool:
    """True when a statement's actions reach this one."""
    return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in _actions(statement))


def _resource_statements(template: Template) -> Iterator[tuple[Resource, Block]]:
    """Every Allow of a policy that stands at a bucket, a queue, a topic, a key or a secret."""
    for resource in template.of(*_POLICY_OF):
        for statement in listed(_document(resource.properties.get(_POLICY_OF[resource.type])), "Statement"):
            if isinstance(statement, dict) and statement.get("Effect") == "Allow":
                yield resource, statement


def _document(value: object) -> Block:
    """A policy as a map; CloudFormation also takes it as text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _deputies(statement: Block) -> list[str]:
    """Services of a principal that act for whoever asks them."""
    principal = statement.get("Principal")
    services = [text(one) for one in listed(principal, "Service")] if isinstance(principal, dict) else []
    return [one for one in services if one.partition(".amazonaws.com")[0] in _DEPUTIES]


def _asks(statement: Block, key: str) -> bool:
    """True when a condition of the statement has a key with this in it, in any case."""
    conditions = statement.get("Condition") or {}
    return any(str(name).lower().find(key.lower()) >= 0 for keys in conditions.values() for name in keys)


def _actions(statement: Block) -> list[str]:
    return [str(action) for action in listed(statement, "Action")]


def _resources(statement: Block) -> list[str]:
    return [text(place) for place in listed(statement, "Resource")]
