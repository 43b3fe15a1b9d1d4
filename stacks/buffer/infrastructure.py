"""The buffer in the cloud: queue, dead-letter queue, results bucket, and the consumer between them."""

from __future__ import annotations

from typing import Any, Final

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from loadproof.profiles.names import dead_letter_queue_name, queue_name
from loadproof.profiles.schema import Buffer as BufferSettings
from stacks.buffer.consumer import Consumer, consumer_timeout_s
from stacks.cloudwatch import Metric
from stacks.emptied_bucket.infrastructure import EmptiedBucket
from stacks.model_endpoint import ModelEndpoint
from stacks.results_bucket import goes_with_stack, results_bucket

_DEAD_LETTER_RETENTION_S: Final = 1209600  # 14 days, SQS's longest: evidence should outlive a holiday
_RESULTS_EXPIRE_DAYS: Final = 30


class Buffer(Construct):
    """Messages in, `results/<key>.json` out; at least once, and what fails too often ends in the dead-letter queue."""

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint: ModelEndpoint, settings: BufferSettings
    ) -> None:
        super().__init__(scope, construct_id)
        self._endpoint = endpoint
        key_arn = endpoint.deployment.environment.kms_key_arn
        self._key = kms.Key.from_key_arn(self, "Key", key_arn) if key_arn else None
        self.visibility_timeout_s = settings.visibility_timeout_s or 6 * consumer_timeout_s(settings)
        self.dead_letter_queue = self._queue(
            "DeadLetters", dead_letter_queue_name(endpoint.name), retention_s=_DEAD_LETTER_RETENTION_S
        )
        self.queue = self._queue(
            "Queue",
            queue_name(endpoint.name),
            retention_s=settings.retention_s,
            visibility_timeout=Duration.seconds(self.visibility_timeout_s),
            max_message_size_bytes=settings.max_message_bytes,
            dead_letter_queue=sqs.DeadLetterQueue(
                max_receive_count=settings.max_receive_count, queue=self.dead_letter_queue
            ),
        )
        environment = endpoint.deployment.environment
        self.results = results_bucket(
            self, "Results", environment=environment, key=self._key, expire_days=_RESULTS_EXPIRE_DAYS
        )
        self.consumer = Consumer(
            self,
            "Consumer",
            endpoint=endpoint,
            settings=settings,
            queue=self.queue,
            results=self.results,
            key_arn=key_arn,
        )
        if goes_with_stack(environment):
            emptied = EmptiedBucket(self, "Emptied", bucket=self.results, environment=environment)
            # The consumer loses its rights before the bucket is emptied: nothing is written behind the broom.
            self.consumer.role.node.add_dependency(emptied)

    def grant_send(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow sending requests to the queue."""
        return self.queue.grant_send_messages(grantee)

    def metric_waiting_messages(self) -> Metric:
        return self._queue_metric("ApproximateNumberOfMessagesVisible", "Maximum", queue_name(self._endpoint.name))

    def metric_oldest_message_age_s(self) -> Metric:
        return self._queue_metric("ApproximateAgeOfOldestMessage", "Maximum", queue_name(self._endpoint.name))

    def metric_dead_letters(self) -> Metric:
        return self._queue_metric(
            "ApproximateNumberOfMessagesVisible", "Maximum", dead_letter_queue_name(self._endpoint.name)
        )

    def _queue_metric(self, name: str, statistic: str, queue: str) -> Metric:
        return Metric("AWS/SQS", name, {"QueueName": queue}, statistic)

    def _queue(self, construct_id: str, name: str, *, retention_s: int, **more: Any) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            queue_name=name,
            enforce_ssl=True,
            encryption=sqs.QueueEncryption.KMS if self._key else sqs.QueueEncryption.SQS_MANAGED,
            encryption_master_key=self._key,
            retention_period=Duration.seconds(retention_s),
            **more,
        )
