"""What AWS refuses of a request to create or change a stack, apart from its template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from moto.backends import get_backend

from loadproof.localcloud.account.roles import role_problem
from loadproof.localcloud.controlplane.cloudformation.template import Template, invalid, references
from loadproof.localcloud.wire import AwsError, Caller, Params

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")
_MOST_BODY, _MOST_VALUE = 51200, 4096
_TRIGGERS = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")


def check_name(name: str) -> None:
    """The name of a new stack."""
    if not _NAME.fullmatch(name):
        raise invalid(
            f"1 validation error detected: Value '{name}' at 'stackName' failed to satisfy constraint: Member "
            "must satisfy "
            "regular expression pattern: [a-zA-Z][-a-zA-Z0-9]*|arn:[-a-zA-Z0-9:/._+]*"
        )


def check_request(caller: Caller, params: Params) -> None:
    """All that does not need the template. Raises AwsError."""
    _check_body(params)
    if "OnFailure" in params and "DisableRollback" in params:
        raise invalid("You may not specify both OnFailure and DisableRollback.")
    for trigger in (params.get("RollbackConfiguration") or {}).get("RollbackTriggers") or ():
        if trigger.get("Type") not in _TRIGGERS:
            raise invalid("Rollback Trigger Type not supported")
    _check_role(caller, params.get("RoleARN"))
    for arn in params.get("NotificationARNs") or ():
        _check_topic(caller, arn)
    _check_tags(params.get("Tags") or [])
    for entry in params.get("Parameters") or ():
        if len(str(entry.get("ParameterValue", "")).encode()) > _MOST_VALUE:
            raise invalid(f"Parameter '{entry['ParameterKey']}' is longer than {_MOST_VALUE} bytes.")


def _check_body(params: Params) -> None:
    body = params.get("TemplateBody")
    sources = [name for name in ("TemplateBody", "TemplateURL", "UsePreviousTemplate") if params.get(name)]
    if len(sources) > 1:
        raise invalid("Specify exactly one of 'TemplateBody', 'TemplateUrl', and 'UsePreviousTemplate'.")
    if body is not None and len(body.encode()) > _MOST_BODY:
        raise invalid(
            f"1 validation error detected: Value '{body[:256]}...' at 'templateBody' failed to satisfy "
            "constraint: Member "
            f"must have length less than or equal to {_MOST_BODY}"
        )
    url = params.get("TemplateURL")
    if url and url.startswith("s3://"):
        raise invalid(f"S3 error: Domain name specified in {url[5:].split('/')[0]} is not a valid S3 domain")
    if url and not re.match(
        r"https?://([\w.-]*s3[\w.-]*\.amazonaws\.com|([\w.-]+\.)?localhost|127\.0\.0\.1|\[::1\])", url
    ):
        raise invalid("TemplateURL must be a supported URL.")


def _check_role(caller: Caller, arn: str | None) -> None:
    if arn is None:
        return
    if role_problem(caller.account, arn, "cloudformation.amazonaws.com"):
        raise invalid(f"Role {arn} is invalid or cannot be assumed")


def _check_topic(caller: Caller, arn: str) -> None:
    if arn not in get_backend("sns")[caller.account][caller.region].topics:
        raise invalid(f"Topic {arn} does not exist.")


def _check_tags(tags: list[Mapping[str, str]]) -> None:
    names = [tag["Key"] for tag in tags]
    if any(name.lower().startswith("aws:") for name in names):
        raise invalid("aws: prefixed tag key names are not allowed for external use.")
    if len(set(names)) != len(names):
        raise invalid("Template error: tag keys must be unique.")


# CloudFormation user guide, "Transform reference".
_TRANSFORMS = {
    "AWS::CodeDeployBlueGreen", "AWS::Include", "AWS::LanguageExtensions", "AWS::SecretsManager-2020-07-23",
    "AWS::SecretsManager-2024-09-16", "AWS::Serverless-2016-10-31", "AWS::ServiceCatalog",
}  # fmt: skip


def check_template(caller: Caller, params: Params, template: Template) -> None:
    """What the request says of the template's types and transforms."""
    _check_transforms(caller, params, template)
    allowed = params.get("ResourceTypes")
    for resource in template.resources.values():
        if allowed and not any(fnmatchcase(resource["Type"], one) for one in allowed):
            shown = ", ".join(allowed)
            raise invalid(f"Resource type {resource['Type']} is not allowed by parameter ResourceTypes [{shown}]")


def _check_transforms(caller: Caller, params: Params, template: Template) -> None:
    transforms = template.document.get("Transform", [])
    named = [str(one) for one in (transforms if isinstance(transforms, list) else [transforms])]
    if named and "CAPABILITY_AUTO_EXPAND" not in (params.get("Capabilities") or ()):
        raise AwsError("InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_AUTO_EXPAND]")
    for name in named:
        if name not in _TRANSFORMS:
            raise invalid(
                f"No transform named {name if name.startswith('AWS::') else f'{caller.account}::{name}'} found."
            )
        raise AwsError("UnsupportedOperation", f"The local cloud does not provide the transform {name} (AWS does).")


def active_references(value: Any, holds: Any) -> list[str]:
    """Names that Ref, GetAtt and Sub mention where conditions let them be; `holds(condition)` says which do."""
    if isinstance(value, list):
        return [name for inner in value for name in active_references(inner, holds)]
    if not isinstance(value, dict):
        return []
    if len(value) == 1:
        name, argument = next(iter(value.items()))
        if name == "Ref":
            return [str(argument)]
        if name == "Fn::GetAtt":
            return [str(argument[0] if isinstance(argument, list) else argument).split(".")[0]]
        if name == "Fn::Sub":
            text, given = (argument, {}) if isinstance(argument, str) else argument
            named = references({name: [text, dict.fromkeys(given, "")]})
            return [*named, *active_references(list(given.values()), holds)]
        if name == "Fn::If":
            return active_references(argument[1] if holds(argument[0]) else argument[2], holds)
    return [name for inner in value.values() for name in active_references(inner, holds)]
