"""The buffer in the cloud: queue, dead-letter queue, results bucket, and the consumer between them."""

from __future__ import annotations

from typing import Any, Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from loadproof.profiles.names import dead_letter_queue_name, queue_name
from loadproof.profiles.schema import Buffer as BufferSettings
from stacks.buffer.consumer import Consumer, consumer_timeout_s
from stacks.cloudwatch import Metric
from stacks.emptied_bucket.infrastructure import EmptiedBucket
from stacks.model_endpoint import ModelEndpoint

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
        self.results = self._results_bucket()
        self.consumer = Consumer(
            self,
            "Consumer",
            endpoint=endpoint,
            settings=settings,
            queue=self.queue,
            results=self.results,
            key_arn=key_arn,
        )
        if self._goes_with_stack:
            emptied = EmptiedBucket(
                self,
                "Emptied",
                bucket=self.results,
                environment=endpoint.deployment.environment,
            )
            # The consumer loses its rights before the bucket is emptied: nothing is written behind the broom.
            self.consumer.role.node.add_dependency(emptied)

    @property
    def _goes_with_stack(self) -> bool:
        """Whether results are deleted with their stack; otherwise the bucket stays, and forgets after its days."""
        return self._endpoint.deployment.environment.results_on_destroy == "delete"

    def grant_send(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow sending requests to the queue."""
        return self.queue.grant_send_messages(grantee)

    def metric_waiting_messages(self) -> Metric:
        return self._queue_metric("ApproximateNumberOfMessagesVisible", "Maximum", self.queue)

    def metric_oldest_message_age_s(self) -> Metric:
        return self._queue_metric("ApproximateAgeOfOldestMessage", "Maximum", self.queue)

    def metric_dead_letters(self) -> Metric:
        return self._queue_metric("ApproximateNumberOfMessagesVisible", "Maximum", self.dead_letter_queue)

    def _queue_metric(self, name: str, statistic: str, queue: sqs.Queue) -> Metric:
        return Metric("AWS/SQS", name, {"QueueName": queue.queue_name}, statistic)

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

    def _results_bucket(self) -> s3.Bucket:
        removal = RemovalPolicy.DESTROY if self._goes_with_stack else RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        bucket = s3.Bucket(
            self,
            "Results",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            encryption=s3.BucketEncryption.KMS if self._key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=self._key,
            bucket_key_enabled=True if self._key else None,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=Duration.days(_RESULTS_EXPIRE_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
            removal_policy=removal,
        )
        if bucket.policy is not None:
            bucket.policy.apply_removal_policy(removal)  # a bucket that stays keeps its demand for TLS
        return bucket
