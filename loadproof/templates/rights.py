"""Rules about rights: who may do what, to what (LS0xx).

IAM compares actions without regard to case and takes `*` and `?` anywhere in them, so that is how they are read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from loadproof.errors import Severity
from loadproof.templates.actions import BOUND_BY, BROAD_POLICIES, ESCALATING, running_roles
from loadproof.templates.policies import Statement, holders, of_template, statements
from loadproof.templates.rule import Found, found, rule
from loadproof.templates.template import UNKNOWN, Template, at, leaves, text

_INVOKING: Final = (
    *("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointAsync", "sagemaker:InvokeEndpointWithResponseStream"),
    "sagemaker:InvokeEndpointWithBidirectionalStream",
)
_MANAGED: Final = {
    "AWS::IAM::Group": "ManagedPolicyArns",
    "AWS::IAM::Role": "ManagedPolicyArns",
    "AWS::IAM::User": "ManagedPolicyArns",
    "AWS::SSO::PermissionSet": "ManagedPolicies",
    "AWS::Serverless::Function": "Policies",
}
# A key that its account may not do everything with can be lost for good; an endpoint's policy gives no right.
_MAY_SAY_ALL: Final = ("AWS::EC2::VPCEndpoint", "AWS::KMS::Key", "AWS::KMS::ReplicaKey")
_BROAD: Final = re.compile(BROAD_POLICIES)
# What AWS's service authorization reference lists without a resource type, or what is asked for before there is a name.
_NAMELESS: Final = re.compile(
    r"""application-autoscaling:Describe\w+
      | cloudwatch:(?:PutMetricData|GetMetricData|ListMetrics)
      | ec2:(?:Describe\w+|CreateNetworkInterface|DeleteNetworkInterface(?:Permission)?
             |(?:Una|A)ssignPrivateIpAddresses)
      | ecr:GetAuthorizationToken
      | logs:(?:(?:Create|Get|Update|Delete)LogDelivery|ListLogDeliveries|PutResourcePolicy|Describe\w+)
      | sagemaker:List\w+ | servicequotas:(?:Get|List)\w+ | xray:(?:PutTraceSegments|PutTelemetryRecords|GetSampling\w+)
    """,
    re.VERBOSE,
)
_ANY_NAME: Final = re.compile(r"(?:[\w-]+[/:])?[*?]+(?:[/:].*)?")
_KIND: Final = re.compile(r"\*\.[A-Za-z0-9]+")  # of files
# Whose names hold slashes: what stands before one is a beginning of names as any other.
_TREE: Final = re.compile(r"arn:[^:]*:(?:logs|secretsmanager|ssm):[^:]*:[^:]*:[\w-]+[:/]([^:]+)")
# Ends of a name that no other name has: a hash before them, and what Secrets Manager adds to an ARN.
_OWN_END: Final = re.compile(r"-(?:[0-9a-f]{8}-\*|\?{6})\Z")
_WRITES: Final = (
    *("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload", "s3:PutObjectAcl"),
    *("s3:PutObjectTagging", "s3:ReplicateDelete", "s3:ReplicateObject", "s3:RestoreObject"),
)
_READS: Final = ("s3:GetObject", "s3:GetObjectVersion")
_BUCKET: Final = re.compile(r"arn:[^:]*:s3:::([^/]+)")
# Buckets that AWS gives out data from, by names that it documents.
_OF_AWS: Final = re.compile(r"jumpstart-(?:private-)?cache-prod-.*|prod-.*-starport-layer-bucket")
_CODE_OF_CDK: Final = re.compile(r"cdk-[a-z0-9]+-assets-")
_TAGGED: Final = "ResourceTag/"


@rule(
    "LS007",
    "Right to invoke what is not named",
    reason="A caller could reach every endpoint of the account, and spend their instances.",
    mend="Name the endpoint and each of its components, or ask for a tag of theirs (aws:ResourceTag).",
)
def invokes_unnamed(template: Template) -> Iterator[Found]:
    for statement in statements(template, "identity"):
        action = next((one for one in _INVOKING if statement.allows(one)), None)
        wide = [place for place in statement.places if _is_wild(place)]
        if action and wide and not statement.asks(_TAGGED):
            message = f"{action} on {wide[0]}"
            yield found(statement.resource, message, "name the endpoint and its components, or ask for a tag")


@rule(
    "LS010",
    "Rights to everything of a service",
    reason="AmazonSageMakerFullAccess and its like let a container read every bucket and start every job.",
    mend="List the actions on the resources.",
)
def broad_rights(template: Template) -> Iterator[Found]:
    for resource in template.of(*_MANAGED):
        for policy in at(resource.properties, _MANAGED[resource.type]):
            name = text(policy).rpartition("/")[2]
            if _BROAD.fullmatch(name):
                yield found(resource, f"has {name}", "list the actions it needs")
    for statement in statements(template, "identity", "resource"):
        if statement.resource.type in _MAY_SAY_ALL:
            continue
        wide = [action for action in statement.actions if _is_whole_service(action)]
        if wide or statement.is_inverted:
            message = f"allows {wide[0]}" if wide else "allows all but what it names"
            yield found(statement.resource, message, "list the actions on the resources")


@rule(
    "LS011",
    "Role that may be handed to any service",
    reason="Who may pass a role to any service may become that role.",
    mend="Name the role, and the one service in the condition iam:PassedToService.",
)
def passes_roles(template: Template) -> Iterator[Found]:
    for statement in statements(template, "identity"):
        if not statement.allows("iam:PassRole"):
            continue
        if not statement.asks("iam:PassedToService"):
            yield found(statement.resource, "iam:PassRole without iam:PassedToService", "name one service in it")
        if any(_is_wild(place) for place in statement.places):
            yield found(statement.resource, "iam:PassRole on roles that are not named", "name the role")


@rule(
    "LS012",
    "Right on every resource",
    reason="A right on `*` reaches what other teams own.",
    mend="Name the resources, or ask for a tag of theirs; `*` stays for actions that know no narrower one.",
)
def every_resource(template: Template) -> Iterator[Found]:
    for statement in statements(template, "identity"):
        wide = [place for place in statement.places if _names_nothing(place)]
        if not wide or statement.asks(_TAGGED, "ec2:Subnet", "ec2:Vpc"):
            continue
        for action in statement.actions:
            if _NAMELESS.fullmatch(action) is None:
                yield found(statement.resource, f"{action} on {wide[0]}", "name the resources")
            elif action == "cloudwatch:PutMetricData" and not statement.asks("cloudwatch:namespace"):
                message = f"{action} into every namespace"
                yield found(statement.resource, message, "add the condition cloudwatch:namespace")


@rule(
    "LS014",
    "Bucket that may be somebody else's",
    reason="Names of buckets are the world's: once a bucket is gone, or before it is made, another account can take "
    "its name, and prompts, answers, weights or code then go there or come from there.",
    mend="Add the condition aws:ResourceAccount, with every account that is meant.",
)
def squatted_bucket(template: Template) -> Iterator[Found]:
    own = {text(bucket.properties.get("BucketName")) for bucket in template.of("AWS::S3::Bucket")}
    for statement in statements(template, "identity"):
        named = (_BUCKET.match(place) for place in statement.places)
        buckets = [one[1] for one in named if one and UNKNOWN not in one[1] and one[1] not in own]
        theirs = [bucket for bucket in buckets if not _OF_AWS.fullmatch(bucket)]
        if not theirs or statement.asks("aws:ResourceAccount"):
            continue
        done = next((action for action in (*_WRITES, *_READS) if statement.allows(action)), None)
        code = next((bucket for bucket in theirs if _CODE_OF_CDK.match(bucket)), None)
        message = f"code from {code}" if code and done in _READS else f"{done} in {theirs[0]}"
        if done:
            yield found(statement.resource, f"{message}, whoever owns it", "add the condition aws:ResourceAccount")


@rule(
    "LS015",
    "Role that can raise its own rights",
    reason="Whoever may change policies, trusts or a function's code can give himself the rights of what he changes.",
    mend="Leave it to the deployment; a role of an endpoint needs none of it.",
)
def escalates(template: Template) -> Iterator[Found]:
    allowed = list(statements(template, "identity"))
    for statement in allowed:
        for effect, actions in ESCALATING.items():
            reached = [one for one in actions if statement.allows(one) and not statement.asks(*BOUND_BY.get(one, ()))]
            if reached:
                message = f"{reached[0]}{_more(reached)}: whoever has it {effect}"
                yield found(statement.resource, message, "take the action away")
        if statement.allows("sts:AssumeRole") and any(_is_wild(place) for place in statement.places):
            yield found(statement.resource, "sts:AssumeRole on roles that are not named", "name the role")
    yield from _runs_roles(template, allowed)


@rule(
    "LS017",
    "Right on a beginning of names",
    reason="`loadproof-prod-*` is also how the names of `prod-eu` begin, and `loadproof-prod?eu` is one of them: one "
    "environment or profile reaches another.",
    mend="Write the names out, or ask for a tag (aws:ResourceTag).",
)
def beginning_of_names(template: Template) -> Iterator[Found]:
    for statement in statements(template, "identity"):
        begun = [place for place in statement.places if _names_some(place)]
        if begun and not statement.asks(_TAGGED):
            action = next(iter(statement.actions), "all but what it names")
            message = f"{action} on {begun[0]}"
            # A branch of a tree may be one owner's; what AWS names itself is everybody's.
            severity: Severity = "warning" if all(map(_is_branch, begun)) else "error"
            yield Found(statement.resource.logical_id, message, "write the names out, or ask for a tag", severity)


def _runs_roles(template: Template, allowed: list[Statement]) -> Iterator[Found]:
    """A role that the template makes itself stands there with all its rights, which these rules judge."""
    held = holders(template)
    passing: set[str] = set()
    for statement in allowed:
        passed = list(leaves(statement.body.get("Resource")))
        is_judged = bool(passed) and all(of_template(one, template, "AWS::IAM::Role") for one in passed)
        if statement.allows("iam:PassRole") and not is_judged:
            passing |= held[statement.resource.logical_id]
    for statement in allowed:
        if passing & held[statement.resource.logical_id]:
            taking = [one for one in running_roles() if statement.allows(one)]
            if taking:
                message = f"{taking[0]}{_more(taking)} with iam:PassRole: runs its own code as that role"
                yield found(statement.resource, message, "take one away")


def _more(actions: list[str]) -> str:
    return f" and {len(actions) - 1} more" if len(actions) > 1 else ""


def _is_wild(place: str) -> bool:
    return "*" in place or "?" in place


def _names_some(place: str) -> bool:
    """True where a wildcard stands beside letters of a name: `prod-*`, `prod?eu`, `*-prod` are how others read, too.

    `*.zip` is a kind of file, and all of it; in the CDK's bucket it is everybody's code.
    """
    tree = _TREE.match(place)
    named = re.sub(r"\Aarn:[^:]*:", "", place)
    of_files = named.startswith("s3:") and _CODE_OF_CDK.search(named) is None
    parts = [_OWN_END.sub("", part) for part in (*re.split("[:/]", named), *([tree[1]] if tree else ()))]
    return any(_is_wild(part) and part.strip("*?/") and not (of_files and _KIND.fullmatch(part)) for part in parts)


def _is_branch(place: str) -> bool:
    """True for `prod/*` among names with slashes, other than `/aws/…/*`."""
    tree = _TREE.match(place)
    return tree is not None and tree[1].endswith("/*") and not tree[1].startswith("/aws/")


def _is_whole_service(action: str) -> bool:
    """True for `*`, `s3:*`, `iam:?*`, and for a wildcard in the service's own name."""
    service, colon, name = action.partition(":")
    return _is_wild(service) or (bool(colon) and not name.strip("*?"))


def _names_nothing(place: str) -> bool:
    """True for `*`, an ARN that ends early, any account, any name of a type, any bucket."""
    parts = place.split(":", 5)
    if not place.strip("*?") or len(parts) < 6:
        return _is_wild(place[-1:]) and (place.startswith("arn") or not place.strip("*?"))
    service, account, name = parts[2], parts[4], parts[5]
    if _is_wild(service) or _is_wild(account):
        return True
    if service == "s3":
        return not name.partition("/")[0].strip("*?")
    return service != "execute-api" and _ANY_NAME.fullmatch(name) is not None  # there an API's id stands first
