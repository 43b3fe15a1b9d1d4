"""The function's door: a batch from the queue in, the messages that must come back out."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Final

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.config import Config

from .worker import NeverError, RetryLaterError, Settings, Worker

_STORE_MARGIN_S: Final = 10.0  # kept back from the function's time, for the result and the report
_FIRST_PAUSE_S: Final = 60
_LONGEST_PAUSE_S: Final = 900

logger = Logger(service="loadproof-consumer")


def handler(event: dict[str, Any], context: Any) -> Any:
    """Lambda's entry point. A message that fails fails alone (ReportBatchItemFailures)."""
    # Not raised when all fail: each one is reported, and a raise would only add a crash to the metrics.
    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)

    def serve(record: SQSRecord) -> None:
        time_left_s = context.get_remaining_time_in_millis() / 1000 - _STORE_MARGIN_S
        _serve(record, time_left_s)

    return process_partial_response(event=event, record_handler=serve, processor=processor, context=context)


def _serve(record: SQSRecord, time_left_s: float) -> None:
    try:
        place = _worker().serve(record.body, message_id=record.message_id, time_left_s=time_left_s)
    except (RetryLaterError, NeverError) as error:
        pause_s = 0 if isinstance(error, NeverError) else pause_before_retry_s(_receives(record))
        logger.warning(
            "not answered",
            extra={"message_id": record.message_id, "reason": str(error), "back_in_s": pause_s},
        )
        _come_back_in(record, pause_s)
        raise
    logger.info("answered", extra={"message_id": record.message_id, "result": place})


def pause_before_retry_s(receives: int) -> int:
    """60, 120, 240 … 900 s: four pauses outlast an endpoint that starts from zero (about ten minutes)."""
    doublings = min(max(1, receives) - 1, 10)
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S << doublings)


def _come_back_in(record: SQSRecord, pause_s: int) -> None:
    """Without this the message stays hidden for the whole visibility timeout, six runs of the function long.

    A message that can never be answered comes back at once, and so reaches the dead-letter queue in seconds.
    """
    try:
        _sqs().change_message_visibility(
            QueueUrl=os.environ["QUEUE_URL"], ReceiptHandle=record.receipt_handle, VisibilityTimeout=pause_s
        )
    except Exception as error:  # the visibility timeout does the same, only later
        logger.warning("pause not set", extra={"message_id": record.message_id, "cause": type(error).__name__})


def _receives(record: SQSRecord) -> int:
    return int(record.attributes.approximate_receive_count or 1)


@cache
def _sqs() -> Any:
    return boto3.client("sqs")


@cache
def _worker() -> Worker:
    settings = Settings.from_variables(os.environ)
    # One attempt: every repeat inside botocore would be one more generation that somebody pays for.
    once = Config(
        retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=settings.timeout_s, tcp_keepalive=True
    )
    return Worker(settings, runtime=boto3.client("sagemaker-runtime", config=once), s3=boto3.client("s3"))
