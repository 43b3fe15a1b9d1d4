"""A buffer on a local cloud, made by a small stack with a profile's outputs. Nobody consumes: tests answer by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from cloud_clients import boto3_client

from loadproof.invocation.buffer import DeadLetters, Places, Producer, places_of
from loadproof.localcloud.local import LocalCloud, running

STACK = "loadproof-dev-chat"
REVISION = "r1"
PROFILE = """\
name: chat
model:
  id: meta-llama/Llama-3.1-8B-Instruct
  source: {type: s3, s3_uri: "s3://example-models/llama/", accept_eula: true}
container: {family: tgi, version: 3.3.6, settings: {max_total_tokens: 4096}}
endpoint: {instance_type: ml.g6e.2xlarge, min_instances: 1, max_instances: 2}
copies: {min: 1, max: 2, memory_mib_per_copy: 16384}
workload: {input_tokens: 256, output_tokens: 64}
objectives: {at_concurrency: 4, e2e_p95_ms: 3000}
"""
BUFFER = "buffer: {max_concurrency: 10, batch_size: 2}\n"


def _template() -> dict[str, Any]:
    table = {
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    }
    values: dict[str, Any] = {
        "QueueUrl": {"Ref": "Queue"},
        "DeadLetterQueueUrl": {"Ref": "Dead"},
        "ClaimsTableName": {"Ref": "Claims"},
        "ResultsBucketName": {"Ref": "Results"},
        "ModelRevision": REVISION,
    }
    queue = {"QueueName": f"{STACK}-requests", "MaximumMessageSize": 2048}
    return {
        "Resources": {
            "Queue": {"Type": "AWS::SQS::Queue", "Properties": queue},
            "Dead": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": f"{STACK}-dead-letters"}},
            "Claims": {"Type": "AWS::DynamoDB::Table", "Properties": table},
            "Results": {"Type": "AWS::S3::Bucket"},
        },
        "Outputs": {name: {"Value": value} for name, value in values.items()},
    }


@dataclass(frozen=True)
class BufferCloud:
    """The queue takes 2,048 bytes a message, so that few bytes pass its limit."""

    local: LocalCloud
    folder: Path
    _clients: dict[str, Any] = field(default_factory=dict)

    @property
    def profile(self) -> str:
        return str(self.folder / "dev" / "chat.yaml")

    @cached_property
    def places(self) -> Places:
        return places_of(STACK, region=self.local.region, endpoint_url=self.local.endpoint_url)

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = boto3_client(self.local, service, s3={"addressing_style": "path"})
        return self._clients[service]

    def producer(self) -> Producer:
        return Producer(self.places, sqs=self.client("sqs"), s3=self.client("s3"))

    def dead_letters(self) -> DeadLetters:
        clients = {service: self.client(service) for service in ("sqs", "s3", "dynamodb")}
        return DeadLetters(self.places, **clients)

    def received(self, *, dead: bool = False) -> list[dict[str, Any]]:
        """All that is visible in a queue, taken out of it."""
        sqs, places, found = self.client("sqs"), self.places, list[dict[str, Any]]()
        url = places.dead_letter_url if dead else places.queue_url
        asked = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
        while batch := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **asked).get("Messages"):
            for message in batch:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            found += batch
        return found

    def answer(self, key: str, text: str = "hello you") -> None:
        """What a consumer would store."""
        result = {"key": key, "answer": {"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}}
        self.client("s3").put_object(
            Bucket=self.places.bucket, Key=f"results/{key}.json", Body=json.dumps(result).encode()
        )

    def dead_letter(
        self, body: str, reason: str | None = "the model answered 400", attempts: int = 1, age_s: int = 90, **more: Any
    ) -> None:
        """A dead letter as the consumer sends it; without a reason as SQS moves it."""
        said = {"reason": reason, "attempts": attempts, "first_sent_ms": int((time.time() - age_s) * 1000)}
        attributes = {
            name: {"DataType": "String" if isinstance(value, str) else "Number", "StringValue": str(value)}
            for name, value in said.items()
        }
        told = {"MessageAttributes": attributes} if reason is not None else {}
        self.client("sqs").send_message(QueueUrl=self.places.dead_letter_url, MessageBody=body, **told, **more)

    def claim(self, key: str, **values: int | str) -> None:
        item = {name: {"N" if isinstance(value, int) else "S": str(value)} for name, value in values.items()}
        self.client("dynamodb").put_item(TableName=self.places.claims_table, Item={"id": {"S": key}, **item})

    def record(self, key: str) -> dict[str, Any]:
        table = self.places.claims_table
        return dict(self.client("dynamodb").get_item(TableName=table, Key={"id": {"S": key}}).get("Item", {}))


@contextmanager
def buffer_cloud(folder: Path, name: str = "buffer") -> Iterator[BufferCloud]:
    (folder / "dev").mkdir()
    (folder / "dev" / "environment.yaml").write_text('account: "123456789012"\nregion: us-east-1\n', "utf-8")
    (folder / "dev" / "chat.yaml").write_text(PROFILE + BUFFER, "utf-8")
    (folder / "dev" / "plain.yaml").write_text(PROFILE.replace("name: chat", "name: plain"), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADPROOF_STATE_DIR", str(folder))
        with running(name, transition_s=0.05) as local:
            for variable, value in local.environment().items():
                patch.setenv(variable, value)
            cloud = BufferCloud(local, folder)
            cloudformation = cloud.client("cloudformation")
            cloudformation.create_stack(StackName=STACK, TemplateBody=json.dumps(_template()))
            patience_s = time.monotonic() + 120
            while cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]["StackStatus"] != "CREATE_COMPLETE":
                assert time.monotonic() < patience_s, cloudformation.describe_stack_events(StackName=STACK)
                time.sleep(0.05)
            yield cloud
