"""SQS event source mappings: poll the queue, run the real function, delete what was done. One thread a mapping."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from moto.awslambda.models import EventSourceMapping, LambdaBackend
from moto.awslambda.utils import get_backend

from loadproof.localcloud.queue import moto_patches
from loadproof.localcloud.queue.emf import Datum, metrics_of
from loadproof.localcloud.queue.events import Message, done, sqs_event
from loadproof.localcloud.queue.functions import Functions, Ran, Result
from loadproof.localcloud.queue.sqs.service import SqsService
from loadproof.localcloud.wire import AwsError, Caller
from loadproof.wire.documents import Document, Json

log = logging.getLogger(__name__)

# A disabled or deleted mapping, and `stop`, are seen within one poll.
_POLL_S = 2
# Lambda starts with five concurrent batches and scales from there; without MaximumConcurrency that is where we stay.
_DEFAULT_CONCURRENCY = 5
# Each slot may become a process of this machine: a mapping that allows hundreds gets these, which keeps its promise.
_MOST_PROCESSES = 16
_MESSAGES_PER_RECEIVE = 10
_RETRY_S = 1.0


class MappingPoller:
    """One event source mapping, until stopped."""

    def __init__(
        self, mapping: EventSourceMapping, sqs: SqsService, invoke: Callable[[EventSourceMapping, Json], Result]
    ) -> None:
        """`mapping` is moto's EventSourceMapping, read anew each poll. `invoke(mapping, event)` gives a Result."""
        self._mapping = mapping
        self._sqs = sqs
        self._invoke = invoke
        self._stop = threading.Event()
        self._running = threading.Semaphore(0)
        self._concurrency = _concurrency(mapping)
        for _ in range(self._concurrency):
            self._running.release()
        self._batches = ThreadPoolExecutor(self._concurrency, thread_name_prefix="lambda")
        self._thread = threading.Thread(target=self._poll_forever, name=f"poll-{mapping.uuid[:8]}", daemon=True)
        self._thread.start()

    @property
    def settings(self) -> tuple[int, str]:
        """What cannot change under a running poller."""
        return self._concurrency, self._mapping.event_source_arn

    def stop(self) -> None:
        self._stop.set()
        self._batches.shutdown(wait=False, cancel_futures=True)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _poll_forever(self) -> None:
        while not self._stop.is_set():
            if not self._running.acquire(timeout=0.5):
                continue
            messages: list[Message] = []
            try:
                messages = self._receive() if self._mapping.enabled else []
            except Exception as error:
                # The queue may be gone before its mapping, or the server may be stopping: neither is worth a trace.
                if not self._stop.is_set():
                    log.info("event source mapping %s: %s", self._mapping.uuid, error)
                self._stop.wait(_RETRY_S)
            if messages and self._stop.is_set():
                self._hand_back(messages)
            if not messages or self._stop.is_set():
                self._running.release()
                if not self._mapping.enabled:
                    self._stop.wait(_RETRY_S)
                continue
            self._batches.submit(self._run_batch, messages)

    def _ask(self, action: str, **params: Json) -> Document:
        """One operation on the mapping's queue, as Lambda's own pollers would call it."""
        region, account, name = str(self._mapping.event_source_arn).split(":")[3:]
        caller = Caller(account=account, region=region, access_key="")
        return self._sqs.call(caller, action, {"QueueUrl": f"{account}/{name}", **params})

    def _receive(self) -> list[Message]:
        """Up to one batch: at once what is there, or until the batching window closes."""
        window_ends_s = time.monotonic() + float(self._mapping.max_batch_window or 0)
        messages: list[Message] = []
        while True:
            wait_s = min(_POLL_S, int(window_ends_s - time.monotonic())) if messages else _POLL_S
            answer = self._ask(
                "ReceiveMessage",
                MaxNumberOfMessages=min(_MESSAGES_PER_RECEIVE, self._mapping.batch_size - len(messages)),
                WaitTimeSeconds=max(0, wait_s),
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            messages += answer.get("Messages", [])
            full = len(messages) >= self._mapping.batch_size
            if not messages or full or time.monotonic() >= window_ends_s or self._stop.is_set():
                return messages

    def _run_batch(self, messages: list[Message]) -> None:
        try:
            result = self._invoke(self._mapping, sqs_event(messages, self._mapping.event_source_arn))
            if result.error is not None:
                log.warning("%s failed: %s", self._mapping.function_arn, result.error.get("errorMessage"))
                return
            report = "ReportBatchItemFailures" in (self._mapping.function_response_types or ())
            finished = done(messages, result.value, report_failures=report)
            self._delete(finished)
        except Exception:
            log.exception("event source mapping %s: a batch of %d was not settled", self._mapping.uuid, len(messages))
        finally:
            self._running.release()

    def _hand_back(self, messages: list[Message]) -> None:
        """Received just as the mapping ended: a successor must not wait for the visibility time-out."""
        with contextlib.suppress(AwsError):  # the queue is gone
            for message in messages:
                self._ask("ChangeMessageVisibility", ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)

    def _delete(self, messages: list[Message]) -> None:
        for start in range(0, len(messages), _MESSAGES_PER_RECEIVE):
            entries = [
                {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                for number, message in enumerate(messages[start : start + _MESSAGES_PER_RECEIVE])
            ]
            self._ask("DeleteMessageBatch", Entries=entries)


class QueuePoller:
    """All SQS event source mappings of the local cloud. `start` and `stop` once; safe from any thread."""

    def __init__(
        self,
        sqs: SqsService,
        *,
        account: str,
        region: str,
        environment: Mapping[str, str],
        ran: Ran = lambda name, failed, seconds: None,
        put_metric: Callable[[Datum], None] = lambda datum: None,
    ) -> None:
        """`environment` points the functions' code at the local cloud.

        `ran` is told of every invocation, `put_metric` of every metric in what the functions print.
        """
        self._sqs = sqs
        self._put_metric = put_metric
        self._account = account
        self._region = region
        self.functions = Functions(environment, ran, self._heard)
        self._pollers: dict[str, MappingPoller] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow_forever, name="queue-poller", daemon=True)

    def _heard(self, line: bytes) -> None:
        for datum in metrics_of(line):
            self._put_metric(datum)

    @property
    def _lambda(self) -> LambdaBackend:
        """moto's, looked up each time: a reset makes another."""
        return get_backend(self._account, self._region)

    def start(self) -> None:
        moto_patches.install(self.functions, self._sqs)
        self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Stop polling and kill every worker; returns within about twice `timeout_s`.

        A poll in flight is not waited for longer: its thread ends with it, or with the process.
        """
        self._stop.set()
        self._thread.join(timeout_s)
        for poller in self._pollers.values():
            poller.stop()
        self.functions.close()
        deadline_s = time.monotonic() + timeout_s
        for poller in self._pollers.values():
            poller.join(max(0.0, deadline_s - time.monotonic()))

    def _follow_forever(self) -> None:
        while not self._stop.wait(_RETRY_S):
            try:
                self._follow(self._lambda.list_event_source_mappings(event_source_arn="", function_name=""))
            except Exception:
                log.exception("the queue poller could not read the event source mappings; it goes on")

    def _follow(self, mappings: Iterable[EventSourceMapping]) -> None:
        wanted = {mapping.uuid: mapping for mapping in mappings if ":sqs:" in mapping.event_source_arn}
        for uuid, poller in list(self._pollers.items()):
            mapping = wanted.get(uuid)
            if mapping is None or poller.settings != (_concurrency(mapping), mapping.event_source_arn):
                poller.stop()
                del self._pollers[uuid]
        for uuid, mapping in wanted.items():
            if uuid not in self._pollers:
                self._pollers[uuid] = MappingPoller(mapping, self._sqs, self._invoke)

    def _invoke(self, mapping: EventSourceMapping, event: Json) -> Result:
        function = self._lambda.get_function(mapping.function_arn)
        return self.functions.invoke(function, event)


def cloud_environment(endpoint_url: str, access_key: str, secret_key: str) -> Mapping[str, str]:
    """What points any SDK at the local cloud and nowhere else."""
    return {
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ENDPOINT_URL_S3": endpoint_url,
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "localhost,127.0.0.1",
        "no_proxy": "localhost,127.0.0.1",
    }


def _concurrency(mapping: EventSourceMapping) -> int:
    allowed = int((mapping.scaling_config or {}).get("MaximumConcurrency", _DEFAULT_CONCURRENCY))
    return max(1, min(allowed, _MOST_PROCESSES))
