"""What CloudWatch Logs refuses beyond its service model."""

from __future__ import annotations

from loadproof.localcloud.refusals.insights import query_fault
from loadproof.localcloud.refusals.keys import key_of
from loadproof.localcloud.refusals.rules import Moto, Rule, check_tags, is_json_object, moto_of, require
from loadproof.localcloud.wire import Caller, Params
from loadproof.wire.documents import Document

_INVALID = "InvalidParameterException"
# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
_DAYS = {
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
}  # fmt: skip


# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html
_MOST_BYTES, _BYTES_BESIDE, _MOST_SPAN_MS = 1_048_576, 26, 86_400_000
_MOST_DIMENSIONS = 3


def _group(caller: Caller, params: Params) -> Moto:
    return moto_of("logs", caller).groups.get(str(params.get("logGroupName")))


def _existing(caller: Caller, params: Params) -> Moto:
    found = _group(caller, params)
    require(found is not None, "ResourceNotFoundException", "The specified log group does not exist.")
    return found


def _create(caller: Caller, params: Params) -> None:
    reserved = params["logGroupName"].startswith("aws/")
    require(not reserved, _INVALID, "Log groups starting with AWS/ are reserved for AWS.")
    check_tags(params.get("tags") or {}, _INVALID)
    _check_key(caller, params)


def _check_key(caller: Caller, params: Params) -> None:
    """A group's key must be there, be on, and be symmetric; of keys of other accounts this cannot be told."""
    arn = params.get("kmsKeyId")
    require(arn is None or arn.startswith("arn:"), _INVALID, "Specified kmsKeyId is no ARN of a KMS key.")
    if arn is None or f":{caller.account}:" not in arn:
        return
    found = key_of(caller, arn)
    fits = found is not None and found.key_state == "Enabled" and found.key_spec == "SYMMETRIC_DEFAULT"
    message = "The specified KMS Key Id could not be found, is disabled, or is no symmetric key."
    require(fits, _INVALID, message)


def _retain(caller: Caller, params: Params) -> None:
    days = params["retentionInDays"]
    valid = ", ".join(str(one) for one in sorted(_DAYS))
    message = (
        f"1 validation error detected: Value '{days}' at 'retentionInDays' failed to satisfy constraint: Member must "
        f"satisfy enum value set: [{valid}]"
    )
    require(days in _DAYS, _INVALID, message)


def _put(caller: Caller, params: Params) -> None:
    events = params["logEvents"]
    size = sum(len(event["message"].encode()) + _BYTES_BESIDE for event in events)
    require(size <= _MOST_BYTES, _INVALID, f"Upload too large: {size} bytes exceeds limit of {_MOST_BYTES}")
    times = [event["timestamp"] for event in events]
    message = "Log events in a single PutLogEvents request must be in chronological order."
    require(times == sorted(times), _INVALID, message)
    message = "The batch of log events in a single PutLogEvents request cannot span more than 24 hours."
    require(times[-1] - times[0] <= _MOST_SPAN_MS, _INVALID, message)


def _filter(caller: Caller, params: Params) -> None:
    _existing(caller, params)
    pattern = params["filterPattern"].strip()
    closed = all(pattern.endswith(end) for begin, end in ("{}", "[]") if pattern.startswith(begin))
    require(closed and pattern.count('"') % 2 == 0, _INVALID, "Invalid metric filter pattern")
    for one in params["metricTransformations"]:
        dimensions = one.get("dimensions") or {}
        require(len(dimensions) <= _MOST_DIMENSIONS, _INVALID, "A metric filter has at most three dimensions.")
        message = "Invalid metric transformation: dimensions and default value are mutually exclusive properties."
        require(not dimensions or "defaultValue" not in one, _INVALID, message)


def _delete_filter(caller: Caller, params: Params) -> None:
    _existing(caller, params)
    known = {one["filterName"] for one in _filters(caller) if one["logGroupName"] == params["logGroupName"]}
    message = "The specified metric filter does not exist."
    require(params["filterName"] in known, "ResourceNotFoundException", message)


def _filters(caller: Caller) -> list[Document]:
    return list(moto_of("logs", caller).filters.metric_filters)


def _search(caller: Caller, params: Params) -> None:
    _not_both(params, "logStreamNames", "logStreamNamePrefix")


def _groups(caller: Caller, params: Params) -> None:
    _not_both(params, "logGroupNamePrefix", "logGroupNamePattern")


def _not_both(params: Params, one: str, other: str) -> None:
    both = params.get(one) is not None and params.get(other) is not None
    require(not both, _INVALID, f"{one} and {other} are mutually exclusive parameters.")


def _policy(caller: Caller, params: Params) -> None:
    known = is_json_object(params["policyDocument"])
    require(known, _INVALID, "Resource policy document is not valid JSON.")


def _subscription(caller: Caller, params: Params) -> None:
    arn = params["destinationArn"]
    require(arn.startswith("arn:"), _INVALID, f"destinationArn {arn} is no ARN of a destination.")


def _query(caller: Caller, params: Params) -> None:
    """StartQuery: one way to name groups, an end after the start, a query that can be read."""
    ways = [one for one in ("logGroupName", "logGroupNames", "logGroupIdentifiers") if params.get(one)]
    require(len(ways) <= 1, _INVALID, f"{' and '.join(ways)} are mutually exclusive parameters.")
    message = "The query's end time must not be before its start time."
    require(params["startTime"] <= params["endTime"], _INVALID, message)
    fault = query_fault(params["queryString"]) if params.get("queryLanguage", "CWLI") == "CWLI" else None
    require(fault is None, "MalformedQueryException", f"{fault} in the query {params['queryString']}")


def _export(caller: Caller, params: Params) -> None:
    message = (
        "The specified time range is not valid. Make sure that the value for 'from' time is less than or equal to the "
        "value for 'to' time."
    )
    require(params["from"] <= params["to"], _INVALID, message)


def _tag(caller: Caller, params: Params) -> None:
    _check_count(caller, params["resourceArn"].removesuffix(":*"), params, "TooManyTagsException")


def _tag_group(caller: Caller, params: Params) -> None:
    _check_count(caller, _existing(caller, params).arn, params, _INVALID)


def _check_count(caller: Caller, arn: str, params: Params, most: str) -> None:
    kept = moto_of("logs", caller).tagger.get_tag_dict_for_resource(arn)
    check_tags(params["tags"], _INVALID, most=most, kept=kept)


RULES: dict[str, Rule] = {
    "CreateLogGroup": _create,
    "AssociateKmsKey": _check_key,
    "PutRetentionPolicy": _retain,
    "PutLogEvents": _put,
    "PutMetricFilter": _filter,
    "PutSubscriptionFilter": _subscription,
    "DeleteMetricFilter": _delete_filter,
    "FilterLogEvents": _search,
    "DescribeLogGroups": _groups,
    "PutResourcePolicy": _policy,
    "StartQuery": _query,
    "CreateExportTask": _export,
    "TagResource": _tag,
    "TagLogGroup": _tag_group,
}
