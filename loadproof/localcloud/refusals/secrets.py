"""What Secrets Manager refuses beyond its service model."""

from __future__ import annotations

import re
from typing import Final

from loadproof.localcloud.refusals.rules import Rule, check_tags, require
from loadproof.localcloud.wire import Caller, Params

_NAME: Final = re.compile(r"[\w/+=.@!-]+", re.ASCII)


def _create(caller: Caller, params: Params) -> None:
    message = "Invalid name. Must be a valid name containing alphanumeric characters, or any of the following: -/_+=.@!"
    require(_NAME.fullmatch(params["Name"]), "ValidationException", message)
    _put(caller, params)
    check_tags([tag["Key"] for tag in params.get("Tags") or []], "InvalidParameterException")


def _put(caller: Caller, params: Params) -> None:
    both = params.get("SecretString") is not None and params.get("SecretBinary") is not None
    message = "You can't specify both a binary secret value and a string secret value in the same secret."
    require(not both, "InvalidParameterException", message)


RULES: dict[str, Rule] = {"CreateSecret": _create, "PutSecretValue": _put, "UpdateSecret": _put}
