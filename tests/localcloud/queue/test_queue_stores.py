"""Conditional writes of the local cloud, on which claims and results of a queue's consumers rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

Aws = Callable[[str], Any]
RIVALS = 8


def winners(write: Callable[[int], object]) -> list[int]:
    """Those of eight rivals, at once, whose conditional write was let through."""

    def attempt(rival: int) -> int | None:
        try:
            write(rival)
        except ClientError as error:
            assert error.response["Error"]["Code"] in ("ConditionalCheckFailedException", "PreconditionFailed")
            return None
        return rival

    with ThreadPoolExecutor(RIVALS) as pool:
        return [rival for rival in pool.map(attempt, range(RIVALS)) if rival is not None]


@pytest.fixture(scope="module")
def table(aws: Aws) -> str:
    aws("dynamodb").create_table(
        TableName="claims",
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return "claims"


def claim(aws: Aws, table: str, key: str, owner: str) -> Any:
    return aws("dynamodb").update_item(
        TableName=table,
        Key={"key": {"S": key}},
        UpdateExpression="SET #owner = :owner",
        ConditionExpression="attribute_not_exists(#key)",
        ExpressionAttributeNames={"#owner": "owner", "#key": "key"},
        ExpressionAttributeValues={":owner": {"S": owner}},
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    )


def test_of_rivals_for_one_record_exactly_one_wins(aws: Aws, table: str) -> None:
    """Twelve rounds of eight conditional updates at once: one winner each, and the record is the winner's."""
    for number in range(12):
        (winner,) = winners(lambda rival, key=f"k{number}": claim(aws, table, key, str(rival)))  # type: ignore[misc]
        found = aws("dynamodb").get_item(TableName=table, Key={"key": {"S": f"k{number}"}}, ConsistentRead=True)
        assert found["Item"]["owner"] == {"S": str(winner)}


def test_who_loses_is_told_who_won(aws: Aws, table: str) -> None:
    """The record as it stands comes with the refusal."""
    claim(aws, table, "told", "first")
    with pytest.raises(ClientError) as caught:
        claim(aws, table, "told", "second")
    assert caught.value.response["Item"] == {"key": {"S": "told"}, "owner": {"S": "first"}}


def test_of_rivals_for_one_object_exactly_one_wins(aws: Aws) -> None:
    """If-None-Match: * lets one of eight through, twelve times, and the object is the winner's."""
    s3 = aws("s3")
    s3.create_bucket(Bucket="rivals")
    for number in range(12):
        (winner,) = winners(
            lambda rival, key=f"k{number}": s3.put_object(  # type: ignore[misc]
                Bucket="rivals", Key=key, Body=str(rival).encode(), IfNoneMatch="*"
            )
        )
        assert s3.get_object(Bucket="rivals", Key=f"k{number}")["Body"].read() == str(winner).encode()


def test_a_table_is_as_its_template_says(aws: Aws) -> None:
    """On demand, expiring by an attribute, encrypted with KMS, recoverable to a point in time, tagged."""
    properties = {
        "TableName": "from-a-template",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "TimeToLiveSpecification": {"AttributeName": "expires_s", "Enabled": True},
        "SSESpecification": {"SSEEnabled": True},
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "Tags": [{"Key": "team", "Value": "ml"}],
    }
    template = {"Resources": {"Table": {"Type": "AWS::DynamoDB::Table", "Properties": properties}}}
    cfn, dynamodb = aws("cloudformation"), aws("dynamodb")
    cfn.create_stack(StackName="table-stack", TemplateBody=json.dumps(template))
    cfn.get_waiter("stack_create_complete").wait(
        StackName="table-stack", WaiterConfig={"Delay": 0.1, "MaxAttempts": 1200}
    )
    table = dynamodb.describe_table(TableName="from-a-template")["Table"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert table["SSEDescription"]["SSEType"] == "KMS"
    expiry = dynamodb.describe_time_to_live(TableName="from-a-template")["TimeToLiveDescription"]
    assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_s"}
    backups = dynamodb.describe_continuous_backups(TableName="from-a-template")["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    assert {"Key": "team", "Value": "ml"} in dynamodb.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]
