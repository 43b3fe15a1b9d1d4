"""The function's door: a batch from the queue in, the messages that must come back out."""

from __future__ import annotations

import base64
import os
import signal
import sys
import threading
from concurrent.futures import Future
from functools import cache
from typing import Any, Final

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.config import Config

from loadproof.wire.documents import Document
from loadproof.wire.message import FIRST_SENT, POSTPONED, REASON

from .callbacks import Callbacks
from .claims import Claims
from .clock import Clock
from .deliveries import Delivery, Queue
from .emf import Metrics
from .generation import AnsweringModel, Generation
from .lease import Heartbeat, Lease
from .model import ConverseModel, SageMakerModel
from .pace import TENDED_EVERY_S, Pace, TableBoard
from .results import Results
from .settings import Settings
from .worker import Ending, Ports, Worker

_LOOK_S: Final = 0.25  # how often the end of a drain is looked for
_STORE_TIMEOUT_S: Final = 5

logger = Logger(service="loadproof-consumer")


class ReleasedError(Exception):
    """Tells Powertools that a message is to come back."""


class Consumer:
    """All that one process holds between batches."""

    def __init__(
        self, settings: Settings, clock: Clock, metrics: Metrics, worker: Worker, lease: Lease, pace: Pace
    ) -> None:
        self.clock = clock
        self._settings = settings
        self._metrics = metrics
        self._worker = worker
        self._lease = lease
        self._pace = pace
        self._busy = False

    @classmethod
    def from_variables(cls) -> Consumer:
        settings = Settings.from_variables(os.environ)
        clock, metrics = Clock(settings.drain_s), Metrics(settings.buffer)
        dynamodb, sqs = _client("dynamodb"), _client("sqs")
        claims = Claims(dynamodb, settings.table, clock)
        queue = Queue(
            sqs,
            url=settings.queue_url,
            dead_letter_url=settings.dead_letter_url,
            clock=clock,
            most_bytes=settings.most_message_bytes,
        )
        lease = Lease(queue, claims, settings.lease_s, logger.warning)
        pace = Pace(TableBoard(dynamodb, settings.table, clock), clock, max_in_flight=settings.max_in_flight)
        ports = Ports(
            queue=queue,
            claims=claims,
            results=Results(_client("s3"), settings.bucket, settings.prefix, clock),
            generation=Generation(
                model_of(settings, clock),
                pace,
                clock,
                metrics,
                timeout_s=settings.timeout_s,
                max_attempts=settings.max_attempts,
            ),
            lease=lease,
            callbacks=Callbacks(sqs, _client("sns") if settings.callbacks else None, settings.callbacks, clock),
            clock=clock,
            metrics=metrics,
            note=_note,
        )
        return cls(settings, clock, metrics, Worker(settings, ports), lease, pace)

    def stop(self) -> None:
        """SIGTERM: take nothing more; a process without work ends at once."""
        self.clock.stop()
        if not self._busy:
            sys.exit(0)

    def run(self, records: list[SQSRecord], end_s: float) -> dict[str, Future[Ending]]:
        """Serve all at once, each in a thread of its own, and return when all have ended or the drain is over."""
        self._busy = True
        deliveries = [delivery_of(record) for record in records]
        endings: dict[str, Future[Ending]] = {delivery.message_id: Future() for delivery in deliveries}
        beats = Heartbeat(self._lease.beat, self._lease.lease_s / 3), Heartbeat(self._pace.tend, TENDED_EVERY_S)
        with beats[0], beats[1]:
            self._lease.add([delivery.receipt for delivery in deliveries])
            for slot, delivery in enumerate(deliveries):
                arguments = (delivery, end_s, slot, endings[delivery.message_id])
                threading.Thread(target=self._serve, args=arguments, daemon=True).start()
            for ending in endings.values():
                while not ending.done() and not self.clock.drained:
                    _ended(ending)
            if self.clock.drained:  # a thread may hang in a read until the idle timeout: it is not waited for
                self._lease.give_back()
        self._lease.close()
        for line in self._metrics.flush(self.clock.now_s()):
            print(line)
        self._busy = False
        return endings

    def _serve(self, delivery: Delivery, end_s: float, slot: int, ending: Future[Ending]) -> None:
        try:
            ending.set_result(self._worker.serve(delivery, end_s=end_s, slot=slot))
        except Exception as error:  # a fault of ours: the message comes back, and the dead-letter queue ends it
            self._lease.drop(delivery.receipt)
            logger.exception("not served", extra={"message_id": delivery.message_id})
            ending.set_exception(error)


def handler(event: Document, context: Any) -> Any:
    """Lambda's entry point. A message that fails fails alone (ReportBatchItemFailures)."""
    # Not raised when all fail: each one is reported, and a raise would only add a crash to the metrics.
    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    consumer = _consumer()
    end_s = consumer.clock.now_s() + context.get_remaining_time_in_millis() / 1000
    endings = consumer.run([SQSRecord(record) for record in event["Records"]], end_s)

    def outcome(record: SQSRecord) -> None:
        ending = endings[record.message_id]
        if not ending.done() or ending.result() is Ending.RELEASED:
            raise ReleasedError

    return process_partial_response(event=event, record_handler=outcome, processor=processor, context=context)


def delivery_of(record: SQSRecord) -> Delivery:
    """A message as Lambda hands it over. One that was postponed says itself when it was sent first.

    One that comes out of the dead-letter queue begins a new life.
    """
    system, attributes = record["attributes"], record.get("messageAttributes") or {}
    values: dict[str, tuple[str, str | bytes]] = {
        name: (str(value["dataType"]), str(value["stringValue"]))
        if value.get("stringValue")
        else (str(value["dataType"]), base64.b64decode(value["binaryValue"]))
        for name, value in attributes.items()
        if value.get("stringValue") or value.get("binaryValue")
    }
    sent_ms = int(system.get("SentTimestamp") or 0)
    return Delivery(
        message_id=record.message_id,
        receipt=record.receipt_handle,
        body=record.body,
        first_sent_ms=sent_ms if REASON in values else _number(values, FIRST_SENT, sent_ms),
        postponed=_number(values, POSTPONED, 0),
        group=system.get("MessageGroupId"),
        attributes=values,
    )


def model_of(settings: Settings, clock: Clock) -> AnsweringModel:
    # The read timeout of a socket is the idle timeout of a stream.
    if settings.protocol == "converse":
        runtime = _client("bedrock-runtime", settings.idle_timeout_s)
        return ConverseModel(runtime, clock, model_id=settings.endpoint)
    runtime = _client("sagemaker-runtime", settings.idle_timeout_s)
    return SageMakerModel(
        runtime,
        clock,
        endpoint=settings.endpoint,
        component=settings.component,
        protocol=settings.protocol,
    )


def _client(service: str, read_timeout_s: float = _STORE_TIMEOUT_S) -> Any:
    """One attempt: a repeat inside botocore would be a generation that somebody pays for, or hide a lost answer."""
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=5,
        read_timeout=read_timeout_s,
        tcp_keepalive=True,
        max_pool_connections=16,
    )
    return boto3.client(service, config=config)


def _ended(ending: Future[Ending]) -> None:
    try:
        ending.exception(_LOOK_S)
    except TimeoutError:
        return


def _number(attributes: dict[str, tuple[str, str | bytes]], name: str, default: int) -> int:
    _, text = attributes.get(name, ("", ""))
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 16 else default


def _note(event: str, delivery: Delivery, **facts: Any) -> None:
    logger.info(event, extra={"message_id": delivery.message_id, **facts})


@cache
def _consumer() -> Consumer:
    consumer = Consumer.from_variables()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    return consumer
