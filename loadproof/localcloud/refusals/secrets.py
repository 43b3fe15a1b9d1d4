"""What Secrets Manager refuses beyond its service model."""

from __future__ import annotations

import re
from typing import Final

from loadproof.localcloud.refusals.rules import Rule, check_tags, is_json_object, moto_of, require
from loadproof.localcloud.wire import Caller, Params

_NAME: Final = re.compile(r"[\w/+=.@!-]+", re.ASCII)


def _create(caller: Caller, params: Params) -> None:
    message = "Invalid name. Must be a valid name containing alphanumeric characters, or any of the following: -/_+=.@!"
    require(_NAME.fullmatch(params["Name"]), "ValidationException", message)
    _put(caller, params)
    check_tags([tag["Key"] for tag in params.get("Tags") or []], "InvalidParameterException")


def _change(caller: Caller, params: Params) -> None:
    _stays(caller, params)
    _put(caller, params)


def _put(caller: Caller, params: Params) -> None:
    both = params.get("SecretString") is not None and params.get("SecretBinary") is not None
    message = "You can't specify both a binary secret value and a string secret value in the same secret."
    require(not both, "InvalidParameterException", message)


def _policy(caller: Caller, params: Params) -> None:
    _stays(caller, params)
    known = is_json_object(params["ResourcePolicy"])
    require(known, "MalformedPolicyDocumentException", "This resource policy contains invalid Json")


def _rotate(caller: Caller, params: Params) -> None:
    _stays(caller, params)
    known = moto_of("secretsmanager", caller).secrets.get(params["SecretId"])
    rotated = known is None or params.get("RotationLambdaARN") or getattr(known, "rotation_lambda_arn", None)
    message = "No Lambda rotation function ARN is associated with this secret."
    require(rotated, "InvalidRequestException", message)


def _random(caller: Caller, params: Params) -> None:
    kinds = ("ExcludeLowercase", "ExcludeUppercase", "ExcludeNumbers", "ExcludePunctuation")
    message = "The password length or the characters that are left allow no password."
    require(not all(params.get(one) for one in kinds), "InvalidParameterException", message)


def _stays(caller: Caller, params: Params) -> None:
    """API reference, InvalidRequestException: the secret is scheduled for deletion."""
    known = moto_of("secretsmanager", caller).secrets.get(params["SecretId"])
    message = "You can't perform this operation on the secret because it was marked for deletion."
    require(known is None or not known.is_deleted(), "InvalidRequestException", message)


def _tag(caller: Caller, params: Params) -> None:
    _stays(caller, params)
    known = moto_of("secretsmanager", caller).secrets.get(params["SecretId"])
    kept = [one["Key"] for one in (known.tags if known is not None else None) or ()]
    check_tags([tag["Key"] for tag in params["Tags"]], "InvalidParameterException", kept=kept)


RULES: dict[str, Rule] = {
    "CreateSecret": _create,
    "PutSecretValue": _change,
    "UpdateSecret": _change,
    "PutResourcePolicy": _policy,
    "RotateSecret": _rotate,
    "GetRandomPassword": _random,
    "TagResource": _tag,
    **dict.fromkeys(("UntagResource", "DeleteResourcePolicy", "UpdateSecretVersionStage"), _stays),
}
