"""Which function a request names."""

from __future__ import annotations

import re
from typing import Any

from loadproof.localcloud.refusals.rules import moto_of, require
from loadproof.localcloud.wire import Caller, Params

INVALID, MISSING = "InvalidParameterValueException", "ResourceNotFoundException"
FUNCTION_ARN = re.compile(r"arn:aws[\w-]*:lambda:([\w-]+):(\d{12}):function:([\w-]+)(?::([\w$-]+))?")


def function(caller: Caller, reference: str, qualifier: str | None = None) -> Any:
    """moto's function, None when there is none; a reference to another region or another version is refused."""
    arn = FUNCTION_ARN.fullmatch(reference)
    name = reference.rsplit(":", maxsplit=1)[-1] if arn is None else arn[3]
    if arn is not None:
        message = f"Functions from '{arn[1]}' are not reachable in this region ('{caller.region}')"
        require(arn[1] == caller.region, MISSING, message, 404)
        if arn[4] and qualifier:
            message = "The derived qualifier from the function name does not match the specified qualifier."
            require(arn[4] == qualifier, INVALID, message)
    elif ":" in reference:
        name = reference.split(":", maxsplit=1)[0]
    try:
        return moto_of("lambda", caller).get_function(name)
    except Exception:  # moto's own answer says what is missing
        return None


def named(caller: Caller, params: Params) -> None:
    """Operations on one function: it must be of this region, and its two qualifiers must agree."""
    function(caller, params["FunctionName"], params.get("Qualifier"))


def check_revision(found: Any, params: Params) -> None:
    """A change may ask that the function, or its alias, is still the one that its caller saw."""
    message = (
        "The Revision Id provided does not match the latest Revision Id. Call the GetFunction/GetAlias API to retrieve "
        "the latest Revision Id"
    )
    latest = found.get_configuration()["RevisionId"] if found is not None else None
    require(params.get("RevisionId") in (None, latest), "PreconditionFailedException", message, 412)


def existing(caller: Caller, params: Params) -> Any:
    """The function. Raises AwsError where there is none."""
    found = function(caller, params["FunctionName"], params.get("Qualifier"))
    arn = caller.arn("lambda", f"function:{params['FunctionName'].split(':')[-1]}")
    require(found is not None, MISSING, f"Function not found: {arn}", 404)
    return found
