"""SQS event source mappings: poll the queue, run the real function, delete what was done. One thread a mapping."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from emulator.queue.events import Message, done, sqs_event
from emulator.queue.functions import Functions, Ran

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

    def __init__(self, mapping: Any, client: Any, invoke: Callable[[Any, Any], Any]) -> None:
        """`mapping` is moto's EventSourceMapping, read anew each poll. `invoke(mapping, event)` gives a Result."""
        self._mapping = mapping
        self._client = client
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
        url = ""
        while not self._stop.is_set():
            if not self._running.acquire(timeout=0.5):
                continue
            messages: list[Message] = []
            try:
                url = url or self._client.get_queue_url(QueueName=self._queue_name())["QueueUrl"]
                messages = self._receive(url) if self._mapping.enabled else []
            except Exception as error:
                # The queue may be gone before its mapping, or the server may be stopping: neither is worth a trace.
                if not self._stop.is_set():
                    log.info("event source mapping %s: %s", self._mapping.uuid, error)
                self._stop.wait(_RETRY_S)
            if messages and self._stop.is_set():
                self._hand_back(url, messages)
            if not messages or self._stop.is_set():
                self._running.release()
                if not self._mapping.enabled:
                    self._stop.wait(_RETRY_S)
                continue
            self._batches.submit(self._run_batch, url, messages)

    def _queue_name(self) -> str:
        return str(self._mapping.event_source_arn).rpartition(":")[2]

    def _receive(self, url: str) -> list[Message]:
        """Up to one batch: at once what is there, or until the batching window closes."""
        window_ends_s = time.monotonic() + float(self._mapping.max_batch_window or 0)
        messages: list[Message] = []
        while True:
            wait_s = min(_POLL_S, int(window_ends_s - time.monotonic())) if messages else _POLL_S
            answer = self._client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=min(_MESSAGES_PER_RECEIVE, self._mapping.batch_size - len(messages)),
                WaitTimeSeconds=max(0, wait_s),
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            messages += answer.get("Messages", [])
            full = len(messages) >= self._mapping.batch_size
            if not messages or full or time.monotonic() >= window_ends_s or self._stop.is_set():
                return messages

    def _run_batch(self, url: str, messages: list[Message]) -> None:
        try:
            result = self._invoke(self._mapping, sqs_event(messages, self._mapping.event_source_arn))
            if result.error is not None:
                log.warning("%s failed: %s", self._mapping.function_arn, result.error.get("errorMessage"))
                return
            report = "ReportBatchItemFailures" in (self._mapping.function_response_types or ())
            finished = done(messages, result.value, report_failures=report)
            self._delete(url, finished)
        except Exception:
            log.exception("event source mapping %s: a batch of %d was not settled", self._mapping.uuid, len(messages))
        finally:
            self._running.release()

    def _hand_back(self, url: str, messages: list[Message]) -> None:
        """Received just as the mapping ended: a successor must not wait for the visibility time-out."""
        with contextlib.suppress(Exception):  # when the whole cloud stops there is nobody to hand back to
            for message in messages:
                self._client.change_message_visibility(
                    QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                )

    def _delete(self, url: str, messages: list[Message]) -> None:
        for start in range(0, len(messages), _MESSAGES_PER_RECEIVE):
            entries = [
                {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                for number, message in enumerate(messages[start : start + _MESSAGES_PER_RECEIVE])
            ]
            self._client.delete_message_batch(QueueUrl=url, Entries=entries)


class QueuePoller:
    """All SQS event source mappings of the local cloud. `start` and `stop` once; safe from any thread."""

    def __init__(
        self,
        *,
        endpoint_url: str,
        account: str,
        region: str,
        access_key: str,
        secret_key: str,
        ran: Ran = lambda name, failed, seconds: None,
    ) -> None:
        """`endpoint_url` is the local cloud's own, as a client would use it (`http://localhost:PORT`).

        `ran` is told of every invocation of a function.
        """
        self._account = account
        self._region = region
        self._client_options = {
            "endpoint_url": endpoint_url,
            "region_name": region,
            "aws_access_key_id": access_key,
            "aws_secret_access_key": secret_key,
        }
        self.functions = Functions(cloud_environment(endpoint_url, access_key, secret_key), ran)
        self._pollers: dict[str, MappingPoller] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow_forever, name="queue-poller", daemon=True)

    def start(self) -> None:
        from emulator.queue import moto_patches

        moto_patches.install(self.functions)
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
                self._follow(_mappings(self._account, self._region))
            except Exception:
                log.exception("the queue poller could not read the event source mappings; it goes on")

    def _follow(self, mappings: Iterable[Any]) -> None:
        wanted = {mapping.uuid: mapping for mapping in mappings if ":sqs:" in mapping.event_source_arn}
        for uuid, poller in list(self._pollers.items()):
            mapping = wanted.get(uuid)
            if mapping is None or poller.settings != (_concurrency(mapping), mapping.event_source_arn):
                poller.stop()
                del self._pollers[uuid]
        for uuid, mapping in wanted.items():
            if uuid not in self._pollers:
                self._pollers[uuid] = MappingPoller(mapping, self._client(), self._invoke)

    def _client(self) -> Any:
        import boto3
        from botocore.config import Config

        config = Config(retries={"total_max_attempts": 1}, read_timeout=30, proxies={}, max_pool_connections=20)
        return boto3.client("sqs", config=config, **self._client_options)

    def _invoke(self, mapping: Any, event: Any) -> Any:
        from moto.awslambda.utils import get_backend

        function = get_backend(self._account, self._region).get_function(mapping.function_arn)
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


def _concurrency(mapping: Any) -> int:
    allowed = int((mapping.scaling_config or {}).get("MaximumConcurrency", _DEFAULT_CONCURRENCY))
    return max(1, min(allowed, _MOST_PROCESSES))


def _mappings(account: str, region: str) -> list[Any]:
    from moto.awslambda.utils import get_backend

    return list(get_backend(account, region).list_event_source_mappings(event_source_arn="", function_name=""))
