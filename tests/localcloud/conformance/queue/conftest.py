"""SQS to state facts about: the local one, moto's for comparison, or that of an AWS account of yours.

    LOADPROOF_CONFORMANCE_AWS=1 python -m pytest tests/localcloud/conformance/queue

On AWS it makes and removes a few queues and sends some hundred messages; credentials and region come from the usual
places. What moto is known to do otherwise is listed in MOTO_DIFFERS, and fails here when moto mends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

AWS = os.environ.get("LOADPROOF_CONFORMANCE_AWS") == "1"
PATIENCE_S = 2 if AWS else 0  # of a receive: AWS spreads a message over its machines
SERVICES = ["aws"] if AWS else ["loadproof", "moto"]

# Facts that moto 5.2.5 does not hold, with what it does instead.
MOTO_DIFFERS = {
    "test_a_stale_receipt_deletes_nothing": "every receipt ever given out deletes",
    "test_a_late_heartbeat_hides_nothing": "the message is hidden again",
    "test_a_deleted_messages_visibility_cannot_change": "another code",
    "test_text_that_is_no_receipt_is_refused": "another text",
    "test_characters_outside_of_xml_are_refused": "accepted",
    "test_an_empty_body_is_missing": "accepted",
    "test_attributes_count_towards_the_size": "only the body counts",
    "test_a_batchs_entries_succeed_and_fail_for_themselves": "a bad character is accepted",
    "test_dead_letters_keep_their_past": "no DeadLetterQueueSourceArn",
    "test_dead_letters_are_redriven_as_new_messages": "no redrive: status 500",
    "test_a_redrive_has_a_rate_and_can_be_cancelled": "no redrive: status 500",
    "test_only_dead_letter_queues_can_be_redriven": "no redrive: status 500",
    "test_a_task_that_does_not_exist": "no redrive: status 500",
    "test_redrive_policies_that_are_refused": "other codes",
    "test_a_deleted_queues_name_is_not_free_at_once": "free at once",
    "test_a_queue_is_made_again_only_with_the_same_attributes": "the text does not name the attribute",
    "test_numbers_out_of_their_bounds": "other texts",
    "test_attributes_of_a_queue_that_are_refused": "accepted",
    "test_a_queue_encrypts_by_itself_and_with_one_kind_of_key": "both kinds of key are accepted",
    "test_message_attributes_that_are_refused": "accepted",
}

_MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fact = getattr(item, "originalname", "")
        if "[moto" in item.name and fact in MOTO_DIFFERS:
            item.add_marker(pytest.mark.xfail(reason=MOTO_DIFFERS[fact], strict=True))


@pytest.fixture(scope="session", params=SERVICES)
def sqs(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A boto3 client of each service under test."""
    if request.param == "aws":
        yield boto3.client("sqs")
    elif request.param == "loadproof":
        from loadproof.localcloud.queue.sqs.server import running

        with running(name_reuse_s=60.0) as server:
            yield _client(server.endpoint_url)
    else:
        with moto_running() as url:
            yield _client(url)


@contextlib.contextmanager
def moto_running() -> Iterator[str]:
    """moto in a process of its own, as it is: what the local cloud changes of it lies in this one."""
    process = subprocess.Popen([sys.executable, "-c", _MOTO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://localhost:{process.stdout.readline().strip()}"
    finally:
        process.communicate()  # its input ends, and so does it


def _client(endpoint_url: str) -> Any:
    return boto3.session.Session().client(
        "sqs",
        region_name="us-east-1",
        endpoint_url=endpoint_url,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
    )


class QueueMaker:
    """Queues that are removed after the test."""

    def __init__(self, sqs: Any) -> None:
        self._sqs = sqs
        self.urls: list[str] = []

    def __call__(self, **attributes: object) -> str:
        """The URL of a new queue; dictionaries become JSON."""
        texts = {
            name: json.dumps(value) if isinstance(value, dict) else str(value) for name, value in attributes.items()
        }
        url: str = self._sqs.create_queue(QueueName=f"loadproof-fact-{uuid.uuid4().hex[:12]}", Attributes=texts)[
            "QueueUrl"
        ]
        self.urls.append(url)
        return url

    def arn(self, url: str) -> str:
        found = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(found["Attributes"]["QueueArn"])

    def with_dead_letters(self, most_receives: int, **attributes: object) -> tuple[str, str]:
        """A queue and its dead-letter queue."""
        dead = self()
        redrive = {"deadLetterTargetArn": self.arn(dead), "maxReceiveCount": most_receives}
        return self(RedrivePolicy=redrive, **attributes), dead


@pytest.fixture
def queue(sqs: Any) -> Iterator[QueueMaker]:
    maker = QueueMaker(sqs)
    yield maker
    for url in maker.urls:
        sqs.delete_queue(QueueUrl=url)


@pytest.fixture
def receive(sqs: Any) -> Callable[..., list[dict[str, Any]]]:
    """Messages of a queue with all their attributes."""

    def messages(url: str, **options: Any) -> list[dict[str, Any]]:
        wish = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": PATIENCE_S, **options}
        found = sqs.receive_message(QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"], **wish)
        received: list[dict[str, Any]] = found.get("Messages", [])
        return received

    return messages
