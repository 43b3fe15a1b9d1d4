"""Rights that the caller does not have: the actions that an SSM parameter lists are answered by AccessDenied.

No policy is enforced here, so this is how a right that is missing is shown: of services that speak JSON or Query.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl

from loadproof.localcloud.wire import Caller, Reply

PARAMETER: Final = "/loadproof/local-cloud/denied"  # actions as IAM writes them, separated by commas
_PREFIXES: Final = {"monitoring": "cloudwatch"}  # where a service signs by another name than IAM has


def refusal(
    caller: Caller, service: str, target: str, body: bytes, parameter_value: Callable[[Caller, str], str | None]
) -> Reply | None:
    """AWS's answer to an action that is denied; None for all others."""
    if "moto.ssm.models" not in sys.modules:  # it takes a second to load, and nobody has set a parameter yet
        return None
    denied = parameter_value(caller, PARAMETER)
    if denied is None:
        return None
    operation = target.rpartition(".")[2] or dict(parse_qsl(body.decode(errors="replace"))).get("Action", "")
    action = f"{_PREFIXES.get(service, service)}:{operation}"
    if action not in {one.strip() for one in denied.split(",")}:
        return None
    message = f"User: arn:aws:iam::{caller.account}:root is not authorized to perform: {action}"
    if target:
        text = json.dumps({"__type": "AccessDeniedException", "message": message})
        return Reply(400, "application/x-amz-json-1.1", text.encode(), "denied")
    code = "UnauthorizedOperation" if service == "ec2" else "AccessDenied"
    one = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    xml = (
        f"<Response><Errors>{one}</Errors><RequestID>denied</RequestID></Response>"
        if service == "ec2"
        else f"<ErrorResponse>{one}<RequestId>denied</RequestId></ErrorResponse>"
    )
    return Reply(403, "text/xml", xml.encode(), "denied")
