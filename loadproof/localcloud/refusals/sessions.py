"""What STS refuses beyond its service model."""

from __future__ import annotations

from moto.backends import get_backend

from loadproof.localcloud.refusals.rules import Rule, require
from loadproof.localcloud.wire import Caller, Params


def _assume(caller: Caller, params: Params) -> None:
    arn = params["RoleArn"]
    parts = arn.split(":")
    require(arn.startswith("arn:") and len(parts) == 6, "ValidationError", f"{arn} is invalid")
    known = get_backend("iam")[parts[4]]["aws"].roles.values() if parts[4] else ()
    longest = next((int(role.max_session_duration or 3600) for role in known if role.arn == arn), None)
    message = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
    require(longest is None or int(params.get("DurationSeconds") or 900) <= longest, "ValidationError", message)


RULES: dict[str, Rule] = {"AssumeRole": _assume}
