"""What a function sees of a batch, and what its answer means."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadproof.localcloud.queue.events import done, sqs_event

ARN = "arn:aws:sqs:eu-west-1:123456789012:jobs"
MESSAGES = [{"MessageId": name, "ReceiptHandle": f"r-{name}", "Body": "{}"} for name in ("a", "b", "c")]


def test_a_record_has_the_fields_and_cases_lambda_uses() -> None:
    """Receipt handle, attributes, typed message attributes, source ARN and region, in camel case."""
    message = {
        "MessageId": "m1",
        "ReceiptHandle": "r1",
        "Body": "hello",
        "MD5OfBody": "5d41402abc4b2a76b9719d911017c592",
        "Attributes": {"ApproximateReceiveCount": "2"},
        "MessageAttributes": {"key": {"StringValue": "v", "DataType": "String"}},
    }
    (record,) = sqs_event([message], ARN)["Records"]
    assert record == {
        "messageId": "m1",
        "receiptHandle": "r1",
        "body": "hello",
        "md5OfBody": "5d41402abc4b2a76b9719d911017c592",
        "attributes": {"ApproximateReceiveCount": "2"},
        "messageAttributes": {
            "key": {"stringListValues": [], "binaryListValues": [], "stringValue": "v", "dataType": "String"}
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": ARN,
        "awsRegion": "eu-west-1",
    }


def test_a_reported_failure_keeps_only_its_message() -> None:
    """b failed: a and c are deleted."""
    answer = {"batchItemFailures": [{"itemIdentifier": "b"}]}
    assert [m["MessageId"] for m in done(MESSAGES, answer, report_failures=True)] == ["a", "c"]


def test_without_the_response_type_the_answer_is_ignored() -> None:
    """A mapping without ReportBatchItemFailures deletes the whole batch on any normal return."""
    answer = {"batchItemFailures": [{"itemIdentifier": "b"}]}
    assert done(MESSAGES, answer, report_failures=False) == MESSAGES


def test_empty_answers_are_success() -> None:
    """null, {}, an empty or null list: all is done."""
    for answer in (None, {}, {"batchItemFailures": []}, {"batchItemFailures": None}):
        assert done(MESSAGES, answer, report_failures=True) == MESSAGES


def test_malformed_answers_fail_the_whole_batch() -> None:
    """An unknown or empty identifier, a wrong key name, no list, no object: nothing is deleted."""
    for answer in (
        {"batchItemFailures": [{"itemIdentifier": "x"}]},
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"id": "a"}]},
        {"batchItemFailures": ["a"]},
        {"batchItemFailures": "a"},
        "done",
    ):
        assert done(MESSAGES, answer, report_failures=True) == [], answer


@given(st.recursive(st.none() | st.text() | st.integers(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)))
def test_no_answer_deletes_a_message_it_names_as_failed(answer: object) -> None:
    """Whatever a handler returns, the deleted messages are all or none of the batch, and never an exception."""
    assert done(MESSAGES, answer, report_failures=True) in (MESSAGES, [])
