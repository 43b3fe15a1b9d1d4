"""What Systems Manager refuses of parameters beyond its service model."""

from __future__ import annotations

import re
from typing import Final

from loadproof.localcloud.refusals.keys import key_of
from loadproof.localcloud.refusals.rules import Rule, check_tags, moto_of, require
from loadproof.localcloud.wire import Caller, Params

_INVALID: Final = "ValidationException"
_NAME: Final = re.compile(r"[\w.\-/]+", re.ASCII)
_MOST_LEVELS: Final = 15
# Systems Manager user guide, "Managing parameter tiers": bytes of a value.
_MOST_BYTES: Final = {"Standard": 4096, "Advanced": 8192, "Intelligent-Tiering": 8192}


def _put(caller: Caller, params: Params) -> None:
    name, value = params["Name"], params["Value"]
    message = (
        'Parameter name: can\'t be prefixed with "ssm" (case-insensitive). If formed as a path, it can consist of '
        "sub-paths divided by slash symbol; each sub-path can be formed as a mix of letters, numbers and the "
        "following 3 symbols .-_"
    )
    require(_NAME.fullmatch(name), _INVALID, message)
    whole = "//" not in name and ("/" not in name or name.startswith("/"))
    require(whole, _INVALID, "Parameter name must be a fully qualified name.")
    levels = name.strip("/").count("/") + 1
    message = f"The hierarchy has {levels} levels; at most {_MOST_LEVELS} are allowed."
    require(levels <= _MOST_LEVELS, "HierarchyLevelLimitExceededException", message)
    tier = params.get("Tier") or "Standard"
    message = (
        f"Standard tier parameters support a maximum parameter value of {_MOST_BYTES['Standard']} characters. To "
        "create a larger parameter value, upgrade the parameter to use the advanced-parameter tier."
    )
    require(len(value.encode()) <= _MOST_BYTES[tier], _INVALID, message)
    kept = moto_of("ssm", caller)._parameters  # moto leaves a single slash out
    known = kept.get(name) or kept.get(name.lstrip("/"))
    message = "You can't downgrade a parameter from the advanced-parameter tier to the standard-parameter tier."
    lower = params.get("Tier") == "Standard" and known and known[-1].tier == "Advanced"
    require(not lower, _INVALID, message)
    other = bool(known and params.get("Type") and params["Type"] != known[-1].parameter_type)
    message = "The parameter type can't be changed: delete the parameter and create it with the type that you want."
    require(not (other and params.get("Overwrite")), "HierarchyTypeMismatchException", message)
    nested = "{{" in value and "}}" in value
    require(not nested, _INVALID, 'Parameter value can\'t nest another parameter. Do not use "{{}}" in the value.')
    message = "Parameter policies are only supported for parameters of the advanced tier."
    require(not params.get("Policies") or tier != "Standard", _INVALID, message)
    key = params.get("KeyId")
    if key and params.get("Type") == "SecureString" and not key.startswith(("arn:", "alias/aws/")):
        require(key_of(caller, key) is not None, "InvalidKeyId", f"Invalid keyId {key}")
    pattern = params.get("AllowedPattern")
    if pattern:
        message = f"Parameter value, cannot be validated against allowedPattern: {pattern}"
        require(_matches(pattern, value), "ParameterPatternMismatchException", message)
    check_tags([tag["Key"] for tag in params.get("Tags") or []], _INVALID)


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:
        require(False, "InvalidAllowedPatternException", f"The pattern {pattern} is not a valid regular expression.")
        return False


def _by_path(caller: Caller, params: Params) -> None:
    require(params["Path"].startswith("/"), _INVALID, 'The parameter path must begin with a forward slash "/".')


def _tag(caller: Caller, params: Params) -> None:
    kept = moto_of("ssm", caller)._resource_tags.get(params["ResourceType"], {}).get(params["ResourceId"], {})
    check_tags([tag["Key"] for tag in params["Tags"]], _INVALID, most="TooManyTagsError", kept=kept)


RULES: dict[str, Rule] = {"PutParameter": _put, "GetParametersByPath": _by_path, "AddTagsToResource": _tag}
