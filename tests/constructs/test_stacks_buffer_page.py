"""docs/buffer.md: its profile is checked without a finding, deployed to the local cloud, and answers what is queued."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from stacks_cloud import local_cloud

from loadproof.profiles import check_file, load_profile

PAGE = Path(__file__).parents[2] / "docs" / "buffer.md"
TEXT = PAGE.read_text(encoding="utf-8")
((NAME, PROFILE),) = re.findall(r"^```yaml\n# deploy_profiles/dev/(\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / NAME
    file.write_text(PROFILE, encoding="utf-8")
    return file


def test_the_profile_has_no_finding(file: Path) -> None:
    """Neither errors nor warnings."""
    assert check_file(file).problems == ()


def test_the_profile_is_deployed_and_answers_what_is_queued(file: Path, tmp_path: Path) -> None:
    """By CloudFormation, SQS and Lambda as on AWS: one result under its key, one dead letter with its reason."""
    chosen = load_profile(file)
    with local_cloud(tmp_path / "state", "buffer-page") as cloud:
        assert cloud.deploy(chosen) == "CREATE_COMPLETE", cloud.reasons("loadproof-test-queued")
        (stack,) = cloud.client("cloudformation").describe_stacks(StackName="loadproof-test-queued")["Stacks"]
        places = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        sqs, s3 = cloud.client("sqs"), cloud.client("s3")
        request = {"prompt": "one two three", "max_tokens": 8}
        sqs.send_message(QueueUrl=places["QueueUrl"], MessageBody=json.dumps({"key": "order-17", "request": request}))
        sqs.send_message(QueueUrl=places["QueueUrl"], MessageBody=json.dumps({"question": "no request"}))
        patience_s = time.monotonic() + 120
        while not (found := s3.list_objects_v2(Bucket=places["ResultsBucketName"]).get("Contents")):
            assert time.monotonic() < patience_s, "no result came"
            time.sleep(0.2)
        assert [one["Key"] for one in found] == ["results/order-17.json"]
        result = json.loads(s3.get_object(Bucket=places["ResultsBucketName"], Key=found[0]["Key"])["Body"].read())
        assert result["answer"]["usage"]["completion_tokens"] == 8
        while not (
            dead := sqs.receive_message(
                QueueUrl=places["DeadLetterQueueUrl"], WaitTimeSeconds=1, MessageAttributeNames=["All"]
            ).get("Messages")
        ):
            assert time.monotonic() < patience_s, "no dead letter came"
        assert dead[0]["MessageAttributes"]["reason"]["StringValue"].startswith("1 unknown field(s)")
        claims = cloud.client("dynamodb")
        (done,) = claims.scan(TableName=places["ClaimsTableName"])["Items"]
        assert (done["id"]["S"], done["phase"]["S"]) == ("order-17", "done")


def test_the_page_names_every_metric() -> None:
    """What the consumer tells is what the page lists."""
    from loadproof.constructs.buffer.runtime.consumer.emf import UNITS

    assert [name for name in UNITS if f"`{name}`" not in TEXT] == []
