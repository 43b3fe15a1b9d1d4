"""Custom resource: the account's quotas of a model, found by their names. Lambda runs this text inline."""

import json
import re
import time
import traceback
import urllib.request
from collections.abc import Iterator
from typing import Any


def handler(event: dict[str, Any], context: object) -> None:
    """Always answers CloudFormation. On the way back the old values hold, whatever the account says now."""
    given = event["ResourceProperties"]
    status, reason, data = "SUCCESS", "", {}
    try:
        if event["RequestType"] != "Delete":
            import boto3

            per_minute = quota_of(boto3.client("service-quotas"), given["Names"])
            data = {"PerMinute": per_minute, "AlarmAt": per_minute * float(given["Share"])}
    except Exception as error:
        traceback.print_exc()
        status, reason = "FAILED", str(error) or type(error).__name__
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer.update(Status=status, Reason=reason[:1000], PhysicalResourceId=event["LogicalResourceId"], Data=data)
    request = urllib.request.Request(
        event["ResponseURL"], json.dumps(answer).encode(), {"Content-Type": ""}, method="PUT"
    )
    urllib.request.urlopen(request, timeout=30).close()


def quota_of(quotas: Any, names: list[str]) -> float:
    """The value under any of the names: the account's own first, else AWS's default."""
    wanted = {comparable(name) for name in names}
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        for quota in patiently(quotas, operation):
            if comparable(quota["QuotaName"]) in wanted:
                return float(quota["Value"])
    raise LookupError(
        f"Service Quotas lists no quota of Bedrock named {' or '.join(names)}: AWS may have renamed it. Correct the "
        "model's title in loadproof/catalog/data/bedrock_models.csv, or write bedrock.quota_alarm_share: null"
    )


def comparable(name: str) -> str:
    """Letter case and a closing version tell nothing."""
    return re.sub(r" v\d+$", "", name.casefold().strip())


def patiently(quotas: Any, operation: str) -> Iterator[dict[str, Any]]:
    """Every quota of Bedrock. New rights may take a minute to hold."""
    from botocore.exceptions import ClientError

    for patience in range(12, -1, -1):
        try:
            pages = list(quotas.get_paginator(operation).paginate(ServiceCode="bedrock"))
            break
        except ClientError as error:
            if "AccessDenied" not in error.response["Error"]["Code"] or not patience:
                raise
            time.sleep(5)
    for page in pages:
        yield from page["Quotas"]
