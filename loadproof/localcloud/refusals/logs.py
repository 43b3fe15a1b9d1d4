"""What CloudWatch Logs refuses beyond its service model."""

from __future__ import annotations

from loadproof.localcloud.refusals.rules import Rule, check_tags, require
from loadproof.localcloud.wire import Caller, Params

_INVALID = "InvalidParameterException"
# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
_DAYS = {
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
}  # fmt: skip


def _create(caller: Caller, params: Params) -> None:
    check_tags(params.get("tags") or {}, _INVALID)


def _retain(caller: Caller, params: Params) -> None:
    days = params["retentionInDays"]
    valid = ", ".join(str(one) for one in sorted(_DAYS))
    message = (
        f"1 validation error detected: Value '{days}' at 'retentionInDays' failed to satisfy constraint: Member must "
        f"satisfy enum value set: [{valid}]"
    )
    require(days in _DAYS, _INVALID, message)


RULES: dict[str, Rule] = {"CreateLogGroup": _create, "PutRetentionPolicy": _retain}
