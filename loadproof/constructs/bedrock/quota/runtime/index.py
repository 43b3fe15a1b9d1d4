"""Custom resource: the account's quotas of a model, found by their names. Lambda runs this text inline."""

import re
from typing import Any

import boto3

from loadproof.wire.custom_resource import RefusedError, respond, with_retries


def handler(event: dict[str, Any], context: object) -> None:
    """On the way back the old values hold, whatever the account says now."""
    given = event["ResourceProperties"]

    def work() -> dict[str, object]:
        if event["RequestType"] == "Delete":
            return {}
        per_minute = quota_of(boto3.client("service-quotas"), given["Names"])
        return {"PerMinute": per_minute, "AlarmAt": per_minute * float(given["Share"])}

    respond(event, context, event["LogicalResourceId"], work, "the quotas could not be read")


def quota_of(quotas: Any, names: list[str]) -> float:
    """The value under any of the names: the account's own first, else AWS's default."""
    wanted = {comparable(name) for name in names}
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        for page in with_retries(lambda: list(quotas.get_paginator(operation).paginate(ServiceCode="bedrock"))):  # noqa: B023
            for quota in page["Quotas"]:
                if comparable(quota["QuotaName"]) in wanted:
                    return float(quota["Value"])
    raise RefusedError(
        f"Service Quotas lists no quota of Bedrock named {' or '.join(names)}: AWS may have renamed it. Correct the "
        "model's title in loadproof/catalog/data/bedrock_models.csv, or write bedrock.quota_alarm_share: null"
    )


def comparable(name: str) -> str:
    """Letter case and a closing version tell nothing."""
    return re.sub(r" v\d+$", "", name.casefold().strip())
